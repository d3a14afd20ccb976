"""Accepting connections, also when the process has no free file descriptor: asyncio would pause for a second
then, and uvloop would reset connections.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence

BACKLOG = 2048
"""Most connections that wait to be accepted."""

_BATCH_SIZE = 16
"""Most connections that are accepted before those that are open have their turn."""

_DELAY_SECONDS, _RETRY_SECONDS = 0.001, 0.1
"""When no file descriptor is free: the pause after an idle connection was closed, and that without one."""

_RESOURCE_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Accepts the connections of `listeners` in the running event loop. `create_protocol` returns the
    protocol of a connection; `close_idle` closes one that can be spared, and returns whether there was one.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        create_protocol: Callable[[], asyncio.Protocol],
        close_idle: Callable[[], bool],
    ) -> None:
        self._listeners = listeners
        self._create_protocol = create_protocol
        self._close_idle = close_idle
        self._loop = asyncio.get_running_loop()
        self._paused: dict[socket.socket, asyncio.TimerHandle] = {}
        self._opening: set[asyncio.Task[None]] = set()
        for listener in listeners:
            self._loop.add_reader(listener, self._accept, listener, _BATCH_SIZE)

    async def close(self) -> None:
        """Accept the connections that wait: the system would reset them. Then close the listeners, and wait
        until each connection has its protocol.
        """
        for listener in self._listeners:
            self._accept(listener, BACKLOG)
            self._loop.remove_reader(listener)
            listener.close()
        for timer in self._paused.values():
            timer.cancel()
        if self._opening:
            await asyncio.wait(self._opening)

    def _accept(self, listener: socket.socket, most: int) -> None:
        for _ in range(most):
            try:
                connection, _ = listener.accept()
            except OSError as error:
                if error.errno in _RESOURCE_ERRORS:
                    self._loop.remove_reader(listener)
                    seconds = _DELAY_SECONDS if self._close_idle() else _RETRY_SECONDS
                    self._paused[listener] = self._loop.call_later(
                        seconds, self._loop.add_reader, listener, self._accept, listener, _BATCH_SIZE
                    )
                return  # none waits, or the client has disconnected
            task = self._loop.create_task(self._open_connection(connection))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open_connection(self, connection: socket.socket) -> None:
        connection.settimeout(0)
        try:
            await self._loop.connect_accepted_socket(self._create_protocol, connection)
        except OSError:
            connection.close()  # the client has disconnected
