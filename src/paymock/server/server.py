"""A server with a graceful stop: no request ends with a reply that is not in the specification."""

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from paymock.http.protocol import HttpProtocol, ServerState
from paymock.server.process import HANGUP, exit_after_timeout, handling_signals, stop_signals
from paymock.server.sockets import Acceptor, Listener
from paymock.web.application import Application

GRACE_SECONDS = 3
"""How long a stop waits for requests in progress, by default."""


class Server:
    """Serves applications, each at its listener: the service, and its metrics. It calls `on_ready` when it
    accepts connections. A stop waits up to `grace` seconds for requests in progress. A SIGHUP that does not
    stop it calls `on_hangup` in the event loop. With `watch_stdin`, it stops at the end of standard input.
    """

    def __init__(
        self,
        applications: Sequence[Application],
        listeners: Sequence[Listener],
        on_ready: Callable[[], None],
        *,
        grace: float = GRACE_SECONDS,
        on_hangup: Callable[[], None] = lambda: None,
        watch_stdin: bool = False,
    ) -> None:
        self.states = [ServerState(app) for app in applications]
        self.started = False
        self._app = applications[0]
        self._listeners = listeners
        self._on_ready = on_ready
        self._grace = grace
        self._on_hangup = on_hangup
        self._watch_stdin = watch_stdin
        self._stop_reason = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = False
        self._stopped = asyncio.Event()
        self._closed = asyncio.Event()

    def run(self) -> str:
        """Serve until `stop` is called, or, in the main thread, until a signal comes. Return the reason."""
        new_event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
        with contextlib.suppress(ImportError):  # uvloop is not for every system
            from uvloop import new_event_loop

        def on_signal(number: int, _: object) -> None:
            if number not in to_stop:
                self._call_soon(self._on_hangup)
            elif self._stopping:
                os._exit(128 + number)
            else:
                self.stop_in_time(signal.Signals(number).name)

        def watch_stdin() -> None:
            with contextlib.suppress(OSError):  # its terminal is gone
                while os.read(0, 4096):
                    pass
            self.stop_in_time("standard input closed")

        with contextlib.ExitStack() as stack:
            if threading.current_thread() is threading.main_thread():
                to_stop = stop_signals()
                stack.enter_context(handling_signals(on_signal, {*to_stop, *HANGUP}))
            runner = stack.enter_context(asyncio.Runner(loop_factory=new_event_loop))
            self._loop = runner.get_loop()
            if sys.platform != "win32" and isinstance(self._loop, asyncio.BaseEventLoop):
                # Timers go on while tests in this process freeze the time.
                self._loop.time = partial(time.clock_gettime, time.CLOCK_MONOTONIC)  # type: ignore[method-assign]
            if self._watch_stdin:  # in a thread, since an event loop can read neither files nor on Windows
                threading.Thread(target=watch_stdin, daemon=True).start()
            runner.run(self._serve())
        return self._stop_reason

    def stop(self) -> None:
        """Start a graceful stop. It may be called from another thread, or in a signal handler."""
        self._stopping = True
        self._call_soon(self._stopped.set)

    def stop_in_time(self, reason: str) -> None:
        """The same, but end the process after STOP_SECONDS at most, whatever clients do."""
        if not self._stopping:
            self._stop_reason = reason
            exit_after_timeout()
            self.stop()

    def _call_soon(self, callback: Callable[[], None]) -> None:
        if self._loop is None:
            callback()
        else:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(callback)

    async def _serve(self) -> None:
        """Accept connections until a stop. Then end requests that wait, let others finish within the grace
        period, abort the rest, and close the connections to the store.
        """
        # At most half of the connections are for requests that wait.
        self._app.notifier.max_waiting = self.states[0].connections.limit // 2
        accepting: list[Acceptor | asyncio.Server] = []
        for state, listener in zip(self.states, self._listeners, strict=True):
            state.on_close = self._closed.set
            protocol = partial(HttpProtocol, state)
            if sys.platform == "win32":  # its event loop has no add_reader
                for sock in listener.sockets:
                    accepting.append(await asyncio.get_running_loop().create_server(protocol, sock=sock))
            else:
                accepting.append(Acceptor(listener.sockets, protocol, state.connections.close_idle))
        self.started = True
        self._on_ready()
        if not self._stopping:  # a signal came before there was an event loop
            await self._stopped.wait()
        self._stopping = True
        for acceptor in accepting:
            if isinstance(acceptor, Acceptor):
                await acceptor.close()
            else:
                acceptor.close()
        self._app.notifier.stop()
        for state in self.states:
            for connection in state.connections:
                connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace):
                while any(len(state.connections) for state in self.states):
                    self._closed.clear()
                    await self._closed.wait()
                await asyncio.gather(*self._tasks(), return_exceptions=True)
        for state in self.states:
            for connection in state.connections:
                connection.transport.abort()
        for task in self._tasks():
            task.cancel()
        await asyncio.gather(*self._tasks(), return_exceptions=True)
        await self._app.close()

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [task for state in self.states for task in state.tasks]
