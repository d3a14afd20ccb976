"""The open connections, and which of them is closed when their number reaches the limit.

Connections are grouped by client network, and by whether they have completed a request. Of the largest group,
the one that has been idle for longest is closed. So one address may have any number of connections while
nobody else needs them. Many slow clients cannot displace clients that use their connections, and many idle
connections cannot displace new ones, even if all share one address, as behind a proxy.

Thousands of connections that were opened together expire together. They are closed a few per iteration of the
event loop, so that other clients are served in between.

One list, or one of used and one of unused connections, would break promises of docs/reliability.md.
"""

import asyncio
import socket
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Protocol

if sys.platform != "win32":
    import resource

MAX_OPEN_FILES = 10_240
"""The limit of open files that a server asks for; macOS allows no more."""

_MAX_SCANNED = MAX_OPEN_FILES // 2
"""How many connections are scanned for an idle one: as many as may wait, and are not idle. Those that were
scanned come last in the next scan, so it seldom takes many.
"""

_DEFERRED_PER_ITERATION = 16  # of the event loop


_Group = tuple[bytes | str, bool]
"""The client network of connections, and whether they have completed a request."""


class Connection(Protocol):
    """A connection of a client at `peer`, its address and port; `used`: since the last scan."""

    transport: asyncio.Transport
    peer: tuple[str, int] | None
    used: bool

    @property
    def answering(self) -> bool:
        """Whether a request is being answered."""

    def shutdown(self) -> None:
        """Close the connection, after the reply to the current request."""


class Connections:
    """The open connections, at most `limit`.

    Each group is a queue for second-chance replacement: a connection that was used since the last scan moves
    to the end instead of being closed.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._groups: dict[_Group, OrderedDict[Connection, None]] = {}
        self._group_of: dict[Connection, _Group] = {}
        self._deferred: deque[Callable[[], None]] = deque()

    def __len__(self) -> int:
        return len(self._group_of)

    def __iter__(self) -> Iterator[Connection]:
        return iter([*self._group_of])

    def add(self, connection: Connection) -> None:
        """Add a new connection, and close another one at the limit.

        The new one itself is closed when the largest group is of its own network and every connection scanned
        there is being answered.
        """
        host = connection.peer[0] if connection.peer else ""
        network: bytes | str = host
        with suppress(OSError):  # of IPv6, the /64 network, all of which one client may have
            network = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])[:8]
        if len(self) >= self.limit and not self.close_idle():
            largest = self._largest_group()
            if largest[0] == network:
                connection.transport.abort()
                return
            self._close(next(iter(self._groups[largest])))
        self._insert(connection, (network, False))

    def mark_used(self, connection: Connection) -> None:
        if connection in self._group_of:
            connection.used = True
            self._move_to_end(connection)

    def remove(self, connection: Connection) -> None:
        if connection in self._group_of:
            self._delete(connection)

    def defer(self, callback: Callable[[], None]) -> None:
        """Call `callback` soon, with few others in the same iteration of the event loop."""
        self._deferred.append(callback)
        if len(self._deferred) == 1:
            asyncio.get_running_loop().call_soon(self._run_deferred)

    def _run_deferred(self) -> None:
        try:
            for _ in range(min(_DEFERRED_PER_ITERATION, len(self._deferred))):
                self._deferred.popleft()()
        finally:
            if self._deferred:
                asyncio.get_running_loop().call_soon(self._run_deferred)

    def close_idle(self) -> bool:
        """Close a connection on which nothing is being answered; return whether there was one."""
        if not self._groups:
            return False
        group = self._groups[self._largest_group()]
        candidate = None
        for _ in range(min(_MAX_SCANNED, len(group))):
            connection = next(iter(group))
            if not (connection.used or connection.answering):
                candidate = connection
                break
            if not connection.answering:
                candidate = candidate or connection
            connection.used = False
            self._move_to_end(connection)
        if candidate is not None:
            self._close(candidate)
        return candidate is not None

    def _largest_group(self) -> _Group:
        return max(self._groups, key=lambda group: len(self._groups[group]))

    def _insert(self, connection: Connection, group: _Group) -> None:
        self._groups.setdefault(group, OrderedDict())[connection] = None
        self._group_of[connection] = group

    def _delete(self, connection: Connection) -> _Group:
        group = self._group_of.pop(connection)
        del self._groups[group][connection]
        if not self._groups[group]:
            del self._groups[group]
        return group

    def _move_to_end(self, connection: Connection) -> None:
        network, _ = self._delete(connection)
        self._insert(connection, (network, True))

    def _close(self, connection: Connection) -> None:
        self._delete(connection)
        connection.transport.abort()


def connection_limit() -> int:
    """Return three quarters of the process's limit of open files, at most of MAX_OPEN_FILES. The rest is left
    to stores and logs.
    """
    limit = MAX_OPEN_FILES
    if sys.platform != "win32":
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (MAX_OPEN_FILES if limit < 0 else min(limit, MAX_OPEN_FILES)) * 3 // 4


def raise_file_limit() -> None:
    """Raise the process's limit of open files to MAX_OPEN_FILES, or as far as its hard limit allows."""
    if sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        target = MAX_OPEN_FILES if hard < 0 else min(hard, MAX_OPEN_FILES)
        if 0 <= soft < target:
            with suppress(OSError, ValueError):  # a system may allow less than its hard limit
                resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


class WriteBatch:
    """Replies that are written together. Requests that arrived together get their replies when all are
    answered: writing each on its own would wake its reader first, which takes a tenth of a creation.
    """

    def __init__(self) -> None:
        self._pending: list[tuple[asyncio.WriteTransport, bytes]] = []

    def add(self, transport: asyncio.WriteTransport, reply: bytes) -> None:
        """Write `reply` at the end of this iteration of the event loop."""
        if not self._pending:
            asyncio.get_running_loop().call_soon(self.flush)
        self._pending.append((transport, reply))

    def flush(self) -> None:
        pending, self._pending = self._pending, []
        for transport, reply in pending:
            try:
                transport.write(reply)
            except RuntimeError:  # the connection is closed; the others still get their replies
                continue
