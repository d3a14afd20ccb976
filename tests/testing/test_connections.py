"""The connections of a handle, whatever becomes of them."""

import re
import select
import threading
from datetime import UTC, datetime

import pytest

from paymock.testing import Sandbox, ServerHandle, Unreachable, remote, serve
from tests.testing.strangers import CLOCK, Contested, canned, reply


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
            reply("404 Not PaymentSnapshot", "<h1>Not PaymentSnapshot</h1>"),
            reply("200 OK", "hello"),
            reply("500 Oops", "[]"),
            reply("400 Bad Request", '{"error": "what"}'),
            reply("302 PaymentSnapshot", "{}"),
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
