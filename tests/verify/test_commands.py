import shlex
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from harness.polling import wait_until
from harness.process_info import is_running
from paymock.verify import commands
from paymock.verify.commands import Caller, CallFailed, NotStarted, application_of, parse_count, running

ENVIRONMENT = {"PAYMOCK_URL": "http://127.0.0.1:8402", "PAYMOCK_API_KEY": "mk_test_1"}
LONG = 30.0
"""Seconds that no test takes."""

WRITE_PIDS = "echo $$ $! > pids.new; mv pids.new pids"
"""Of the application and its child."""


class Shop(ThreadingHTTPServer):
    """Answers with the last segment of the path, which can be a status; and keeps its requests. `/starting`
    is answered with 503 twice.
    """

    class Handler(BaseHTTPRequestHandler):
        server: "Shop"

        def do_GET(self) -> None:
            self.server.requests.append((self.command, self.path))
            answer = self.path.rpartition("/")[2]
            if answer == "starting" and len(self.server.requests) < 3:
                answer = "503"
            self.send_response(int(answer) if answer in ("404", "500", "503") else 200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer.encode())

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names of http.server

        def log_message(self, *_: object) -> None:
            pass

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.requests: list[tuple[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def shop() -> Iterator[Shop]:
    with Shop() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def silent_url() -> str:
    """A URL on whose port nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}/health"


@pytest.mark.process
class TestCommands:
    def test_it_gets_the_order_and_the_sandbox_and_no_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PAYMOCK_API_KEY", "another")
        monkeypatch.setenv("GREETING", "hello")
        call = partial(
            Caller(ENVIRONMENT).call, 'cat; echo "$GREETING <$ORDER_ID> $PAYMOCK_URL $PAYMOCK_API_KEY"'
        )
        assert call("order 1") == "hello <order 1> http://127.0.0.1:8402 mk_test_1\n"
        assert call() == "hello <> http://127.0.0.1:8402 mk_test_1\n"  # a tick has no order

    def test_an_order_id_in_it_is_one_word_whatever_it_is(self) -> None:
        for order_id in ("", "a b", "$HOME", "$(id)", "'; exit 7; '", '"; exit 7; "', "a\nexit 7", "é"):
            assert Caller({}).call("printf '<%s>' {order_id}", order_id) == f"<{order_id}>"

    def test_it_can_be_a_script_and_its_messages_do_not_count(self) -> None:
        assert Caller({}).call("for n in 1 2\ndo echo $n\ndone | tail -n 1; echo warning >&2", "x") == "2\n"

    def test_output_that_is_no_text_is_read_all_the_same(self) -> None:
        assert Caller({}).call("printf '1\\377'", "x") == "1\ufffd"

    @pytest.mark.parametrize(
        ("command", "message"),
        [
            ("exit 3", "exit 3: exit status 3"),
            ("echo one >&2; echo two >&2; false", ": exit status 1: two"),
            ("kill -9 $$", "kill -9 $$: exit status -9"),
        ],
    )
    def test_a_failure_is_told_with_the_last_message(self, command: str, message: str) -> None:
        with pytest.raises(CallFailed) as failed:
            Caller({}).call(command, "x")
        assert message in str(failed.value)

    def test_one_that_hangs_has_failed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(commands, "_CALL_SECONDS", 0.05)
        with pytest.raises(CallFailed, match=r"sleep 30: .* timed out after 0\.05 seconds"):
            Caller({}).call("exec sleep 30", "x")

    def test_one_that_cannot_be_run_has_failed(self) -> None:
        with pytest.raises(CallFailed, match="Argument list too long"):
            Caller({"HUGE": "x" * 10_000_000}).call("true", "x")


class TestRequests:
    def test_the_answer_is_the_result(self, shop: Shop) -> None:
        methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        for method in methods:
            assert Caller({}).call(f" {method}  {shop.url}/deliveries/{{order_id}}\n", "order-1") == "order-1"
        assert shop.requests == [(method, "/deliveries/order-1") for method in methods]

    def test_an_order_id_is_quoted(self, shop: Shop) -> None:
        Caller({}).call(f"POST {shop.url}/orders?a={{order_id}}&b={{order_id}}", "a/b &c?é")
        [(_, path)] = shop.requests
        assert path == "/orders?a=a%2Fb%20%26c%3F%C3%A9&b=a%2Fb%20%26c%3F%C3%A9"

    @pytest.mark.parametrize("status", [404, 500])
    def test_another_status_than_2xx_is_a_failure(self, shop: Shop, status: int) -> None:
        with pytest.raises(CallFailed) as failed:
            Caller({}).call(f"POST {shop.url}/{status}", "x")
        assert str(failed.value) == f"POST {shop.url}/{status}: status {status}"

    def test_no_answer_is_a_failure(self, silent_url: str) -> None:
        with pytest.raises(CallFailed) as failed:
            Caller({}).call(f"GET {silent_url}", "x")
        assert str(failed.value).startswith(f"GET {silent_url}: [Errno ")

    def test_a_wrong_url_is_a_failure(self) -> None:
        with pytest.raises(CallFailed, match="nonnumeric port: 'abc'"):
            Caller({}).call("GET http://127.0.0.1:abc/", "x")


class TestBudget:
    def test_a_request_may_take_ten_seconds_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        send = mock.Mock(return_value="1")
        monkeypatch.setattr(commands, "_send", send)
        with application_of("GET http://127.0.0.1/", "echo 1", None, {}, 5.0) as shop:
            shop.order("x")
        *_, seconds = send.call_args.args
        assert seconds <= 15

    def test_nothing_is_called_after_it(self, shop: Shop, tmp_path: Path) -> None:
        late: Any = (f"touch {tmp_path}/late", f"GET {shop.url}/1", f"touch {tmp_path}/late", {}, -10.0)
        with application_of(*late) as application:
            for call in (
                application.order,
                application.deliveries,
                lambda _: application.tick and application.tick(),
            ):
                with pytest.raises(CallFailed, match="not run, since the budget has ended"):
                    call("x")
        assert (shop.requests, [*tmp_path.iterdir()]) == ([], [])


class TestCounts:
    @pytest.mark.parametrize(
        ("text", "count"),
        [("0", 0), ("1\n", 1), (" 12 \r\n", 12), ("007", 7), ("true", 1), ("False\n", 0), ('"1"', 1)],
    )
    def test_a_count_is_an_integer_or_a_truth_value(self, text: str, count: int) -> None:
        assert parse_count(text) == count

    @pytest.mark.parametrize(
        "text", ["", "-1", "1.0", "1 2", "1\n2", "one", "null", "yes", '{"count": 1}', "\u0661", "9" * 10]
    )
    def test_all_else_is_none(self, text: str) -> None:
        with pytest.raises(CallFailed) as failed:
            parse_count(text)
        assert str(failed.value) == f"an integer, true or false must be printed or answered, not {text!r}"

    def test_a_long_answer_is_cut(self) -> None:
        with pytest.raises(CallFailed) as failed:
            parse_count("<html>" + 1000 * "x")
        assert str(failed.value).endswith(" not '<html>" + 94 * "x" + "...'")


class TestApplication:
    @pytest.mark.process
    def test_it_is_called_by_commands_and_requests(self, shop: Shop, tmp_path: Path) -> None:
        orders = tmp_path / "orders"
        with application_of(
            f"echo {{order_id}} $PAYMOCK_API_KEY >> {shlex.quote(str(orders))}",
            f"GET {shop.url}/deliveries/2",
            f"POST {shop.url}/poll",
            ENVIRONMENT,
        ) as application:
            application.order("order-1")
            assert application.deliveries("order-1") == 2
            assert application.tick is not None
            application.tick()
        assert orders.read_text() == "order-1 mk_test_1\n"
        assert [path for _, path in shop.requests] == ["/deliveries/2", "/poll"]

    @pytest.mark.process
    def test_with_a_tick_one_call_comes_after_the_other(self) -> None:
        with application_of("true", "echo 1", "true", {}) as application:
            assert application.executor.submit(threading.get_ident).result() == threading.get_ident()
            failed = application.executor.submit(application.order, "x\0y")
            assert isinstance(failed.exception(), ValueError)

    def test_without_a_tick_calls_run_side_by_side(self) -> None:
        met = threading.Barrier(2)
        with application_of("true", "echo 1", None, {}) as application:
            assert application.tick is None
            calls = [application.executor.submit(met.wait, LONG) for _ in range(2)]
            assert sorted(call.result() for call in calls) == [0, 1]

    @pytest.mark.process
    @pytest.mark.parametrize("tick", [None, "true"])
    def test_a_hanging_command_is_killed_with_its_children(self, tmp_path: Path, tick: str | None) -> None:
        pids = tmp_path / "pids"
        command = f"sleep 60 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait"
        with application_of(command, "echo 1", tick, {}) as application:
            thread = threading.Thread(
                target=lambda: application.executor.submit(application.order, "order-1")
            )
            thread.start()
            wait_until(pids.exists)
        thread.join()
        wait_until(lambda: not any(is_running(int(pid)) for pid in pids.read_text().split()))


@pytest.mark.process
class TestRunning:
    def test_it_waits_until_the_application_is_ready(self, shop: Shop) -> None:
        with running("exec sleep 60", {}, f"{shop.url}/starting", LONG):
            assert len(shop.requests) == 3

    def test_it_gets_the_sandbox_and_no_input(self, tmp_path: Path) -> None:
        written = tmp_path / "written"
        command = f'cat; echo "$PAYMOCK_URL" > {written}.new; mv {written}.new {written}; sleep 60'
        with running(command, ENVIRONMENT, None, LONG):
            wait_until(written.exists)
        assert written.read_text() == "http://127.0.0.1:8402\n"

    @pytest.mark.parametrize(
        ("command", "message"),
        [
            ("exit 7", "the application ended with exit status 7 before it was ready."),
            (
                "echo out; echo error >&2; printf 'a\\377b'; exit 1",
                "with exit status 1 before it was ready.\nIts last output:\nout\nerror\na\ufffdb",
            ),
            (
                "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); echo line $i; done; exit 1",
                "Its last output:\n" + "\n".join(f"line {number}" for number in range(4981, 5001)),
            ),
        ],
    )
    def test_an_early_end_is_told_with_output(self, silent_url: str, command: str, message: str) -> None:
        with pytest.raises(NotStarted) as failed, running(command, {}, silent_url, LONG):
            pass
        assert str(failed.value).endswith(message)

    def test_another_one_that_answers_is_told(self, shop: Shop, tmp_path: Path) -> None:
        url, started = f"{shop.url}/health", tmp_path / "started"
        message = rf"{url} answers already, .*: is one running\?"
        with pytest.raises(NotStarted, match=message), running(f"touch {started}", {}, url, LONG):
            pass
        assert not started.exists()

    @pytest.mark.parametrize("url", ["{shop}/404", "{shop}/500", "http://127.0.0.1:abc/", "127.0.0.1:8000"])
    def test_who_does_not_answer_with_2xx_did_not_start(self, shop: Shop, url: str) -> None:
        url = url.format(shop=shop.url)
        with (
            pytest.raises(NotStarted) as failed,
            running("exec sleep 60", {}, url, 0.1),
        ):
            pass
        assert str(failed.value).startswith(f"the application has not answered {url} with 2xx within 0.1 s.")

    @pytest.mark.parametrize(
        ("command", "error"),
        [
            *((f"sleep 60 & {WRITE_PIDS}; wait", error) for error in (None, RuntimeError, KeyboardInterrupt)),
            (f"trap '' TERM; (while :; do sleep 60; done) & {WRITE_PIDS}; wait", None),
            (f"sleep 60 & {WRITE_PIDS}", None),
        ],
    )
    def test_it_ends_the_application_and_its_children_in_every_case(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, error: type[BaseException] | None
    ) -> None:
        monkeypatch.setattr(commands, "_STOP_SECONDS", 0.1)
        pids = tmp_path / "pids"
        start = f"cd {shlex.quote(str(tmp_path))}; {command}"
        with pytest.raises(error) if error else nullcontext(), running(start, {}, None, LONG):
            wait_until(pids.exists)
            if error:
                raise error
        processes = [int(pid) for pid in pids.read_text().split()]
        assert len(processes) == 2
        wait_until(lambda: not any(map(is_running, processes)))

    def test_an_interrupt_ends_what_was_being_started(self, monkeypatch: pytest.MonkeyPatch) -> None:
        started: list[subprocess.Popen[bytes]] = []

        def interrupted(*arguments: Any, **settings: Any) -> subprocess.Popen[bytes]:
            started.append(start(*arguments, **settings))
            signal.raise_signal(signal.SIGINT)
            return started[0]

        start = subprocess.Popen
        monkeypatch.setattr(subprocess, "Popen", interrupted)
        with pytest.raises(KeyboardInterrupt), running("exec sleep 60", {}, None, LONG):
            pytest.fail("the interrupt was lost")
        assert started[0].returncode == -signal.SIGTERM
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
