import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from paymock.client.http import Call
from paymock.testing import Json, NotReached, Refused, Sandbox, Unreachable
from tests.client.canned_server import canned_server, wait_reply

FROZEN = "; the clock is frozen: advance it"


def after_each_reply(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    result = Call.result

    def result_and_action(call: Call[Any]) -> Any:
        value = result(call)
        if value and "reached" in value:
            action()
        return value

    monkeypatch.setattr(Call, "result", result_and_action)


def read(paymock: Sandbox, payment: Json) -> Json:
    headers = {"Authorization": f"Bearer {paymock.api_key}"}
    found: Json = httpx.get(f"{paymock.url}/v1/payments/{payment['id']}", headers=headers).json()
    return found


class TestWait:
    def test_a_reached_status_returns_at_once(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        paymock.advance(45)
        assert paymock.wait(payment["id"], "payment_detected")["status"] == "completed"

    def test_a_timeout_reports_status_and_time_left(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        paymock.advance(8)
        with pytest.raises(NotReached) as caught:
            paymock.wait(payment["id"], "completed", timeout=0.01)
        assert caught.value.timed_out
        assert caught.value.payment == paymock.payment(payment["id"])
        stands = f"the payment of order {payment['order_id']} is payment_detected"
        assert str(caught.value) == f"{stands}; awaited: completed, 37 s ahead{FROZEN}"
        paymock.speed(0.5)
        with pytest.raises(NotReached, match=r"the next change, .* s ahead; the clock runs at speed 0\.5$"):
            paymock.wait(payment["id"], timeout=0)
        unpaid = paymock.create("no_payment_expired")
        with pytest.raises(NotReached, match="awaited: completed, which needs a deposit; the clock runs"):
            paymock.wait(unpaid["id"], "completed", timeout=0)

    def test_a_status_that_can_no_longer_come_ends_the_wait_at_once(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        paymock.advance(45)
        for status, awaited in (("failed", "failed"), (None, "the next change")):
            message = f"is completed; awaited: {awaited}, which can no longer come$"
            with pytest.raises(NotReached, match=message) as caught:
                paymock.wait(payment["id"], status, timeout=600)
            assert not caught.value.timed_out

    def test_a_change_between_requests_counts(
        self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("paymock.client.sandbox.MAX_WAIT", 0.0)
        payment = paymock.create()
        after_each_reply(monkeypatch, lambda: paymock.advance(6))
        assert paymock.wait(payment["id"])["status"] == "payment_detected"
        assert paymock.wait(payment["id"], "payment_finalized")["status"] == "payment_finalized"

    def test_an_early_reply_is_followed_by_another_request(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pauses: list[float] = []
        monkeypatch.setattr("time.sleep", pauses.append)
        early, final = wait_reply("awaiting_payment", reached=False), wait_reply("completed", reached=True)
        with canned_server(*[early] * 5, final) as url, Sandbox(url, "mk_test_demo") as sandbox:
            assert sandbox.wait("pay_x", "completed", timeout=600)["status"] == "completed"
        assert pauses == [0.1] * 5

    def test_a_silent_server_is_unreachable_in_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("paymock.client.sandbox.GRACE_PERIOD", 0.05)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            with pytest.raises(Unreachable, match=f"{url} does not answer"):
                Sandbox(url, "mk_test_demo").wait("pay_x", timeout=0.05)


class TestWaitingForTheApplication:
    def test_a_change_that_nobody_reads_is_reported(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        with pytest.raises(NotReached, match="; awaited: that the application reads it") as caught:
            paymock.advance_payment(payment["id"], "end", until_observed=True, timeout=0)
        assert caught.value.payment == paymock.payment(payment["id"])
        assert caught.value.payment["status"] == "payment_detected"
        with pytest.raises(Refused, match="timeout: must be a number, at least 0 and at most 60"):
            paymock.advance_payment(payment["id"], "end", until_observed=True, timeout=61)

    def test_an_order_is_waited_for_before_it_exists(self, paymock: Sandbox) -> None:
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(paymock.wait_for, "order-7", "completed", timeout=60)
            payment = paymock.create(order_id="order-7")
            paymock.advance(45)
            assert waiting.result()["id"] == payment["id"]
        assert paymock.wait_for("order-7", "payment_detected")["status"] == "completed"

    def test_an_order_that_does_not_come_is_reported(self, paymock: Sandbox) -> None:
        message = f"^the order has no payment; awaited: a payment{FROZEN}$"
        with pytest.raises(NotReached, match=message) as caught:
            paymock.wait_for("order-7", timeout=0)
        assert (caught.value.payment, caught.value.timed_out) == (None, True)
        payment = paymock.create(order_id="order-7")
        assert paymock.wait_for("order-7", timeout=0) == payment
        paymock.advance(45)
        with pytest.raises(NotReached, match="awaited: failed, which can no longer come") as caught:
            paymock.wait_for("order-7", "failed", timeout=600)
        assert not caught.value.timed_out

    def test_requests_are_waited_for(self, paymock: Sandbox) -> None:
        payment = paymock.create(order_id="order-7")
        [creation] = paymock.wait_for_requests(operation="createPayment", order_id="order-7", timeout=20)
        assert creation["payment_id"] == payment["id"]
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(paymock.wait_for_requests, 2, shown="completed", timeout=60)
            paymock.advance(45)
            for _ in range(2):
                read(paymock, payment)
            assert [entry["shown"] for entry in waiting.result()] == ["completed"] * 2
        [last] = paymock.wait_for_requests(after=waiting.result()[1]["request_id"], timeout=20)
        assert last == waiting.result()[0]

    def test_requests_that_do_not_come_are_reported(self, paymock: Sandbox) -> None:
        paymock.create()
        message = f"^0 of 2 awaited requests with operation=getPayment, shown=completed have come{FROZEN}$"
        with pytest.raises(NotReached, match=message) as caught:
            paymock.wait_for_requests(2, operation="getPayment", shown="completed", timeout=0)
        assert caught.value.timed_out
        with pytest.raises(NotReached, match=r"^1 of 2 awaited requests have come"):
            paymock.wait_for_requests(2, timeout=0)
