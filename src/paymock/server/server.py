"""A server with a graceful stop: requests that wait end at once, others have time to finish, and none ends
with a reply that is not in the specification.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from paymock.http.protocol import HttpProtocol, ServerState
from paymock.server.accept import Acceptor, ConnectionCounts
from paymock.server.signals import HANGUP, exit_after_timeout, handling_signals, stdin_ended, stop_signals
from paymock.server.supervisor import WorkerSlot
from paymock.web.application import Application

GRACE_SECONDS = 3
"""How long a stop waits for requests in progress, by default."""


class MetricsListener(NamedTuple):
    """An additional application, which serves metrics, and its sockets."""

    app: Application
    sockets: Sequence[socket.socket]


class Server:
    """Serves an application, and calls `on_ready` when it accepts connections. A stop waits up to `grace`
    seconds for requests in progress. In a worker, which has a `slot`, it stops on SIGTERM, or when the
    supervisor has ended; `counts` balance connections between workers. A SIGHUP that does not stop it calls
    `on_hangup` in the event loop. With `watch_stdin`, it stops at the end of standard input.
    """

    def __init__(
        self,
        app: Application,
        on_ready: Callable[[], None],
        metrics_listener: MetricsListener | None = None,
        *,
        counts: ConnectionCounts | None = None,
        slot: WorkerSlot | None = None,
        grace: float = GRACE_SECONDS,
        on_hangup: Callable[[], None] = lambda: None,
        watch_stdin: bool = False,
    ) -> None:
        self.state = ServerState(app)
        self._states = [self.state]
        self.started = False
        self._app = app
        self._on_ready = on_ready
        self._metrics_listener = metrics_listener
        self._counts = counts or ConnectionCounts(1)
        self._slot = slot
        self._grace = grace
        self._on_hangup = on_hangup
        self._watch_stdin = watch_stdin
        self._stop_signals: tuple[signal.Signals, ...] = (signal.SIGTERM,)  # those of a worker
        self._stop_reason = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = False
        self._stopped = asyncio.Event()
        self._closed = asyncio.Event()
        self._acceptor: Acceptor | None = None
        self._servers: list[asyncio.Server] = []

    def run(self, sockets: Sequence[socket.socket]) -> str:
        """Serve until `stop` is called, or, in the main thread, until a signal comes. Return the reason."""
        with contextlib.ExitStack() as stack:
            if threading.current_thread() is threading.main_thread():
                if self._slot is None:
                    self._stop_signals = stop_signals()
                stack.enter_context(handling_signals(self._handle_signal, {*self._stop_signals, *HANGUP}))
            runner = stack.enter_context(asyncio.Runner(loop_factory=_new_event_loop))
            self._loop = runner.get_loop()
            if self._watch_stdin:  # in a thread, since an event loop can read neither files nor on Windows
                threading.Thread(target=self._stop_at_end_of_stdin, daemon=True).start()
            runner.run(self._serve(sockets))
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

    def descriptors(self) -> list[int]:
        """The file descriptors of the open connections."""
        transports = [connection.transport for connection in self.state.connections]
        return [transport.get_extra_info("socket").fileno() for transport in transports]

    async def _serve(self, sockets: Sequence[socket.socket]) -> None:
        await self._start(sockets)
        if not self._stopping:  # a signal came before there was an event loop
            await self._stopped.wait()
        await self._shut_down(sockets)

    async def _start(self, sockets: Sequence[socket.socket]) -> None:
        """Start to accept connections, at most half of them for requests that wait, then call `on_ready`."""
        if self._slot is not None:  # the supervisor sends nothing: its end of the pipe is closed
            asyncio.get_running_loop().add_reader(self._slot.pipe, self._on_supervisor_exit)
        connections = self.state.connections
        self._app.limit_waiting(connections.limit // 2)
        protocol = partial(HttpProtocol, self.state)
        if sys.platform == "win32":  # its event loop has no add_reader
            await self._listen(protocol, sockets)
        else:
            self._acceptor = Acceptor(
                self._counts,
                self._slot.number if self._slot else 0,
                protocol,
                connections.__len__,
                connections.close_idle,
            )
            self._acceptor.open(sockets)
        if self._metrics_listener is not None:
            app, sockets = self._metrics_listener
            self._states.append(ServerState(app))
            await self._listen(partial(HttpProtocol, self._states[-1]), sockets)
        for state in self._states:
            state.on_close = self._on_close
        self.started = True
        self._on_ready()

    async def _listen(
        self, protocol: Callable[[], asyncio.Protocol], sockets: Sequence[socket.socket]
    ) -> None:
        for sock in sockets:
            self._servers.append(await asyncio.get_running_loop().create_server(protocol, sock=sock))

    def _on_close(self) -> None:
        if self._acceptor is not None and not self._stopping:
            self._acceptor.publish_count()
        self._closed.set()

    async def _shut_down(self, sockets: Sequence[socket.socket]) -> None:
        """Stop accepting connections, end requests that wait, let others finish within the grace period,
        abort the rest, and close the connections to the store.
        """
        self._stopping = True
        if self._acceptor is not None:
            await self._acceptor.close()
        for sock in sockets:
            sock.close()
        for server in self._servers:
            server.close()
        self._app.stop()
        for state in self._states:
            for connection in state.connections:
                connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace):
                while any(len(state.connections) for state in self._states):
                    self._closed.clear()
                    await self._closed.wait()
                await asyncio.gather(*self._tasks(), return_exceptions=True)
        for state in self._states:
            for connection in state.connections:
                connection.transport.abort()
        for task in self._tasks():
            task.cancel()
        await asyncio.gather(*self._tasks(), return_exceptions=True)
        await self._app.close()

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [task for state in self._states for task in state.tasks]

    def _handle_signal(self, number: int, frame: object) -> None:
        """Stop gracefully at the first signal, and end the process at once at the second. A worker does not:
        one may come from the supervisor, and one from whoever signals the process group.
        """
        if number not in self._stop_signals:
            self._call_soon(self._on_hangup)
            return
        if self._stopping and self._slot is None:
            os._exit(128 + number)
        self.stop_in_time(signal.Signals(number).name)

    def _stop_at_end_of_stdin(self) -> None:
        while not stdin_ended():
            pass
        self.stop_in_time("standard input closed")

    def _on_supervisor_exit(self) -> None:
        if self._slot is not None:
            asyncio.get_running_loop().remove_reader(self._slot.pipe)
        self.stop_in_time("end of the supervisor")


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # it is not for every system
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
