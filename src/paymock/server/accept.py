"""Accepting connections, balanced between the processes that share the sockets: the process with the fewest
connections accepts the next one.

Without balancing, the first process that wakes up accepts all pending connections. Clients that keep their
connections then stay with that process, while the others are idle.
"""

import asyncio
import errno
import mmap
import socket
from collections.abc import Callable, Iterable

DELAY_SECONDS = 0.001
"""How long a process leaves a pending connection to one that has one connection fewer, before it accepts
it.
"""

_MAX_DELAY_FACTOR = 4
"""Upper limit for the same delay in multiples of DELAY_SECONDS: a process with many fewer connections may be
blocked.
"""

_BATCH_SIZE = 16
"""Most connections that are accepted before those that are open have their turn."""

_RETRY_SECONDS = 0.1
_RESOURCE_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NOT_ACCEPTING = 2**62
"""The count of a process that accepts no connections: more than any other, so that nothing is left to it."""


class ConnectionCounts:
    """The number of connections of each of `workers` processes, in memory shared over a fork. Each process
    writes its own number only.
    """

    def __init__(self, workers: int) -> None:
        self._counts = memoryview(mmap.mmap(-1, workers * 8)).cast("q")
        for worker in range(workers):
            self.clear(worker)

    def set(self, worker: int, count: int) -> None:
        self._counts[worker] = count

    def clear(self, worker: int) -> None:
        self._counts[worker] = _NOT_ACCEPTING

    def above_minimum(self, worker: int) -> int:
        return self._counts[worker] - min(self._counts)


class Acceptor:
    """Accepts connections for one of several processes. `create_protocol` returns the protocol of a
    connection, `count_open` the number of open connections; `close_idle` closes one that can be spared, and
    returns whether there was one.
    """

    def __init__(
        self,
        counts: ConnectionCounts,
        worker: int,
        create_protocol: Callable[[], asyncio.Protocol],
        count_open: Callable[[], int],
        close_idle: Callable[[], bool],
    ) -> None:
        self._counts = counts
        self._worker = worker
        self._create_protocol = create_protocol
        self._count_open = count_open
        self._close_idle = close_idle
        self._loop = asyncio.get_running_loop()
        self._listeners: list[socket.socket] = []
        self._paused: dict[socket.socket, asyncio.TimerHandle] = {}
        self._opening: set[asyncio.Task[None]] = set()

    def open(self, listeners: Iterable[socket.socket]) -> None:
        """Start to accept connections."""
        self._listeners = list(listeners)
        self.publish_count()
        for listener in self._listeners:
            self._watch(listener)

    async def close(self) -> None:
        """Stop accepting connections, and wait until those that were accepted have their protocol."""
        self._counts.clear(self._worker)
        for listener in self._listeners:
            self._loop.remove_reader(listener)
        for timer in self._paused.values():
            timer.cancel()
        if self._opening:
            await asyncio.wait(self._opening)

    def publish_count(self) -> None:
        """Publish the number of connections of this process to the others."""
        self._counts.set(self._worker, self._count_open() + len(self._opening))

    def _watch(self, listener: socket.socket) -> None:
        self._loop.add_reader(listener, self._on_readable, listener)

    def _on_readable(self, listener: socket.socket) -> None:
        for _ in range(_BATCH_SIZE):
            self.publish_count()
            excess = self._counts.above_minimum(self._worker)
            if excess:
                self._pause(listener, min(excess, _MAX_DELAY_FACTOR) * DELAY_SECONDS)
                return
            if not self._accept(listener):
                return

    def _pause(self, listener: socket.socket, seconds: float) -> None:
        self._loop.remove_reader(listener)
        self._paused[listener] = self._loop.call_later(seconds, self._resume, listener)

    def _resume(self, listener: socket.socket) -> None:
        self._watch(listener)
        self._accept(listener)

    def _accept(self, listener: socket.socket) -> bool:
        try:
            connection, _ = listener.accept()
        except OSError as error:
            if error.errno in _RESOURCE_ERRORS:
                self._pause(listener, DELAY_SECONDS if self._close_idle() else _RETRY_SECONDS)
            return False  # none is pending, another process was faster, or the client has disconnected
        task = self._loop.create_task(self._open_connection(connection))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        self.publish_count()
        return True

    async def _open_connection(self, connection: socket.socket) -> None:
        connection.settimeout(0)
        try:
            await self._loop.connect_accepted_socket(self._create_protocol, connection)
        except OSError:
            connection.close()  # the client has disconnected
