"""The listening sockets of a server, its URL, and accepting connections."""

import asyncio
import errno
import os
import socket
import sys
from collections.abc import Callable, Sequence

from paymock.server.process import StartError
from paymock.settings import Address

SEND_TIMEOUT_SECONDS = 30
"""How long a client may leave sent data unacknowledged before Linux closes the connection."""

SEND_BUFFER_BYTES = 128 * 1024
"""How much of a reply the system holds for a client that does not read it: otherwise up to 4 MiB."""

BACKLOG = 2048
"""Most connections that wait to be accepted."""

_BATCH_SIZE = 16
"""Most connections that are accepted before those that are open have their turn."""

_DELAY_SECONDS, _RETRY_SECONDS = 0.001, 0.1
"""When no file descriptor is free: the pause after an idle connection was closed, and that without one."""

_RESOURCE_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_PORT_ATTEMPTS = 16
_LOOPBACK = ("127.0.0.1", "::1")
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - the URL must be one that can be opened


class Listener:
    """Listening sockets for an address, and the URL there. The default host is both loopback addresses, where
    there are two, since some clients resolve `localhost` to `::1`.

    Raises StartError.
    """

    def __init__(self, address: Address) -> None:
        for attempt in range(_PORT_ATTEMPTS):
            try:
                self.sockets = _bind(address)
                break
            except UnicodeError:
                raise StartError(f"{address.host} is not a host name") from None
            except OSError as error:
                in_use = error.errno == errno.EADDRINUSE
                if in_use and address.port == 0 and attempt < _PORT_ATTEMPTS - 1:
                    continue  # a free port of one address family was in use in the other
                where = f"{address.host or _LOOPBACK[0]} port {address.port}"
                message = f"cannot listen on {where}: {error.strerror or error}"
                if in_use:
                    use = "" if address.reuse_port else f", or use {address.free_port_option} for a free one"
                    whose = " without --reuse-port" if address.reuse_port else ""
                    message = f"port {address.port} is in use{whose}: stop what listens there{use}"
                raise StartError(message) from None
        self.port: int = self.sockets[0].getsockname()[1]
        host = address.host or _LOOPBACK[0]
        host = _WILDCARDS.get(host, host)
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_: object) -> None:
        for sock in self.sockets:
            sock.close()


def _bind(address: Address) -> list[socket.socket]:
    """Return a listening socket for each address of the host, all on one port."""
    sockets: list[socket.socket] = []
    results = [
        result
        for host in (_LOOPBACK if address.host is None else (address.host,))
        for result in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    ]
    for family, _, _, _, (host, _, *scope) in results:
        port = sockets[0].getsockname()[1] if sockets else address.port
        listener = None
        try:
            # With the default protocol number, asyncio would leave Nagle's algorithm enabled.
            listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            if os.name == "posix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)  # inherited, too
            if sys.platform == "linux":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(address.reuse_port))
                timeout = round(SEND_TIMEOUT_SECONDS * 1000)  # connections inherit it
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((host, port, *scope))
            listener.listen(BACKLOG)
            listener.settimeout(0)
            sockets.append(listener)
        except OSError as error:
            unavailable = error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
            unneeded = [listener] if sockets and unavailable else [listener, *sockets]
            for sock in filter(None, unneeded):
                sock.close()
            if not (sockets and unavailable):
                raise
    return sockets


class Acceptor:
    """Accepts the connections of `listeners` in the running event loop, also when the process has no free
    file descriptor: asyncio would pause for a second, and uvloop would reset connections. `create_protocol`
    returns the protocol of a connection; `close_idle` closes one that can be spared, and returns whether
    there was one.
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
        """Accept what waits, since the system would reset it; close the listeners; wait for the protocols."""
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
