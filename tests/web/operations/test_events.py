import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.polling import wait_until
from paymock.rules.identifiers import sandbox_of
from paymock.sandbox import notifier
from paymock.sandbox.notifier import TURNS
from paymock.sandbox.sandboxes import new_metadata
from paymock.server.run import reload_keys
from paymock.settings import Settings
from paymock.stores.memory import MemoryStore
from paymock.web.app import create_applications
from paymock.web.telemetry.access_log import RequestLog
from tests.support import raw
from tests.support.client import AUTHORIZED, Api, error_of
from tests.support.clock import NOON, ManualClock
from tests.support.contract import Contract
from tests.support.server import RunningServer
from tests.support.stream import following
from tests.support.transport import Connection, turns


@pytest.fixture
def frozen(api: Api) -> Api:
    api.speed(0)
    return api


@pytest.fixture
def quiet(server: RunningServer) -> Iterator[RunningServer]:
    """The server, on which nobody waits, before and after, and on which no defect comes to light."""
    wait_until(lambda: server.app.notifier.waiting == 0)
    before = len(server.log.getvalue())
    yield server
    wait_until(lambda: server.app.notifier.waiting == 0)
    assert "defect" not in server.log.getvalue()[before:]


def watching(api: Api, path: str) -> Any:
    return following(str(api.base_url.join(path)), {"Authorization": f"Bearer {api.api_key}"})


@pytest.mark.parametrize("path", ["/_mock/events?payment_id={}", "/checkout/{}/events"])
@pytest.mark.usefixtures("quiet")
class TestBeginAndEnd:
    def test_the_reply_is_a_stream_of_events_that_nobody_keeps_and_one_line_of_the_log(
        self, frozen: Api, server: RunningServer, path: str
    ) -> None:
        with watching(frozen, path.format(frozen.created()["id"])) as stream:
            assert stream.status == 200
            assert stream.headers["content-type"] == "text/event-stream"
            assert stream.headers["cache-control"] == "no-store"
            assert stream.headers["x-accel-buffering"] == "no"
            assert "content-length" not in stream.headers
            stream.next()
            assert not stream.ended
        wait_until(lambda: server.app.notifier.waiting == 0)
        assert server.log.getvalue().count(stream.headers["x-request-id"]) == 1

    def test_the_first_event_comes_with_the_head_and_says_when_to_come_back(
        self, frozen: Api, server: RunningServer, path: str
    ) -> None:
        path = path.format(frozen.created()["id"])
        with socket.create_connection(("127.0.0.1", server.port), 60) as client:
            client.sendall(raw.request("GET", path, {"Authorization": f"Bearer {frozen.api_key}"}))
            received = b""
            while b"\n\n\r\n" not in received:
                received += client.recv(65536)
        assert b"\r\nretry: 1000\n\ndata: {" in received

    def test_clients_that_leave_are_forgotten(self, frozen: Api, server: RunningServer, path: str) -> None:
        path = path.format(frozen.created()["id"])
        with watching(frozen, path) as one, watching(frozen, path) as other:
            one.next()
            other.next()
            assert server.app.notifier.waiting == 2
        for _ in range(3):  # and neither are those that leave while something happens
            with watching(frozen, path):
                frozen.post("/_mock/clock/advance", json={"seconds": 0.001})
        wait_until(lambda: server.app.notifier.waiting == 0)

    def test_asking_for_the_head_alone_leaves_nobody_behind_and_the_connection_open(
        self, frozen: Api, server: RunningServer, path: str
    ) -> None:
        path = path.format(frozen.created()["id"])
        data = raw.request("HEAD", path, {"Authorization": f"Bearer {frozen.api_key}"})
        head, after = raw.exchange(server.port, data + raw.request("GET", "/livez"), replies=2)
        assert (head.status, head.headers["content-type"], head.body) == (200, "text/event-stream", b"")
        assert after.status == 200
        assert server.app.notifier.waiting == 0


def test_a_defect_is_logged_without_its_message(
    frozen: Api, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*args: Any) -> list[bytes | None]:
        raise RuntimeError("a secret in the message of an exception")

    monkeypatch.setattr(notifier, "RESYNC_SECONDS", 0.05)
    with watching(frozen, f"/checkout/{frozen.created()['id']}/events") as stream:
        stream.next()
        monkeypatch.setattr(server.store, "get", broken)
        stream.wait_for_end()
        wait_until(lambda: server.app.notifier.waiting == 0)
    assert f"defect in {stream.headers['x-request-id']}: RuntimeError" in server.log.getvalue()
    assert "a secret" not in server.log.getvalue()


