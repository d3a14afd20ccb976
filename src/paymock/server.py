"""From settings to a running server: its store, its application, its sockets, one process or several.
Configuration in, exit status out.
"""

import contextlib
import os
import threading
from collections.abc import Iterator
from functools import partial
from typing import TextIO

from paymock import garbage_collection
from paymock.catalog_file import load_catalog
from paymock.clock import system_clock
from paymock.core.errors import PaymockError
from paymock.core.records import OriginRecord
from paymock.metrics_address import MetricsAddress
from paymock.sandboxes import SeedDiffers, new_origin, origin_of
from paymock.serving import GRACE_SECONDS, Server, uvicorn_config
from paymock.settings import MEMORY_STORE, Settings
from paymock.sharing import Loads
from paymock.sockets import bind, url_of
from paymock.starting import StartError, announce, remove_ready_file, write_ready_file
from paymock.stopping import completed
from paymock.stores.base import Store, StoreError
from paymock.stores.opening import open_store
from paymock.supervisor import Post, Supervisor
from paymock.web.app import create_app
from paymock.web.connections import raise_file_limit
from paymock.web.log import RequestLog
from paymock.worker import Worker

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
    origin = completed(lambda: _begin(store, settings, clock(), log))
    application = partial(create_app, settings, catalog, origin=origin, clock=clock, log=log)
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

    loads = Loads(settings.workers)

    def work(post: Post) -> None:
        # A store of its own: no two processes may use the same connections.
        app = application(store=_opened(settings))
        config = uvicorn_config(app, fast_lane=settings.fast_lane)
        Worker(config, post, loads, metrics.beside(app, post.number)).run(sockets=sockets)

    try:
        metrics.open()
        if settings.ready_file:
            remove_ready_file(settings.ready_file)
        garbage_collection.resume()
        if settings.workers == 1:
            app = application(store=store)
            config = uvicorn_config(app, fast_lane=settings.fast_lane)
            Server(config, ready, metrics.beside(app)).run(sockets=sockets)
        else:
            Supervisor(settings.workers, work, [*sockets, *metrics.sockets], loads, ready, note).run()
    finally:
        for listening in [*sockets, *metrics.sockets]:
            listening.close()


def _opened(settings: Settings) -> Store:
    try:
        return open_store(settings.store, max_payments=settings.max_payments, retention=settings.retention)
    except StoreError as error:
        raise StartError(str(error)) from None


async def _begin(store: Store, settings: Settings, now: int, log: RequestLog) -> OriginRecord:
    try:
        warning = await store.begin()
        if warning is not None:
            log.line(f"Warning: {warning}")
        return await origin_of(store, now, settings.speed, settings.seed)
    except StoreError as error:
        raise StartError(str(error)) from None
    except PaymockError as error:
        raise StartError(f"the store does not answer: {error.message}") from None
    except SeedDiffers:
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
    store = open_store(MEMORY_STORE, max_payments=settings.max_payments)
    origin = new_origin(clock(), settings.speed, settings.seed)
    app = create_app(settings, load_catalog(settings.catalog), store, origin, clock, log)
    sockets = bind(settings)
    answering = threading.Event()
    server = Server(uvicorn_config(app, grace, fast_lane=settings.fast_lane), answering.set)

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
