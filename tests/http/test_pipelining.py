import json
import socket

import pytest

from harness.polling import wait_until
from tests.support import raw
from tests.support.client import order
from tests.support.creation import AUTHORIZED, GET, creation
from tests.support.server import RunningServer


def test_what_takes_longer_holds_up_what_was_asked_for_after_it(server: RunningServer) -> None:
    slow = {**AUTHORIZED, "X-Mock-Fault": "delay=200"}
    create = creation(json.dumps(order()).encode())
    data = (
        raw.request("GET", "/v1/chains", slow) + create + raw.request("GET", "/nowhere", slow) + create + GET
    )
    replies = raw.exchange(server.port, data, replies=5)
    assert [reply.status for reply in replies] == [200, 201, 404, 201, 200]
    assert replies[1].body == replies[3].body
    assert "idempotent-replayed" in replies[3].headers


def test_headers_are_not_seen_by_other_requests_of_the_connection(server: RunningServer) -> None:
    first, second = raw.exchange(server.port, GET + raw.request("GET", "/v1/chains"), replies=2)
    assert (first.status, second.status) == (200, 401)


LIVEZ = raw.request("GET", "/livez")
SLOW = raw.request("GET", "/v1/chains", {**AUTHORIZED, "X-Mock-Fault": "delay=20"})
VALID = {
    "a read": GET,
    "a health check": LIVEZ,
    "a creation": creation(b"{}"),
    "a creation in chunks": creation(b"{}", chunk=1),
    "a slow read": SLOW,
    "an unknown method": raw.request("X" * 30, "/v1/payments", AUTHORIZED, b"{}"),
    "offers to upgrade": raw.request("GET", "/livez", {"Connection": "Upgrade", "Upgrade": "h2c"}) * 20,
    "a health check, then a read": LIVEZ + GET,
    "a slow read, then others": SLOW + GET + LIVEZ + SLOW,
    "many": (GET + LIVEZ) * 20,
}
MALFORMED = {
    "in its body": raw.request("POST", "/livez", {"Transfer-Encoding": "chunked"}) + b"zz\r\n",
    "in its head": GET.replace(b"Host: ", b"Host : "),
}


@pytest.mark.parametrize("where", MALFORMED)
@pytest.mark.parametrize("before", VALID)
def test_a_malformed_request_is_refused_after_earlier_replies(
    server: RunningServer, where: str, before: str
) -> None:
    """In the same packet, or when these have come."""
    valid, malformed = VALID[before], MALFORMED[where]
    count = valid.count(b" HTTP/1.1\r\n")
    for data, left in ((valid + malformed, b""), (valid, malformed)):
        with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
            replies = raw.exchange_on(connection, data, replies=count + (not left))
            if left:
                replies += raw.exchange_on(connection, left)
            assert [reply.status in (200, 405, 422) for reply in replies] == [True] * count + [False]
            assert (replies[-1].status, replies[-1].headers["connection"]) == (400, "close")
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""


@pytest.mark.parametrize("before", VALID)
def test_a_client_that_closes_its_side_gets_all_its_replies(server: RunningServer, before: str) -> None:
    data = VALID[before]
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        count = data.count(b" HTTP/1.1\r\n")
        replies = raw.exchange_on(connection, b"", replies=count + 1)  # none more, but the end
    assert [reply.status in (200, 405, 422) for reply in replies] == [True] * count


@pytest.mark.parametrize("part", [LIVEZ[:-1], creation(b"{}")[:-1], SLOW + LIVEZ[:-1]])
def test_a_request_that_ends_before_its_end_is_refused(server: RunningServer, part: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        connection.sendall(part)
        connection.shutdown(socket.SHUT_WR)
        *_, refusal = raw.exchange_on(connection, b"", replies=3)
    assert (refusal.status, refusal.headers["connection"]) == (400, "close")


def test_the_rest_of_an_answered_request_is_not_answered_again(server: RunningServer) -> None:
    head = raw.request("POST", "/v1/payments", {"Transfer-Encoding": "chunked"})
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        connection.sendall(head)
        assert raw.next_reply(connection).status == 401
        connection.sendall(b"nonsense\r\n")
        assert connection.recv(65536) == b""


def test_a_pipelined_wait_ends_when_its_client_leaves(server: RunningServer) -> None:
    [created] = raw.exchange(server.port, creation(json.dumps(order()).encode()))
    path = f"/_mock/payments/{json.loads(created.body)['id']}/wait?status=completed&timeout=60"
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        connection.sendall(raw.request("GET", path, AUTHORIZED) + GET)
        wait_until(lambda: server.app.notifier.waiting)
    wait_until(lambda: not server.app.notifier.waiting, 30)
