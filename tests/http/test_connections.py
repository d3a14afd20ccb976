"""Who gives way when there is room for no other connection, and who does not."""

import asyncio
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from harness.polling import wait_until
from harness.server_process import server_process, server_process_by_script
from paymock.http.connections import Connections
from paymock.http.protocol import HEAD, IDLE
from paymock.server import sockets
from paymock.server.run import serve_in_thread
from paymock.settings import Settings
from tests.support import raw
from tests.support.server import RunningServer, running_server

resource = pytest.importorskip("resource", reason="this system has no limit of files")
elsewhere = pytest.mark.skipif(sys.platform != "linux", reason="needs a second address of loopback")

ROOM = 32
HERE, THERE = "127.0.0.1", "127.0.0.2"
AUTHORIZED = {"Authorization": "Bearer mk_test_connections"}
PING = raw.request("GET", "/livez")
HALF = PING[:-10]
HALF_BODY = raw.request("POST", "/v1/payments", {**AUTHORIZED, "Content-Length": "9"}) + b"{"
LONG = raw.request("GET", "/v1/chains", {**AUTHORIZED, "X-Mock-Fault": "delay=30000"})
NOTHING = b""


class Crowd:
    """Connections to one server, which end with the test."""

    def __init__(self, server: RunningServer, stack: ExitStack) -> None:
        self.server = server
        self._stack = stack

    def come(self, sent: bytes, count: int = 1, address: str = HERE) -> list[socket.socket]:
        """So many more clients; when this returns, the server has what they sent."""
        found = []
        for _ in range(count):
            target = ("127.0.0.1", self.server.port)
            one = socket.create_connection(target, 60, source_address=(address, 0))
            found.append(self._stack.enter_context(one))
            with suppress(OSError):  # it may be ended at once
                one.sendall(sent)
            if sent == PING:
                self.answers(one, ask=False)
        return found

    def serves_a_visitor(self, address: str = HERE) -> bool:
        """Whether somebody new is answered, who then leaves."""
        [visitor] = self.come(NOTHING, address=address)
        with visitor:
            return self.answers(visitor)

    @staticmethod
    def answers(connection: socket.socket, *, ask: bool = True) -> bool:
        """Whether a request over the connection is answered."""
        received = b""
        with suppress(ConnectionError):
            if ask:
                connection.sendall(PING)
            while not received.endswith(b"}") and (part := connection.recv(65536)):
                received += part
        return received.startswith(b"HTTP/1.1 200")


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    """A server that has room for few connections, and that waits for none of them when it stops."""
    with running_server(grace=0) as server, ExitStack() as stack:
        server.state.connections.limit = ROOM
        yield Crowd(server, stack)


def only_protocol(server: RunningServer) -> Any:
    [protocol] = server.state.connections
    return protocol


def ended(connection: socket.socket, within: float = 60) -> bool:
    """Whether the server ends the connection within so many seconds, without a word."""
    connection.settimeout(within)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize("slow", [NOTHING, HALF, HALF_BODY], ids=["silent", "half a head", "half a body"])
def test_slow_clients_do_not_shut_out_those_of_the_same_address(crowd: Crowd, slow: bytes) -> None:
    kept = crowd.come(PING, 3)
    for _ in range(4):
        crowd.come(slow, 2 * ROOM)
        assert all(map(crowd.answers, kept))
        assert crowd.serves_a_visitor()
    assert len(crowd.server.state.connections) <= ROOM


def test_idle_clients_do_not_shut_out_who_is_new(crowd: Crowd) -> None:
    crowd.come(PING, 3 * ROOM)
    for _ in range(2 * ROOM):
        assert crowd.answers(*crowd.come(NOTHING))


def test_who_has_been_idle_for_longest_gives_way(crowd: Crowd) -> None:
    first, second, *others = crowd.come(PING, ROOM)
    crowd.come(PING)  # now all were looked at
    for one in (second, *others):
        crowd.answers(one)
    crowd.come(PING)
    assert ended(first)
    assert not any(ended(one, within=0.05) for one in others)


def test_what_is_being_answered_is_not_cut_off_for_another_of_the_same_address(crowd: Crowd) -> None:
    busy = crowd.come(LONG, ROOM)
    wait_until(lambda: len(crowd.server.state.connections) == ROOM)
    assert not crowd.answers(*crowd.come(NOTHING))
    assert not any(ended(one, within=0.05) for one in busy)


