import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from paymock.server.errors import StartError
from paymock.server.sockets import bind_sockets, server_url
from paymock.settings import Settings


@contextmanager
def bound_sockets(settings: Settings) -> Iterator[list[socket.socket]]:
    sockets = bind_sockets(settings)
    try:
        yield sockets
    finally:
        for bound in sockets:
            bound.close()


def test_all_addresses_of_localhost_are_bound_to_the_same_port() -> None:
    with bound_sockets(Settings(host="localhost", port=0)) as sockets:
        assert len({bound.getsockname()[1] for bound in sockets}) == 1


def test_a_free_port_is_free_on_both_loopback_addresses() -> None:
    with bound_sockets(Settings(port=0)) as sockets:
        assert {bound.getsockname()[0] for bound in sockets} == {"127.0.0.1", "::1"}
        assert len({bound.getsockname()[1] for bound in sockets}) == 1
        assert {bound.proto for bound in sockets} == {socket.IPPROTO_TCP}


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
    with bound_sockets(Settings(port=0)) as sockets:
        port = sockets[0].getsockname()[1]
        assert server_url(Settings(host=host, open=True), sockets) == f"http://{shown}:{port}"


def test_a_refused_start_leaves_no_address_bound() -> None:
    with bound_sockets(Settings(port=0)) as [first, _]:
        host, port = first.getsockname()
        first.close()
        with pytest.raises(StartError):
            bind_sockets(Settings(port=port))  # the second address is still in use
        with bound_sockets(Settings(host=host, port=port)) as [again]:
            assert again.getsockname() == (host, port)
