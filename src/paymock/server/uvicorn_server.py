"""uvicorn's server with a graceful stop: requests that wait end at once, others have time to finish, and none
ends with a reply that is not in the specification.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import uvicorn

from paymock.http.fast_path import FastPathProtocol
from paymock.http.protocol import StrictHttpProtocol, TransportState
from paymock.server.accept import Acceptor, ConnectionCounts
from paymock.server.signals import STOP_SIGNALS, exit_after_timeout, handling_signals
from paymock.web.application import Application

GRACE_SECONDS = 3
"""How long a stop waits for requests in progress, by default."""

KEEP_ALIVE_SECONDS = 75
"""How long an idle connection is kept open: longer than the interval of a client that polls."""


def uvicorn_config(app: Application, grace: int = GRACE_SECONDS, *, fast_path: bool = True) -> uvicorn.Config:
    """Return the configuration of uvicorn for `app`: the strict protocol, the fast path if the store never
    waits, and no log of its own. `grace` is the time in seconds that a stop waits for requests in progress.
    """
    return uvicorn.Config(
        app,
        http=FastPathProtocol if fast_path and app.never_waits else StrictHttpProtocol,
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


class MetricsListener(NamedTuple):
    """The configuration and the sockets of an additional application, which serves metrics."""

    config: uvicorn.Config
    sockets: Sequence[socket.socket]


class Server(uvicorn.Server):
    """uvicorn's server, which calls `on_ready` when it accepts connections, and exits with status 0 after a
    signal. `counts` and `worker` balance connections between processes.
    """

    signals: tuple[signal.Signals, ...] = STOP_SIGNALS
    """Signals that stop the server."""

    def __init__(
        self,
        config: uvicorn.Config,
        on_ready: Callable[[], None],
        metrics_listener: MetricsListener | None = None,
        counts: ConnectionCounts | None = None,
        worker: int = 0,
    ) -> None:
        super().__init__(config)
        self.transport_state = TransportState()
        self._on_ready = on_ready
        self._metrics_listener = metrics_listener
        self._counts = counts or ConnectionCounts(1)
        self._worker = worker
        self._acceptor: Acceptor | None = None

    @property
    def _app(self) -> Application:
        app: Application = self.config.app  # type: ignore[assignment]  # see `uvicorn_config`
        return app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections, at most half of them for requests that wait, then call `on_ready`."""
        self._app.limit_waiting(self.transport_state.connections.limit // 2)
        protocol: Any = self.config.http_protocol_class  # uvicorn only calls it
        self.config.http_protocol_class = partial(protocol, transport_state=self.transport_state)  # type: ignore[assignment]
        if sys.platform == "win32":  # its event loop has no add_reader
            await super().startup(sockets)
        else:
            connections = self.transport_state.connections
            self._acceptor = Acceptor(
                self._counts, self._worker, self._create_protocol, connections.__len__, connections.close_idle
            )
            self._acceptor.open(sockets or ())
            await super().startup([])
        if self._metrics_listener is not None:
            await self._open(self._metrics_listener)
        self._on_ready()

    async def _open(self, listener: MetricsListener) -> None:
        """Serve another application, whose connections end with those of the server."""
        listener.config.load()
        protocol = partial(
            StrictHttpProtocol,
            config=listener.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            transport_state=TransportState(),
        )
        for sock in listener.sockets:
            self.servers.append(await asyncio.get_running_loop().create_server(protocol, sock=sock))

    async def on_tick(self, counter: int) -> bool:
        """Publish the number of connections, some of which may have ended, and return whether to stop.
        uvicorn calls this ten times a second.
        """
        if self._acceptor is not None:
            self._acceptor.publish_count()
        return await super().on_tick(counter)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `stop` is called, or, in the main thread, until a signal comes."""
        if threading.current_thread() is threading.main_thread():
            with handling_signals(self._handle_signal, self.signals):
                super().run(sockets)
        else:
            super().run(sockets)

    def stop(self) -> None:
        """Start a graceful stop, which ends the process after STOP_SECONDS at most, whatever clients do."""
        if not self.should_exit:
            self.should_exit = True
            exit_after_timeout()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, end requests that wait, let others finish within the grace period,
        abort the rest, and close the connections to the store.
        """
        if self._acceptor is not None:
            await self._acceptor.close()
        self._app.stop()
        grace = self.config.timeout_graceful_shutdown or 0
        timer = asyncio.get_running_loop().call_later(grace, self._abort_connections)
        await super().shutdown(sockets)
        timer.cancel()
        await self._app.close()

    def descriptors(self) -> list[int]:
        transports = [connection.transport for connection in self.server_state.connections]
        return [transport.get_extra_info("socket").fileno() for transport in transports]

    def _create_protocol(self) -> asyncio.Protocol:
        protocol_class: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        return protocol_class(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    def _abort_connections(self) -> None:
        """Abort the connections before uvicorn cancels their requests, to which it would reply with status
        500 in plain text.
        """
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `run`, since they may come before there is an event loop."""
        yield

    def _handle_signal(self, number: int, frame: object) -> None:
        """Stop gracefully at the first signal, and end the process at once at the second."""
        if self.should_exit:
            os._exit(128 + number)
        self.stop()
