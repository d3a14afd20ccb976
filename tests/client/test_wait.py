"""Waiting for payments, orders and requests."""

import socket
import threading
import time
from typing import Any

import pytest

from paymock.client.http import Call
from paymock.testing import NotReached, Refused, Sandbox, Unreachable, serve
from tests.client.canned_server import canned_server, wait_reply


class TestWait:
    def test_a_reached_status_returns_at_once(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        paymock.advance(45)
        assert paymock.wait(payment["id"], "payment_detected")["status"] == "completed"

    def test_a_wait_ends_when_another_thread_advances_the_clock(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        statuses: list[str] = []
        waiter = threading.Thread(
            target=lambda: statuses.append(paymock.wait(payment["id"], "completed", timeout=50)["status"]),
            daemon=True,
        )
        waiter.start()
        deadline = time.monotonic() + 20
        while waiter.is_alive() and time.monotonic() < deadline:
            paymock.advance(5)
        assert statuses == ["completed"]

    def test_a_timeout_reports_status_and_time_left(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        paymock.advance(8)
        with pytest.raises(NotReached) as caught:
            paymock.wait(payment["id"], "completed", timeout=0.01)
        assert caught.value.timed_out
        assert caught.value.payment == paymock.payment(payment["id"])
        assert str(caught.value) == (
            f"payment {payment['id']} is payment_detected after 0.01 s: completed lies 37 s ahead on "
            "a clock that stands still until it is advanced"
        )

    def test_a_timeout_on_a_running_clock_reports_its_speed(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        paymock.speed(0.5)
        with pytest.raises(NotReached, match=r"the next change lies .* on a clock that runs at speed 0\.5"):
            paymock.wait(payment["id"], timeout=0)

    def test_a_timeout_reports_that_a_deposit_is_needed(self, paymock: Sandbox) -> None:
        payment = paymock.create("no_payment_expired")
        with pytest.raises(NotReached, match="completed is not scheduled; it needs a deposit"):
            paymock.wait(payment["id"], "completed", timeout=0)

    @pytest.mark.parametrize(
        ("status", "message"),
        [("failed", "is completed: failed can no longer come"), (None, "no change is left")],
    )
    def test_a_status_that_can_no_longer_come_ends_the_wait_at_once(
        self, paymock: Sandbox, status: str | None, message: str
    ) -> None:
        payment = paymock.create()
        paymock.advance(45)
        with pytest.raises(NotReached, match=message) as caught:
            paymock.wait(payment["id"], status, timeout=600)
        assert not caught.value.timed_out

    def test_a_long_wait_takes_several_requests(
        self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("paymock.client.wait.MAX_WAIT", 0.01)
        payment = paymock.create()
        with pytest.raises(NotReached, match=r"after 0\.05 s"):
            paymock.wait(payment["id"], "completed", timeout=0.05)
        paymock.advance(2)
        paymock.speed(60)
        assert paymock.wait(payment["id"])["status"] == "payment_detected"
        assert paymock.wait(payment["id"], "completed")["status"] == "completed"

    def test_a_change_between_two_requests_is_not_missed(
        self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("paymock.client.wait.MAX_WAIT", 0.0)
        payment = paymock.create()
        result = Call.result

        def result_and_advance(call: Call[Any]) -> Any:
            value = result(call)
            if value and "reached" in value:
                paymock.advance(6)
            return value

        monkeypatch.setattr(Call, "result", result_and_advance)
        assert paymock.wait(payment["id"])["status"] == "payment_detected"
        assert paymock.wait(payment["id"], "payment_finalized")["status"] == "payment_finalized"

    @pytest.mark.parametrize("status", [None, "completed"])
    def test_a_change_at_the_deadline_counts(
        self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch, status: str | None
    ) -> None:
        payment = paymock.create()
        result = Call.result

        def result_and_advance(call: Call[Any]) -> Any:
            value = result(call)
            if value and "reached" in value:
                paymock.advance(45)
            return value

        monkeypatch.setattr(Call, "result", result_and_advance)
        assert paymock.wait(payment["id"], status, timeout=0)["status"] == "completed"

    def test_an_early_reply_is_followed_by_another_request(self) -> None:
        early, final = wait_reply("awaiting_payment", reached=False), wait_reply("completed", reached=True)
        with canned_server(early, final) as url, Sandbox(url, "mk_test_demo") as sandbox:
            assert sandbox.wait("pay_x", "completed", timeout=20)["status"] == "completed"

    def test_requests_after_early_replies_are_paused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pauses: list[float] = []
        monkeypatch.setattr("time.sleep", pauses.append)
        replies = [wait_reply("awaiting_payment", reached=False)] * 20
        with (
            canned_server(*replies, b"") as url,
            Sandbox(url, "mk_test_demo") as sandbox,
            pytest.raises(Unreachable),  # after the last canned reply
        ):
            sandbox.wait("pay_x", "completed", timeout=20)
        assert pauses == [0.1] * 20

    def test_a_stopped_server_is_unreachable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sent, caught = threading.Event(), list[Any]()
        result = Call.result

        def result_after_event(call: Call[Any]) -> Any:
            sent.set()
            return result(call)

        def wait_for_completion() -> None:
            with pytest.raises(Unreachable, match=r"cannot reach|closed the connection") as unreachable:
                sandbox.wait(payment["id"], "completed", timeout=50)
            caught.append(unreachable)

        with serve() as server, Sandbox(server.url, "mk_test_demo") as sandbox:
            sandbox.freeze()
            payment = sandbox.create()
            monkeypatch.setattr(Call, "result", result_after_event)
            waiter = threading.Thread(target=wait_for_completion, daemon=True)
            waiter.start()
            assert sent.wait(10)
        waiter.join(20)
        assert len(caught) == 1

    def test_a_silent_server_is_unreachable_soon_after_the_timeout(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("paymock.client.wait.GRACE_PERIOD", 0.05)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            started = time.monotonic()
            with pytest.raises(Unreachable, match=f"{url} does not answer"):
                Sandbox(url, "mk_test_demo").wait("pay_x", timeout=0.05)
            assert time.monotonic() - started < 20

    @pytest.mark.parametrize(
        ("timeout", "error"), [(None, TypeError), ("20", TypeError), (float("nan"), ValueError)]
    )
    def test_an_invalid_timeout_is_refused(
        self, paymock: Sandbox, timeout: Any, error: type[Exception]
    ) -> None:
        with pytest.raises(error, match=f"^timeout must be .*, not {timeout!r}$"):
            paymock.wait("pay_x", timeout=timeout)

    def test_an_unknown_status_is_refused(self, paymock: Sandbox) -> None:
        with pytest.raises(Refused, match="400 invalid_query: status must be one of"):
            paymock.wait(paymock.create()["id"], "paid")


class Worker:
    """An application that polls its payment in a thread until it is final."""

    def __init__(self, paymock: Sandbox, payment_id: str) -> None:
        self.seen: list[str] = []
        self._reader = Sandbox(paymock.url, paymock.api_key)
        self._thread = threading.Thread(target=self._poll, args=(payment_id,), daemon=True)
        self._thread.start()

    def _poll(self, payment_id: str) -> None:
        with self._reader:
            while "completed" not in self.seen:
                payment = self._reader._call("GET", f"/v1/payments/{payment_id}")
                if self.seen[-1:] != [payment["status"]]:
                    self.seen.append(payment["status"])

    def join(self) -> None:
        self._thread.join(20)


class TestWaitingForTheApplication:
    def test_a_worker_sees_every_status_in_order(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        worker = Worker(paymock, payment["id"])
        final = paymock.advance_payment(payment["id"], "completed", until_observed=True, timeout=20)
        worker.join()
        assert final["status"] == "completed"
        assert [*filter("awaiting_payment".__ne__, worker.seen)] == [
            "payment_detected",
            "payment_finalized",
            "settlement_pending",
            "settlement_submitted",
            "completed",
        ]

    def test_a_change_that_nobody_reads_is_reported(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        with pytest.raises(NotReached, match="has not read that after 0 s") as caught:
            paymock.advance_payment(payment["id"], "end", until_observed=True, timeout=0)
        assert caught.value.payment == paymock.payment(payment["id"])
        assert caught.value.payment["status"] == "payment_detected"

    def test_an_observation_takes_at_most_a_minute(self, paymock: Sandbox) -> None:
        with pytest.raises(ValueError, match="timeout must be at most 60"):
            paymock.advance_payment("pay_x", "end", until_observed=True, timeout=61)

    def test_an_order_is_waited_for_before_it_exists(self, paymock: Sandbox) -> None:
        found: list[Any] = []
        waiter = threading.Thread(
            target=lambda: found.append(paymock.wait_for("order-7", "completed", timeout=20)), daemon=True
        )
        waiter.start()
        payment = paymock.create(order_id="order-7")
        paymock.advance(45)
        waiter.join(20)
        assert [one["id"] for one in found] == [payment["id"]]
        assert paymock.wait_for("order-7", "payment_detected")["status"] == "completed"

    def test_an_order_that_does_not_come_is_reported(self, paymock: Sandbox) -> None:
        with pytest.raises(NotReached, match=r"^order order-7: it has no payment after 0 s$") as caught:
            paymock.wait_for("order-7", timeout=0)
        assert (caught.value.payment, caught.value.timed_out) == (None, True)
        payment = paymock.create(order_id="order-7")
        message = f"^order order-7: payment {payment['id']} is awaiting_payment after 0 s$"
        with pytest.raises(NotReached, match=message):
            paymock.wait_for("order-7", "completed", timeout=0)
        paymock.advance(45)
        with pytest.raises(NotReached, match="failed can no longer come") as caught:
            paymock.wait_for("order-7", "failed", timeout=600)
        assert not caught.value.timed_out

    def test_a_long_wait_for_an_order_takes_several_requests(
        self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("paymock.client.wait.MAX_WAIT", 0.0)
        result = Call.result

        def result_and_create(call: Call[Any]) -> Any:
            value = result(call)
            if value and "reached" in value:
                paymock.create(order_id="order-7")
            return value

        monkeypatch.setattr(Call, "result", result_and_create)
        assert paymock.wait_for("order-7")["status"] == "awaiting_payment"

    def test_requests_are_waited_for(self, paymock: Sandbox) -> None:
        payment = paymock.create(order_id="order-7")
        [creation] = paymock.wait_for_requests(operation="createPayment", order_id="order-7", timeout=20)
        assert creation["payment_id"] == payment["id"]
        worker = Worker(paymock, payment["id"])
        first = paymock.wait_for_requests(3, operation="getPayment", payment_id=payment["id"], timeout=20)
        assert len(first) >= 3
        paymock.advance(45)
        shown = paymock.wait_for_requests(shown="completed", after=creation["request_id"], timeout=20)
        assert {entry["shown"] for entry in shown} == {"completed"}
        worker.join()

    def test_requests_that_do_not_come_are_reported(self, paymock: Sandbox) -> None:
        paymock.create()
        message = r"^0 of 2 requests with operation=getPayment, shown=completed after 0 s$"
        with pytest.raises(NotReached, match=message) as caught:
            paymock.wait_for_requests(2, operation="getPayment", shown="completed", timeout=0)
        assert caught.value.timed_out
        with pytest.raises(NotReached, match=r"^1 of 2 requests after 0 s$"):
            paymock.wait_for_requests(2, timeout=0)

    @pytest.mark.parametrize(("count", "error"), [(0, ValueError), (True, TypeError), ("1", TypeError)])
    def test_an_invalid_count_is_refused(self, paymock: Sandbox, count: Any, error: type[Exception]) -> None:
        with pytest.raises(error, match=r"^count must be"):
            paymock.wait_for_requests(count)

    def test_unknown_operations_and_statuses_are_refused(self, paymock: Sandbox) -> None:
        with pytest.raises(Refused, match="400 invalid_query: operation must be one of"):
            paymock.wait_for_requests(operation="getPayments")
        with pytest.raises(Refused, match="400 invalid_query: status must be one of"):
            paymock.wait_for("order-7", "paid")
