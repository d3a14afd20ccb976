"""A real server on a real socket, in a thread of the test process, with a clock that the test moves."""

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from paymock.http.protocol import ServerState
from paymock.sandbox.metadata import new_metadata
from paymock.server.server import GRACE_SECONDS, Server
from paymock.server.sockets import Listener
from paymock.settings import Settings
from paymock.stores.memory import MemoryStore
from paymock.web.app import METRICS_PATH, Service, create_app, create_metrics_app
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


@contextmanager
def running_server(settings: Settings | None = None, grace: float = GRACE_SECONDS) -> Iterator[RunningServer]:
    """Serves on a free port until the block ends; then requests in progress have `grace` seconds."""
    settings = settings or Settings(port=0)
    clock, log = ManualClock(), io.StringIO()
    store = MemoryStore()
    metadata = new_metadata(clock(), settings.speed, settings.seed or "tests")
    request_log = RequestLog(log, settings.log, requests=settings.access_log, secrets=settings.api_keys)
    service = Service.load(settings)
    app = create_app(service, store, metadata, clock, request_log)
    listener, metrics = Listener(settings.address), None
    applications = [(app, listener.sockets)]
    if settings.metrics_listener:
        metrics = Listener(settings.metrics_listener)
        metrics_app = create_metrics_app(app, service, settings.metrics_listener)
        applications.append((metrics_app, metrics.sockets))
    ready = threading.Event()
    server = Server(applications, ready.set, grace=grace)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert ready.wait(60), "the server did not start"
    told = metrics.url + METRICS_PATH if metrics else None
    try:
        yield RunningServer(listener.url, listener.port, clock, store, app, server.states[0], log, told)
    finally:
        server.stop()
        thread.join(60)
        assert not thread.is_alive(), "the server did not stop"
