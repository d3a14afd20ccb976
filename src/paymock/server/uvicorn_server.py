"""uvicorn, made to stop well: requests that wait end at once, others have time to finish, and none is cut
off with a reply that the specification does not know.
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

from paymock.server.accept import Acceptor, ConnectionCounts
from paymock.server.signals import STOP_SIGNALS, end_in_time, handling_signals
from paymock.web.application import Application
from paymock.web.transport.fast_path import FastPathProtocol
from paymock.web.transport.protocol import StrictHttpProtocol, TransportState

GRACE_SECONDS = 3
"""How long a stop waits for requests in progress."""

KEEP_ALIVE_SECONDS = 75
"""How long an idle connection is kept: longer than a client that polls takes between two requests."""


def uvicorn_config(app: Application, grace: int = GRACE_SECONDS, *, fast_path: bool = True) -> uvicorn.Config:
    """How uvicorn serves `app`: with the guarded protocol, the fast lane where the store answers at once, and
    without saying anything itself.
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
    """What a server answers at other addresses."""

    config: uvicorn.Config
    sockets: Sequence[socket.socket]


class Server(uvicorn.Server):
    """uvicorn's server, which says when it is ready and takes a signal for a request, not for a failure."""

    signals: tuple[signal.Signals, ...] = STOP_SIGNALS
    """Those that ask it to stop."""

    def __init__(
        self,
        config: uvicorn.Config,
        ready: Callable[[], None],
        beside: MetricsListener | None = None,
        loads: ConnectionCounts | None = None,
        number: int = 0,
    ) -> None:
        super().__init__(config)
        self.transport_state = TransportState()
        self._ready = ready
        self._beside = beside
        self._loads = loads or ConnectionCounts(1)
        self._number = number
        self._acceptor: Acceptor | None = None

    @property
    def _app(self) -> Application:
        app: Application = self.config.app  # type: ignore[assignment]  # see `uvicorn_config`
        return app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to accept connections, then says so."""
        protocol: Any = self.config.http_protocol_class  # whatever makes a protocol will do
        self.config.http_protocol_class = partial(protocol, transport_state=self.transport_state)  # type: ignore[assignment]
        if sys.platform == "win32":  # its event loop cannot watch a listening socket
            await super().startup(sockets)
        else:
            connections = self.transport_state.connections
            self._acceptor = Acceptor(
                self._loads, self._number, self._protocol, connections.__len__, connections.make_room
            )
            self._acceptor.open(sockets or ())
            await super().startup([])
        if self._beside is not None:
            await self._open(self._beside)
        self._ready()

    async def _open(self, beside: MetricsListener) -> None:
        """Listens to other addresses, too. Their connections count, and end, with all the others."""
        beside.config.load()
        protocol = partial(
            StrictHttpProtocol,
            config=beside.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            transport_state=TransportState(),
        )
        for listening in beside.sockets:
            self.servers.append(await asyncio.get_running_loop().create_server(protocol, sock=listening))

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: whether it is time to stop. Tells of connections that have ended, too."""
        if self._acceptor is not None:
            self._acceptor.tell()
        return await super().on_tick(counter)

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
        """Accepts no more, ends what waits, lets requests in progress finish, and cuts off what has not after
        the grace period; then ends the connections to the store.
        """
        if self._acceptor is not None:
            await self._acceptor.close()
        self._app.stop()
        grace = self.config.timeout_graceful_shutdown or 0
        cutting = asyncio.get_running_loop().call_later(grace, self._cut_off)
        await super().shutdown(sockets)
        cutting.cancel()
        await self._app.close()

    def _protocol(self) -> asyncio.Protocol:
        protocol: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        return protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

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