@pytest.mark.parametrize("later", range(3))
def test_a_stream_whose_client_has_left_before_its_beginning_leaves_nobody_behind(later: int) -> None:
    metadata, log = new_metadata(NOON, 1, "tests"), RequestLog(None)
    [app] = create_applications(Settings(), MemoryStore(), metadata, ManualClock(), log)

    async def check() -> None:
        connection = Connection(app)
        connection.send(raw.request("GET", "/_mock/events", AUTHORIZED))
        await turns(later)
        connection.protocol.connection_lost(None)
        await turns(9)
        assert app.notifier.waiting == 0
        assert not connection.state.tasks

    asyncio.run(check())


def test_a_request_takes_its_turns_for_the_key_that_it_has() -> None:
    settings, metadata = Settings(api_keys=("the-key", "the-other-key")), new_metadata(NOON, 1, "tests")
    [app] = create_applications(settings, MemoryStore(), metadata, ManualClock(), RequestLog(None))

    async def check() -> None:
        connection = Connection(app)
        for key in ("the-key", "the-other-key", "the-key.name"):
            connection.send(raw.request("GET", "/v1/chains", {"Authorization": f"Bearer {key}"}))
            assert TURNS.get() == (app.notifier.turns, sandbox_of(key.removesuffix(".name")))
        connection.send(raw.request("GET", "/livez", {}))
        assert TURNS.get() == (app.notifier.turns, "")

    asyncio.run(check())


