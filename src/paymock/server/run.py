"""Run the server that settings describe: open its store, create its application, bind its sockets, and serve
from one process or several.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from typing import TextIO

from paymock.http.auth import Keyring
from paymock.http.connections import raise_file_limit
from paymock.payments.files import load_catalog, load_scenarios
from paymock.payments.records import PaymentRecord, StoreMetadata
from paymock.rules.errors import PaymockError
from paymock.sandbox.clock import Clock, SystemClock, synchronize
from paymock.sandbox.metadata import check_stored
from paymock.sandbox.sandboxes import SeedMismatch, load_metadata, new_metadata
from paymock.server import garbage_collection
from paymock.server.accept import ConnectionCounts
from paymock.server.announce import announce, announce_stop, remove_ready_file, write_ready_file
from paymock.server.errors import StartError
from paymock.server.fork import not_inherited
from paymock.server.metrics_listener import MetricsEndpoint
from paymock.server.server import GRACE_SECONDS, Server
from paymock.server.signals import HANGUP, run_until_signal, stop_signals
from paymock.server.sockets import bind_sockets, server_url
from paymock.server.supervisor import Supervisor, WorkerSlot
from paymock.settings import MEMORY_STORE, Settings, SettingsError
from paymock.stores.base import Store, StoreError
from paymock.stores.opening import open_store
from paymock.web.app import create_app
from paymock.web.application import Application
from paymock.web.telemetry.access_log import RequestLog


def serve(settings: Settings, out: TextIO | None, program: str = "paymock") -> None:
    """Serve until a signal comes. A second signal ends the process at once. The garbage collector of the
    process is tuned for the server. The banner shows commands of `program`.

    Raises StartError if the store cannot be used, an address cannot be bound, the ready file cannot be
    written or workers cannot be started, FileError; SettingsError for a file of API keys that cannot be used.
    """
    if settings.workers > 1 and not hasattr(os, "fork"):
        raise StartError("--workers requires a system with fork")
    raise_file_limit()
    for number in {*HANGUP} - {*stop_signals()}:  # while the server starts and after it has ended
        signal.signal(number, signal.SIG_IGN)
    given, settings = settings, settings.with_keys_of_file()
    keyring = Keyring(settings.api_keys)  # the workers that are forked later, too, get the present keys
    catalog, scenarios = load_catalog(settings.catalog), load_scenarios(settings.scenarios)
    color = settings.log == "text" and out is not None and out.isatty() and not os.environ.get("NO_COLOR")
    log = RequestLog(out, settings.log, requests=settings.access_log, color=color, secrets=settings.api_keys)
    metrics = MetricsEndpoint(settings, log, scenarios)
    clock = SystemClock(log.warning)
    store = _open_store(settings)
    metadata = run_until_signal(lambda: _initialize(store, settings, clock, log))

    def application(store: Store) -> Application:
        return create_app(settings, catalog, store, metadata, clock, log, scenarios, keyring)

    sockets = bind_sockets(settings)
    url = server_url(settings, sockets)

    def on_ready() -> None:
        if settings.ready_file:
            write_ready_file(settings.ready_file, url, sockets[0].getsockname()[1], metrics.url)
        announce(settings, url, log, metrics.url, program)

    watch_stdin = settings.exit_on_stdin_close
    on_hangup = partial(reload_keys, given, keyring, log)
    counts = ConnectionCounts(settings.workers)

    def work(slot: WorkerSlot) -> None:
        app = application(_open_store(settings))  # processes cannot share the connections of a store
        listener = metrics.create_listener(app, slot.number)
        again = partial(on_hangup, warn=False)  # the supervisor does
        Server(app, slot.send_ready, listener, counts=counts, slot=slot, on_hangup=again).run(sockets)

    try:
        metrics.open()
        if settings.ready_file:
            remove_ready_file(settings.ready_file)
        garbage_collection.resume()
        if settings.workers == 1:
            app = application(store)
            metrics_listener = metrics.create_listener(app)
            server = Server(app, on_ready, metrics_listener, on_hangup=on_hangup, watch_stdin=watch_stdin)
            reason = server.run(sockets)
        else:
            listeners = [*sockets, *metrics.sockets]
            supervisor = Supervisor(
                settings.workers, work, listeners, counts, on_ready, log, on_hangup, watch_stdin=watch_stdin
            )
            reason = supervisor.run()
        announce_stop(settings, log, reason)
    finally:
        for listener in [*sockets, *metrics.sockets]:
            listener.close()


def reload_keys(settings: Settings, keyring: Keyring, log: RequestLog, *, warn: bool = True) -> None:
    """Accept the keys that `settings` and their file have now; a file that cannot be used changes nothing."""
    try:
        keys = settings.with_keys_of_file().api_keys
    except SettingsError as error:
        if warn:
            log.warning(f"{error}. The API keys stay as they were.")
    else:
        keyring.replace(keys)
        log.mask(keys)


def _open_store(settings: Settings) -> Store:
    try:
        return open_store(settings.store, limits=_limits(settings), retention=settings.retention)
    except StoreError as error:
        raise StartError(str(error)) from None


def _limits(settings: Settings) -> dict[str, int]:
    capacity = settings.payment_capacity
    return {} if capacity is None else {PaymentRecord.KIND: capacity}


async def _initialize(store: Store, settings: Settings, clock: Clock, log: RequestLog) -> StoreMetadata:
    try:
        warning = await store.initialize(check_stored)
        if warning is not None:
            log.warning(warning)
        await synchronize(clock, store)
        return await load_metadata(store, clock(), settings.speed, settings.seed)
    except StoreError as error:
        raise StartError(str(error)) from None
    except PaymockError as error:
        raise StartError(f"the store cannot be used: {error.message}") from None
    except SeedMismatch:
        raise StartError(
            "the store was created with another --seed, or without one: omit the option"
        ) from None
    finally:
        await store.close()


@contextlib.contextmanager
def serve_in_thread(settings: Settings, log: RequestLog, grace: float = GRACE_SECONDS) -> Iterator[str]:
    """Run a server with an in-memory store in a thread of this process within the block, and yield its URL.
    It handles no signals. At the end it waits up to `grace` seconds for requests in progress. A child process
    that is forked within the block can use the server, and does not stop it.

    Raises StartError, FileError.
    """
    clock = SystemClock(log.warning)
    store = open_store(MEMORY_STORE, limits=_limits(settings), retention=settings.retention)
    metadata = new_metadata(clock(), settings.speed, settings.seed)
    catalog, scenarios = load_catalog(settings.catalog), load_scenarios(settings.scenarios)
    app = create_app(settings, catalog, store, metadata, clock, log, scenarios)
    sockets = bind_sockets(settings)
    ready = threading.Event()
    server = Server(app, ready.set, grace=grace)

    def run() -> None:
        try:
            server.run(sockets)
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="paymock", daemon=True)
    thread.start()
    try:
        ready.wait()
        if not server.started:
            raise StartError("the server did not start; the reason is on standard error")
        with not_inherited(server, sockets):
            yield server_url(settings, sockets)
    finally:
        server.stop()
        thread.join()
        for listener in sockets:
            listener.close()