@elsewhere
@pytest.mark.parametrize("filled", [HALF, PING, LONG], ids=["slow", "idle", "busy"])
def test_an_address_that_has_all_the_room_leaves_some_to_another(crowd: Crowd, filled: bytes) -> None:
    crowd.come(filled, 2 * ROOM)
    [kept] = crowd.come(PING, address=THERE)
    for _ in range(3):
        crowd.come(filled, 2 * ROOM)
        assert crowd.answers(kept)
        assert crowd.serves_a_visitor(THERE)


def test_a_client_that_does_not_take_its_replies_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform != "linux":
        pytest.skip("Linux sees to it")
    monkeypatch.setattr(sockets, "SEND_TIMEOUT_SECONDS", 0.5)
    with running_server() as server, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(0.5)
        connection.connect(("127.0.0.1", server.port))
        wait_until(lambda: len(server.state.connections) == 1)
        with suppress(OSError):
            for _ in range(200):
                connection.sendall(raw.request("GET", "/openapi.yaml") * 50)
        wait_until(lambda: len(server.state.connections) == 0)


def limit_of(pid: int) -> tuple[int, int]:
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    return soft, hard


@elsewhere
@pytest.mark.process
def test_a_server_opens_as_many_files_as_it_may(tmp_path: Path) -> None:
    with server_process_by_script(tmp_path, 'ulimit -Sn 64 && ulimit -Hn 500 && exec "$@"') as served:
        assert limit_of(served.process.pid) == (500, 500)


def test_a_server_in_a_thread_leaves_the_limit_of_its_process_alone() -> None:
    before = limit_of(0)
    soft = before[0] // 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        with serve_in_thread(Settings(port=0), None):
            assert limit_of(0) == (soft, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@elsewhere
@pytest.mark.process
def test_without_a_file_left_an_idle_connection_gives_way_at_once(tmp_path: Path) -> None:
    """As when the limit is lowered while the server runs."""
    with server_process(tmp_path) as served, ExitStack() as stack:
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (40, 40))
        for _ in range(100):
            stack.enter_context(socket.create_connection(("127.0.0.1", served.port), 60))
        [reply] = raw.exchange(served.port, PING)
        assert reply.status == 200


def test_thousands_that_are_let_go_leave_others_their_turn() -> None:
    async def order() -> list[str]:
        seen: list[str] = []
        connections, done = Connections(ROOM), asyncio.Event()
        for _ in range(1000):
            connections.defer(lambda: seen.append("let go"))
        connections.defer(done.set)
        asyncio.get_running_loop().call_soon(seen.append, "another")
        await done.wait()
        return seen

    seen = asyncio.run(order())
    assert len(seen) == 1001
    assert seen.index("another") < 50


def test_a_connection_lasts_while_it_is_used_and_ends_in_silence() -> None:
    """Its timer expires when the test says so."""
    with running_server() as server, socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        raw.exchange_on(connection, PING)
        protocol = only_protocol(server)

        def expire() -> None:
            protocol._timer.cancel()
            protocol._on_timer()

        protocol._loop.call_soon_threadsafe(expire)
        wait_until(lambda: protocol._timer)
        [reply] = raw.exchange_on(connection, PING)
        assert reply.status == 200
        protocol._deadline = 0.0
        protocol._loop.call_soon_threadsafe(expire)
        assert ended(connection)


@pytest.mark.parametrize("waiting", ["for the rest of a request", "for another request"])
def test_what_comes_at_the_last_moment_is_answered(monkeypatch: pytest.MonkeyPatch, waiting: str) -> None:
    """The connection is to be let go, and its turn has not come yet."""
    monkeypatch.setattr(HEAD, "seconds", 0.1)
    monkeypatch.setattr(IDLE, "seconds", 0.1 if waiting == "for another request" else 75)
    with running_server() as server, socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        held: list[Callable[[], None]] = []
        monkeypatch.setattr(server.state.connections, "defer", held.append)
        sent = 0 if waiting == "for another request" else 20
        connection.sendall(PING[:sent])
        wait_until(lambda: held)
        monkeypatch.setattr(HEAD, "seconds", 75)  # no other deadline passes meanwhile
        monkeypatch.setattr(IDLE, "seconds", 75)
        connection.sendall(PING[sent:])
        assert Crowd.answers(connection, ask=False)
        [let_go, *_] = held
        let_go()
        assert Crowd.answers(connection)
        monkeypatch.undo()
