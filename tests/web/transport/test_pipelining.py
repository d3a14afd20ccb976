"""Several requests on one connection: each gets its own answer, in order."""

import contextlib
import json
import socket

import pytest

from tests.support import raw
from tests.support.client import order
from tests.support.creation import AUTHORIZED, GET, creation, stored
from tests.support.server import RunningServer


def test_requests_of_one_connection_are_answered_in_order(server: RunningServer) -> None:
    paths = ["/v1/chains", "/nowhere", "/livez", "/v1/chains/bsc/assets"]
    data = b"".join(raw.request("GET", path, AUTHORIZED) for path in paths)
    replies = raw.exchange(server.port, data, replies=4)
    assert [reply.status for reply in replies] == [200, 404, 200, 200]
    assert json.loads(replies[2].body) == {"status": "ok"}


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


def test_an_offer_to_upgrade_is_ignored_and_the_connection_goes_on(server: RunningServer) -> None:
    """Java's client makes this offer with its first request."""
    offer = {
        "Connection": "Upgrade, HTTP2-Settings",
        "Upgrade": "h2c",
        "HTTP2-Settings": "AAEAAEAAAAIAAAABAAMAAABk",
    }
    first, second, third = raw.exchange(
        server.port,
        creation(json.dumps(order()).encode(), offer)
        + raw.request("GET", "/v1/chains", {**AUTHORIZED, **offer})
        + GET,
        replies=3,
    )
    assert (first.status, second.status, third.status) == (201, 200, 200)


def test_headers_are_not_seen_by_other_requests_of_the_connection(server: RunningServer) -> None:
    first, second = raw.exchange(server.port, GET + raw.request("GET", "/v1/chains"), replies=2)
    assert (first.status, second.status) == (200, 401)


def test_a_good_request_before_garbage_gets_its_answer_first(server: RunningServer) -> None:
    first, second = raw.exchange(server.port, GET + b"garbage\r\n\r\n", replies=2)
    assert (first.status, second.status) == (200, 400)


@pytest.mark.parametrize("requests", [2, 3, 10])
def test_many_good_requests_before_garbage_get_their_answers_first(
    server: RunningServer, requests: int
) -> None:
    replies = raw.exchange(server.port, GET * requests + b"garbage\r\n\r\n", replies=requests + 1)
    assert [reply.status for reply in replies] == [*[200] * requests, 400]


@pytest.mark.parametrize("before", [1, 2, 5])
def test_a_malformed_body_is_refused_when_its_turn_comes(server: RunningServer, before: int) -> None:
    stored_before = stored(server)
    malformed = creation(json.dumps(order()).encode(), chunk=50).replace(b"\r\n0\r\n\r\n", b"\r\nzz\r\n\r\n")
    replies = raw.exchange(server.port, GET * before + malformed, replies=before + 1)
    assert [reply.status for reply in replies] == [*[200] * before, 400]
    assert stored(server) == stored_before


def test_the_rest_of_an_answered_request_is_not_answered_again(server: RunningServer) -> None:
    head = raw.request("POST", "/v1/payments", {"Transfer-Encoding": "chunked"})
    with socket.create_connection(("127.0.0.1", server.port), 5) as connection:
        connection.sendall(head)
        assert raw.next_reply(connection).status == 401
        connection.sendall(b"nonsense\r\n")
        assert connection.recv(65536) == b""


@pytest.mark.parametrize(
    "refused",
    [
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03",
        raw.request("GET", "/v1/chains", {"X-Big": "x" * 16384}),
    ],
    ids=["no HTTP at all", "a header of 16 KiB"],
)
def test_what_comes_after_an_answered_request_gets_its_own_refusal(
    server: RunningServer, refused: bytes
) -> None:
    head = raw.request("POST", "/v1/payments", {"Content-Length": "2"})
    with socket.create_connection(("127.0.0.1", server.port), 5) as connection:
        connection.sendall(head)
        assert raw.next_reply(connection).status == 401
        connection.sendall(b"{}" + refused)
        assert raw.next_reply(connection).status // 100 == 4


def test_many_offers_to_upgrade_in_one_packet_are_ignored_one_by_one(server: RunningServer) -> None:
    offer = raw.request("GET", "/livez", {"Connection": "Upgrade", "Upgrade": "h2c"})
    replies = raw.exchange(server.port, offer * 300, replies=300)
    assert [reply.status for reply in replies] == [200] * 300


def test_a_client_that_sends_without_reading_takes_no_memory(server: RunningServer) -> None:
    """Its requests wait on its own side once those that were read are not answered yet."""
    ping = raw.request("GET", "/livez") * 1000
    sent = 0
    with socket.create_connection(("127.0.0.1", server.port), 5) as flood:
        flood.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            for _ in range(2000):
                sent += flood.send(ping)
    assert sent < 32 * 2**20
