import json
import re
import select
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPResponse

import pytest

from paymock.client.http import Client
from paymock.client.sandbox import ROUTES
from paymock.testing import Json, Sandbox, ServerHandle, Unreachable, remote
from paymock.web.operations import control, public
from tests.client.canned_server import CLOCK, canned_server, reply
from tests.support.forks import child, forks, in_child


class TestConnections:
    def test_threads_share_a_client(self, paymock: Sandbox) -> None:
        def complete(number: int) -> str:
            payment_id = paymock.create(order_id=f"order-{number}")["id"]
            return str(paymock.advance_payment(payment_id, "completed")["order_id"])

        with ThreadPoolExecutor(8) as threads:
            assert [*threads.map(complete, range(40))] == [f"order-{number}" for number in range(40)]

    @pytest.mark.parametrize("reset", [False, True])
    def test_a_connection_that_the_server_closed_is_not_reused(self, *, reset: bool) -> None:
        closing = CLOCK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n", 1)
        with (
            canned_server(CLOCK, closing, CLOCK, reset=reset) as url,
            Sandbox(url, "mk_test_demo") as sandbox,
        ):
            for _ in range(3):
                assert sandbox.now() == datetime(2030, 1, 31, 12, tzinfo=UTC)
                sockets = [idle.sock for idle in sandbox._client.connections.idle if idle.sock]
                if sockets:
                    select.select(sockets, (), (), 10)  # until the end of stream has arrived

    def test_each_reply_is_closed_when_it_is_read(
        self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Otherwise the next request closes it in a finalizer, where an interrupt is lost."""
        getresponse, replies = HTTPConnection.getresponse, list[HTTPResponse]()

        def recorded(connection: HTTPConnection) -> HTTPResponse:
            replies.append(getresponse(connection))
            return replies[-1]

        monkeypatch.setattr(HTTPConnection, "getresponse", recorded)
        paymock.payments()
        assert [reply.closed for reply in replies] == [True]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (reply("404 Not Found", "<h1>Not Found</h1>"), "is not paymock"),
            (reply("200 OK", "hello"), "is not paymock"),
            (reply("400 Bad Request", '{"error": "what"}'), "is not paymock"),
            (reply("302 Found", "{}"), "is not paymock"),
            (reply("500 Oops", "[]"), "failed with 500"),
            (b"", "closed the connection without a reply"),
            (b"SSH-2.0\r\n", "does not speak HTTP"),
            (reply("200 OK", "{}")[:-1], "closed the connection in the middle of its reply"),
        ],
    )
    def test_a_reply_that_is_none_of_paymock_is_an_error(self, content: bytes, message: str) -> None:
        with (
            canned_server(content) as url,
            Sandbox(url, "mk_test_demo") as sandbox,
            pytest.raises(Unreachable, match=f"{url} {message}"),
        ):
            sandbox.now()

    @pytest.mark.parametrize(("header", "replayed"), [("", False), ("Idempotent-Replayed: true\r\n", True)])
    def test_a_call_tells_whether_its_reply_is_a_replay(self, header: str, *, replayed: bool) -> None:
        content = CLOCK.replace(b"\r\n", f"\r\n{header}".encode(), 1)
        with canned_server(content) as url, closing(Client(url)) as client:
            call = client.send("POST", "/v1/payments", decode=json.loads)
            call.result()
        assert call.replayed == replayed

    def test_a_missing_server_is_named(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(Unreachable, match=url), ServerHandle(url).sandbox():
            pass
        with pytest.raises(Unreachable, match=r"cannot reach http://a\.\.b"):
            Sandbox("http://a..b", "mk_test_demo").now()

    def test_an_interrupt_leaves_the_next_request(
        self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("http.client.HTTPConnection.getresponse", interrupt)
            with pytest.raises(KeyboardInterrupt):
                paymock.payments()
        assert paymock.now() == paymock.now()

    @pytest.mark.process
    @forks
    def test_processes_and_threads_do_not_disturb_each_other(self, paymock: Sandbox) -> None:
        payments = [paymock.create() for _ in range(8)]
        done = threading.Event()

        def read_all() -> list[Json]:
            with ThreadPoolExecutor(8) as pool:
                return [*pool.map(paymock.payment, [payment["id"] for payment in payments])]

        def read_in_a_thread() -> None:
            while not done.is_set():
                assert read_all() == payments

        with ThreadPoolExecutor(1) as thread:
            reading = thread.submit(read_in_a_thread)
            try:
                for _ in range(5):
                    with child(lambda: (read_all(), in_child(read_all))) as first, child(read_all) as second:
                        assert second() == payments
                        assert first() == (payments, payments)
            finally:
                done.set()
            reading.result()
        assert read_all() == payments

    def test_a_url_may_have_a_path(self) -> None:
        with canned_server(CLOCK) as url, Sandbox(f"{url}/mock/", "mk_test_demo") as sandbox:
            assert sandbox.url == f"{url}/mock"
            assert sandbox.now().year == 2030

    @pytest.mark.parametrize(
        "url",
        ["", "127.0.0.1", "ftp://127.0.0.1", "http://", "http://x:0", "http://x:99999", "http://x/?a=b"],
    )
    def test_an_invalid_url_is_refused(self, url: str) -> None:
        with pytest.raises(ValueError, match=re.escape("must be like http://127.0.0.1:8402")):
            Sandbox(url, "mk_test_demo")
        with pytest.raises(ValueError, match=re.escape("must be like http://127.0.0.1:8402")):
            remote(url)

    def test_the_repr_shows_the_url_and_no_key(self, paymock: Sandbox) -> None:
        assert repr(paymock) == f"<Sandbox of {paymock.url}>"
        assert repr(ServerHandle(paymock.url, "k")) == f"<ServerHandle on {paymock.url}>"


def test_each_operation_of_the_control_api_has_a_call() -> None:
    served = {}
    for operation in control.OPERATIONS:
        reply = operation.reply[0] if isinstance(operation.reply, tuple) else operation.reply
        served[operation.operation_id] = (operation.method, operation.path, reply and reply.__name__)
    creation = next(one for one in public.OPERATIONS if one.operation_id == "createPayment")
    served["createPayment"] = (creation.method, creation.path, "Payment")
    assert served == ROUTES
