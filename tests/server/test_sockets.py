import asyncio
import errno
import socket
import sys
from contextlib import ExitStack

import pytest

from paymock.server.process import StartError
from paymock.server.sockets import Acceptor, Listener
from paymock.settings import Address
from tests.support.virtual_time import run


@pytest.mark.parametrize("host", [None, "localhost"])
def test_a_free_port_is_free_on_all_addresses_of_loopback(host: str | None) -> None:
    with Listener(Address(host, 0)) as listener:
        assert host or {bound.getsockname()[0] for bound in listener.sockets} == {"127.0.0.1", "::1"}
        assert len({bound.getsockname()[1] for bound in listener.sockets}) == 1
        assert {bound.proto for bound in listener.sockets} == {socket.IPPROTO_TCP}


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        (None, "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "[::1]"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "[::1]"),
        ("localhost", "localhost"),
    ],
)
def test_the_url_has_a_host_that_can_be_opened(host: str | None, shown: str) -> None:
    with Listener(Address(host, 0)) as listener:
        assert listener.url == f"http://{shown}:{listener.port}"


@pytest.mark.parametrize("port", [0, None])
def test_an_address_that_the_machine_does_not_have_is_left_out(
    port: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ::1 where IPv6 is off."""
    monkeypatch.setattr("paymock.server.sockets._LOOPBACK", ("127.0.0.1", "203.0.113.1"))
    with Listener(Address("127.0.0.1", 0)) as free:
        free_port = free.port
    with Listener(Address(None, free_port if port is None else port)) as listener:
        assert [sock.getsockname()[0] for sock in listener.sockets] == ["127.0.0.1"]


def test_a_refused_start_leaves_no_address_bound() -> None:
    with Listener(Address(None, 0)) as listener:
        first = listener.sockets[0]
        host, port = first.getsockname()
        first.close()
        with pytest.raises(StartError):
            Listener(Address(None, port))  # the second address is still in use
        with Listener(Address(host, port)) as again:
            assert [bound.getsockname() for bound in again.sockets] == [(host, port)]


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_a_port_is_shared_by_those_who_say_so_alone() -> None:
    with Listener(Address(None, 0, reuse_port=True)) as listener:
        with Listener(Address(None, listener.port, reuse_port=True)) as other:
            assert other.url == listener.url
        with pytest.raises(StartError, match=f"port {listener.port} is in use: stop"):
            Listener(Address(None, listener.port))
    with (
        Listener(Address(None, 0)) as listener,
        pytest.raises(StartError, match=f"port {listener.port} is in use without --reuse-port: stop"),
    ):
        Listener(Address(None, listener.port, reuse_port=True))


class WithoutDescriptors(socket.socket):
    """A listening socket that has no free file descriptor `failures` times."""

    failures = 0

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def listening() -> WithoutDescriptors:
    sock = WithoutDescriptors()
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
            sock = listening()
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
            sock = listening()
            acceptor = Acceptor([sock], connections.protocol, bool)
            for _ in range(40):  # more than one iteration of the event loop accepts
                stack.enter_context(socket.create_connection(sock.getsockname(), 60))
            await acceptor.close()
            assert sock.fileno() == -1
            for connection in connections:
                connection.close()
            return len(connections)

    assert run(close()) == 40
