"""Requests that wait: how they end, and how many may."""

import asyncio
import io
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from harness.polling import wait_until
from paymock.rules.identifiers import sandbox_of
from paymock.sandbox.owner_limits import MAX_LARGE_REPLIES
from paymock.sandbox.scheduler import SCHEDULER
from paymock.server.run import reload_keys
from paymock.settings import ApplicationSettings, Settings
from paymock.stores.memory import MemoryStore
from paymock.web.telemetry.access_log import RequestLog
from tests.support import raw
from tests.support.client import AUTHORIZED, Api, error_of, order
from tests.support.clock import ManualClock
from tests.support.contract import Contract
from tests.support.server import RunningServer, applications
from tests.support.transport import Connection, turns

SETTINGS = Settings(api_keys=("the-key", "the-other-key"))


@pytest.fixture
def quiet(server: RunningServer) -> Iterator[RunningServer]:
    """The server, on which nobody waits, before and after, and on which no defect comes to light."""
    wait_until(lambda: server.app.notifier.waiting == 0)
    before = len(server.log.getvalue())
    yield server
    wait_until(lambda: server.app.notifier.waiting == 0)
    assert "defect" not in server.log.getvalue()[before:]


@contextmanager
def waiting(api: Api, server: RunningServer, number: int) -> Iterator[None]:
    """So many requests of a key wait within the block; they are given up at its end."""
    data = raw.request(
        "GET", "/_mock/requests/wait?timeout=60&count=99", {"Authorization": f"Bearer {api.api_key}"}
    )
    with ExitStack() as stack:
        for _ in range(number):
            address = "127.0.0.1", server.port
            stack.enter_context(socket.create_connection(address, 60)).sendall(data)
        wait_until(lambda: server.app.notifier.waiting == number)
        yield


def test_a_request_takes_its_turns_for_the_key_that_it_has() -> None:
    [app] = applications(SETTINGS, MemoryStore(), ManualClock(), io.StringIO())

    async def check() -> None:
        connection = Connection(app)
        for key in ("the-key", "the-other-key", "the-key.name"):
            connection.send(raw.request("GET", "/v1/chains", {"Authorization": f"Bearer {key}"}))
            assert SCHEDULER.get() == (app.notifier.scheduler, sandbox_of(key.removesuffix(".name")))
        connection.send(raw.request("GET", "/livez", {}))
        assert SCHEDULER.get() == (app.notifier.scheduler, "")

    asyncio.run(check())


