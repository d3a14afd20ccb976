"""From settings to a running server: its store, its application, its sockets, one process or several.
Configuration in, exit status out.
"""

import contextlib
import os
import threading
from collections.abc import Iterator
from functools import partial
from typing import TextIO

from paymock.app.catalog_file import load_catalog
from paymock.app.sandboxes import SeedMismatch, load_metadata, new_metadata
from paymock.app.system_clock import system_clock
from paymock.resources.records import PaymentRecord, StoreMetadata
from paymock.rules.errors import PaymockError
from paymock.server import garbage_collection
from paymock.server.accept import ConnectionCounts
from paymock.server.announce import StartError, announce, remove_ready_file, write_ready_file
from paymock.server.metrics_listener import MetricsAddress
from paymock.server.signals import completed
from paymock.server.sockets import bind, url_of
from paymock.server.supervisor import Post, Supervisor
from paymock.server.uvicorn_server import GRACE_SECONDS, Server, uvicorn_config
from paymock.server.worker import Worker
from paymock.settings import MEMORY_STORE, Settings
from paymock.stores.base import Store, StoreError
from paymock.stores.opening import open_store
from paymock.web.app import create_app
from paymock.web.telemetry.access_log import RequestLog
from paymock.web.transport.connections import raise_file_limit

__all__ = ["Server", "StartError", "bind", "in_thread", "serve", "url_of", "uvicorn_config"]


def serve(settings: Settings, out: TextIO | None) -> None:
    """Serves until a signal comes, then returns. A second signal ends the process at once. The process is
    this server's alone: its garbage collector is tuned for it.

    Raises StartError when the store cannot be used, an address cannot be bound, the ready file cannot be
    written or workers cannot be started, and CatalogError.
    """
    if settings.workers > 1 and not hasattr(os, "fork"):
        raise StartError("--workers needs a system with fork")
    raise_file_limit()
    catalog = load_catalog(settings.catalog)
    color = settings.log == "text" and out is not None and out.isatty() and not os.environ.get("NO_COLOR")
    log = RequestLog(out, settings.log, requests=settings.access_log, color=color, secrets=settings.api_keys)
    metrics = MetricsAddress(settings, log)
    clock = system_clock()
    store = _opened(settings)
    metadata = completed(lambda: _begin(store, settings, clock(), log))
    application = partial(create_app, settings, catalog, metadata=metadata, clock=clock, log=log)
    sockets = bind(settings)
    url = url_of(settings, sockets)

    def ready() -> None:
        if settings.ready_file:
            write_ready_file(settings.ready_file, url, sockets[0].getsockname()[1], metrics.url)
        announce(settings, url, log, metrics.url)

    def note(event: str, text: str, **fields: int | str) -> None:
        if settings.log == "json":
            log.event(event, **fields)
        else:
            log.line(text)

    loads = ConnectionCounts(settings.workers)

    def work(post: Post) -> None:
        # A store of its own: no two processes may use the same connections.
        app = application(store=_opened(settings))
        config = uvicorn_config(app, fast_path=settings.fast_path)
        Worker(config, post, loads, metrics.beside(app, post.number)).run(sockets=sockets)

    try:
        metrics.open()
        if settings.ready_file:
            remove_ready_file(settings.ready_file)
        garbage_collection.resume()
        if settings.workers == 1:
            app = application(store=store)
            config = uvicorn_config(app, fast_path=settings.fast_path)
            Server(config, ready, metrics.beside(app)).run(sockets=sockets)
        else:
            Supervisor(settings.workers, work, [*sockets, *metrics.sockets], loads, ready, note).run()
    finally:
        for listening in [*sockets, *metrics.sockets]:
            listening.close()


def _opened(settings: Settings) -> Store:
    try:
        return open_store(settings.store, limits=_limits(settings), retention=settings.retention)
    except StoreError as error:
        raise StartError(str(error)) from None


def _limits(settings: Settings) -> dict[str, int]:
    capacity = settings.payment_capacity
    return {} if capacity is None else {PaymentRecord.KIND: capacity}


async def _begin(store: Store, settings: Settings, now: int, log: RequestLog) -> StoreMetadata:
    try:
        warning = await store.initialize()
        if warning is not None:
            log.line(f"Warning: {warning}")
        return await load_metadata(store, now, settings.speed, settings.seed)
    except StoreError as error:
        raise StartError(str(error)) from None
    except PaymockError as error:
        raise StartError(f"the store does not answer: {error.message}") from None
    except SeedMismatch:
        raise StartError("the store was begun with another --seed, or with none: leave it out") from None
    finally:
        await store.close()


@contextlib.contextmanager
def in_thread(settings: Settings, log: RequestLog, grace: int = GRACE_SECONDS) -> Iterator[str]:
    """The URL of a server in a thread of this process, on an in-memory store of its own, for the length of
    the block; it then waits `grace` seconds for requests in progress. It handles no signals. Raises
    StartError and CatalogError.
    """
    clock = system_clock()
    store = open_store(MEMORY_STORE, limits=_limits(settings))
    metadata = new_metadata(clock(), settings.speed, settings.seed)
    app = create_app(settings, load_catalog(settings.catalog), store, metadata, clock, log)
    sockets = bind(settings)
    answering = threading.Event()
    server = Server(uvicorn_config(app, grace, fast_path=settings.fast_path), answering.set)

    def run() -> None:
        try:
            server.run(sockets=sockets)
        finally:
            answering.set()

    thread = threading.Thread(target=run, name="paymock", daemon=True)
    thread.start()
    try:
        answering.wait()
        if not server.started:
            raise StartError("the server did not start; the reason is on standard error")
        yield url_of(settings, sockets)
    finally:
        server.should_exit = True
        thread.join()
        for listening in sockets:
            listening.close()
