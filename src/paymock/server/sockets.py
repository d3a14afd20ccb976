"""The sockets of a server, and the address that people can open."""

import errno
import os
import socket
import sys
from typing import Any

from paymock.server.announce import StartError
from paymock.settings import Settings

BACKLOG = 2048
"""How many connections may wait to be accepted."""

TAKING_SECONDS = 30
"""How long a client may accept nothing of what it is sent before Linux ends its connection."""

_PORT_ATTEMPTS = 16
_LOOPBACK = ("127.0.0.1", "::1")
_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - to print an address that can be opened


def bind(settings: Settings, free: str = "--port 0") -> list[socket.socket]:
    """Sockets bound to the address of `settings`; by default to both loopback addresses, where there are
    two, since some clients take `localhost` for `::1`. Raises StartError, which names the option that gives a
    `free` port.
    """
    for attempt in range(_PORT_ATTEMPTS):
        try:
            return _bind_all(settings)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            if taken and settings.port == 0 and attempt < _PORT_ATTEMPTS - 1:
                continue  # the free port of one address family was not free in the other
            if taken:
                raise StartError(
                    f"port {settings.port} is in use: stop what listens there, or use {free} for a free one"
                ) from None
            where = f"{settings.host or _LOOPBACK[0]} port {settings.port}"
            raise StartError(f"cannot listen on {where}: {error.strerror or error}") from None
    raise StartError("no port is free on both loopback addresses")


def _bind_all(settings: Settings) -> list[socket.socket]:
    hosts = _LOOPBACK if settings.host is None else (settings.host,)
    addresses = [address for host in hosts for address in _addresses(host)]
    bound: list[socket.socket] = []
    port = settings.port
    try:
        for family, (host, _, *scope) in addresses:
            try:
                bound.append(_listen(family, (host, port, *scope)))
            except OSError as error:
                unavailable = error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
                if not (bound and unavailable):
                    raise
            port = bound[0].getsockname()[1]
    except OSError:
        for listening in bound:
            listening.close()
        raise
    return bound


def _addresses(host: str) -> list[tuple[socket.AddressFamily, Any]]:
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError:
        raise StartError(f"{host} is not a host name") from None
    return [(family, address) for family, _, _, _, address in found]


def _listen(family: socket.AddressFamily, address: Any) -> socket.socket:
    # With the default protocol number, asyncio does not recognize TCP and leaves Nagle's algorithm on.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform == "linux":  # the connections inherit it
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(TAKING_SECONDS * 1000))
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.settimeout(0)
    except OSError:
        listening.close()
        raise
    return listening


def url_of(settings: Settings, sockets: list[socket.socket]) -> str:
    """The address to tell people."""
    host = settings.host or _LOOPBACK[0]
    host = _EVERY_ADDRESS.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{sockets[0].getsockname()[1]}"
