"""Fault rules: which requests they select, what they count, and what has precedence."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from harness.polling import wait_until
from paymock.schemas.public import OPERATION_IDS
from paymock.web.http.requests import MAX_BODY
from tests.support import raw
from tests.support.client import Api, error_of, fields_of, order
from tests.support.contract import Contract, Json
from tests.support.fast_paths import Pair, without_chance
from tests.support.server import RunningServer
from tests.web.api.bad_input.building import KEYED_JSON, stream

KEY = "order-1001-payment"


def add(api: Api, fault: str = "status=503", **fields: Any) -> Json:
    response = api.post("/_mock/faults", json={"fault": fault, **fields})
    assert response.status_code == 201, response.text
    rule: Json = response.json()
    return rule


def rules(api: Api) -> list[Json]:
    found: list[Json] = api.get("/_mock/faults").json()["data"]
    return found


def counts(api: Api) -> list[tuple[int, int]]:
    """Of each rule, `seen` and `applied`."""
    return [(rule["seen"], rule["applied"]) for rule in rules(api)]


def journal(api: Api) -> list[Json]:
    """The requests, oldest first."""
    entries: list[Json] = api.get("/_mock/requests").json()["data"]
    return entries[::-1]


def statuses(api: Api, path: str, count: int) -> list[int]:
    return [api.get(path).status_code for _ in range(count)]


class TestRules:
    def test_a_rule_is_added_listed_and_deleted(self, api: Api) -> None:
        first = add(api, "drop")
        assert first == {
            "id": first["id"],
            "fault": "drop",
            "operation": None,
            "order_id": None,
            "payment_id": None,
            "skip": 0,
            "times": 1,
            "seen": 0,
            "applied": 0,
        }
        fields = {"operation": "getPayment", "order_id": "order-1001", "skip": 2, "times": None}
        second = add(api, "status=503; after; html; times=2", **fields)
        assert {name: second[name] for name in fields} == fields
        assert rules(api) == [first, second]
        deleted = api.delete(f"/_mock/faults/{first['id']}")
        assert (deleted.status_code, deleted.content) == (204, b"")
        assert error_of(api.delete(f"/_mock/faults/{first['id']}")) == (404, "not_found")
        assert rules(api) == [second]
        assert api.delete("/_mock/faults").status_code == 204
        assert rules(api) == []

    @pytest.mark.parametrize(
        ("body", "fields"),
        [
            ({}, ["fault"]),
            ({"fault": None}, ["fault"]),
            ({"fault": "status=200"}, ["fault"]),
            ({"fault": "truncate=1; before"}, ["fault"]),
            ({"fault": "drop", "operation": "getPayments"}, ["operation"]),
            ({"fault": "drop", "operation": "listChains", "order_id": "order-1001"}, ["operation"]),
            ({"fault": "drop", "order_id": ""}, ["order_id"]),
            ({"fault": "drop", "payment_id": "newest"}, ["payment_id"]),
            ({"fault": "drop", "skip": -1}, ["skip"]),
            ({"fault": "drop", "times": 0}, ["times"]),
            ({"fault": "drop", "times": True, "skip": "1", "speed": 1}, ["skip", "speed", "times"]),
        ],
    )
    def test_an_invalid_rule_is_refused_by_its_fields(self, api: Api, body: Json, fields: list[str]) -> None:
        assert sorted(fields_of(api.post("/_mock/faults", json=body))) == fields
        assert rules(api) == []

    def test_a_sandbox_has_a_hundred_rules(self, api: Api) -> None:
        for _ in range(100):
            add(api)
        assert error_of(api.post("/_mock/faults", json={"fault": "drop"})) == (503, "capacity_exceeded")
        assert len(rules(api)) == 100

    def test_another_sandbox_has_none(self, api: Api, server: RunningServer, contract: Contract) -> None:
        rule = add(api, times=None)
        with Api(server.url, contract) as other:
            assert rules(other) == []
            assert error_of(other.delete(f"/_mock/faults/{rule['id']}")) == (404, "not_found")
            assert other.delete("/_mock/faults").status_code == 204
            assert other.get("/v1/chains").status_code == 200
        assert rules(api) == [rule]

    def test_a_reset_deletes_rules(self, api: Api) -> None:
        add(api, times=None)
        assert api.post("/_mock/reset").status_code == 204
        assert rules(api) == []
        assert api.get("/v1/chains").status_code == 200


class TestSelection:
    def test_reads_of_an_unmodified_application_fail_between_skip_and_times(self, api: Api) -> None:
        path = f"/v1/payments/{api.created()['id']}"
        add(api, operation="getPayment", skip=2, times=3)
        assert statuses(api, path, 7) == [200, 200, 503, 503, 503, 200, 200]
        assert counts(api) == [(7, 3)]

    def test_without_times_a_rule_applies_until_it_is_deleted(self, api: Api) -> None:
        rule = add(api, times=None)
        assert statuses(api, "/v1/chains", 3) == [503] * 3
        api.delete(f"/_mock/faults/{rule['id']}")
        assert statuses(api, "/v1/chains", 1) == [200]

    def test_a_rule_is_about_one_operation(self, api: Api) -> None:
        for operation in OPERATION_IDS:
            add(api, operation=operation, times=None)
        payment_id = "pay_" + "a" * 40
        requests: dict[str, Callable[[], httpx.Response]] = {
            "listChains": lambda: api.get("/v1/chains"),
            "listAssets": lambda: api.get("/v1/chains/bsc/assets"),
            "createPayment": api.create,
            "getPayment": lambda: api.get(f"/v1/payments/{payment_id}"),
            "listAttempts": lambda: api.get(f"/v1/payments/{payment_id}/attempts"),
            "createWebhookEndpoint": lambda: api.post(
                "/v1/webhooks", json={"url": "https://a.example"}, headers={"Idempotency-Key": KEY}
            ),
            "listWebhookEndpoints": lambda: api.get("/v1/webhooks"),
        }
        for number, operation in enumerate(OPERATION_IDS):
            assert error_of(requests[operation]()) == (503, "injected_fault")
            assert counts(api) == [(int(place <= number),) * 2 for place in range(len(OPERATION_IDS))]
        assert [entry["operation"] for entry in journal(api)] == list(OPERATION_IDS)

    def test_a_rule_is_about_an_order(self, api: Api) -> None:
        hurt, other = api.created(order_id="order-1001"), api.created(order_id="order-1002")
        add(api, order_id="order-1001", times=None)
        for path in ("", "/attempts"):
            assert api.get(f"/v1/payments/{hurt['id']}{path}").status_code == 503
            assert api.get(f"/v1/payments/{other['id']}{path}").status_code == 200
        assert api.create(order(order_id="order-1001")).status_code == 503
        assert api.create(order(order_id="order-1002")).status_code == 201
        assert api.get("/v1/chains").status_code == 200
        assert counts(api) == [(3, 3)]
        assert {entry["order_id"] for entry in journal(api) if entry["fault"]} == {"order-1001"}

    def test_a_rule_is_about_a_payment_and_the_replays_of_its_creation(self, api: Api) -> None:
        payment = api.create(key=KEY).json()
        other = api.create(key="order-1001-again").json()  # of the same order
        add(api, payment_id=payment["id"], times=None)
        assert api.get(f"/v1/payments/{other['id']}").status_code == 200
        assert api.create(key="order-1001-again").status_code == 201
        assert api.get(f"/v1/payments/{payment['id']}").status_code == 503
        assert api.create(key=KEY).status_code == 503
        assert counts(api) == [(2, 2)]

    def test_a_rule_selects_by_all_of_its_fields(self, api: Api) -> None:
        payment = api.created(order_id="order-1001")
        add(api, operation="listAttempts", order_id="order-1001", payment_id=payment["id"])
        assert api.get(f"/v1/payments/{payment['id']}").status_code == 200
        assert api.get(f"/v1/payments/{payment['id']}/attempts").status_code == 503
        assert counts(api) == [(1, 1)]

    def test_a_request_gets_the_fault_of_the_first_rule_that_is_due(self, api: Api) -> None:
        add(api, "status=500", skip=1)
        add(api, "status=502", times=2)
        add(api, "status=504", operation="listAssets")
        assert statuses(api, "/v1/chains", 4) == [502, 500, 502, 200]
        assert counts(api) == [(4, 1), (4, 2), (0, 0)]

    def test_the_times_of_a_fault_are_attempts_of_each_operation(self, api: Api) -> None:
        add(api, "status=503; times=1", operation="createPayment", times=2)
        keys = [f"order-100{number}-payment" for number in (1, 1, 2, 2, 3)]
        assert [api.create(key=key).status_code for key in keys] == [503, 201, 503, 201, 201]
        assert counts(api) == [(5, 2)]

    def test_refused_requests_are_counted(self, api: Api) -> None:
        api.create(key=KEY)
        add(api, skip=100)
        add(api, order_id="order-1001", skip=100)
        invalid = order()
        invalid["receive"]["amount"] = "0"
        json_type = {"Content-Type": "application/json", "Idempotency-Key": "another-key"}
        refused: list[tuple[Callable[[], httpx.Response], int]] = [
            (lambda: api.create(invalid), 422),
            (lambda: api.create(order(metadata={"changed": True}), key=KEY), 409),
            (lambda: api.create(key="short"), 400),
            (lambda: api.post("/v1/payments", content=b"{", headers=json_type), 400),
            (lambda: api.get(f"/v1/payments/pay_{'a' * 40}"), 404),
            (lambda: api.get("/v1/payments/pay_x"), 404),
            (lambda: api.get("/v1/chains/moon/assets"), 404),
        ]
        for request, status in refused:
            assert request().status_code == status
        assert counts(api) == [(7, 0), (3, 0)]

    @pytest.mark.parametrize("source", ["header", "rule"])
    def test_a_body_that_is_too_large_is_not_read_again(
        self, api: Api, server: RunningServer, source: str
    ) -> None:
        fault = ["X-Mock-Fault: delay=1"] if source == "header" else []
        if source == "rule":
            add(api, skip=100)
        request = stream(b" " * MAX_BODY + json.dumps(order()).encode(), *KEYED_JSON, *fault)
        request = request.replace(b"{api_key}", api.api_key.encode()).replace(b"{key}", KEY.encode())
        [reply] = raw.exchange(server.port, request)
        assert (reply.status, reply.code) == (413, "payload_too_large")
        assert api.get("/_mock/payments").json()["data"] == []

    def test_a_fault_replaces_a_refusal(self, api: Api) -> None:
        add(api, "status=500")
        add(api, "status=502; after")
        assert error_of(api.get("/v1/payments/pay_x")) == (500, "injected_fault")
        assert error_of(api.create(order(order_id=""))) == (502, "injected_fault")
        assert api.get("/_mock/payments").json()["data"] == []

    @pytest.mark.parametrize(
        ("method", "path", "headers", "status"),
        [
            ("GET", "/v1/chains", {"Authorization": "Bearer wrong"}, 401),
            ("GET", "/v1/nothing", {}, 404),
            ("DELETE", "/v1/chains", {}, 405),
            ("OPTIONS", "/v1/chains", {}, 204),
            ("GET", "/_mock/clock", {}, 200),
            ("GET", "/livez", {}, 200),
        ],
    )
    def test_what_is_no_operation_of_the_sandbox_is_not_counted(
        self, api: Api, method: str, path: str, headers: dict[str, str], status: int
    ) -> None:
        add(api, times=None)
        assert api.request(method, path, headers=headers).status_code == status
        assert counts(api) == [(0, 0)]

    def test_a_read_without_a_body_is_counted(self, api: Api) -> None:
        add(api)
        assert [api.head("/v1/chains").status_code for _ in range(2)] == [503, 200]
        assert counts(api) == [(2, 1)]


class TestPrecedence:
    def test_a_header_precedes_rules_and_rules_precede_overrides(self, api: Api) -> None:
        rule = add(api, "status=502", times=2)
        pending = api.post("/_mock/next", json={"fault": "status=504", "times": 2}).json()
        headers = {"Idempotency-Key": KEY, "X-Mock-Fault": "status=500"}
        assert api.post("/v1/payments", json=order(), headers=headers).status_code == 500
        assert api.create(key=KEY).status_code == 502
        assert api.get("/_mock/next").json() == pending
        assert counts(api) == [(2, 1)]
        api.delete(f"/_mock/faults/{rule['id']}")
        assert api.create(key=KEY).status_code == 504

    def test_a_rule_that_is_not_due_leaves_the_creation_to_the_override_and_counts_it(self, api: Api) -> None:
        add(api, "status=502", skip=1)
        api.post("/_mock/next", json={"fault": "status=504"})
        assert [api.create(key=KEY).status_code for _ in range(3)] == [504, 502, 201]
        assert counts(api) == [(3, 1)]
        assert [entry["fault"] for entry in journal(api)] == ["status=504", "status=502", None]

    def test_a_rule_that_is_added_during_the_delay_of_an_override_is_for_later_requests(
        self, api: Api
    ) -> None:
        api.post("/_mock/next", json={"fault": "delay=500"})
        with ThreadPoolExecutor() as pool:
            creation = pool.submit(api.create, key=KEY)
            wait_until(lambda: api.get("/_mock/next").json()["data"] == [])
            add(api)
            assert creation.result().status_code == 201
        assert counts(api) == [(0, 0)]

    def test_a_header_that_is_no_fault_is_refused_and_counted(self, api: Api) -> None:
        add(api)
        response = api.get("/v1/chains", headers={"X-Mock-Fault": "explode"})
        assert error_of(response) == (400, "invalid_fault")
        assert counts(api) == [(1, 0)]

    def test_a_fault_prevents_no_override_of_the_scenario(self, api: Api) -> None:
        add(api, "delay=1", operation="createPayment")
        api.post("/_mock/next", json={"scenario": "no_payment_expired"})
        api.create(key=KEY)
        [payment] = api.get("/_mock/payments").json()["data"]
        assert payment["scenario"] == "no_payment_expired"


class TestConcurrency:
    def test_concurrent_requests_are_counted_exactly(
        self, api: Api, server: RunningServer, contract: Contract
    ) -> None:
        add(api, operation="listChains", skip=20, times=30)

        def read(_: int) -> list[int]:
            with Api(server.url, contract, api.api_key) as own:
                return statuses(own, "/v1/chains", 10)

        with ThreadPoolExecutor(8) as threads:
            replies = [status for part in threads.map(read, range(8)) for status in part]
        assert sorted(replies) == [200] * 50 + [503] * 30
        assert counts(api) == [(80, 30)]


PIPELINE = [
    ("GET", "/v1/chains", None),
    ("POST", "/v1/payments", order()),
    ("POST", "/v1/payments", order(order_id="")),
    ("GET", "/v1/webhooks", None),
    ("GET", "/v1/payments/pay_x", None),
]


def requests_of(key: str) -> list[bytes]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", "Idempotency-Key": KEY}
    return [
        raw.request(method, path, headers, None if body is None else json.dumps(body).encode())
        for method, path, body in PIPELINE
    ]


class TestConnections:
    @pytest.fixture
    def key(self, request: pytest.FixtureRequest) -> str:
        """An API key that both servers see first in this test: the same ids follow from it."""
        return f"mk_test_{request.node.name.partition('[')[0]}"

    @pytest.mark.parametrize(
        "fault", ["status=503", "status=502; after; html", "delay=1", "truncate=7", "drop"]
    )
    @pytest.mark.parametrize("pipelined", [False, True], ids=["one by one", "pipelined"])
    @pytest.mark.parametrize("skip", [0, 1, 2])
    def test_the_fast_path_and_asgi_are_alike(
        self, pair: Pair, key: str, fault: str, skip: int, *, pipelined: bool
    ) -> None:
        found = []
        for server in pair:
            with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {key}"}) as http:
                http.post("/_mock/reset")
                http.put("/_mock/clock", json={"speed": 0})
                http.post("/_mock/faults", json={"fault": fault, "skip": skip})
                requests = requests_of(key)
                groups = [b"".join(requests)] if pipelined else requests
                replies = [
                    without_chance(reply)
                    for data in groups
                    for reply in raw.exchange(server.port, data, replies=data.count(b" HTTP/1.1\r\n"))
                ]
                entries = http.get("/_mock/requests").json()["data"]
                for entry in entries:
                    del entry["request_id"], entry["duration_ms"], entry["at"]
                [rule] = http.get("/_mock/faults").json()["data"]
                del rule["id"]
                found.append((replies, entries, rule))
        assert found[0] == found[1]
        assert found[0][2]["applied"] == 1

    def test_a_connection_goes_on_after_a_status_and_ends_with_a_drop(
        self, api: Api, server: RunningServer
    ) -> None:
        request = raw.request("GET", "/v1/chains", {"Authorization": f"Bearer {api.api_key}"})
        add(api, skip=1)
        add(api, "drop", skip=3)
        replies = raw.exchange(server.port, request * 6, replies=6)
        assert [reply.status for reply in replies] == [200, 503, 200]
        assert counts(api) == [(4, 1), (4, 1)]
        assert [entry["status"] for entry in journal(api)] == [200, 503, 200, 0]
