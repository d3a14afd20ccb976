"""A real server on a real socket, in a thread of the test process, with a clock that the test moves."""

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from paymock.http.protocol import ServerState
from paymock.sandbox.metadata import new_metadata
from paymock.sandbox.sandboxes import Sandboxes
from paymock.server.server import GRACE_SECONDS, Server
from paymock.server.sockets import Listener
from paymock.settings import Settings
from paymock.stores.memory import MemoryStore
from paymock.web.app import METRICS_PATH, create_applications
from paymock.web.application import Application
from paymock.web.telemetry.access_log import RequestLog
from tests.support.clock import ManualClock


@dataclass
class RunningServer:
    """Where a server is, the clock it goes by, its store, what it has logged, and where it tells figures."""

    url: str
    port: int
    clock: ManualClock
    store: MemoryStore
    app: Application
    state: ServerState
    log: io.StringIO
    metrics: str | None


def applications(
    settings: Settings, store: MemoryStore, clock: ManualClock, log: io.StringIO
) -> list[Application]:
    """Those of a server, one for each address."""
    metadata = new_metadata(clock(), settings.speed, settings.seed or "tests")
    request_log = RequestLog(log, settings.log, requests=settings.access_log, secrets=settings.api_keys)
    sandboxes = Sandboxes(store, clock, metadata, capacity=settings.payment_capacity)
    return create_applications(settings, settings.addresses, sandboxes, clock, request_log)


@contextmanager
def running_server(settings: Settings | None = None, grace: float = GRACE_SECONDS) -> Iterator[RunningServer]:
    """Serves on a free port until the block ends; then requests in progress have `grace` seconds."""
    settings = settings or Settings(port=0)
    clock, log, store = ManualClock(), io.StringIO(), MemoryStore()
    created = applications(settings, store, clock, log)
    listeners = [Listener(address) for address in settings.addresses]
    ready = threading.Event()
    server = Server(created, listeners, ready.set, grace=grace)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert ready.wait(60), "the server did not start"
    url, port, app = listeners[0].url, listeners[0].port, created[0]
    metrics = listeners[1].url + METRICS_PATH if listeners[1:] else None
    try:
        yield RunningServer(url, port, clock, store, app, server.states[0], log, metrics)
    finally:
        server.stop()
        thread.join(60)
        assert not thread.is_alive(), "the server did not stop"
