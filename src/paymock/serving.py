"""uvicorn, made to end well: what waits is told to, what works has time to finish, and what is cut off gets
no reply that the specification does not know.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

import uvicorn

from paymock.web.app import App
from paymock.web.protocol import GuardedProtocol

T = TypeVar("T")

GRACE_SECONDS = 3
"""How long a stop waits for requests in progress."""

STOP_SECONDS = 4.5
"""After so long a stop ends the process, whatever clients are doing."""

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""By which a process is asked to end."""

KEEP_ALIVE_SECONDS = 75
"""How long an idle connection is kept: longer than a client that polls takes between two requests."""


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

    signals: tuple[signal.Signals, ...] = STOP_SIGNALS
    """Those that ask it to stop."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to listen, then says so."""
        await super().startup(sockets)
        self._ready()

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serves until it is asked to stop. In the main thread, signals ask for it."""
        if threading.current_thread() is threading.main_thread():
            with handling_signals(self._signaled, self.signals):
                super().run(sockets)
        else:
            super().run(sockets)

    def stop(self) -> None:
        """Asks for a graceful stop, which ends the process in time, whatever clients are doing."""
        if not self.should_exit:
            self.should_exit = True
            end_in_time()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends what waits, lets requests in progress finish, and cuts off what has not after the grace
        period; then ends the connections to the store.
        """
        app: App = self.config.app  # type: ignore[assignment]  # see `uvicorn_config`
        app.stop()
        grace = self.config.timeout_graceful_shutdown or 0
        cutting = asyncio.get_running_loop().call_later(grace, self._cut_off)
        await super().shutdown(sockets)
        cutting.cancel()
        await app.close()

    def _cut_off(self) -> None:
        """Closes the connections before uvicorn cancels their requests: it would reply to them with a status
        of 500, in plain text.
        """
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to `run`: they may come before there is an event loop."""
        yield

    def _signaled(self, number: int, frame: object) -> None:
        """The first signal asks for a graceful stop; the next one ends the process at once."""
        if self.should_exit:
            os._exit(128 + number)
        self.stop()


def completed(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What `work` returns, in an event loop of its own. A signal cancels it: SystemExit is raised, with the
    status 0; the next one ends the process at once.
    """
    asked = False
    cancel: Callable[[], object] | None = None

    def signaled(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            os._exit(128 + number)
        asked = True
        end_in_time()
        if cancel is not None:
            cancel()

    async def cancellable() -> T:
        nonlocal cancel
        working, loop = asyncio.ensure_future(work()), asyncio.get_running_loop()
        cancel = partial(loop.call_soon_threadsafe, working.cancel)
        if asked:
            working.cancel()
        try:
            return await working
        finally:
            cancel = None

    with handling_signals(signaled):
        try:
            outcome = asyncio.run(cancellable())
        except asyncio.CancelledError:
            raise SystemExit(0) from None
        if asked:
            raise SystemExit(0)
        return outcome


def end_in_time() -> None:
    """Makes sure that the process has ended after STOP_SECONDS."""
    last_resort = threading.Timer(STOP_SECONDS, os._exit, [0])
    last_resort.daemon = True
    last_resort.start()


@contextlib.contextmanager
def handling_signals(
    handler: Callable[[int, Any], object], numbers: Iterable[signal.Signals] = STOP_SIGNALS
) -> Iterator[None]:
    """Has `handler` called when the process is asked to end, and afterwards again what was called before."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
