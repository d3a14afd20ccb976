"""Fault rules: which requests they select, what they count, and what has precedence."""

import json
from typing import Any

import pytest

from paymock.http.requests import MAX_BODY
from paymock.schemas.public import OPERATION_IDS
from tests.support import raw
from tests.support.client import Api, error_of, fields_of, order
from tests.support.contract import Json
from tests.support.operations import OPERATIONS, arguments_of, path_of
from tests.support.server import RunningServer
from tests.web.operations.bad_input import CHUNKED, KEYED_JSON, chunked, send

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


def test_a_rule_is_added_listed_and_deleted(api: Api) -> None:
    first = add(api, "drop")
    assert first == {
        "id": first["id"],
        "fault": "drop",
        "operation": None,
        "order_id": None,
        "order_id_prefix": None,
        "payment_id": None,
        "skip": 0,
        "times": 1,
        "seen": 0,
        "applied": 0,
        "waiting": 0,
    }
    fields = {"operation": "getPayment", "order_id": "order-1001", "skip": 2, "times": None}
    second = add(api, "status=503; after; html; times=2", **fields)
    assert {name: second[name] for name in fields} == fields
    assert rules(api) == [first, second]
    assert api.delete(f"/_mock/faults/{first['id']}").status_code == 204
    assert error_of(api.delete(f"/_mock/faults/{first['id']}")) == (404, "not_found")
    assert rules(api) == [second]
    assert api.delete("/_mock/faults").status_code == 204
    assert rules(api) == []
    invalid = api.post("/_mock/faults", json={"fault": "drop", "times": True, "skip": "1", "speed": 1})
    assert sorted(fields_of(invalid)) == ["skip", "speed", "times"]


class TestSelection:
    def test_a_rule_is_about_one_operation(self, api: Api) -> None:
        for operation in OPERATION_IDS:
            add(api, operation=operation, times=None)
        by_id = {operation.operation_id: operation for operation in OPERATIONS}
        for number, name in enumerate(OPERATION_IDS):
            path = path_of(by_id[name], "pay_" + "a" * 40)
            reply = api.request(by_id[name].method, path, **arguments_of(by_id[name], KEY))
            assert error_of(reply) == (503, "injected_fault")
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

    def test_refused_requests_are_counted(self, api: Api) -> None:
        api.create(key=KEY)
        add(api, skip=100)
        add(api, order_id="order-1001", skip=100)
        invalid = order()
        invalid["receive"]["amount"] = "0"
        json_type = {"Content-Type": "application/json", "Idempotency-Key": "another-key"}
        replies = [
            api.create(invalid),
            api.create(order(metadata={"changed": True}), key=KEY),
            api.create(key="short"),
            api.post("/v1/payments", content=b"{", headers=json_type),
            api.get(f"/v1/payments/pay_{'a' * 40}"),
            api.get("/v1/chains/moon/assets"),
            api.head("/v1/payments/pay_x"),
        ]
        assert [reply.status_code for reply in replies] == [422, 409, 400, 400, 404, 404, 404]
        assert counts(api) == [(7, 0), (3, 0)]

    @pytest.mark.parametrize("source", ["header", "rule"])
    def test_a_body_that_is_too_large_is_not_read_again(
        self, api: Api, server: RunningServer, source: str
    ) -> None:
        fault = ["X-Mock-Fault: delay=1"] if source == "header" else []
        if source == "rule":
            add(api, skip=100)
        request = send("POST", "/v1/payments", *KEYED_JSON, *fault, CHUNKED)
        request += chunked(b" " * MAX_BODY, json.dumps(order()).encode())
        request = request.replace(b"{api_key}", api.api_key.encode()).replace(b"{key}", KEY.encode())
        [reply] = raw.exchange(server.port, request)
        assert (reply.status, reply.code) == (413, "payload_too_large")
        assert api.get("/_mock/payments").json()["data"] == []

    def test_what_is_no_operation_of_the_sandbox_is_not_counted(self, api: Api) -> None:
        add(api, times=None)
        assert api.get("/v1/chains", headers={"Authorization": "Bearer wrong"}).status_code == 401
        for method, path, status in (
            ("GET", "/v1/nothing", 404),
            ("DELETE", "/v1/chains", 405),
            ("OPTIONS", "/v1/chains", 204),
            ("GET", "/_mock/clock", 200),
            ("GET", "/livez", 200),
        ):
            assert api.request(method, path).status_code == status
        assert counts(api) == [(0, 0)]


class TestPrecedence:
    def test_a_header_precedes_rules_which_count_the_request(self, api: Api) -> None:
        add(api, "status=502")
        headers = {"Idempotency-Key": KEY, "X-Mock-Fault": "status=500"}
        assert api.post("/v1/payments", json=order(), headers=headers).status_code == 500
        assert [api.create(key=KEY).status_code for _ in range(2)] == [502, 201]
        assert counts(api) == [(3, 1)]
        assert [entry["fault"] for entry in journal(api)] == ["status=500", "status=502", None]

    def test_a_header_that_is_no_fault_is_refused_and_counted(self, api: Api) -> None:
        add(api)
        response = api.get("/v1/chains", headers={"X-Mock-Fault": "explode"})
        assert error_of(response) == (400, "invalid_fault")
        assert counts(api) == [(1, 0)]

    def test_only_a_rule_holds_a_request(self, api: Api) -> None:
        reply = api.get("/v1/chains", headers={"X-Mock-Fault": "hold"})
        assert error_of(reply) == (400, "invalid_fault")
        assert "rule only" in reply.json()["error"]["message"]


class TestConnections:
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
