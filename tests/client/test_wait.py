"""Waiting for a payment."""

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
            if isinstance(value, tuple):  # of a wait
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
            if isinstance(value, tuple):
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
