import asyncio
import errno
import socket
from contextlib import ExitStack

from paymock.server.accept import Acceptor
from tests.support.virtual_time import run


class Listener(socket.socket):
    """A listening socket that has no free file descriptor `failures` times."""

    failures = 0

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def listener() -> Listener:
    sock = Listener()
    sock.bind(("127.0.0.1", 0))
    sock.listen(64)
    sock.settimeout(0)
    return sock


class Connections(list[asyncio.BaseTransport]):
    """Connections that stay open."""

    def protocol(self) -> asyncio.Protocol:
        opened = self

        class Connection(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                opened.append(transport)

        return Connection()


def test_without_a_file_descriptor_it_closes_idle_connections_and_tries_again_soon() -> None:
    async def accept() -> tuple[int, float, int]:
        loop, connections, idle = asyncio.get_running_loop(), Connections(), [True, True, False]
        with ExitStack() as stack:
            sock = listener()
            sock.failures = 3
            acceptor = Acceptor([sock], connections.protocol, lambda: idle.pop(0))
            started = loop.time()
            stack.enter_context(socket.create_connection(sock.getsockname(), 60))
            while not connections:
                await asyncio.sleep(0.001)
            took = loop.time() - started
            await acceptor.close()
            for connection in connections:
                connection.close()
            return len(connections), took, len(idle)

    accepted, seconds, left = run(accept())
    assert (accepted, left) == (1, 0)
    assert 0.102 < seconds < 0.5  # asyncio would wait for a second


def test_a_close_accepts_what_waits_and_then_refuses() -> None:
    async def close() -> int:
        connections = Connections()
        with ExitStack() as stack:
            sock = listener()
            acceptor = Acceptor([sock], connections.protocol, bool)
            for _ in range(40):  # more than one iteration of the event loop accepts
                stack.enter_context(socket.create_connection(sock.getsockname(), 60))
            await acceptor.close()
            assert sock.fileno() == -1
            for connection in connections:
                connection.close()
            return len(connections)

    assert run(close()) == 40
