"""Waiting for a payment."""

import socket
import threading
import time
from typing import Any

import pytest

from paymock.client.http import Call
from paymock.testing import NotReached, Refused, Sandbox, Unreachable, serve
from tests.testing.strangers import canned, outcome


class TestWait:
    def test_what_has_been_reached_is_there_at_once(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        paymock.advance(45)
        assert paymock.wait(payment["id"], "payment_detected")["status"] == "completed"

    def test_it_wakes_when_another_thread_moves_time(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        seen: list[str] = []
        waiting = threading.Thread(
            target=lambda: seen.append(paymock.wait(payment["id"], "completed", timeout=50)["status"]),
            daemon=True,
        )
        waiting.start()
        give_up = time.monotonic() + 20
        while waiting.is_alive() and time.monotonic() < give_up:
            paymock.advance(5)
        assert seen == ["completed"]

    def test_a_timeout_says_where_the_payment_stood_and_why(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        paymock.advance(8)
        with pytest.raises(NotReached) as caught:
            paymock.wait(payment["id"], "completed", timeout=0.01)
        assert caught.value.timed_out
        assert caught.value.payment == paymock.payment(payment["id"])
        assert str(caught.value) == (
            f"payment {payment['id']} is payment_detected after 0.01 s: completed lies 37 s ahead on a clock "
            "that stands still until it is advanced"
        )

    def test_a_slow_clock_is_told_from_one_that_stands_still(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        paymock.speed(0.5)
        with pytest.raises(NotReached, match=r"the next change lies .* on a clock that runs at speed 0\.5"):
            paymock.wait(payment["id"], timeout=0)

    def test_what_only_a_deposit_brings_is_told_from_what_lies_ahead(self, paymock: Sandbox) -> None:
        payment = paymock.create("no_payment_expired")
        with pytest.raises(NotReached, match="completed does not come by itself, only when somebody pays"):
            paymock.wait(payment["id"], "completed", timeout=0)

    @pytest.mark.parametrize(
        ("status", "message"),
        [("failed", "is completed: failed can no longer come"), (None, "nothing changes any more")],
    )
    def test_what_can_no_longer_come_is_not_waited_for(
        self, paymock: Sandbox, status: str | None, message: str
    ) -> None:
        payment = paymock.create()
        paymock.advance(45)
        with pytest.raises(NotReached, match=message) as caught:
            paymock.wait(payment["id"], status, timeout=600)
        assert not caught.value.timed_out

    def test_a_long_wait_is_made_of_several(self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("paymock.client.wait.LONGEST_WAIT", 0.01)
        payment = paymock.create()
        with pytest.raises(NotReached, match=r"after 0\.05 s"):
            paymock.wait(payment["id"], "completed", timeout=0.05)
        paymock.advance(2)
        paymock.speed(60)
        assert paymock.wait(payment["id"])["status"] == "payment_detected"
        assert paymock.wait(payment["id"], "completed")["status"] == "completed"

    def test_no_change_is_lost_between_two_requests(
        self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("paymock.client.wait.LONGEST_WAIT", 0.0)
        payment = paymock.create()
        result = Call.result

        def moving(call: Call[Any]) -> Any:
            found = result(call)
            if isinstance(found, tuple):  # the outcome of a wait
                paymock.advance(6)
            return found

        monkeypatch.setattr(Call, "result", moving)
        assert paymock.wait(payment["id"])["status"] == "payment_detected"
        assert paymock.wait(payment["id"], "payment_finalized")["status"] == "payment_finalized"

    @pytest.mark.parametrize("status", [None, "completed"])
    def test_what_comes_in_the_last_moment_counts(
        self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch, status: str | None
    ) -> None:
        payment = paymock.create()
        result = Call.result

        def moving(call: Call[Any]) -> Any:
            found = result(call)
            if isinstance(found, tuple):
                paymock.advance(45)
            return found

        monkeypatch.setattr(Call, "result", moving)
        assert paymock.wait(payment["id"], status, timeout=0)["status"] == "completed"

    def test_a_server_that_answers_too_early_is_asked_again(self) -> None:
        early, at_last = outcome("awaiting_payment", reached=False), outcome("completed", reached=True)
        with canned(early, at_last) as url, Sandbox(url, "mk_test_demo") as sandbox:
            assert sandbox.wait("pay_x", "completed", timeout=20)["status"] == "completed"

    def test_but_not_without_a_pause(self) -> None:
        replies = [outcome("awaiting_payment", reached=False)] * 20
        with canned(*replies, b"") as url, Sandbox(url, "mk_test_demo") as sandbox:
            started = time.monotonic()
            with pytest.raises(Unreachable):  # when all replies have been given
                sandbox.wait("pay_x", "completed", timeout=20)
        assert time.monotonic() - started > 1

    def test_a_server_that_stops_is_unreachable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked, caught = threading.Event(), list[Any]()
        result = Call.result

        def telling(call: Call[Any]) -> Any:
            asked.set()
            return result(call)

        def work() -> None:
            with pytest.raises(Unreachable, match=r"cannot reach|closed the connection") as unreachable:
                sandbox.wait(payment["id"], "completed", timeout=50)
            caught.append(unreachable)

        with serve() as server, Sandbox(server.url, "mk_test_demo") as sandbox:
            sandbox.freeze()
            payment = sandbox.create()
            monkeypatch.setattr(Call, "result", telling)
            waiting = threading.Thread(target=work, daemon=True)
            waiting.start()
            assert asked.wait(10)
        waiting.join(20)
        assert len(caught) == 1

    def test_a_server_that_says_nothing_is_not_waited_for_much_longer(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("paymock.client.wait.GRACE", 0.05)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            started = time.monotonic()
            with pytest.raises(Unreachable, match=f"{url} does not answer"):
                Sandbox(url, "mk_test_demo").wait("pay_x", timeout=0.05)
            assert time.monotonic() - started < 20

    @pytest.mark.parametrize(
        ("timeout", "error"), [(None, TypeError), ("20", TypeError), (float("nan"), ValueError)]
    )
    def test_a_timeout_that_is_none_is_explained(
        self, paymock: Sandbox, timeout: Any, error: type[Exception]
    ) -> None:
        with pytest.raises(error, match=f"^timeout is a number of seconds, not {timeout!r}$"):
            paymock.wait("pay_x", timeout=timeout)

    def test_a_status_that_is_none_is_refused(self, paymock: Sandbox) -> None:
        with pytest.raises(Refused, match="400 invalid_query: status must be one of"):
            paymock.wait(paymock.create()["id"], "paid")