@pytest.mark.parametrize("end", ["client", "key", "server"])
def test_whatever_waits_ends_with_its_client_its_key_and_the_server(end: str, tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    settings = Settings(api_keys=("the-key", "the-other-key"))
    metadata, log = new_metadata(NOON, 1, "tests"), RequestLog(None)
    [app] = create_applications(settings, MemoryStore(), metadata, ManualClock(), log)

    async def check() -> None:
        first = Connection(app)

        def ask(
            path: str, key: str = "the-key.name", body: bytes | None = None, fault: str = ""
        ) -> Connection:
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            headers |= {"X-Mock-Fault": fault} if fault else {}
            connection = Connection(app, beside=first)
            connection.send(raw.request("POST" if body else "GET", path, headers, body))
            return connection

        ask("/_mock/faults", body=b'{"fault": "hold", "operation": "listAssets"}')
        await turns(3)
        paths = "/_mock/events", "/_mock/wait?order_id=x", "/_mock/requests/wait", "/v1/chains/bsc/assets"
        delays = "delay=1000", "delay=30000; after", "hang"
        waiting = [*map(ask, paths), *(ask("/v1/chains", fault=fault) for fault in delays)]
        other = ask("/_mock/events", "the-other-key")
        while app.notifier.waiting <= len(waiting):
            await turns(1)
        if end == "client":
            for connection in waiting:
                connection.protocol.connection_lost(None)
        elif end == "key":
            file.write_text("the-other-key")
            reload_keys(Settings(api_keys_file=file), app, log)
        else:
            app.notifier.stop()
        await turns(30)
        assert app.notifier.waiting == (end != "server")
        assert end != "key" or {connection.transport.closed for connection in waiting} == {True}
        assert not other.transport.closed

    asyncio.run(asyncio.wait_for(check(), 60))


@pytest.mark.usefixtures("quiet")
def test_requests_that_wait_get_at_most_half_of_the_connections(
    frozen: Api, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more is refused at once, on a connection that ends: others keep theirs."""
    path, observed = f"/_mock/payments/{frozen.created()['id']}", {"to": "end", "until_observed": True}
    waiting = server.app.notifier
    assert waiting.max_waiting == server.state.connections.limit // 2
    monkeypatch.setattr(waiting, "max_waiting", 1)
    for fault in ("hold", "hold; before"):
        frozen.post("/_mock/faults", json={"fault": fault, "operation": "createPayment"})
    with watching(frozen, "/_mock/events") as stream:
        stream.next()
        for reply in (
            *map(
                frozen.get,
                (f"{path}/wait", "/_mock/wait?order_id=x", "/_mock/requests/wait", "/_mock/events"),
            ),
            frozen.get(f"{path.replace('/_mock/payments', '/checkout')}/events"),
            frozen.post(f"{path}/advance", json=observed),
            *(
                httpx.get(f"{server.url}/v1/chains", headers=AUTHORIZED | {"X-Mock-Fault": fault})
                for fault in ("hang", "delay=1000", "delay=1000; after")
            ),
            *(frozen.create() for _ in range(2)),
        ):
            assert error_of(reply) == (503, "capacity_exceeded")
            assert {"retry-after": "1", "connection": "close"}.items() <= reply.headers.items()
    wait_until(lambda: server.app.notifier.waiting == 0)
    assert frozen.get(f"{path}/wait?timeout=0").status_code == 200


@pytest.mark.usefixtures("quiet")
def test_requests_that_wait_with_one_key_leave_room_for_others(
    frozen: Api, contract: Contract, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.app.notifier, "max_waiting", 3)
    path = "/_mock/requests/wait?timeout=0"
    with watching(frozen, "/_mock/events") as one, watching(frozen, "/_mock/events") as another:
        one.next()
        another.next()
        assert error_of(frozen.get(path)) == (503, "capacity_exceeded")
        with Api(server.url, contract) as other:
            assert other.get(path).status_code == 200
    wait_until(lambda: frozen.get(path).status_code == 200)


class TestFeed:
    def test_it_needs_a_key(self, server: RunningServer) -> None:
        assert error_of(httpx.get(f"{server.url}/_mock/events")) == (401, "unauthenticated")

    @pytest.mark.parametrize("query", ["x=1", "payment_id=a&payment_id=b", "limit=1", "%zz"])
    def test_a_query_that_makes_no_sense_is_refused(self, api: Api, query: str) -> None:
        assert error_of(api.get(f"/_mock/events?{query}")) == (400, "invalid_query")

    def test_it_tells_the_time_and_what_to_read_again(self, frozen: Api) -> None:
        with watching(frozen, "/_mock/events") as stream:
            started = stream.next()
            assert started == {
                "clock": {"now": "2030-01-31T12:00:00.000Z", "speed": 0.0},
                "changed": ["payments", "requests"],
                "started": started["started"],
            }
            frozen.post("/_mock/clock/advance", json={"seconds": 60})
            assert stream.next() == started | {
                "clock": {"now": "2030-01-31T12:01:00.000Z", "speed": 0.0},
                "changed": ["payments"],
            }
            frozen.get("/v1/chains")
            assert stream.next()["changed"] == ["requests"]

    def test_reading_what_it_tells_to_read_again_is_no_change(self, frozen: Api) -> None:
        """A page that reads whenever it is told must not go on for ever."""
        payment_id = frozen.created()["id"]
        with watching(frozen, f"/_mock/events?payment_id={payment_id}") as stream:
            stream.next()
            for path in ("payments", f"payments/{payment_id}", "requests", "clock"):
                assert frozen.get(f"/_mock/{path}").status_code == 200
            frozen.get("/v1/chains")
            assert stream.next()["changed"] == ["requests"]


class TestCheckout:
    def test_it_needs_no_key_and_shows_what_the_json_shows(self, frozen: Api, server: RunningServer) -> None:
        payment_id = frozen.created("underpaid_expired")["id"]
        with following(f"{server.url}/checkout/{payment_id}/events") as stream:
            assert stream.headers["access-control-allow-origin"] == "*"
            for target in ("payment_detected", "next", "next", "next", "next", "end"):
                assert stream.next() == httpx.get(f"{server.url}/checkout/{payment_id}.json").json()
                frozen.post(f"/_mock/payments/{payment_id}/advance", json={"to": target})
            assert stream.next()["headline"] == "Partially paid, and the time is up"

    def test_a_reset_ends_it_and_then_there_is_none(self, frozen: Api, server: RunningServer) -> None:
        url = f"{server.url}/checkout/{frozen.created()['id']}/events"
        with following(url) as stream:
            stream.next()
            frozen.post("/_mock/reset")
            stream.wait_for_end()
            assert stream.so_far() == []
        assert error_of(httpx.get(url)) == (404, "payment_not_found")

    def test_a_client_that_does_not_read_holds_up_nobody(self, frozen: Api, server: RunningServer) -> None:
        payment_id = frozen.created()["id"]
        path = f"/checkout/{payment_id}/events"
        with (
            socket.create_connection(("127.0.0.1", server.port), 60) as lazy,
            watching(frozen, path) as stream,
        ):
            lazy.sendall(raw.request("GET", path))
            stream.next()
            for _ in range(200):
                frozen.post("/_mock/clock/advance", json={"seconds": 0.001})
            while stream.next()["now"] != "2030-01-31T12:00:00.200Z":
                pass


def test_no_document_tells_of_them(contract: Contract) -> None:
    """A generated client, or a fuzzer, would wait for the end of the reply."""
    assert not [path for path in contract.document["paths"] if path.endswith("/events")]
