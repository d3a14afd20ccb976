"""The connections that are open, and which of them gives way when there is no room for another.

They are told apart by where they come from, and by whether they have brought a whole request yet. The
largest of these groups gives way, with the one that has been idle for longest. So an address may have as many
as it likes while nobody else wants them. Many slow clients cannot shut out those that use their connections,
nor can many idle ones shut out who is new, even where all share one address, as behind a proxy.

Thousands that came together become due together. They are let go a few at a time, with everybody else in
between.

Simpler rules break promises of docs/reliability.md. With one list, from which the longest idle connection is
closed, new connections displace clients that pause: with 5,000 slow clients and a limit of 1,024 files, 16 of
64 requests failed for clients that sent one every 3 seconds, and none with this code. (Clients that sent 12
per second saw no error with either.) With two lists, for connections that have brought a request and for
those that have not, these clients are served, but one address can take the room of another with idle
connections or long requests.
"""

import asyncio
import socket
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

if sys.platform != "win32":
    import resource

FILES = 10_240
"""How many files a server wants to have open; macOS allows no more."""

_LOOKS = 64
"""How many connections are looked at for an idle one: a newcomer must not cost more where there are more."""

_AT_ONCE = 16
"""How many are let go in one round of the event loop."""


class Connection(Protocol):
    """What is asked of a connection. `used` says whether it has brought a request since the last look."""

    client: tuple[str, int] | None
    used: bool

    @property
    def transport(self) -> asyncio.WriteTransport:
        """What it is ended by."""

    @property
    def answering(self) -> bool:
        """Whether a whole request is being answered."""


_Group = tuple[bytes | str, bool]
"""Where connections come from, and whether they have brought a whole request."""


class Connections:
    """The connections that are open. There is `room` for so many."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._groups: dict[_Group, OrderedDict[Connection, None]] = {}
        self._group_of: dict[Connection, _Group] = {}
        self._in_turn: deque[Callable[[], None]] = deque()

    def __len__(self) -> int:
        return len(self._group_of)

    def add(self, connection: Connection) -> None:
        """One more. When that is too many, another one is ended; or this one, when all those that it shares
        its origin with are being answered.
        """
        origin = _origin(connection)
        if len(self) >= self.room and not self.make_room():
            largest = self._largest()
            if largest[0] == origin:
                connection.transport.abort()
                return
            self._end(next(iter(self._groups[largest])))
        self._join(connection, (origin, False))

    def use(self, connection: Connection) -> None:
        """It has brought a whole request."""
        if connection in self._group_of:
            connection.used = True
            self._move(connection)

    def remove(self, connection: Connection) -> None:
        """It has ended."""
        if connection in self._group_of:
            self._leave(connection)

    def in_turn(self, let_go: Callable[[], None]) -> None:
        """Calls `let_go` soon, with few others in the same round of the event loop."""
        self._in_turn.append(let_go)
        if len(self._in_turn) == 1:
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        try:
            for _ in range(min(_AT_ONCE, len(self._in_turn))):
                self._in_turn.popleft()()
        finally:
            if self._in_turn:
                asyncio.get_running_loop().call_soon(self._next)

    def make_room(self) -> bool:
        """Ends a connection on which nothing is being answered, and says whether there was one."""
        if not self._groups:
            return False
        group = self._groups[self._largest()]
        spare = None
        for _ in range(min(_LOOKS, len(group))):
            connection = next(iter(group))
            if not (connection.used or connection.answering):
                spare = connection
                break
            if not connection.answering:
                spare = spare or connection
            connection.used = False
            self._move(connection)
        if spare is not None:
            self._end(spare)
        return spare is not None

    def _largest(self) -> _Group:
        return max(self._groups, key=lambda group: len(self._groups[group]))

    def _join(self, connection: Connection, group: _Group) -> None:
        self._groups.setdefault(group, OrderedDict())[connection] = None
        self._group_of[connection] = group

    def _leave(self, connection: Connection) -> _Group:
        group = self._group_of.pop(connection)
        del self._groups[group][connection]
        if not self._groups[group]:
            del self._groups[group]
        return group

    def _move(self, connection: Connection) -> None:
        """To the end of those that have brought a request."""
        origin, _ = self._leave(connection)
        self._join(connection, (origin, True))

    def _end(self, connection: Connection) -> None:
        self._leave(connection)
        connection.transport.abort()


def _origin(connection: Connection) -> bytes | str:
    """The address of a client; of IPv6 the network, since a client has all addresses of one."""
    host = connection.client[0] if connection.client else ""
    with suppress(OSError):
        return socket.inet_pton(socket.AF_INET6, host.partition("%")[0])[:8]
    return host


def room_for_connections() -> int:
    """Three quarters of the files that the process may have open, and of FILES at most. The rest is left to
    stores and logs.
    """
    limit = FILES
    if sys.platform != "win32":
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (FILES if limit < 0 else min(limit, FILES)) * 3 // 4


def raise_file_limit() -> None:
    """Lets the process open FILES files, or as many as its hard limit allows."""
    if sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = FILES if hard < 0 else min(hard, FILES)
        if 0 <= soft < wanted:
            with suppress(OSError, ValueError):  # a system may allow less than it says
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
