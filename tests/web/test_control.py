"""The control API over HTTP. Each test has a sandbox of its own."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paymock import control
from paymock.core.payments import MAX_DEPOSITS
from paymock.core.scenarios import SCENARIOS, PaymentStatus
from paymock.core.timeline import Transfer, play
from paymock.core.times import parse_rfc3339
from paymock.settings import Settings
from tests.core.test_timeline import COURSES, TRANSITIONS
from tests.support.client import Api, error_of, fields_of, order
from tests.support.contract import Contract, Json
from tests.support.server import RunningServer, running_server
from tests.support.waiting import wait_until

DUE = 1_010_000_000_000_000_000
HALF = DUE // 2


@pytest.fixture(scope="session")
def contract(shared_server: RunningServer) -> Contract:
    """Both documents as one."""
    return Contract.of(shared_server.url, "/openapi.yaml", "/_mock/openapi.yaml")


@pytest.fixture
def api(server: RunningServer, contract: Contract) -> Iterator[Api]:
    """A client whose sandbox stands still."""
    with Api(server.url, contract) as client:
        assert client.put("/_mock/clock", json={"speed": 0}).status_code == 200
        yield client


def advance(api: Api, seconds: float) -> Json:
    response = api.post("/_mock/clock/advance", json={"seconds": seconds})
    assert response.status_code == 200, response.text
    clock: Json = response.json()
    return clock


def move(api: Api, payment: Json, **target: Any) -> httpx.Response:
    return api.post(f"/_mock/payments/{payment['id']}/advance", json=target)


def deposit(api: Api, payment: Json, amount: int, **more: Any) -> httpx.Response:
    headers = {"Idempotency-Key": more.pop("key")} if "key" in more else {}
    body = {"amount": str(amount), **more}
    return api.post(f"/_mock/payments/{payment['id']}/deposits", json=body, headers=headers)


def detail(api: Api, payment: Json) -> Json:
    found: Json = api.get(f"/_mock/payments/{payment['id']}").json()
    return found


class TestClock:
    def test_it_begins_as_the_servers_and_runs_at_its_speed(
        self, server: RunningServer, contract: Contract
    ) -> None:
        with Api(server.url, contract) as api:
            assert api.get("/_mock/clock").json() == {"now": "2030-01-31T12:00:00.000Z", "speed": 1.0}
            server.clock.advance(2.5)
            assert api.get("/_mock/clock").json()["now"] == "2030-01-31T12:00:02.500Z"

    def test_a_change_of_speed_counts_from_now_on(self, api: Api, server: RunningServer) -> None:
        server.clock.advance(60)
        assert api.put("/_mock/clock", json={"speed": 10}).json() == {
            "now": "2030-01-31T12:00:00.000Z",
            "speed": 10.0,
        }
        server.clock.advance(4.5)
        payment = api.created()
        assert payment["created_at"] == "2030-01-31T12:00:45.000Z"
        server.clock.advance(4.5)
        assert api.payment(payment["id"])["status"] == "completed"

    def test_an_advance_is_seen_by_the_very_next_read(self, api: Api) -> None:
        payment = api.created()
        for seconds, status in ((5, "payment_detected"), (8, "payment_finalized"), (32, "completed")):
            advance(api, seconds)
            assert api.payment(payment["id"])["status"] == status

    def test_a_frozen_sandbox_does_not_change_between_two_reads(
        self, api: Api, server: RunningServer
    ) -> None:
        payment = api.created()
        advance(api, 7.5)
        paths = [f"/v1/payments/{payment['id']}", f"/_mock/payments/{payment['id']}", "/_mock/clock"]
        before = [api.get(path).content for path in paths]
        server.clock.advance(3600)
        assert [api.get(path).content for path in paths] == before

    def test_the_expiry_of_a_request_is_held_against_the_virtual_clock(self, api: Api) -> None:
        advance(api, 86_400)
        assert list(fields_of(api.create(order(expires_at="2030-01-31T12:30:00Z")))) == ["expires_at"]

    @pytest.mark.parametrize("speed", [-1, 10_001, "1", None, True, [1]])
    def test_a_speed_that_makes_no_sense_is_refused(self, api: Api, speed: object) -> None:
        assert list(fields_of(api.put("/_mock/clock", json={"speed": speed}))) == ["speed"]
        assert api.get("/_mock/clock").json()["speed"] == 0

    @pytest.mark.parametrize("seconds", [0, -1, 31_536_001, "45", None, False])
    def test_an_advance_that_makes_no_sense_is_refused(self, api: Api, seconds: object) -> None:
        assert list(fields_of(api.post("/_mock/clock/advance", json={"seconds": seconds}))) == ["seconds"]
        assert api.get("/_mock/clock").json()["now"] == "2030-01-31T12:00:00.000Z"

    def test_the_speed_of_every_sandbox_can_be_set_at_the_start(self, contract: Contract) -> None:
        with running_server(Settings(port=0, speed=60)) as server, Api(server.url, contract) as api:
            payment = api.created()
            server.clock.advance(0.75)
            assert api.payment(payment["id"])["status"] == "completed"

    def test_sandboxes_do_not_move_each_other(self, server: RunningServer, contract: Contract) -> None:
        with Api(server.url, contract) as one, Api(server.url, contract) as other:
            first, second = one.created(), other.created()
            advance(one, 45)
            one.put("/_mock/clock", json={"speed": 0})
            assert one.payment(first["id"])["status"] == "completed"
            assert other.payment(second["id"])["status"] == "awaiting_payment"
            assert other.get("/_mock/clock").json() == {"now": "2030-01-31T12:00:00.000Z", "speed": 1.0}


class TestOnePayment:
    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_next_goes_through_every_change(self, api: Api, scenario: str) -> None:
        payment = api.created(scenario)
        statuses = [payment["status"]]
        while (response := move(api, payment, to="next")).status_code == 200:
            if response.json()["status"] != statuses[-1]:
                statuses.append(response.json()["status"])
        assert error_of(response) == (409, "status_unreachable")
        assert statuses == [status for _, status in COURSES[scenario]]

    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_end_goes_to_the_end_and_stays_there(self, api: Api, scenario: str) -> None:
        payment = api.created(scenario)
        final = move(api, payment, to="end").json()
        assert final["status"] == SCENARIOS[scenario].ends
        assert move(api, payment, to="end").json() == final
        assert api.payment(payment["id"]) == final

    @pytest.mark.parametrize(
        "status", ["payment_detected", "payment_finalized", "settlement_submitted", "completed"]
    )
    def test_a_status_that_lies_ahead_is_reached(self, api: Api, status: str) -> None:
        payment = api.created()
        assert move(api, payment, to=status).json()["status"] == status
        assert error_of(move(api, payment, to=status)) == (409, "status_unreachable")

    @pytest.mark.parametrize("status", ["failed", "expired", "awaiting_payment"])
    def test_a_status_that_never_comes_is_refused(self, api: Api, status: str) -> None:
        payment = api.created()
        assert error_of(move(api, payment, to=status)) == (409, "status_unreachable")
        assert api.payment(payment["id"]) == payment

    def test_only_that_payment_moves(self, api: Api) -> None:
        one, other = api.created(), api.created()
        assert move(api, one, seconds=13).json()["status"] == "payment_finalized"
        assert api.payment(other["id"]) == other
        assert api.get("/_mock/clock").json()["now"] == "2030-01-31T12:00:00.000Z"

    def test_it_stays_ahead_of_its_sandbox(self, api: Api) -> None:
        payment = api.created()
        move(api, payment, seconds=40)
        advance(api, 4.999)
        assert api.payment(payment["id"])["status"] == "settlement_submitted"
        advance(api, 0.001)
        assert api.payment(payment["id"])["status"] == "completed"

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({}, "seconds"),
            ({"seconds": 1, "to": "next"}, "seconds"),
            ({"seconds": 0}, "seconds"),
            ({"to": "done"}, "to"),
            ({"to": 5}, "to"),
            ({"too": "next"}, "too"),
            ([], "body"),
        ],
    )
    def test_a_step_that_makes_no_sense_is_refused(self, api: Api, body: Any, field: str) -> None:
        payment = api.created()
        response = api.post(f"/_mock/payments/{payment['id']}/advance", json=body)
        assert field in fields_of(response)
        assert api.payment(payment["id"]) == payment

    def test_its_timeline_shows_past_and_future(self, api: Api) -> None:
        payment = api.created()
        advance(api, 9)
        shown = detail(api, payment)
        assert (shown["scenario"], shown["now"]) == ("happy_path", "2030-01-31T12:00:09.000Z")
        assert shown["payment"] == api.payment(payment["id"])
        assert [
            (entry["offset_seconds"], entry["event"], entry["reached"]) for entry in shown["timeline"]
        ] == [
            (0.0, "Created", True),
            (5.0, "Deposit observed, confirmations 0/16, pending: payment_detected", True),
            (7.0, "Confirmations 4/16, confirming", True),
            (9.0, "Confirmations 8/16, confirming", True),
            (11.0, "Confirmations 12/16, confirming", False),
            (13.0, "Confirmations 16/16, finalized: payment_finalized", False),
            (25.0, "settlement_pending", False),
            (30.0, "settlement_submitted", False),
            (45.0, "completed", False),
        ]
        assert shown["timeline"][-1]["at"] == "2030-01-31T12:00:45.000Z"

    def test_its_timeline_says_to_which_deposit_something_happens(self, api: Api) -> None:
        payment = api.created("underpaid_expired")
        advance(api, 10)
        deposit(api, payment, DUE - HALF)
        told = [
            (entry["offset_seconds"], entry["deposit"], entry["confirmations"])
            for entry in detail(api, payment)["timeline"]
        ]
        assert told == [
            (0, None, None),
            *[(5, 1, 0), (7, 1, 4), (9, 1, 8), (10, 2, 0), (11, 1, 12), (12, 2, 4), (13, 1, 16)],
            *[(14, 2, 8), (16, 2, 12), (18, 2, 16)],
            *[(30, None, None), (35, None, None), (50, None, None)],
        ]

    def test_its_window_is_told(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        window = detail(api, payment)["window_seconds"]
        advance(api, window - 0.001)
        assert api.payment(payment["id"])["status"] == "awaiting_payment"
        advance(api, 0.001)
        assert api.payment(payment["id"])["status"] == "expired"

    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_it_is_shown_as_it_was_before_its_last_change(self, api: Api, scenario: str) -> None:
        payment = api.created(scenario)
        assert detail(api, payment)["before"] is None
        seen = payment
        while (response := move(api, payment, to="next")).status_code == 200:
            assert detail(api, payment)["before"] == seen
            seen = response.json()
            advance(api, 0.5)
            assert detail(api, payment)["payment"] == seen

    def test_before_a_deposit_of_this_moment_it_had_none(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        deposit(api, payment, DUE)
        assert detail(api, payment)["before"]["status"] == "awaiting_payment"

    @pytest.mark.parametrize("path", ["", "/advance", "/deposits", "/wait"])
    def test_anothers_payment_is_not_found(
        self, server: RunningServer, api: Api, contract: Contract, path: str
    ) -> None:
        with Api(server.url, contract) as other:
            payment = other.created()
            method = "GET" if path in ("", "/wait") else "POST"
            body = {"amount": "1"} if path == "/deposits" else {"to": "end"}
            response = api.request(
                method, f"/_mock/payments/{payment['id']}{path}", json=body if method == "POST" else None
            )
            assert error_of(response) == (404, "payment_not_found")
            assert other.payment(payment["id"]) == payment


class TestDeposits:
    def test_two_halves_fund_a_payment(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        assert deposit(api, payment, HALF).json()["status"] == "payment_detected"
        advance(api, 4)
        deposit(api, payment, DUE - HALF)
        advance(api, 8)
        assert api.payment(payment["id"])["status"] == "payment_finalized"
        assert move(api, payment, to="end").json()["status"] == "completed"

    def test_a_top_up_rescues_an_underpaid_payment(self, api: Api) -> None:
        payment = api.created("underpaid_expired")
        advance(api, 20)
        deposit(api, payment, DUE - HALF)
        assert move(api, payment, to="end").json()["status"] == "completed"

    def test_too_much_goes_to_review(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        deposit(api, payment, DUE + 5)
        attempt = move(api, payment, to="end").json()["attempts"][0]
        assert (attempt["status"], attempt["funding"]["overpaid_amount"]) == ("overpaid_review", "5")

    def test_another_asset_is_rejected(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        deposit(api, payment, DUE, asset="BNB")
        final = move(api, payment, to="end").json()
        [rejected] = final["attempts"][0]["deposits"]
        assert (final["status"], rejected["status"], rejected["asset"]) == (
            "manual_review",
            "rejected",
            "BNB",
        )

    def test_after_the_window_it_is_late(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        advance(api, 30)
        assert deposit(api, payment, DUE).json()["status"] == "manual_review"

    def test_a_deposit_is_observed_on_the_payments_own_clock(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        move(api, payment, seconds=10)
        [seen] = deposit(api, payment, DUE, asset="USDT").json()["attempts"][0]["deposits"]
        assert seen["observed_at"] == "2030-01-31T12:00:10.000Z"

    def test_a_key_makes_a_retry_safe(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        first = deposit(api, payment, HALF, key="deposit-1")
        advance(api, 20)
        deposit(api, payment, 1, key="deposit-2")
        again = deposit(api, payment, HALF, key="deposit-1")
        assert again.content == first.content
        assert again.headers["idempotent-replayed"] == "true"
        assert len(api.payment(payment["id"])["attempts"][0]["deposits"]) == 2
        assert error_of(deposit(api, payment, HALF + 1, key="deposit-1"))[0] == 409
        assert error_of(api.create(key="deposit-1"))[0] == 409
        assert error_of(deposit(api, payment, HALF, key="short")) == (400, "idempotency_key_invalid")

    def test_without_a_key_each_request_is_a_deposit(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        for _ in range(3):
            deposit(api, payment, 1)
        assert len(api.payment(payment["id"])["attempts"][0]["deposits"]) == 3

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({}, "amount"),
            ({"amount": "0"}, "amount"),
            ({"amount": 5}, "amount"),
            ({"amount": "1", "asset": "WOOF"}, "asset"),
        ],
    )
    def test_a_deposit_that_makes_no_sense_is_refused(self, api: Api, body: Json, field: str) -> None:
        payment = api.created("no_payment_expired")
        response = api.post(f"/_mock/payments/{payment['id']}/deposits", json=body)
        assert list(fields_of(response)) == [field]
        assert api.payment(payment["id"]) == payment

    def test_a_payment_takes_a_hundred_of_them(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        for _ in range(MAX_DEPOSITS):
            assert deposit(api, payment, 1).status_code == 200
        before = api.payment(payment["id"])
        assert error_of(deposit(api, payment, 1)) == (503, "capacity_exceeded")
        assert error_of(deposit(api, payment, 1, key="order-1001-payment")) == (503, "capacity_exceeded")
        assert api.create(key="order-1001-payment").status_code == 201
        assert api.payment(payment["id"]) == before

    def test_of_concurrent_ones_with_one_key_one_is_made(
        self, api: Api, server: RunningServer, contract: Contract
    ) -> None:
        payment = api.created("no_payment_expired")

        def make(_: int) -> httpx.Response:
            with Api(server.url, contract, api.api_key) as own:
                return deposit(own, payment, 7, key="deposit-1001")

        with ThreadPoolExecutor(16) as threads:
            replies = list(threads.map(make, range(16)))
        assert len({reply.content for reply in replies}) == 1
        assert ["idempotent-replayed" in reply.headers for reply in replies].count(False) == 1
        assert [made["amount"] for made in api.payment(payment["id"])["attempts"][0]["deposits"]] == ["7"]


class TestLists:
    def test_payments_are_paged_newest_first(self, api: Api) -> None:
        ids = [api.created(order_id=f"order-{number}")["id"] for number in range(5)]
        seen: list[str] = []
        cursor: str | None = None
        for _ in range(3):
            page = api.get(
                "/_mock/payments", params={"limit": 2} | ({"cursor": cursor} if cursor else {})
            ).json()
            seen += [payment["id"] for payment in page["data"]]
            cursor = page["next_cursor"]
        assert (seen, cursor) == (ids[::-1], None)

    def test_each_has_its_scenario_and_its_age(self, api: Api) -> None:
        old = api.created("late_payment")
        advance(api, 7.5)
        young = api.created()
        move(api, young, seconds=1.25)
        found = api.get("/_mock/payments").json()["data"]
        assert [(one["id"], one["scenario"], one["age_seconds"]) for one in found] == [
            (young["id"], "happy_path", 1.25),
            (old["id"], "late_payment", 7.5),
        ]
        assert {name: found[1][name] for name in old} == api.payment(old["id"])

    def test_payments_are_filtered(self, api: Api) -> None:
        first, second = api.created(order_id="a"), api.created("no_payment_expired", order_id="b")
        move(api, first, to="completed")

        def found(**wanted: str) -> list[str]:
            return [payment["id"] for payment in api.get("/_mock/payments", params=wanted).json()["data"]]

        assert found() == [second["id"], first["id"]]
        assert found(status="completed") == [first["id"]]
        assert found(scenario="no_payment_expired") == [second["id"]]
        assert found(order_id="a") == [first["id"]]
        assert found(order_id="a", scenario="no_payment_expired") == []

    @pytest.mark.parametrize("filters", [{}, {"status": "awaiting_payment", "order_id": "a"}])
    @pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
    @pytest.mark.parametrize("scanned", [1, 2, 500])
    def test_each_page_is_full_but_the_last_and_none_is_empty(
        self, api: Api, monkeypatch: pytest.MonkeyPatch, filters: Json, limit: int, scanned: int
    ) -> None:
        """However many payments are looked through at a time, and though the oldest ones are filtered out."""
        monkeypatch.setattr(control, "_SCANNED", scanned)
        created = [api.created(order_id=order_id) for order_id in ("other", "a", *"abacabad", "other")]
        move(api, created[1], to="completed")
        listed = [one["id"] for one in created if not filters or one["order_id"] == "a"][::-1]
        if filters:
            listed.pop()  # it awaits no payment
        pages: list[list[str]] = []
        cursor: str | None = ""
        while cursor is not None:
            query = {"limit": limit, **filters, **({"cursor": cursor} if cursor else {})}
            page = api.get("/_mock/payments", params=query).json()
            pages.append([payment["id"] for payment in page["data"]])
            cursor = page["next_cursor"]
        assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
        assert pages[-1]
        assert [one for page in pages for one in page] == listed

    @pytest.mark.parametrize(
        "query",
        [
            "limit=0",
            "limit=201",
            "limit=x",
            "limit=1&limit=2",
            "cursor=-1",
            "cursor=x",
            "status=done",
            "scenario=x",
            "x=1",
            "%zz",
        ],
    )
    def test_a_query_that_makes_no_sense_is_refused(self, api: Api, query: str) -> None:
        assert error_of(api.get(f"/_mock/payments?{query}")) == (400, "invalid_query")

    @pytest.mark.parametrize("query", ["0xcafe000000000000000000000000000000c0ffee", "limit=1&secret", "&"])
    def test_a_query_that_is_malformed_is_not_repeated(self, api: Api, query: str) -> None:
        response = api.get(f"/_mock/payments?{query}")
        assert error_of(response) == (400, "invalid_query")
        assert "The query is not of the form name=value&name=value." in response.text


class TestWait:
    def wait(self, api: Api, payment: Json, **query: Any) -> tuple[bool, str]:
        result = api.get(f"/_mock/payments/{payment['id']}/wait", params=query).json()
        return result["reached"], result["payment"]["status"]

    def test_what_has_been_reached_is_answered_at_once(self, api: Api) -> None:
        payment = api.created()
        advance(api, 20)
        assert self.wait(api, payment, status="payment_detected") == (True, "payment_finalized")

    @pytest.mark.parametrize(
        ("scenario", "moved", "status"),
        [
            ("happy_path", None, "failed"),
            ("happy_path", None, "expired"),
            ("settlement_failed", None, "completed"),
            ("happy_path", "settlement_pending", "overpaid_review"),
            ("happy_path", "end", None),
            ("no_payment_expired", "end", "payment_detected"),
            ("overpaid_review", "end", "completed"),
        ],
    )
    def test_what_can_no_longer_come_is_answered_at_once(
        self, api: Api, scenario: str, moved: str | None, status: str | None
    ) -> None:
        payment = api.created(scenario)
        if moved:
            move(api, payment, to=moved)
        query = {"timeout": 60} | ({"status": status} if status else {})
        result = api.get(f"/_mock/payments/{payment['id']}/wait", params=query).json()
        assert (result["reached"], result["possible"]) == (False, False)

    @pytest.mark.parametrize(
        ("scenario", "moved", "status"),
        [
            ("no_payment_expired", None, "payment_detected"),
            ("no_payment_expired", None, "completed"),
            ("no_payment_expired", None, "underpaid_expired"),
            ("no_payment_expired", "end", "manual_review"),
            ("no_payment_expired", "end", None),
            ("underpaid_expired", "payment_detected", "completed"),
            ("happy_path", "payment_finalized", "overpaid_review"),
        ],
    )
    def test_what_a_deposit_could_bring_is_waited_for(
        self, api: Api, scenario: str, moved: str | None, status: str | None
    ) -> None:
        payment = api.created(scenario)
        if moved:
            move(api, payment, to=moved)
        query = {"timeout": 0.01} | ({"status": status} if status else {})
        result = api.get(f"/_mock/payments/{payment['id']}/wait", params=query).json()
        assert (result["reached"], result["possible"]) == (False, True)

    def test_a_client_that_leaves_is_not_waited_for(self, api: Api, server: RunningServer) -> None:
        path = f"/_mock/payments/{api.created()['id']}/wait?timeout=60"
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            authorization = f"Authorization: Bearer {api.api_key}"
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}\r\n\r\n".encode())
            wait_until(lambda: server.app.waiting == 1)
        wait_until(lambda: server.app.waiting == 0)

    def test_a_timeout_ends_it(self, api: Api) -> None:
        assert self.wait(api, api.created(), status="completed", timeout=0.05) == (False, "awaiting_payment")

    @pytest.mark.parametrize("wake", ["advance", "move", "deposit", "speed"])
    def test_it_wakes_when_somebody_moves_time_or_makes_a_deposit(
        self, api: Api, server: RunningServer, contract: Contract, wake: str
    ) -> None:
        payment = api.created("no_payment_expired" if wake == "deposit" else None)
        results: list[tuple[bool, str]] = []
        with Api(server.url, contract, api.api_key) as waiting:
            query = {"timeout": 30} if wake == "deposit" else {"status": "payment_detected", "timeout": 30}
            thread = threading.Thread(target=lambda: results.append(self.wait(waiting, payment, **query)))
            thread.start()
            started = time.monotonic()
            while thread.is_alive() and time.monotonic() - started < 10:
                time.sleep(0.02)  # until the request of the other thread is there, which nothing tells
                match wake:
                    case "advance":
                        advance(api, 5)
                    case "move":
                        move(api, payment, seconds=5)
                    case "deposit":
                        deposit(api, payment, 1)
                    case "speed":
                        api.put("/_mock/clock", json={"speed": 1})
                        server.clock.advance(5)
                        api.put("/_mock/clock", json={"speed": 0})
            thread.join()
        assert results == [(True, results[0][1])]
        assert time.monotonic() - started < 5

    def test_a_deposit_wakes_who_waits_for_what_only_a_deposit_brings(
        self, api: Api, server: RunningServer, contract: Contract
    ) -> None:
        payment = api.created("no_payment_expired")
        with Api(server.url, contract, api.api_key) as waiting, ThreadPoolExecutor(1) as thread:
            result = thread.submit(self.wait, waiting, payment, status="payment_detected", timeout=30)
            wait_until(lambda: server.app.waiting == 1)
            deposit(api, payment, 1)
            assert result.result(timeout=5) == (True, "payment_detected")

    def test_it_comes_when_the_clock_gets_there(self, contract: Contract, tmp_path: Any) -> None:
        from tests.support.process import serving

        with serving(tmp_path, "--speed", "60") as served, Api(served.url, contract) as api:
            payment = api.created()
            started = time.monotonic()
            assert self.wait(api, payment, status="completed", timeout=10) == (True, "completed")
            assert time.monotonic() - started > 0.6

    @pytest.mark.parametrize("query", ["status=done", "timeout=61", "timeout=-1", "timeout=soon", "x=1"])
    def test_a_wait_that_makes_no_sense_is_refused(self, api: Api, query: str) -> None:
        payment = api.created()
        assert error_of(api.get(f"/_mock/payments/{payment['id']}/wait?{query}")) == (400, "invalid_query")


class TestOverrides:
    def next(self, api: Api, **body: Any) -> Json:
        response = api.post("/_mock/next", json=body)
        assert response.status_code == 200, response.text
        pending: Json = response.json()
        return pending

    def ends(self, api: Api, scenario: str | None = None) -> str:
        payment = api.created(scenario)
        status: str = move(api, payment, to="end").json()["status"]
        return status

    def test_the_next_creations_take_them_in_their_order(self, api: Api) -> None:
        self.next(api, scenario="settlement_failed", times=2)
        pending = self.next(api, scenario="no_payment_expired")
        assert [one["times"] for one in pending["data"]] == [2, 1]
        assert [self.ends(api) for _ in range(4)] == ["failed", "failed", "expired", "completed"]

    def test_a_header_of_its_own_wins_and_takes_nothing(self, api: Api) -> None:
        self.next(api, scenario="settlement_failed")
        assert [self.ends(api, "no_payment_expired"), self.ends(api), self.ends(api)] == [
            "expired",
            "failed",
            "completed",
        ]

    def test_a_standing_one_comes_last_and_stays_until_a_reset(self, api: Api) -> None:
        self.next(api, scenario="no_payment_expired", times=None)
        self.next(api, scenario="settlement_failed", times=1)
        assert [self.ends(api) for _ in range(3)] == ["failed", "expired", "expired"]
        self.next(api, scenario="manual_review", times=None)
        assert self.ends(api) == "manual_review"
        api.post("/_mock/reset")
        assert self.ends(api) == "completed"

    def test_a_replay_or_a_refusal_takes_nothing(self, api: Api) -> None:
        api.create(key="order-1001-payment")
        self.next(api, scenario="settlement_failed")
        api.create(key="order-1001-payment")
        assert api.create(order(order_id="")).status_code == 422
        assert self.ends(api) == "failed"

    def test_a_refusal_that_was_asked_for_leaves_the_scenario_to_the_retry(self, api: Api) -> None:
        pending = self.next(api, fault="status=503", scenario="settlement_failed")
        assert pending == {
            "data": [
                {"scenario": "settlement_failed", "fault": None, "times": 1},
                {"scenario": None, "fault": "status=503", "times": 1},
            ]
        }
        assert error_of(api.create(key="order-1001-payment")) == (503, "injected_fault")
        created = api.create(key="order-1001-payment")
        assert created.status_code == 201
        assert move(api, created.json(), to="end").json()["status"] == "failed"

    def test_the_times_of_a_fault_are_tries_of_each_creation(self, api: Api) -> None:
        self.next(api, fault="status=503; times=2", times=2)
        keys = [f"order-100{number}-payment" for number in (1, 1, 1, 1, 2, 2, 2, 3)]
        assert [api.create(key=key).status_code for key in keys] == [503, 503, 201, 201, 503, 503, 201, 201]

    def test_a_standing_fault_of_so_many_tries_counts_them_for_each_key(self, api: Api) -> None:
        self.next(api, fault="status=503; times=1", times=None)
        statuses = [api.create(key=f"order-100{number}-payment").status_code for number in (1, 2, 1, 2)]
        assert statuses == [503, 503, 201, 201]

    @pytest.mark.parametrize("fault", ["delay=1", "drop"])
    def test_a_fault_does_not_replace_a_standing_scenario(self, api: Api, fault: str) -> None:
        self.next(api, scenario="settlement_failed", times=None)
        self.next(api, fault=fault)
        with contextlib.suppress(httpx.RemoteProtocolError):
            api.create(key="order-1001-payment")
        [payment] = api.get("/_mock/payments").json()["data"]
        assert move(api, payment, to="end").json()["status"] == "failed"
        assert self.ends(api) == "failed"

    @pytest.mark.parametrize("fault", ["delay=1", "status=503", "drop"])
    def test_a_refused_request_takes_no_fault(self, api: Api, fault: str) -> None:
        pending = self.next(api, fault=fault, scenario="settlement_failed")
        assert api.create(order(order_id="")).status_code == 422
        assert api.get("/_mock/next").json() == pending

    def test_of_creations_that_meet_each_takes_its_own(
        self, api: Api, server: RunningServer, contract: Contract
    ) -> None:
        self.next(api, scenario="settlement_failed", times=3)
        self.next(api, fault="status=503", times=2)

        def create(_: int) -> int:
            with Api(server.url, contract, api.api_key) as own:
                return own.create().status_code

        with ThreadPoolExecutor(16) as threads:
            assert sorted(threads.map(create, range(16))) == [201] * 14 + [503] * 2
        failing = api.get("/_mock/payments", params={"scenario": "settlement_failed"}).json()["data"]
        assert len(failing) == 3

    def test_a_late_body_takes_what_is_pending_when_it_comes(self, api: Api, server: RunningServer) -> None:
        self.next(api, scenario="settlement_failed")
        body = json.dumps(order()).encode()
        clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(5)]
        for number, client in enumerate(clients):
            client.sendall(
                f"POST /v1/payments HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {api.api_key}\r\n"
                f"Content-Type: application/json\r\nIdempotency-Key: late-body-{number}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
            )
        for client in clients:
            client.sendall(body)
            assert client.recv(65536).startswith(b"HTTP/1.1 201")
            client.close()
        failing = api.get("/_mock/payments", params={"scenario": "settlement_failed"}).json()["data"]
        assert len(failing) == 1

    def test_what_is_pending_can_be_read_and_forgotten(self, api: Api) -> None:
        assert api.get("/_mock/next").json() == {"data": []}
        pending = self.next(api, scenario="settlement_failed")
        assert api.get("/_mock/next").json() == pending
        assert api.delete("/_mock/next").status_code == 204
        assert api.get("/_mock/next").json() == {"data": []}
        assert self.ends(api) == "completed"

    def test_a_hundred_can_be_pending(self, api: Api) -> None:
        for _ in range(100):
            pending = self.next(api, scenario="settlement_failed")
        assert error_of(api.post("/_mock/next", json={"scenario": "happy_path"})) == (
            503,
            "capacity_exceeded",
        )
        assert api.get("/_mock/next").json() == pending

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({}, "scenario"),
            ({"scenario": "happy"}, "scenario"),
            ({"fault": "explode"}, "fault"),
            ({"scenario": "happy_path", "times": 0}, "times"),
            ({"scenario": "happy_path", "times": 1.5}, "times"),
            ({"scenario": "happy_path", "times": True}, "times"),
        ],
    )
    def test_an_override_that_makes_no_sense_is_refused(self, api: Api, body: Json, field: str) -> None:
        assert list(fields_of(api.post("/_mock/next", json=body))) == [field]


class TestFaults:
    def faulty(self, api: Api, fault: str, key: str = "order-1001-payment") -> httpx.Response:
        return api.post("/v1/payments", json=order(), headers={"Idempotency-Key": key, "X-Mock-Fault": fault})

    @pytest.mark.parametrize("status", [400, 429, 500, 503, 599])
    def test_a_status_is_answered_and_nothing_is_stored(self, api: Api, status: int) -> None:
        response = self.faulty(api, f"status={status}")
        assert error_of(response) == (status, "injected_fault")
        assert ("retry-after" in response.headers) == (status in (429, 503))
        created = api.create(key="order-1001-payment")
        assert created.status_code == 201
        assert "idempotent-replayed" not in created.headers

    def test_only_the_first_tries_of_a_key_suffer(self, api: Api) -> None:
        statuses = [self.faulty(api, "status=503; times=2").status_code for _ in range(4)]
        assert statuses == [503, 503, 201, 201]
        assert self.faulty(api, "status=503; times=2", key="another-key").status_code == 503

    def test_without_a_key_the_tries_of_a_path_are_counted(self, api: Api) -> None:
        def read(path: str) -> int:
            return api.get(path, headers={"X-Mock-Fault": "status=503; times=1"}).status_code

        assert [read("/v1/chains"), read("/v1/chains"), read("/v1/webhooks")] == [503, 200, 503]

    def test_different_faults_are_counted_apart(self, api: Api) -> None:
        faults = ["status=503; times=1", "status=500; times=1", "status=503; times=1"]
        replies = [api.get("/v1/chains", headers={"X-Mock-Fault": fault}) for fault in faults]
        assert [reply.status_code for reply in replies] == [503, 500, 200]

    def test_a_refusal_is_dropped_too(self, api: Api) -> None:
        for path in (f"/v1/payments/pay_{'a' * 40}", "/v1/chains/narnia/assets"):
            with pytest.raises(httpx.RemoteProtocolError):
                api.get(path, headers={"X-Mock-Fault": "drop"})
        headers = {"Idempotency-Key": "order-1001-payment", "X-Mock-Fault": "drop"}
        with pytest.raises(httpx.RemoteProtocolError):
            api.post("/v1/payments", json=order(order_id=""), headers=headers)
        errors = [entry["error"] for entry in api.get("/_mock/requests").json()["data"]]
        assert errors == ["validation_failed", "chain_not_found", "payment_not_found"]

    def test_a_dropped_reply_has_been_carried_out(self, api: Api) -> None:
        with pytest.raises(httpx.RemoteProtocolError):
            self.faulty(api, "drop; times=1")
        [entry] = api.get("/_mock/requests").json()["data"]
        assert (entry["status"], entry["idempotency"]) == (0, "new")
        retry = self.faulty(api, "drop; times=1")
        assert retry.status_code == 201
        assert retry.headers["idempotent-replayed"] == "true"
        assert len(api.get("/_mock/payments").json()["data"]) == 1

    def test_a_delay_is_kept(self, api: Api) -> None:
        started = time.monotonic()
        assert self.faulty(api, "delay=150").status_code == 201
        assert time.monotonic() - started >= 0.15

    @pytest.mark.parametrize("fault", ["explode", "status=200", "delay=30001", ""])
    def test_a_fault_that_is_none_is_refused(self, api: Api, fault: str) -> None:
        assert error_of(self.faulty(api, fault)) == (400, "invalid_fault")

    def test_a_stranger_cannot_ask_for_faults(self, api: Api) -> None:
        response = api.get("/v1/chains", headers={"X-Mock-Fault": "status=503", "Authorization": "Bearer x"})
        assert response.status_code == 401


class TestJournal:
    def test_it_says_what_happened_and_nothing_secret(self, api: Api, server: RunningServer) -> None:
        created = api.create(key="order-1001-payment")
        api.create(key="order-1001-payment")
        api.create(order(order_id="other"), key="order-1001-payment")
        api.get("/v1/payments/pay_unknown?secret=1")
        api.get(f"/v1/payments/{api.api_key}")
        api.get("/v1/paymentz")
        api.delete("/v1/payments")
        httpx.get(f"{server.url}/v1/payments/pay_unknown")
        entries = api.get("/_mock/requests").json()["data"]
        facts = ("method", "path", "status", "error", "idempotency")
        assert [tuple(entry[fact] for fact in facts) for entry in entries] == [
            ("DELETE", "/v1/payments", 405, "method_not_allowed", None),
            ("GET", "/v1/paymentz", 404, "not_found", None),
            ("GET", "/v1/payments/***", 404, "payment_not_found", None),
            ("GET", "/v1/payments/pay_unknown", 404, "payment_not_found", None),
            ("POST", "/v1/payments", 409, "idempotency_key_reused_with_different_payload", "conflict"),
            ("POST", "/v1/payments", 201, None, "replayed"),
            ("POST", "/v1/payments", 201, None, "new"),
        ]  # fmt: skip
        assert entries[-1]["request_id"] == created.headers["x-request-id"]
        assert api.api_key not in api.get("/_mock/requests").text

    def test_a_refusal_has_its_message_and_its_first_problems(self, api: Api) -> None:
        refused = api.create(order(order_id="", receive__chain="x" * 40, typo=1, a=1, b=2, c=3))
        api.get("/v1/payments/pay_unknown")
        api.get("/v1/chains")
        well, unknown, invalid = api.get("/_mock/requests").json()["data"]
        error = refused.json()["error"]
        assert len(error["details"]) > 5
        assert (invalid["message"], invalid["details"]) == (error["message"], error["details"][:5])
        assert unknown["message"].startswith("This API key has no payment with that id.")
        assert unknown["details"] == []
        assert (well["message"], well["details"]) == (None, [])

    def test_a_refusal_that_was_lost_is_told(self, api: Api) -> None:
        headers = {"Idempotency-Key": "order-1001-payment", "X-Mock-Fault": "drop"}
        with pytest.raises(httpx.RemoteProtocolError):
            api.post("/v1/payments", json=order(order_id=""), headers=headers)
        [entry] = api.get("/_mock/requests").json()["data"]
        assert entry["status"] == 0
        assert [problem["field"] for problem in entry["details"]] == ["order_id"]

    @pytest.mark.parametrize("lost", [False, True])
    def test_no_problem_repeats_what_is_secret(self, contract: Contract, *, lost: bool) -> None:
        """Unknown fields are named, and a name can be anything."""
        key = "own-key-of-a-merchant"
        address = order()["receive"]["address"]
        secrets = (key, "mk_test_demo", "whsec_" + "0" * 64, address, address[2:], "f" * 64)
        with (
            running_server(Settings(port=0, api_keys=(key,))) as server,
            Api(server.url, contract, key) as api,
        ):
            for secret in secrets:
                body = order(**{secret: 1, "receive__" + secret: 1, "order_id": secret * 20})
                headers = {"Idempotency-Key": "order-1001-payment"} | (
                    {"X-Mock-Fault": "drop"} if lost else {}
                )
                with contextlib.suppress(httpx.RemoteProtocolError):
                    api.post("/v1/payments", json=body, headers=headers)
                api.get(f"/v1/chains/{secret}/assets")
            journal = api.get("/_mock/requests")
            entries = journal.json()["data"]
            assert len(entries) == 2 * len(secrets)
            assert any("***" in problem["field"] for entry in entries for problem in entry["details"])
            assert not [secret for secret in secrets if secret in journal.text]

    def test_it_says_which_payment_a_request_is_about(self, api: Api) -> None:
        first, second = api.create(key="order-1001-payment"), api.create()
        one, other = first.json()["id"], second.json()["id"]
        api.create(key="order-1001-payment")
        api.payment(one)
        api.get(f"/v1/payments/{other}/attempts")
        api.get(f"/v1/payments/pay_{'a' * 40}")
        api.get("/v1/payments/pay_unknown")
        api.create({"url": "https://x.example"}, path="/v1/webhooks")
        api.create(order(order_id=""))

        def about(query: str = "") -> list[tuple[str, str | None]]:
            entries = api.get(f"/_mock/requests{query}").json()["data"]
            return [(entry["method"], entry["payment_id"]) for entry in entries]

        assert about() == [
            ("POST", None),
            ("POST", None),
            ("GET", None),
            ("GET", f"pay_{'a' * 40}"),
            ("GET", other),
            ("GET", one),
            ("POST", one),
            ("POST", other),
            ("POST", one),
        ]
        assert about(f"?payment_id={one}") == [("GET", one), ("POST", one), ("POST", one)]
        assert about(f"?payment_id={one}&limit=2") == [("GET", one), ("POST", one)]
        assert about(f"?payment_id={other}") == [("GET", other), ("POST", other)]
        assert about("?payment_id=pay_unknown") == []

    def test_what_is_about_one_payment_is_found_among_many(self, api: Api) -> None:
        payment = api.created()
        for _ in range(150):
            api.get("/v1/chains")
        found = api.get(f"/_mock/requests?payment_id={payment['id']}&limit=1").json()["data"]
        assert [entry["status"] for entry in found] == [201]

    def test_it_keeps_the_last_thousand(self, api: Api) -> None:
        for _ in range(1005):
            api.get("/v1/payments/pay_x")
        assert len(api.get("/_mock/requests?limit=1000").json()["data"]) == 1000
        assert len(api.get("/_mock/requests?limit=3").json()["data"]) == 3
        assert api.delete("/_mock/requests").status_code == 204
        assert api.get("/_mock/requests").json() == {"data": []}


class TestReset:
    def test_it_forgets_everything_of_this_sandbox(
        self, api: Api, server: RunningServer, contract: Contract
    ) -> None:
        with Api(server.url, contract) as other:
            untouched = other.created()
            first = api.create(key="order-1001-payment").json()
            api.create({"url": "https://x.example"}, path="/v1/webhooks")
            api.post("/_mock/next", json={"scenario": "no_payment_expired", "times": None})
            advance(api, 100)
            assert api.post("/_mock/reset").status_code == 204
            assert error_of(api.get(f"/v1/payments/{first['id']}")) == (404, "payment_not_found")
            assert api.get("/v1/webhooks").json() == {"data": []}
            journal = [entry["path"] for entry in api.get("/_mock/requests").json()["data"]]
            assert journal == ["/v1/webhooks", f"/v1/payments/{first['id']}"]
            assert api.get("/_mock/clock").json() == {"now": "2030-01-31T12:00:00.000Z", "speed": 1.0}
            again = api.create(key="order-1001-payment")
            assert "idempotent-replayed" not in again.headers
            assert again.json()["id"] != first["id"]
            assert other.payment(untouched["id"]) == untouched


def test_without_control_none_of_it_is_there(contract: Contract) -> None:
    with (
        running_server(Settings(port=0, control=False)) as server,
        httpx.Client(base_url=server.url) as client,
    ):
        headers = {"Authorization": "Bearer mk_test_demo", "X-Mock-Fault": "status=503"}
        for method, path, _ in contract.operations():
            if path.startswith("/_mock/"):
                assert (
                    client.request(method, path.replace("{payment_id}", "pay_x"), headers=headers).status_code
                    == 404
                )
        payment_id = httpx.post(
            f"{server.url}/v1/payments",
            json=order(),
            headers={"Authorization": "Bearer mk_test_demo", "Idempotency-Key": "order-1001-payment"},
        ).json()["id"]
        pages = ("/", f"/payments/{payment_id}", "/requests", "/swagger/control/")
        for path in ("/_mock/openapi.yaml", "/_mock/events", *pages):
            assert error_of(client.get(path, headers=headers)) == (404, "not_found")
        for path in (f"/checkout/{payment_id}.json", f"/checkout/{payment_id}"):
            assert client.get(path).status_code == 200
        assert b"/_mock" not in client.get("/swagger/").content
        assert client.get("/v1/chains", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/_mock/clock", "/_mock/payments", "/_mock/requests"])
def test_the_control_api_needs_a_key(server: RunningServer, path: str) -> None:
    assert httpx.get(server.url + path).status_code == 401


steps = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.integers(1, 20_000)),
        st.tuples(st.just("move"), st.integers(1, 20_000)),
        st.tuples(st.just("speed"), st.sampled_from([0, 1, 10])),
        st.tuples(st.just("real"), st.integers(1, 5_000)),
        st.tuples(st.just("deposit"), st.sampled_from([1, HALF, DUE - HALF, DUE])),
        st.tuples(st.just("read"), st.just(0)),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(list(SCENARIOS)), steps)
def test_any_interleaving_is_monotone_and_ends_like_one_big_advance(
    server: RunningServer, contract: Contract, scenario: str, steps: list[tuple[str, int]]
) -> None:
    with Api(server.url, contract) as api:
        payment = api.created(scenario)
        made: list[Transfer] = []
        seen, statuses = "", [payment["status"]]
        for what, amount in steps:
            match what:
                case "advance":
                    advance(api, amount / 1000)
                case "move":
                    move(api, payment, seconds=amount / 1000)
                case "speed":
                    api.put("/_mock/clock", json={"speed": amount})
                case "real":
                    server.clock.advance(amount / 1000)
                case "deposit":
                    observed = deposit(api, payment, amount).json()["attempts"][0]["deposits"][-1][
                        "observed_at"
                    ]
                    made.append(Transfer(milliseconds_between(payment["created_at"], observed), amount))
            shown = detail(api, payment)
            assert shown["now"] >= seen
            seen = shown["now"]
            statuses += [shown["payment"]["status"]]
        advance(api, 1000)
        final = api.payment(payment["id"])
        courses = [state.status.value for state in play(SCENARIOS[scenario], DUE, "USDC", tuple(made))]
        assert final["status"] == courses[-1]
        walked = [entry["status"] for entry in detail(api, payment)["timeline"]]
        assert walked == courses
        for before, after in pairwise(walked):
            assert before == after or (before, after) in TRANSITIONS
        assert is_within(statuses, walked)


def milliseconds_between(earlier: str, later: str) -> int:
    first, second = parse_rfc3339(earlier), parse_rfc3339(later)
    assert first is not None
    assert second is not None
    return second - first


def is_within(seen: list[str], course: list[str]) -> bool:
    """Whether the statuses that were seen come in the order of the course."""
    rest = iter(course)
    changes = [status for before, status in pairwise(["", *seen]) if status != before]
    return all(any(status == passed for passed in rest) for status in changes)


def test_every_status_can_be_named() -> None:
    assert len(PaymentStatus) == 11


def test_parallel_sandboxes_freeze_and_advance_as_they_like(
    server: RunningServer, contract: Contract
) -> None:
    """16 workers on one server, each with its own key: all see the same course, whatever the others do."""
    transcripts: list[list[str]] = []

    def work() -> None:
        with Api(server.url, contract) as api:
            api.put("/_mock/clock", json={"speed": 0})
            seen: list[str] = []
            for scenario in SCENARIOS:
                payment = api.created(scenario)
                for _ in range(25):
                    advance(api, 2)
                    seen.append(api.payment(payment["id"])["status"])
            transcripts.append(seen)

    workers = [threading.Thread(target=work) for _ in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(transcripts) == 16
    assert all(transcript == transcripts[0] for transcript in transcripts)
