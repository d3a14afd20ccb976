"""Requests that wait: how they end, and how many may."""

import asyncio
import io
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from harness.polling import wait_until
from paymock.rules.identifiers import sandbox_of
from paymock.sandbox.scheduler import SCHEDULER
from paymock.server.run import reload_keys
from paymock.settings import ApplicationSettings, Settings
from paymock.stores.memory import MemoryStore
from paymock.web.telemetry.access_log import RequestLog
from tests.support import raw
from tests.support.client import AUTHORIZED, Api, error_of
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