@pytest.mark.parametrize("end", ["client", "key", "server"])
def test_whatever_waits_ends_with_its_client_its_key_and_the_server(end: str, tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    [app] = applications(SETTINGS, MemoryStore(), ManualClock(), io.StringIO())

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
        paths = "/_mock/wait?order_id=x", "/_mock/requests/wait", "/v1/chains/bsc/assets"
        delays = "delay=30000", "delay=30000; after", "hang"
        waiting = [*map(ask, paths), *(ask("/v1/chains", fault=fault) for fault in delays)]
        other = ask("/_mock/requests/wait", "the-other-key")
        while app.notifier.waiting <= len(waiting):
            await turns(1)
        if end == "client":
            for connection in waiting:
                connection.protocol.connection_lost(None)
        elif end == "key":
            file.write_text("the-other-key")
            reload_keys(ApplicationSettings(api_keys_file=file), app, RequestLog(None))
        else:
            app.notifier.stop()
        await turns(30)
        assert app.notifier.waiting == (end != "server")
        assert end != "key" or {connection.transport.closed for connection in waiting} == {True}
        assert end != "key" or [connection.statuses for connection in waiting[:2]] == [[401], [401]]
        assert not other.transport.closed

    asyncio.run(asyncio.wait_for(check(), 60))


@pytest.mark.usefixtures("quiet")
def test_requests_that_wait_get_at_most_half_of_the_connections(
    api: Api, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more is refused at once, on a connection that ends: others keep theirs."""
    api.speed(0)
    path, observed = f"/_mock/payments/{api.created()['id']}", {"to": "end", "until_observed": True}
    notifier = server.app.notifier
    assert notifier.max_waiting == server.state.connections.limit // 2
    monkeypatch.setattr(notifier, "max_waiting", 1)
    for fault in ("hold", "hold; before"):
        api.post("/_mock/faults", json={"fault": fault, "operation": "createPayment"})
    with waiting(api, server, 1):
        for reply in (
            *map(api.get, (f"{path}/wait", "/_mock/wait?order_id=x", "/_mock/requests/wait")),
            api.post(f"{path}/advance", json=observed),
            *(
                httpx.get(f"{server.url}/v1/chains", headers=AUTHORIZED | {"X-Mock-Fault": fault})
                for fault in ("hang", "delay=1000", "delay=1000; after")
            ),
            *(api.create() for _ in range(2)),
        ):
            assert error_of(reply) == (503, "capacity_exceeded")
            assert {"retry-after": "1", "connection": "close"}.items() <= reply.headers.items()
    wait_until(lambda: notifier.waiting == 0)
    assert api.get(f"{path}/wait?timeout=0").status_code == 200


@pytest.mark.usefixtures("quiet")
def test_requests_that_wait_with_one_key_leave_room_for_others(
    api: Api, contract: Contract, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.app.notifier, "max_waiting", 3)
    path = "/_mock/requests/wait?timeout=0"
    with waiting(api, server, 2):
        assert error_of(api.get(path)) == (503, "capacity_exceeded")
        with Api(server.url, contract) as other:
            assert other.get(path).status_code == 200
    wait_until(lambda: api.get(path).status_code == 200)


@pytest.mark.parametrize("end", ["it is read", "its client leaves"])
def test_a_key_gets_another_large_reply_when_an_earlier_one_has_been_sent(end: str) -> None:
    """Also if a request that waits for that is given up."""
    [app] = applications(SETTINGS, MemoryStore(), ManualClock(), io.StringIO())

    async def check() -> None:
        first = Connection(app)

        def ask(path: str, key: str = "the-key", *, slowly: bool = False) -> Connection:
            connection = Connection(app, beside=first)
            if slowly:
                connection.transport.on_write = connection.protocol.pause_writing
            connection.send(raw.request("GET", path, {"Authorization": f"Bearer {key}"}))
            return connection

        refused = [ask("/_mock/payments?limit=0") for _ in range(2 * MAX_LARGE_REPLIES)]
        await turns(20)
        assert [one.statuses for one in refused] == [[400]] * len(refused)
        sending = [ask("/_mock/payments", "the-key.name", slowly=True) for _ in range(MAX_LARGE_REPLIES)]
        given_up, waiting = ask("/_mock/requests"), ask("/_mock/payments")
        others = [ask("/v1/chains"), ask("/_mock/payments", "the-other-key")]
        await turns(20)
        assert [one.statuses for one in (*sending, *others)] == [[200]] * (MAX_LARGE_REPLIES + 2)
        given_up.protocol.connection_lost(None)
        await turns(20)
        assert waiting.statuses == []
        if end == "it is read":
            sending[0].protocol.resume_writing()
        else:
            sending[0].protocol.connection_lost(None)
        await turns(20)
        assert waiting.statuses == [200]
        assert given_up.statuses == []

    asyncio.run(asyncio.wait_for(check(), 60))


def test_a_wait_whose_client_closes_its_side_is_answered_at_once(server: RunningServer, api: Api) -> None:
    """It may have closed its side only, and still read."""
    api.speed(0)
    path = f"/_mock/payments/{api.created()['id']}/wait?status=completed&timeout=60"
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        connection.sendall(raw.request("GET", path, {"Authorization": f"Bearer {api.api_key}"}))
        wait_until(lambda: server.app.notifier.waiting == 1)
        connection.shutdown(socket.SHUT_WR)
        reply = raw.next_reply(connection)
    assert (reply.status, b'"reached":false' in reply.body) == (200, True)


def test_a_delayed_creation_of_a_key_that_is_removed_stores_nothing(tmp_path: Path) -> None:
    file, store = tmp_path / "keys.txt", MemoryStore()
    file.write_text("the-other-key")
    [app] = applications(SETTINGS, store, ManualClock(), io.StringIO())

    async def check() -> None:
        connection, headers = Connection(app), {"Authorization": "Bearer the-key", "X-Mock-Fault": "delay=1"}
        headers |= {"Content-Type": "application/json", "Idempotency-Key": "order-1001"}
        connection.send(raw.request("POST", "/v1/payments", headers, json.dumps(order()).encode()))
        reload_keys(ApplicationSettings(api_keys_file=file), app, RequestLog(None))
        while not connection.statuses:
            await turns(1)
        assert connection.statuses == [401]
        assert await store.count(sandbox_of("the-key"), "payment") == 0

    asyncio.run(asyncio.wait_for(check(), 60))
