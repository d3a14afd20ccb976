"""Servers in threads of a process that forks.

The thread does not exist in the child process, but the sockets do. If the child kept them, connections that
the server closes would stay open, and clients would wait on a stopped server, until the child ends.
"""

import contextlib
import os
import socket
from collections.abc import Iterator, Sequence
from functools import cache

from paymock.server.server import Server
from paymock.web.telemetry.access_log import writing

_running: dict[Server, Sequence[socket.socket]] = {}
"""The servers in threads of this process, and the sockets that they listen on."""


@contextlib.contextmanager
def not_inherited(server: Server, listeners: Sequence[socket.socket]) -> Iterator[None]:
    """Within the block, child processes keep no socket of a server that runs in a thread of this process."""
    if hasattr(os, "register_at_fork"):
        _register()
    _running[server] = listeners
    try:
        yield
    finally:
        _running.pop(server, None)


@cache  # once: a registration cannot be undone
def _register() -> None:
    os.register_at_fork(
        before=writing.acquire, after_in_parent=writing.release, after_in_child=_after_in_child
    )


def _after_in_child() -> None:
    """Replace the sockets of all servers in a child process.

    They are not closed, since objects of the event loop own their descriptors: these would close them later,
    when they may be those of other files.
    """
    writing.release()
    if not _running:
        return
    null = os.open(os.devnull, os.O_RDWR)
    for server, listeners in _running.items():
        for descriptor in (*(listener.fileno() for listener in listeners), *server.descriptors()):
            if descriptor >= 0:  # not closed
                os.dup2(null, descriptor, inheritable=False)
    os.close(null)
    _running.clear()
