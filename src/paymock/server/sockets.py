"""The listening sockets of a server, and its URL."""

import errno
import os
import socket
import sys

from paymock.server.accept import BACKLOG
from paymock.server.process import StartError
from paymock.settings import Address

SEND_TIMEOUT_SECONDS = 30
"""How long a client may leave sent data unacknowledged before Linux closes the connection."""

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
