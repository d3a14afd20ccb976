"""A real server on a real socket, in a thread of the test process, with a clock that the test moves."""

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from paymock.http.protocol import ServerState
from paymock.payments.files import load_catalog, load_scenarios
from paymock.sandbox.sandboxes import new_metadata
from paymock.server.metrics_listener import MetricsEndpoint
from paymock.server.server import GRACE_SECONDS, Server
from paymock.server.sockets import bind_sockets, server_url
from paymock.settings import Settings
from paymock.stores.memory import MemoryStore
from paymock.web.app import create_app
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
    scenarios = load_scenarios(settings.scenarios)
    app = create_app(settings, load_catalog(settings.catalog), store, metadata, clock, request_log, scenarios)
    sockets = bind_sockets(settings)
    ready = threading.Event()
    metrics = MetricsEndpoint(settings, request_log, scenarios)
    metrics.open()
    server = Server(app, ready.set, metrics.create_listener(app), grace=grace)
    thread = threading.Thread(target=server.run, args=(sockets,), daemon=True)
    port: int = sockets[0].getsockname()[1]
    thread.start()
    assert ready.wait(60), "the server did not start"
    try:
        yield RunningServer(
            server_url(settings, sockets), port, clock, store, app, server.state, log, metrics.url
        )
    finally:
        server.stop()
        thread.join(60)
        for listening in metrics.sockets:
            listening.close()
        assert not thread.is_alive(), "the server did not stop"
