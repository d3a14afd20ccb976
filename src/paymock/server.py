"""From settings to a running server: sockets, uvicorn, signals, the ready file, the banner. Configuration
in, exit status out.
"""

import asyncio
import contextlib
import errno
import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import uvicorn

from paymock import __version__
from paymock.catalog_file import load_catalog
from paymock.clock import system_clock
from paymock.core.errors import PaymockError
from paymock.core.records import OriginRecord
from paymock.sandboxes import SeedDiffers, new_origin, origin_of
from paymock.settings import MEMORY_STORE, OPEN_KEY_EXAMPLE, Settings
from paymock.stores.base import Store, StoreError
from paymock.stores.opening import open_store
from paymock.web.app import App, create_app
from paymock.web.log import RequestLog
from paymock.web.protocol import GuardedProtocol

GRACE_SECONDS = 3
"""How long a stop waits for requests in progress."""

STOP_SECONDS = 4.5
"""After so long a stop ends the process, whatever clients are doing."""

KEEP_ALIVE_SECONDS = 75
"""How long an idle connection is kept: longer than a client that polls takes between two requests."""

_PORT_ATTEMPTS = 16
_LOOPBACK = ("127.0.0.1", "::1")
_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - to print an address that can be opened


class StartError(Exception):
    """The server cannot start; the message is one line for the person at the terminal."""


def serve(settings: Settings, out: TextIO | None) -> None:
    """Serves until a signal comes, then returns. A second signal ends the process at once.

    Raises StartError when the store cannot be used, an address cannot be bound or the ready file cannot be
    written, and CatalogError.
    """
    catalog = load_catalog(settings.catalog)
    color = settings.log == "text" and out is not None and out.isatty() and not os.environ.get("NO_COLOR")
    log = RequestLog(out, settings.log, requests=settings.access_log, color=color, secrets=settings.api_keys)
    clock = system_clock()
    try:
        store = open_store(settings.store, max_payments=settings.max_payments, retention=settings.retention)
    except StoreError as error:
        raise StartError(str(error)) from None
    origin = asyncio.run(_begin(store, settings, clock(), log))
    app = create_app(settings, catalog, store, origin, clock, log)
    sockets = bind(settings)
    if settings.ready_file:
        remove_ready_file(settings.ready_file)
    url = url_of(settings, sockets)

    def ready() -> None:
        if settings.ready_file:
            write_ready_file(settings.ready_file, url, sockets[0].getsockname()[1])
        announce(settings, url, log)

    Server(uvicorn_config(app), ready).run(sockets=sockets)


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
    server = Server(uvicorn_config(app, grace), answering.set)

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


def uvicorn_config(app: App, grace: int = GRACE_SECONDS) -> uvicorn.Config:
    """How uvicorn serves `app`: with the guarded protocol, and without saying anything itself."""
    return uvicorn.Config(
        app,
        http=GuardedProtocol,
        ws="none",
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
        log_level=logging.CRITICAL,
        timeout_graceful_shutdown=grace,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )


class Server(uvicorn.Server):
    """uvicorn's server, which says when it is ready and treats a signal as a wish, not as a failure."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to listen, then says so."""
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The first signal asks for a graceful stop; the next one ends the process at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: Any) -> None:
            if self.should_exit:
                os._exit(128 + number)
            self.should_exit = True
            last_resort = threading.Timer(STOP_SECONDS, os._exit, [0])
            last_resort.daemon = True
            last_resort.start()

        previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def bind(settings: Settings) -> list[socket.socket]:
    """Sockets bound to the address of `settings`; by default to both loopback addresses, where there are
    two, since some clients take `localhost` for `::1`. Raises StartError.
    """
    for attempt in range(_PORT_ATTEMPTS):
        try:
            return _bind_all(settings)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            if taken and settings.port == 0 and attempt < _PORT_ATTEMPTS - 1:
                continue  # the free port of one address family was not free in the other
            if taken:
                raise StartError(
                    f"port {settings.port} is in use: stop what listens there, or use --port 0 for a free one"
                ) from None
            where = f"{settings.host or _LOOPBACK[0]} port {settings.port}"
            raise StartError(f"cannot listen on {where}: {error.strerror or error}") from None
    raise StartError("no port is free on both loopback addresses")


def _bind_all(settings: Settings) -> list[socket.socket]:
    hosts = _LOOPBACK if settings.host is None else (settings.host,)
    addresses = [address for host in hosts for address in _addresses(host)]
    bound: list[socket.socket] = []
    port = settings.port
    try:
        for family, (host, _, *scope) in addresses:
            try:
                bound.append(_listen(family, (host, port, *scope)))
            except OSError as error:
                unavailable = error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
                if not (bound and unavailable):
                    raise
            port = bound[0].getsockname()[1]
    except OSError:
        for listening in bound:
            listening.close()
        raise
    return bound


def _addresses(host: str) -> list[tuple[socket.AddressFamily, Any]]:
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError:
        raise StartError(f"{host} is not a host name") from None
    return [(family, address) for family, _, _, _, address in found]


def _listen(family: socket.AddressFamily, address: Any) -> socket.socket:
    # With the default protocol number, asyncio does not recognize TCP and leaves Nagle's algorithm on.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(2048)
        listening.settimeout(0)
    except OSError:
        listening.close()
        raise
    return listening


def url_of(settings: Settings, sockets: list[socket.socket]) -> str:
    """The address to tell people."""
    host = settings.host or _LOOPBACK[0]
    host = _EVERY_ADDRESS.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{sockets[0].getsockname()[1]}"


def write_ready_file(path: Path, url: str, port: int) -> None:
    """Tells whoever waits for the server where it is: the file appears whole, or not at all. Raises
    StartError.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(json.dumps({"url": url, "port": port, "pid": os.getpid()}) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise StartError(f"cannot write the ready file {path}: {error.strerror}") from None


def remove_ready_file(path: Path) -> None:
    """Removes what an earlier server left: it would tell of a server that is gone. Raises StartError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StartError(f"cannot write the ready file {path}: {error.strerror}") from None


def announce(settings: Settings, url: str, log: RequestLog) -> None:
    """Says where the server is, which keys it takes, and that it is a mock."""
    if settings.log == "json":
        log.event("started", url=url, open_mode=settings.open_mode, version=__version__, mock=True)
        return
    count = len(settings.api_keys)
    keys = (
        f"any mk_test_NAME, for example {OPEN_KEY_EXAMPLE} (open mode)"
        if settings.open_mode
        else f"{count} configured"
    )
    log.line(
        f"paymock {__version__}    MOCK: no real funds\n"
        f"  API       {url}/v1\n"
        f"  API keys  {keys}\n"
        f"  Swagger   {url}/swagger/\n"
        f"  Stop      Ctrl-C"
    )
