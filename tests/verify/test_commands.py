import shlex
import threading
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from harness.polling import wait_until
from harness.process_info import is_running
from paymock.verify import commands
from paymock.verify.commands import Caller, CallFailed, backend_of, parse_count
from tests.verify.endpoint import Endpoint

ENVIRONMENT = {"PAYMOCK_URL": "http://127.0.0.1:8402", "PAYMOCK_API_KEY": "mk_test_1"}
NO_COUNTS = [
    "", "-1", "1.0", "1 2", "1\n2", "one", "null", "yes", '{"count": 1}', "\u0661", "9" * 10, "x" * 1000,
]  # fmt: skip
LONG = 30.0
"""Seconds that no test takes."""


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
    def test_the_answer_is_the_result(self, shop: Endpoint) -> None:
        methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        for method in methods:
            assert Caller({}).call(f" {method}  {shop.url}/deliveries/{{order_id}}\n", "order-1") == "order-1"
        assert shop.requests == [(method, "/deliveries/order-1") for method in methods]

    def test_an_order_id_is_quoted(self, shop: Endpoint) -> None:
        Caller({}).call(f"POST {shop.url}/orders?a={{order_id}}&b={{order_id}}", "a/b &c?é")
        [(_, path)] = shop.requests
        assert path == "/orders?a=a%2Fb%20%26c%3F%C3%A9&b=a%2Fb%20%26c%3F%C3%A9"

    @pytest.mark.parametrize(
        ("url", "message"),
        [
            *((f"{{shop}}/{status}", f"status {status}") for status in (404, 500)),
            ("{silent}", "[Errno "),
            ("http://127.0.0.1:abc/", "nonnumeric port: 'abc'"),
        ],
    )
    def test_all_but_2xx_is_a_failure(self, shop: Endpoint, silent_url: str, url: str, message: str) -> None:
        url = url.format(shop=shop.url, silent=silent_url)
        with pytest.raises(CallFailed) as failed:
            Caller({}).call(f"POST {url}", "x")
        assert str(failed.value).startswith(f"POST {url}: {message}")


class TestBudget:
    def test_a_request_may_take_ten_seconds_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        send = mock.Mock(return_value="1")
        monkeypatch.setattr(commands, "_send", send)
        with backend_of("GET http://127.0.0.1/", "echo 1", None, {}, 5.0) as shop:
            shop.order("x")
        *_, seconds = send.call_args.args
        assert seconds <= 15

    def test_nothing_is_called_after_it(self, shop: Endpoint, tmp_path: Path) -> None:
        late: Any = (f"touch {tmp_path}/late", f"GET {shop.url}/1", f"touch {tmp_path}/late", {}, -10.0)
        with backend_of(*late) as application:
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

    @pytest.mark.parametrize("text", NO_COUNTS)
    def test_all_else_is_none(self, text: str) -> None:
        with pytest.raises(ValueError, match="must be") as failed:
            parse_count(text)
        shown = text if len(text) <= 100 else f"{text[:100]}..."
        assert str(failed.value) == f"an integer, true or false must be printed or answered, not {shown!r}"


class TestApplication:
    @pytest.mark.process
    def test_it_is_called_by_commands_and_requests(self, shop: Endpoint, tmp_path: Path) -> None:
        orders = tmp_path / "orders"
        with backend_of(
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
        with backend_of("true", "echo 1", "true", {}) as application:
            assert application.executor.submit(threading.get_ident).result() == threading.get_ident()
            failed = application.executor.submit(application.order, "x\0y")
            assert isinstance(failed.exception(), ValueError)

    def test_without_a_tick_calls_run_side_by_side(self) -> None:
        met = threading.Barrier(2)
        with backend_of("true", "echo 1", None, {}) as application:
            assert application.tick is None
            calls = [application.executor.submit(met.wait, LONG) for _ in range(2)]
            assert sorted(call.result() for call in calls) == [0, 1]

    @pytest.mark.process
    @pytest.mark.parametrize("tick", [None, "true"])
    def test_a_hanging_command_is_killed_with_its_children(self, tmp_path: Path, tick: str | None) -> None:
        pids = tmp_path / "pids"
        command = f"sleep 60 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait"
        with backend_of(command, "echo 1", tick, {}) as application:
            thread = threading.Thread(
                target=lambda: application.executor.submit(application.order, "order-1")
            )
            thread.start()
            wait_until(pids.exists)
        thread.join()
        wait_until(lambda: not any(is_running(int(pid)) for pid in pids.read_text().split()))
