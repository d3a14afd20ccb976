"""The handle on a sandbox, the server in a thread, and the pytest fixtures, as a test suite uses them."""

import json
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from paymock.client import Call
from paymock.core.catalog import CatalogError
from paymock.server import Server, StartError
from paymock.settings import SettingsError
from paymock.testing import NotReached, Refused, Sandbox, ServerHandle, Unreachable, remote, serve
from tests.support.process import environment, serving

pytest_plugins = ["pytester"]

DUE = 1_010_000_000_000_000_000


@pytest.fixture(autouse=True)
def no_server_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAYMOCK_URL", raising=False)
    monkeypatch.delenv("PAYMOCK_API_KEY", raising=False)


@contextmanager
def canned(*replies: bytes, abruptly: bool = False) -> Iterator[str]:
    """The URL of a server that gives each connection one reply and closes it, or breaks it off."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            for reply in replies:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(65_536)
                    connection.sendall(reply)
                    if abruptly:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def reply(status: str, body: str) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


CLOCK = reply("200 OK", '{"now": "2030-01-31T12:00:00.000Z", "speed": 0.0}')


def outcome(status: str, *, reached: bool) -> bytes:
    """The reply to a wait for something that can come."""
    payment = {"id": "pay_x", "status": status}
    body = json.dumps({"reached": reached, "possible": True, "payment": payment})
    return reply("200 OK\r\nConnection: close", body)


class Contested(list[Any]):
    """A list whose last item another thread always takes in the moment between a look and a pop."""

    def __bool__(self) -> bool:
        return True


class TestTime:
    def test_it_stands_still_until_it_is_moved(self, paymock: Sandbox) -> None:
        before = paymock.now()
        assert before.tzinfo == UTC
        assert paymock.now() == before
        assert paymock.advance(45.5) == before + timedelta(seconds=45.5)
        assert paymock.now() == before + timedelta(seconds=45.5)

    def test_it_is_near_real_time_at_first(self, paymock: Sandbox) -> None:
        assert abs(datetime.now(UTC) - paymock.now()) < timedelta(minutes=1)

    def test_it_can_run_and_be_frozen_again(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        paymock.speed(1000)
        assert paymock.wait(payment["id"], "completed")["status"] == "completed"
        paymock.freeze()
        assert paymock.now() == paymock.now()

    def test_one_payment_goes_ahead(self, paymock: Sandbox) -> None:
        first, second = paymock.create(), paymock.create()
        assert paymock.advance_payment(first["id"], seconds=13)["status"] == "payment_finalized"
        assert paymock.advance_payment(first["id"], "next")["status"] == "settlement_pending"
        assert paymock.advance_payment(first["id"], to="completed")["status"] == "completed"
        assert paymock.payment(second["id"]) == second

    def test_what_does_not_lie_ahead_is_refused(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        with pytest.raises(Refused, match=f"POST /_mock/payments/{payment['id']}/advance") as caught:
            paymock.advance_payment(payment["id"], to="failed")
        assert (caught.value.status, caught.value.code) == (409, "status_unreachable")
        assert caught.value.details == []
        with pytest.raises(Refused, match="give either seconds or to"):
            paymock.advance_payment(payment["id"])


class TestPayments:
    def test_a_payment_is_created_with_what_it_needs(self, paymock: Sandbox) -> None:
        first, second = paymock.create(), paymock.create()
        assert first["status"] == "awaiting_payment"
        assert first["attempts"][0]["instructions"]["amounts"]["due"] == str(DUE)
        assert (first["receive"]["chain"], first["receive"]["asset"]) == ("bsc", "USDT")
        assert first["order_id"] != second["order_id"]

    def test_or_with_what_a_test_wants(self, paymock: Sandbox) -> None:
        payment = paymock.create(
            "no_payment_expired", amount=5, chain="base", asset="USDC", order_id="a", metadata={"b": 1}
        )
        assert payment["receive"] | {"address": ""} == {
            "chain": "base",
            "asset": "USDC",
            "amount": "5",
            "address": "",
        }
        assert (payment["order_id"], payment["metadata"]) == ("a", {"b": 1})
        assert paymock.advance_payment(payment["id"], "end")["status"] == "expired"

    def test_the_same_key_replays(self, paymock: Sandbox) -> None:
        first = paymock.create(order_id="a", idempotency_key="order-a-payment")
        paymock.advance(45)
        assert paymock.create(order_id="a", idempotency_key="order-a-payment") == first
        with pytest.raises(Refused, match="409 idempotency_key_reused_with_different_payload"):
            paymock.create(order_id="b", idempotency_key="order-a-payment")

    def test_the_same_key_alone_is_a_retry(self, paymock: Sandbox) -> None:
        first = paymock.create("late_payment", idempotency_key="order-a-payment")
        assert paymock.create("late_payment", idempotency_key="order-a-payment") == first
        other = paymock.create(idempotency_key="order-b-payment")
        assert other["order_id"] != first["order_id"]
        with pytest.raises(Refused, match="400 idempotency_key_"):
            paymock.create(idempotency_key="")

    def test_a_refused_body_says_what_is_wrong_with_each_field(self, paymock: Sandbox) -> None:
        with pytest.raises(Refused) as caught:
            paymock.create(amount="1.5", order_id="")
        assert (caught.value.status, caught.value.code) == (422, "validation_failed")
        assert [problem["field"] for problem in caught.value.details] == ["order_id", "receive.amount"]
        assert "\n  receive.amount: must " in str(caught.value)
        assert caught.value.message in str(caught.value)

    def test_they_are_listed_newest_first(self, paymock: Sandbox) -> None:
        created = [paymock.create(order_id=f"order-{number}") for number in range(201)]
        listed = [payment["id"] for payment in paymock.payments()]
        assert listed == [payment["id"] for payment in created[::-1]]

    def test_they_are_found_by_what_they_are(self, paymock: Sandbox) -> None:
        paid, expiring = paymock.create(order_id="a"), paymock.create("no_payment_expired", order_id="b")
        paid = paymock.advance_payment(paid["id"], "completed")
        [found] = paymock.payments(status="completed")
        assert found == {**paid, "scenario": "happy_path", "age_seconds": 45}
        [found_too] = paymock.payments(scenario="no_payment_expired")
        assert found_too == {**expiring, "scenario": "no_payment_expired", "age_seconds": 0}
        assert paymock.payments(order_id="a") == [found]
        assert paymock.payments(order_id="a", status="failed") == []

    def test_two_deposits_fund_one(self, paymock: Sandbox) -> None:
        payment = paymock.create("no_payment_expired")
        assert paymock.deposit(payment["id"], DUE // 2)["status"] == "payment_detected"
        paymock.deposit(payment["id"], str(DUE // 2), "USDT")
        paymock.advance(8)
        assert paymock.payment(payment["id"])["status"] == "payment_finalized"

    def test_a_deposit_in_another_asset_is_rejected(self, paymock: Sandbox) -> None:
        payment = paymock.create("no_payment_expired")
        paymock.deposit(payment["id"], DUE, asset="BNB")
        assert paymock.advance_payment(payment["id"], "next")["status"] == "manual_review"

    @pytest.mark.parametrize("payment_id", ["pay_unknown", "../clock", "pay_a?b=c#d", ".."])
    def test_an_unknown_payment_is_refused(self, paymock: Sandbox, payment_id: str) -> None:
        with pytest.raises(Refused, match="404"):
            paymock.payment(payment_id)

    def test_a_payment_in_place_of_its_id_is_explained(self, paymock: Sandbox) -> None:
        payment: Any = paymock.create()
        with pytest.raises(TypeError, match="by its id, a string, not by dict"):
            paymock.payment(payment)

    def test_an_empty_id_is_explained(self, paymock: Sandbox) -> None:
        with pytest.raises(ValueError, match="by its id, like pay_0123, not by an empty string"):
            paymock.payment("")


class TestOverridesAndRequests:
    def test_the_next_creations_take_a_scenario(self, paymock: Sandbox) -> None:
        assert paymock.next(scenario="settlement_failed", times=2) == [
            {"scenario": "settlement_failed", "fault": None, "times": 2}
        ]
        ends = [paymock.advance_payment(paymock.create()["id"], "end")["status"] for _ in range(3)]
        assert ends == ["failed", "failed", "completed"]

    def test_a_standing_scenario_stays(self, paymock: Sandbox) -> None:
        paymock.next("no_payment_expired", times=None)
        ends = [paymock.advance_payment(paymock.create()["id"], "end")["status"] for _ in range(3)]
        assert ends == ["expired"] * 3

    def test_a_fault_is_met_once_and_the_retry_replays(self, paymock: Sandbox) -> None:
        paymock.next(fault="drop")
        with pytest.raises(Unreachable, match=f"{paymock.url} closed the connection without a reply"):
            paymock.create(order_id="a", idempotency_key="order-a-payment")
        payment = paymock.create(order_id="a", idempotency_key="order-a-payment")
        assert [found["id"] for found in paymock.payments()] == [payment["id"]]
        retry, first = paymock.requests()
        assert (first["status"], retry["status"], retry["idempotency"]) == (0, 201, "replayed")

    def test_only_the_applications_requests_are_in_the_journal(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        paymock.payment(payment["id"])
        paymock.payments()
        paymock.advance(5)
        assert [request["path"] for request in paymock.requests()] == ["/v1/payments"]

    def test_a_reset_forgets_everything_but_that_time_stands_still(self, paymock: Sandbox) -> None:
        paymock.create()
        paymock.next("no_payment_expired", times=None)
        later = paymock.advance(86_400)
        paymock.reset()
        assert (paymock.payments(), paymock.requests()) == ([], [])
        assert paymock.now() == paymock.now() < later
        paymock.speed(1)
        paymock.reset()
        assert paymock.wait(paymock.create()["id"], "awaiting_payment", timeout=0)
        before = paymock.now()
        time.sleep(0.002)
        assert paymock.now() > before


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
        monkeypatch.setattr("paymock.waiting.LONGEST_WAIT", 0.01)
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
        monkeypatch.setattr("paymock.waiting.LONGEST_WAIT", 0.0)
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
        monkeypatch.setattr("paymock.waiting.GRACE", 0.05)
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


class TestConnections:
    def test_threads_share_a_handle(self, paymock: Sandbox) -> None:
        found: list[str] = []

        def work() -> None:
            for _ in range(20):
                payment = paymock.create()
                found.append(paymock.advance_payment(payment["id"], "completed")["id"])

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {payment["id"] for payment in paymock.payments(status="completed")} == set(found)
        assert len(found) == 160

    def test_a_handle_is_of_use_after_it_was_closed(self, paymock: Sandbox) -> None:
        paymock.close()
        assert paymock.payments() == []

    @pytest.mark.parametrize("abruptly", [False, True])
    def test_a_connection_that_the_server_closed_is_not_used_again(self, *, abruptly: bool) -> None:
        closing = CLOCK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n", 1)
        with canned(CLOCK, closing, CLOCK, abruptly=abruptly) as url, Sandbox(url, "mk_test_demo") as sandbox:
            for _ in range(3):
                assert sandbox.now() == datetime(2030, 1, 31, 12, tzinfo=UTC)
                kept = [idle.sock for idle in sandbox._client._idle if idle.sock]
                if kept:
                    select.select(kept, (), (), 10)  # until the end of the stream has arrived

    @pytest.mark.parametrize(
        "answer",
        [
            reply("404 Not Found", "<h1>Not Found</h1>"),
            reply("200 OK", "hello"),
            reply("500 Oops", "[]"),
            reply("400 Bad Request", '{"error": "what"}'),
            reply("302 Found", "{}"),
        ],
    )
    def test_another_server_at_the_url_is_recognized(self, answer: bytes) -> None:
        with (
            canned(answer) as url,
            Sandbox(url, "mk_test_demo") as sandbox,
            pytest.raises(Unreachable, match=f"what answers at {url} is not paymock|broke off with 500"),
        ):
            sandbox.now()

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (b"", "closed the connection without a reply"),
            (b"SSH-2.0\r\n", "does not speak HTTP"),
            (reply("200 OK", "{}")[:-1], "closed the connection in the middle of its reply"),
        ],
    )
    def test_a_broken_reply_is_no_reply(self, answer: bytes, message: str) -> None:
        with (
            canned(answer) as url,
            Sandbox(url, "mk_test_demo") as sandbox,
            pytest.raises(Unreachable, match=message),
        ):
            sandbox.now()

    def test_a_server_that_is_not_there_is_named(self) -> None:
        with serve() as server:
            url = server.url
        with pytest.raises(Unreachable, match=url), ServerHandle(url).sandbox():
            pass

    def test_a_host_that_is_no_name_is_named(self) -> None:
        with pytest.raises(Unreachable, match=r"cannot reach http://a\.\.b"):
            Sandbox("http://a..b", "mk_test_demo").now()

    def test_another_thread_may_take_the_last_connection(self, paymock: Sandbox) -> None:
        paymock.close()
        paymock._client._idle = Contested()
        assert paymock.now() == paymock.now()
        paymock.close()

    def test_an_interrupted_request_spoils_no_other(
        self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("http.client.HTTPConnection.getresponse", interrupt)
            with pytest.raises(KeyboardInterrupt):
                paymock.payments()
        assert paymock.now() == paymock.now()

    def test_a_url_may_have_a_path(self) -> None:
        with canned(CLOCK) as url, Sandbox(f"{url}/mock/", "mk_test_demo") as sandbox:
            assert sandbox.url == f"{url}/mock"
            assert sandbox.now().year == 2030

    @pytest.mark.parametrize("url", ["", "127.0.0.1:8402", "ftp://127.0.0.1", "http://", "redis://x:1"])
    def test_what_is_no_url_of_a_server_is_refused(self, url: str) -> None:
        with pytest.raises(ValueError, match=re.escape("is like http://127.0.0.1:8402, not")):
            Sandbox(url, "mk_test_demo")
        with pytest.raises(ValueError, match=re.escape("is like http://127.0.0.1:8402, not")):
            remote(url)

    def test_a_handle_shows_where_it_leads_and_no_key(self, paymock: Sandbox) -> None:
        assert repr(paymock) == f"<Sandbox of {paymock.url}>"
        assert repr(ServerHandle(paymock.url, ["k"])) == f"<ServerHandle on {paymock.url}>"


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


class TestServe:
    def test_it_answers_during_the_block_only(self) -> None:
        with serve() as server, Sandbox(server.url, "mk_test_demo") as sandbox:
            assert sandbox.payments() == []
        with pytest.raises(Unreachable):
            sandbox.payments()

    def test_it_starts_from_any_thread_and_touches_no_signal(self) -> None:
        seen: list[object] = []
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = [signal.getsignal(number) for number in numbers]
        others = set(threading.enumerate())

        def work() -> None:
            with serve() as server, server.sandbox() as sandbox:
                seen.append(sandbox.payments())

        thread = threading.Thread(target=work)
        thread.start()
        with serve() as server, server.sandbox():
            assert [signal.getsignal(number) for number in numbers] == before
        thread.join()
        assert seen == [[]]
        assert [signal.getsignal(number) for number in numbers] == before
        assert set(threading.enumerate()) == others

    def test_it_takes_the_settings_of_a_server(self) -> None:
        with serve(fee_bps=0, speed=60) as server, Sandbox(server.url, "mk_test_demo") as sandbox:
            amounts = sandbox.create(amount="7")["attempts"][0]["instructions"]["amounts"]
            assert amounts == {"due": "8", "settlement": "7", "fee": "1"}
            assert sandbox.wait(sandbox.create()["id"], "payment_detected", timeout=5)

    def test_a_seed_makes_it_reproducible(self) -> None:
        ids = []
        for _ in range(2):
            with serve(seed="demo") as server, Sandbox(server.url, "mk_test_demo") as sandbox:
                ids.append(sandbox.create(idempotency_key="order-1001-payment")["id"])
        assert ids[0] == ids[1]

    def test_settings_that_cannot_be_served_are_refused(self) -> None:
        with pytest.raises(SettingsError, match="would let anybody in"), serve(host="0.0.0.0"):
            pass
        with pytest.raises(TypeError, match="speeed"), serve(speeed=1):
            pass
        with pytest.raises(SettingsError, match="writes no ready file"), serve(ready_file=Path("ready.json")):
            pass
        with pytest.raises(CatalogError, match=r"/nope\.toml"), serve(catalog="/nope.toml"):
            pass
        with (
            serve() as server,
            pytest.raises(StartError, match="is in use"),
            serve(port=int(server.url.rpartition(":")[2])),
        ):
            pass

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_failing_start_is_an_error_and_no_hang(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def fail(*_: object) -> None:
            raise OSError("no more")

        monkeypatch.setattr(Server, "startup", fail)
        with pytest.raises(StartError, match="did not start"), serve():
            pass

    def test_it_says_nothing_unless_it_is_asked_to(self, capsys: pytest.CaptureFixture[str]) -> None:
        with serve() as server, server.sandbox() as sandbox:
            sandbox.create()
        assert capsys.readouterr() == ("", "")
        with serve(access_log=True) as server, server.sandbox() as sandbox:
            sandbox.create()
        assert "POST  /v1/payments" in capsys.readouterr().err

    def test_without_control_it_says_what_is_missing(self) -> None:
        with (
            serve(control=False) as server,
            pytest.raises(Refused, match=r"404 not_found: .*with --no-control has no control API"),
            server.sandbox(),
        ):
            pass


class TestServerHandle:
    def test_every_sandbox_is_fresh_and_alone(self) -> None:
        with serve() as server, server.sandbox() as one, server.sandbox() as other:
            one.create()
            one.advance(100)
            assert one.api_key != other.api_key
            assert (len(one.payments()), other.payments()) == (1, [])
            assert one.now() - other.now() > timedelta(seconds=99)

    def test_what_a_sandbox_held_is_forgotten_at_its_end(self) -> None:
        with serve() as server:
            with server.sandbox() as sandbox:
                sandbox.create()
            with Sandbox(server.url, sandbox.api_key) as again:
                assert again.payments() == []

    def test_a_configured_key_is_reset_and_used_by_one_at_a_time(self) -> None:
        with serve(api_keys=("first-key", "second-key")) as server:
            with Sandbox(server.url, "second-key") as sandbox:
                sandbox.create()
                sandbox.next("manual_review")
                sandbox.advance(10_000)
            with server.sandbox() as one, server.sandbox() as other:
                assert {one.api_key, other.api_key} == {"first-key", "second-key"}
                assert one.payments() == other.payments() == []
                assert abs(datetime.now(UTC) - one.now()) < timedelta(minutes=1)
                with pytest.raises(RuntimeError, match="a key is for one at a time"), server.sandbox():
                    pass
            with ExitStack() as stack:
                for _ in range(2):
                    stack.enter_context(server.sandbox())

    def test_another_thread_may_take_the_last_key(self, paymock: Sandbox) -> None:
        handle = ServerHandle(paymock.url, ["first-key"])
        handle._free = Contested()
        with pytest.raises(RuntimeError, match="a key is for one at a time"), handle.sandbox():
            pass

    def test_a_key_is_free_again_after_a_failure(self) -> None:
        with serve(api_keys=("first-key",)) as server:
            handle = ServerHandle(server.url, ["first-key"])
            for _ in range(2):
                with pytest.raises(ZeroDivisionError), handle.sandbox():
                    raise ZeroDivisionError

    def test_a_server_that_wants_a_key_says_how_to_give_one(self) -> None:
        with (
            serve(api_keys=("first-key",)) as server,
            pytest.raises(Refused) as caught,
            remote(server.url).sandbox(),
        ):
            pass
        assert caught.value.status == 401
        assert "PAYMOCK_API_KEY" in caught.value.__notes__[0]

    def test_the_environment_names_a_server_elsewhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with serve(api_keys=("first-key", "second-key")) as server:
            monkeypatch.setenv("PAYMOCK_URL", server.url + "/")
            monkeypatch.setenv("PAYMOCK_API_KEY", "first-key, second-key,,first-key")
            handle = remote()
            assert handle.url == server.url
            with handle.sandbox() as one, handle.sandbox() as other:
                assert {one.api_key, other.api_key} == {"first-key", "second-key"}
                with pytest.raises(RuntimeError, match="a key is for one at a time"), handle.sandbox():
                    pass


Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest in a process of its own, with the plugins that are named and no others."""
    for name in environment().keys() ^ environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1").keys():
        monkeypatch.setenv(name, "1")

    def run(test: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(test)
        options = ("-p", "paymock", "-p", "no:cacheprovider", "-W", "error", "-rf")
        return pytester.runpytest_subprocess(*options, *arguments, timeout=60)

    return run


SANDBOX_EACH = """
    import pytest

    seen = set()

    @pytest.mark.parametrize("number", range(12))
    def test_it_is_fresh(paymock, paymock_server, number):
        assert paymock.url == paymock_server.url
        assert paymock.api_key not in seen
        seen.add(paymock.api_key)
        assert paymock.payments() == paymock.requests() == []
        payment = paymock.create(order_id="the same everywhere")
        before = paymock.now()
        paymock.advance(number + 1)
        assert (paymock.now() - before).total_seconds() == number + 1
        paymock.next("manual_review", times=None)
        assert paymock.payments()[0]["id"] == payment["id"]
"""
CRASH = """
    import os

    import pytest

    @pytest.mark.parametrize("number", range(4))
    def test_it_lives(paymock, number):
        assert paymock.payments() == []
        if number == 1 and os.environ["PYTEST_XDIST_WORKER"] == "gw0":
            os._exit(9)
"""
KEY_OF_ITS_OWN = """
    import pytest

    @pytest.mark.parametrize("number", range(8))
    def test_nobody_disturbs(paymock, number):
        assert paymock.api_key in ("first-key", "second-key")
        assert paymock.payments() == []
        before = paymock.now()
        for step in range(20):
            paymock.create()
            paymock.advance(1)
        assert len(paymock.payments()) == 20
        assert (paymock.now() - before).total_seconds() == 20
"""


class TestFixtures:
    def test_each_test_has_a_fresh_sandbox(self, run: Run) -> None:
        run(SANDBOX_EACH).assert_outcomes(passed=12)

    def test_workers_of_xdist_have_a_server_each(self, run: Run) -> None:
        result = run(SANDBOX_EACH, "-p", "xdist", "-n", "3")
        result.assert_outcomes(passed=12)
        result.stdout.fnmatch_lines(["*3 workers*"])

    def test_workers_can_share_a_server(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        with serve() as server:
            monkeypatch.setenv("PAYMOCK_URL", server.url)
            check = f"\n    def test_it_is_the_one(paymock):\n        assert paymock.url == {server.url!r}\n"
            run(SANDBOX_EACH + check, "-p", "xdist", "-n", "3").assert_outcomes(passed=13)

    @pytest.mark.parametrize("workers", ["0", "2"])
    def test_workers_share_out_the_keys(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, workers: str
    ) -> None:
        with serve(api_keys=("first-key", "second-key")) as server:
            monkeypatch.setenv("PAYMOCK_URL", server.url)
            monkeypatch.setenv("PAYMOCK_API_KEY", "first-key,second-key")
            run(KEY_OF_ITS_OWN, "-p", "xdist", "-n", workers).assert_outcomes(passed=8)

    def test_fewer_keys_than_workers_is_an_error_that_explains(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PAYMOCK_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("PAYMOCK_API_KEY", "first-key")
        test = (
            "import pytest\n\n@pytest.mark.parametrize('x', range(8))\ndef test_it(x, paymock_server): pass"
        )
        result = run(test, "-p", "xdist", "-n", "2", "--dist", "load")
        assert result.ret == 1
        result.stdout.fnmatch_lines(["2 workers need as many API keys, and PAYMOCK_API_KEY has 1: *"])

    def test_a_worker_that_replaces_another_takes_no_key_that_is_in_use(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keys = ("first-key", "second-key", "third-key")
        with serve(api_keys=keys) as server:
            monkeypatch.setenv("PAYMOCK_URL", server.url)
            monkeypatch.setenv("PAYMOCK_API_KEY", ",".join(keys))
            result = run(CRASH, "-p", "xdist", "-n", "2", "--dist", "each")
        result.assert_outcomes(passed=5, failed=1, errors=2)
        result.stdout.fnmatch_lines(["the API keys *for the workers gw0, gw1; *, gw2, replaces one*"])

    def test_workers_with_names_of_their_own_are_explained(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PAYMOCK_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("PAYMOCK_API_KEY", "first-key,second-key")
        workers = ("--tx", "popen//id=alpha", "--dist", "each")
        result = run("def test_it(paymock_server): pass", "-p", "xdist", *workers)
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["*for the workers gw0; this worker, alpha, *or was given a name"])

    def test_a_key_that_is_given_twice_is_for_one_worker(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PAYMOCK_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("PAYMOCK_API_KEY", "first-key,first-key")
        result = run("def test_it(paymock_server): pass", "-p", "xdist", "-n", "2", "--dist", "each")
        result.assert_outcomes(passed=1, errors=1)

    @pytest.mark.parametrize(
        "line",
        [
            "paymock.deposit('pay_x', 1)",
            "paymock.wait('pay_x', timeout=None)",
            "paymock.wait(paymock.create('no_payment_expired')['id'], timeout=0)",
            "type(paymock)('http://127.0.0.1:9', 'k').now()",
            "paymock.payment('')",
        ],
    )
    def test_a_failure_is_shown_with_the_line_of_the_test_alone(self, run: Run, line: str) -> None:
        result = run(f"def test_it(paymock):\n    {line}")
        result.assert_outcomes(failed=1)
        assert len(re.findall(r"^\S+\.py:\d+: ", result.stdout.str(), re.MULTILINE)) == 1
        result.stdout.fnmatch_lines([f">   *{line.replace('[', '[[]')}", "test_*.py:2: *"])
        result.stdout.no_fnmatch_line("*paymock*.py*")

    def test_a_server_that_wants_a_key_is_explained(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        with serve(api_keys=("first-key",)) as server:
            monkeypatch.setenv("PAYMOCK_URL", server.url)
            result = run("def test_it(paymock): pass")
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["*401 unauthenticated*", "*keys in PAYMOCK_API_KEY*"])

    def test_a_project_can_have_a_server_of_its_own(self, run: Run) -> None:
        result = run("""
            import pytest
            from paymock.testing import Sandbox, serve

            @pytest.fixture(scope="session")
            def paymock_server():
                with serve(fee_bps=0) as server:
                    yield server

            def test_it_is_used(paymock: Sandbox):
                assert paymock.create(amount="7")["attempts"][0]["instructions"]["amounts"]["fee"] == "1"
        """)
        result.assert_outcomes(passed=1)

    def test_other_variables_have_no_say(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in (("API_KEY", "first-key"), ("PORT", "1"), ("SPEED", "x"), ("NO_CONTROL", "1")):
            monkeypatch.setenv(f"PAYMOCK_{name}", value)
        run(SANDBOX_EACH).assert_outcomes(passed=12)

    def test_they_are_documented(self, run: Run) -> None:
        result = run("", "--fixtures")
        result.stdout.fnmatch_lines(
            ["paymock_server [[]session scope[]]*", "*A paymock server*", "paymock -- *", "*A sandbox of*"]
        )


class TestNothingToPayFor:
    def test_a_run_that_does_not_use_it_imports_nothing_of_it(self, pytester: pytest.Pytester) -> None:
        pytester.makepyfile("""
            import sys

            def test_it():
                assert "_paymock_pytest" in sys.modules
                assert not {"paymock", "uvicorn", "msgspec", "http.client"} & set(sys.modules)
        """)
        others = ["anyio", "hypothesispytest", "schemathesis", "xdist", "xdist.looponfail", "pytest_cov"]
        options = [part for name in others for part in ("-p", f"no:{name}")]
        pytester.runpytest_subprocess(*options, timeout=60).assert_outcomes(passed=1)

    def test_the_plugin_imports_nothing_that_pytest_does_not(self) -> None:
        script = "import pytest, sys; before = set(sys.modules); import _paymock_pytest; "
        script += "print(set(sys.modules) - before)"
        found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert found.stdout == "{'_paymock_pytest'}\n"

    def test_a_sandbox_elsewhere_needs_the_standard_library_alone(self, tmp_path: Path) -> None:
        script = (
            "import sys; from paymock.testing import remote; s = remote().sandbox(); s.__enter__().create();"
        )
        script += "s.__exit__(None, None, None); roots = {name.partition('.')[0] for name in sys.modules};"
        script += "print(roots & {'uvicorn', 'msgspec', 'click', 'httptools', 'Crypto', 'yaml'})"
        with serving(tmp_path) as served:
            command = [sys.executable, "-W", "error", "-c", script]
            variables = environment(PAYMOCK_URL=served.url)
            found = subprocess.run(command, capture_output=True, text=True, check=True, env=variables)
        assert found.stdout == "set()\n"
