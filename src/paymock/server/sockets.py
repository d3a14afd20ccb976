"""The listening sockets of a server, and its URL."""

import errno
import os
import socket
import sys
from typing import Any

from paymock.server.errors import StartError
from paymock.settings import Settings

BACKLOG = 2048
"""Most connections that wait to be accepted."""

SEND_TIMEOUT_SECONDS = 30
"""How long a client may leave sent data unacknowledged before Linux closes the connection."""

_PORT_ATTEMPTS = 16
_LOOPBACK = ("127.0.0.1", "::1")
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - the URL must be one that can be opened


def bind_sockets(settings: Settings, free_port_option: str = "--port 0") -> list[socket.socket]:
    """Return listening sockets for the host and port of `settings`. The default host is both loopback
    addresses, where there are two, since some clients resolve `localhost` to `::1`.

    Raises StartError. If the port is in use, the message suggests `free_port_option`.
    """
    for attempt in range(_PORT_ATTEMPTS):
        try:
            return _bind_all(settings)
        except OSError as error:
            in_use = error.errno == errno.EADDRINUSE
            if in_use and settings.port == 0 and attempt < _PORT_ATTEMPTS - 1:
                continue  # a free port of one address family was in use in the other
            if in_use:
                raise StartError(
                    f"port {settings.port} is in use: "
                    f"stop what listens there, or use {free_port_option} for a free one"
                ) from None
            address = f"{settings.host or _LOOPBACK[0]} port {settings.port}"
            raise StartError(f"cannot listen on {address}: {error.strerror or error}") from None
    raise StartError("no port is free on both loopback addresses")


def _bind_all(settings: Settings) -> list[socket.socket]:
    hosts = _LOOPBACK if settings.host is None else (settings.host,)
    addresses = [address for host in hosts for address in _addresses(host)]
    sockets: list[socket.socket] = []
    port = settings.port
    try:
        for family, (host, _, *scope) in addresses:
            try:
                sockets.append(_listen(family, (host, port, *scope)))
            except OSError as error:
                unavailable = error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
                if not (sockets and unavailable):
                    raise
            port = sockets[0].getsockname()[1]
    except OSError:
        for listener in sockets:
            listener.close()
        raise
    return sockets


def _addresses(host: str) -> list[tuple[socket.AddressFamily, Any]]:
    try:
        results = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError:
        raise StartError(f"{host} is not a host name") from None
    return [(family, address) for family, _, _, _, address in results]


def _listen(family: socket.AddressFamily, address: Any) -> socket.socket:
    # With the default protocol number, asyncio does not recognize TCP and leaves Nagle's algorithm enabled.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform == "linux":  # connections inherit it
            listener.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(SEND_TIMEOUT_SECONDS * 1000)
            )
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.settimeout(0)
    except OSError:
        listener.close()
        raise
    return listener


def server_url(settings: Settings, sockets: list[socket.socket]) -> str:
    host = settings.host or _LOOPBACK[0]
    host = _WILDCARDS.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{sockets[0].getsockname()[1]}"
