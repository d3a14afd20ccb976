"""Run the server that settings describe: open its store, create its application, bind its sockets, serve."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TextIO

from paymock.http.connections import raise_file_limit
from paymock.payments.records import PaymentRecord, StoreMetadata
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import sandbox_of
from paymock.sandbox.clock import SystemClock, monotonic_ns, synchronize
from paymock.sandbox.metadata import SeedMismatch, decode_metadata, load_metadata, new_metadata
from paymock.sandbox.sandboxes import Sandboxes
from paymock.server import process
from paymock.server.announce import Announcer
from paymock.server.process import HANGUP, StartError, run_until_signal, stop_signals
from paymock.server.server import GRACE_SECONDS, Server
from paymock.server.sockets import Listener
from paymock.settings import ApplicationSettings, ServerSettings, Settings, SettingsError, StoreSettings
from paymock.stores.base import Store, StoreError
from paymock.stores.memory import MemoryStore
from paymock.stores.opening import open_store
from paymock.web.app import create_applications
from paymock.web.application import Application
from paymock.web.telemetry.access_log import RequestLog


def serve(settings: Settings, out: TextIO | None, program: str = "paymock") -> None:
    """Serve until a signal comes. A second signal ends the process at once. The garbage collector of the
    process is tuned for the server. The banner shows commands of `program`. Raises StartError, FileError, and
    SettingsError for a file of API keys that cannot be used.
    """
    raise_file_limit()
    hangups: list[int] = []
    for number in {*HANGUP} - {*stop_signals()}:  # while the server starts and after it has ended
        signal.signal(number, lambda number, _: hangups.append(number))
    keyed = settings.with_keys_of_file()
    announcer = Announcer(keyed, out, program)
    log = announcer.log
    clock = SystemClock(log.warning)
    sandboxes = open_sandboxes(settings, clock, log)
    addresses, in_memory = settings.addresses, settings.in_memory
    apps = create_applications(keyed, addresses, sandboxes, clock, log, in_memory=in_memory)
    listen(settings, apps, announcer, partial(reload_keys, settings, apps[0], log), hangups)


def listen(
    settings: ServerSettings,
    apps: Sequence[Application],
    announcer: Announcer,
    on_hangup: Callable[[], None],
    hangups: Sequence[int],
) -> None:
    """Bind the address of each application, and serve until a signal comes. `hangups`: those that came at the
    start, when the keys had perhaps been read.
    """
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(Listener(address)) for address in settings.addresses]
        announcer.ready_file.remove()
        process.resume_collections()

        def on_ready() -> None:
            if hangups:
                on_hangup()
            announcer.ready(listeners)

        watch_stdin = settings.exit_on_stdin_close
        server = Server(apps, listeners, on_ready, on_hangup=on_hangup, watch_stdin=watch_stdin)
        announcer.stopped(server.run())


def open_sandboxes(settings: StoreSettings, clock: SystemClock, log: RequestLog) -> Sandboxes:
    """Open and initialize the store, in an event loop of its own. Raises StartError."""
    limits = {PaymentRecord.KIND: settings.payment_capacity}

    async def initialize(store: Store) -> StoreMetadata:
        try:
            warning = await store.initialize(decode_metadata)
            if warning is not None:
                log.warning(warning)
            await synchronize(clock, store)
            return await load_metadata(store, clock(), settings.speed, settings.seed)
        finally:
            await store.close()

    try:
        store = open_store(settings.store, limits=limits, retention=settings.retention)
        metadata = run_until_signal(partial(initialize, store))
    except StoreError as error:
        raise StartError(str(error)) from None
    except PaymockError as error:
        raise StartError(f"the store cannot be used: {error.message}") from None
    except SeedMismatch:
        message = "the store was created with another --seed, or without one: omit the option"
        raise StartError(message) from None
    return Sandboxes(store, clock, metadata, settings.retention, settings.payment_capacity)


def reload_keys(settings: ApplicationSettings, app: Application, log: RequestLog) -> None:
    """Accept the keys that `settings` and their file have now; a file that cannot be used changes nothing."""
    if settings.api_keys_file is None:
        return
    try:
        changed = settings.with_keys_of_file()
    except SettingsError as error:
        log.warning(f"{error}. The API keys stay as they were.")
    else:
        app.keyring.replace(changed.api_keys, changed.key_names)
        app.notifier.end_waiting({*map(sandbox_of, changed.api_keys)})
        log.mask(changed.api_keys)


@contextlib.contextmanager
def serve_in_thread(settings: Settings, out: TextIO | None, grace: float = GRACE_SECONDS) -> Iterator[str]:
    """Run a server with an in-memory store in a thread of this process within the block, and yield its URL.
    It handles no signals. At the end it waits up to `grace` seconds for requests in progress. Its clock does
    not follow the wall clock, which tests in this process may replace.

    Raises StartError, FileError.
    """
    log = RequestLog(out, settings.log, requests=settings.access_log, secrets=settings.api_keys)
    offset = time.time_ns() - monotonic_ns()
    clock = SystemClock(log.warning, lambda: monotonic_ns() + offset, monotonic_ns)
    store = MemoryStore({PaymentRecord.KIND: settings.payment_capacity})
    metadata = new_metadata(clock(), settings.speed, settings.seed)
    sandboxes = Sandboxes(store, clock, metadata, capacity=settings.payment_capacity)
    [address] = settings.addresses
    applications = create_applications(settings, [address], sandboxes, clock, log)
    with Listener(address) as listener:
        ready = threading.Event()
        server = Server(applications, [listener], ready.set, grace=grace)

        def run() -> None:
            try:
                server.run()
            finally:
                ready.set()

        thread = threading.Thread(target=run, name="paymock", daemon=True)
        thread.start()
        try:
            ready.wait()
            if not server.started:
                raise StartError("the server did not start; the reason is on standard error")
            yield listener.url
        finally:
            server.stop()
            thread.join()
