"""HTTP as it comes over the wire: limits of size and time, malformed requests, and what is merely seldom."""

import asyncio
import io
import json
import socket
import struct

import pytest

from harness.polling import wait_until
from paymock.http.protocol import BODY, HEAD, IDLE
from paymock.settings import Settings
from paymock.stores.memory import MemoryStore
from tests.support import raw
from tests.support.client import order
from tests.support.clock import ManualClock
from tests.support.creation import AUTHORIZED, GET, creation, stored
from tests.support.server import RunningServer, applications, running_server
from tests.support.transport import Connection
from tests.support.virtual_time import run

MAX_BODY = 64 * 1024


def padded(size: int) -> bytes:
    """A valid create body of `size` bytes."""
    body = json.dumps(order()).encode()
    return body + b" " * (size - len(body))


@pytest.mark.parametrize("chunk", [None, 65536])
def test_a_connection_goes_on_after_a_body_of_10_mib(server: RunningServer, chunk: int | None) -> None:
    first, second = raw.exchange(server.port, creation(padded(10 * 2**20), chunk=chunk) + GET, replies=2)
    assert (first.status, first.code) == (413, "payload_too_large")
    assert second.status == 200


CHECKED = {
    "Idempotency-Key": (400, "idempotency_key_invalid"),
    "X-Mock-Scenario": (400, "invalid_scenario"),
    "X-Mock-Fault": (400, "invalid_fault"),
    "Authorization": (401, "unauthenticated"),
}


@pytest.mark.parametrize("name", CHECKED)
def test_an_invalid_character_gets_the_error_of_its_header(server: RunningServer, name: str) -> None:
    values = {
        **AUTHORIZED,
        "Idempotency-Key": "abcdefgh",
        "X-Mock-Scenario": "happy_path",
        "X-Mock-Fault": "drop",
    }
    headers = {"Content-Type": "application/json", **AUTHORIZED, "Idempotency-Key": "abcdefgh", name: "?"}
    before, after = raw.request("POST", "/v1/payments", headers, b"{}").split(b": ?\r\n")
    for character in [*range(1, 9), *range(11, 13), *range(14, 33), *range(127, 162), 255]:
        value = b"%b%c%b" % (values[name][:3].encode(), character, values[name][3:].encode())
        data = before + b": " + value + b"\r\n" + after
        first, second = raw.exchange(server.port, data + GET, replies=2)
        assert (first.status, first.code) == CHECKED[name], character
        assert second.status == 200


def test_small_replies_are_not_delayed(server: RunningServer) -> None:
    """Nagle's algorithm would make some of them wait 40 ms for an acknowledgment."""
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        raw.exchange_on(connection, GET)
        port = connection.getsockname()[1]
        [accepted] = [one for one in server.state.connections if one.peer and one.peer[1] == port]
        assert accepted.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_stop_waits_for_a_request_whose_client_has_left() -> None:
    data = creation(json.dumps(order()).encode(), {"X-Mock-Fault": "delay=200; before"})
    with running_server() as server:
        with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
            connection.sendall(data)
            wait_until(lambda: server.state.tasks)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wait_until(lambda: not len(server.state.connections))
    assert stored(server)


SUFFERS = {
    "wait": ("/_mock/requests/wait?operation=createPayment&timeout=60", [200]),
    "delay=30000": ("/v1/chains", [200]),
    "hang": ("/v1/chains", []),
    "hold": ("/v1/chains", [200]),
}
"""What takes up to a minute: its path, and the replies."""


@pytest.mark.parametrize("what", SUFFERS)
def test_the_idle_limit_of_a_connection_ends_no_request_that_waits(what: str) -> None:
    async def statuses() -> list[int]:
        connection = Connection(applications(Settings(), MemoryStore(), ManualClock(), io.StringIO())[0])
        path, _ = SUFFERS[what]
        if what == "hold":
            headers = {**AUTHORIZED, "Content-Type": "application/json"}
            connection.send(raw.request("POST", "/_mock/faults", headers, b'{"fault": "hold"}'))
        await asyncio.sleep(IDLE.seconds - 5)
        headers = AUTHORIZED if what in {"wait", "hold"} else {**AUTHORIZED, "X-Mock-Fault": what}
        connection.send(raw.request("GET", path, headers))
        await asyncio.sleep(IDLE.seconds)
        return connection.statuses

    expected = SUFFERS[what][1]
    assert run(statuses()) == ([201, *expected] if what == "hold" else expected)


UNREAD = {"a request": GET, "half a head": GET, "half a body": creation(json.dumps(order()).encode())}


@pytest.mark.parametrize("behind", UNREAD)
def test_no_time_limit_runs_while_a_client_is_slow_to_read_a_reply(behind: str) -> None:
    """The server does not read what lies behind its request either."""

    async def statuses() -> list[int]:
        connection = Connection(applications(Settings(), MemoryStore(), ManualClock(), io.StringIO())[0])
        read, unread = UNREAD[behind][:-10], UNREAD[behind][-10:]
        if behind == "a request":
            read, unread = b"", read + unread
        connection.send(GET + read)
        connection.protocol.pause_writing()
        await asyncio.sleep(2 * IDLE.seconds)
        connection.protocol.resume_writing()
        connection.send(unread)
        await asyncio.sleep(1)
        return connection.statuses

    assert run(statuses()) == [200, 201 if behind == "half a body" else 200]


SLOW = {
    "half a head": (b"GET /livez HTTP/1.1\r\nHost: loc", 400),
    "half a body": (creation(json.dumps(order()).encode())[:-10], 400),
    "half a body that is refused": (raw.request("POST", "/v1/payments", {"Content-Length": "9"}) + b"{", 401),
}


@pytest.mark.parametrize("what", SLOW)
def test_an_incomplete_request_times_out(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(HEAD, "seconds", 0.1)
    monkeypatch.setattr(BODY, "seconds", 0.1)
    before, (data, status) = stored(server), SLOW[what]
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        connection.sendall(data)
        received = b""
        while part := connection.recv(65536):
            received += part
    assert received.startswith(b"HTTP/1.1 %d" % status)
    assert received.count(b"HTTP/1.1") == 1
    assert stored(server) == before
