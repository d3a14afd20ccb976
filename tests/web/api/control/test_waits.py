"""Waiting for a payment."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from harness.polling import wait_until
from tests.support.client import Api, error_of
from tests.support.contract import Contract, Json
from tests.support.server import RunningServer
from tests.web.api.control.steps import advance, deposit, move


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
            while thread.is_alive():
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

    def test_a_deposit_wakes_who_waits_for_what_only_a_deposit_brings(
        self, api: Api, server: RunningServer, contract: Contract
    ) -> None:
        payment = api.created("no_payment_expired")
        with Api(server.url, contract, api.api_key) as waiting, ThreadPoolExecutor(1) as thread:
            result = thread.submit(self.wait, waiting, payment, status="payment_detected", timeout=30)
            wait_until(lambda: server.app.waiting == 1)
            deposit(api, payment, 1)
            assert result.result(timeout=60) == (True, "payment_detected")

    def test_it_comes_when_the_clock_gets_there(self, contract: Contract, tmp_path: Any) -> None:
        from harness.server_process import server_process

        with server_process(tmp_path, "--speed", "60") as served, Api(served.url, contract) as api:
            payment = api.created()
            started = time.monotonic()
            assert self.wait(api, payment, status="completed", timeout=10) == (True, "completed")
            assert time.monotonic() - started > 0.6

    @pytest.mark.parametrize(
        "timeout",
        ["0", "-0", "0.0", "00.5", "1e-320", "5E-1", "0.011251024631147464", "5e-324", "0." + "1" * 9_000],
    )
    def test_any_decimal_number_of_seconds_is_a_timeout(self, api: Api, timeout: str) -> None:
        reply = api.get(f"/_mock/payments/{api.created()['id']}/wait?status=completed&timeout={timeout}")
        assert (reply.status_code, reply.json()["reached"]) == (200, False)

    @pytest.mark.parametrize(
        "timeout",
        [
            "nan",
            "inf",
            "Infinity",
            "1e999",
            "-1e-9",
            "60.1",
            "9" * 400,
            "1e2",
            ".5",
            "5.",
            "1_0",
            "0x1",
            "%2B1",
            "1%20",
            "",
        ],
    )
    def test_what_is_no_number_in_the_range_is_no_timeout(self, api: Api, timeout: str) -> None:
        reply = api.get(f"/_mock/payments/{api.created()['id']}/wait?timeout={timeout}")
        assert error_of(reply) == (400, "invalid_query")

    @pytest.mark.parametrize("query", ["status=done", "timeout=61", "timeout=-1", "timeout=soon", "x=1"])
    def test_a_wait_that_makes_no_sense_is_refused(self, api: Api, query: str) -> None:
        payment = api.created()
        assert error_of(api.get(f"/_mock/payments/{payment['id']}/wait?{query}")) == (400, "invalid_query")


class TestWaitForTheApplication:
    def test_an_order_is_waited_for(self, api: Api) -> None:
        query = {"order_id": "order-1001", "status": "payment_detected", "timeout": "0"}
        assert api.get("/_mock/wait", params=query).json() == {
            "reached": False,
            "possible": True,
            "payment": None,
        }
        payment = api.created()
        move(api, payment, to="payment_detected")
        result = api.get("/_mock/wait", params=query).json()
        assert (result["reached"], result["payment"]["id"]) == (True, payment["id"])

    def test_requests_are_waited_for(self, api: Api) -> None:
        payment = api.created()
        created = api.get("/_mock/requests/wait").json()["data"][0]
        assert (created["operation"], created["order_id"], created["shown"], created["fault"]) == (
            "createPayment",
            "order-1001",
            "awaiting_payment",
            None,
        )
        query = {"after": created["request_id"], "payment_id": payment["id"], "timeout": "0"}
        assert api.get("/_mock/requests/wait", params=query).json() == {"reached": False, "data": []}
        api.payment(payment["id"])
        api.head(f"/v1/payments/{payment['id']}")
        advance(api, 7.5)
        api.get(f"/v1/payments/{payment['id']}/attempts")
        entries = api.get("/_mock/requests/wait", params=query).json()["data"]
        assert [(entry["operation"], entry["shown"], entry["shown_offset_seconds"]) for entry in entries] == [
            ("listAttempts", "payment_detected", 7),
            ("getPayment", None, None),
            ("getPayment", "awaiting_payment", 0),
        ]

    @pytest.mark.parametrize(
        "path",
        [
            "wait", "wait?order_id=", "wait?order_id=a&status=paid", "wait?order_id=a&timeout=61",
            "requests/wait?count=0", "requests/wait?count=1001", "requests/wait?operation=getPayments",
            "requests/wait?shown=paid", "requests/wait?after=", "requests/wait?order_id=",
            "requests/wait?payment_id=", "requests/wait?timeout=-1", "requests/wait?x=1",
        ],
    )  # fmt: skip
    def test_a_wait_that_makes_no_sense_is_refused(self, api: Api, path: str) -> None:
        assert error_of(api.get(f"/_mock/{path}")) == (400, "invalid_query")

    def test_a_client_that_leaves_stops_the_advance(self, api: Api, server: RunningServer) -> None:
        payment = api.created()
        with pytest.raises(httpx.ReadTimeout):
            api.post(
                f"/_mock/payments/{payment['id']}/advance",
                json={"to": "completed", "until_observed": True},
                timeout=0.2,
            )
        wait_until(lambda: server.app.waiting == 0)
        for _ in range(3):
            assert api.payment(payment["id"])["status"] == "payment_detected"
