"""How connections are accepted, and how processes share sockets: whoever has the fewest connections takes
the next.

Left to themselves, they do not share. The first that wakes up accepts all that wait, and clients that keep
their connections then stay with one process while the others idle.
"""

import asyncio
import errno
import mmap
import socket
from collections.abc import Callable, Iterable

PATIENCE_SECONDS = 0.001
"""How long a connection is left to a process that has one fewer, before another takes it all the same."""

_MOST_PATIENCE = 4
"""How many times as long, at most, it is left to one that has many fewer: that one may be stuck."""

_AT_ONCE = 16
"""How many connections are accepted, at most, before those that are served have their turn."""

_RETRY_SECONDS = 0.1
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_VACANT = 2**62
"""More connections than any process has: nobody leaves anything to a process that is not there."""


class ConnectionCounts:
    """How many connections each of `count` processes has, in memory that they share over a fork. Each writes
    its own number.
    """

    def __init__(self, count: int) -> None:
        self._numbers = memoryview(mmap.mmap(-1, count * 8)).cast("q")
        for number in range(count):
            self.vacate(number)

    def set(self, number: int, load: int) -> None:
        """Process `number` has `load` connections."""
        self._numbers[number] = load

    def vacate(self, number: int) -> None:
        """Process `number` takes no more connections."""
        self._numbers[number] = _VACANT

    def excess(self, number: int) -> int:
        """How many connections more process `number` has than the one that has the fewest."""
        return self._numbers[number] - min(self._numbers)


class Acceptor:
    """Accepts connections for process `number`. `protocol` makes what serves a connection, `established`
    counts those that are served, `make_room` ends one that can be spared and says whether there was one.
    """

    def __init__(
        self,
        loads: ConnectionCounts,
        number: int,
        protocol: Callable[[], asyncio.Protocol],
        established: Callable[[], int],
        make_room: Callable[[], bool],
    ) -> None:
        self._loads = loads
        self._number = number
        self._protocol = protocol
        self._established = established
        self._make_room = make_room
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        self._arriving: set[asyncio.Task[None]] = set()

    def open(self, sockets: Iterable[socket.socket]) -> None:
        """Accepts connections from now on."""
        self._sockets = list(sockets)
        self.tell()
        for listening in self._sockets:
            self._listen(listening)

    async def close(self) -> None:
        """Accepts no more; what has been accepted is with its protocol when this returns."""
        self._loads.vacate(self._number)
        for listening in self._sockets:
            self._loop.remove_reader(listening)
        for pause in self._pauses.values():
            pause.cancel()
        if self._arriving:
            await asyncio.wait(self._arriving)

    def tell(self) -> None:
        """Lets the others know how many connections there are here."""
        self._loads.set(self._number, self._established() + len(self._arriving))

    def _listen(self, listening: socket.socket) -> None:
        self._loop.add_reader(listening, self._knocked, listening)

    def _knocked(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            self.tell()
            excess = self._loads.excess(self._number)
            if excess:
                self._pause(listening, min(excess, _MOST_PATIENCE) * PATIENCE_SECONDS)
                return
            if not self._accept(listening):
                return

    def _pause(self, listening: socket.socket, seconds: float) -> None:
        self._loop.remove_reader(listening)
        self._pauses[listening] = self._loop.call_later(seconds, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        self._listen(listening)
        self._accept(listening)

    def _accept(self, listening: socket.socket) -> bool:
        try:
            connection, _ = listening.accept()
        except OSError as error:
            if error.errno in _NO_ROOM:
                self._pause(listening, PATIENCE_SECONDS if self._make_room() else _RETRY_SECONDS)
            return False  # otherwise nobody is left, another process was faster, or the client has gone
        arriving = self._loop.create_task(self._serve(connection))
        self._arriving.add(arriving)
        arriving.add_done_callback(self._arriving.discard)
        self.tell()
        return True

    async def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(0)
        try:
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError:
            connection.close()  # the client has gone
