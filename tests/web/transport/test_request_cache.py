"""Requests that came before: they are not parsed again, and answered as if they were."""

import contextlib
import json
import time
from socket import create_connection, socket
from typing import Any

import pytest

from harness.polling import wait_until
from paymock.web.transport.fast_path import FastPathProtocol
from tests.support import raw
from tests.support.client import order
from tests.support.fast_paths import JSON, KEY, Pair, creation, payment_id, without_chance


def polled(pair: Pair, data: bytes, times: int = 3) -> list[raw.RawReply]:
    """The same bytes again and again, each time when the last reply has come."""
    with create_connection(("127.0.0.1", pair.quick.port), 5) as connection:
        return [raw.exchange_on(connection, data)[0] for _ in range(times)]


def test_the_same_bytes_are_parsed_once_and_answered_each_time(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = raw.request("GET", f"/v1/payments/{payment_id(pair)}", {**KEY, "X-Poll": "1"})
    [first] = polled(pair, data, 1)
    parsed: list[FastPathProtocol] = []
    monkeypatch.setattr(FastPathProtocol, "call_application", parsed.append)
    pair.quick.clock.now += 20_000
    replies = polled(pair, data)
    pair.quick.clock.now -= 20_000
    assert not parsed
    assert len({reply.headers["x-request-id"] for reply in [first, *replies]}) == 4
    statuses = [json.loads(reply.body)["status"] for reply in [first, *replies]]
    assert statuses[0] == "awaiting_payment"
    assert statuses[1] == statuses[2] == statuses[3] != "awaiting_payment"


def test_a_known_creation_is_made_anew_after_a_reset_and_takes_what_is_pending(pair: Pair) -> None:
    headers = {**JSON, "Authorization": "Bearer mk_test_lane_reset", "Idempotency-Key": "known-creation"}
    data = raw.request("POST", "/v1/payments", headers, json.dumps(order()).encode())
    before = polled(pair, data, 4)
    assert [reply.headers.get("idempotent-replayed") for reply in before] == [None, "true", "true", "true"]
    assert len({reply.body for reply in before}) == 1
    raw.exchange(pair.quick.port, raw.request("POST", "/_mock/reset", headers, b"{}"))
    pending = b'{"scenario": "underpaid_expired"}'
    raw.exchange(pair.quick.port, raw.request("POST", "/_mock/next", headers, pending))
    after = polled(pair, data, 2)
    assert [reply.headers.get("idempotent-replayed") for reply in after] == [None, "true"]
    made = json.loads(after[0].body)["id"]
    [seen] = raw.exchange(pair.quick.port, raw.request("GET", f"/_mock/payments/{made}", headers))
    assert json.loads(seen.body)["scenario"] == "underpaid_expired"


def test_known_bytes_that_go_on_with_a_request_are_a_part_of_it(pair: Pair) -> None:
    data = raw.request("GET", "/v1/chains", {**KEY, "X-Part": "1"})
    polled(pair, data, 2)
    head = creation("a-body-of-known-bytes", {"Content-Type": "text/plain"}).split(b"Content-Length")[0]
    whole = head + b"Content-Length: %d\r\n\r\n" % len(data)
    with create_connection(("127.0.0.1", pair.quick.port), 5) as connection:
        connection.sendall(whole)
        wait_until(lambda: any(one._method == b"POST" for one in connections(pair)))
        [reply] = raw.exchange_on(connection, data)
    assert (reply.status, reply.code) == (415, "unsupported_media_type")


def connections(pair: Pair) -> list[Any]:
    return [*pair.quick.transport_state.connections._group_of]


HEAD = {**JSON, "X-Shop": "of a test"}


def with_head(key: str, body: bytes | None = None, changes: dict[str, str] | None = None) -> bytes:
    """A creation whose head differs from others in no more than its key, unless there are `changes`."""
    body = json.dumps(order()).encode() if body is None else body
    return raw.request("POST", "/v1/payments", {**HEAD, "Idempotency-Key": key, **(changes or {})}, body)


def test_creations_with_the_same_head_are_parsed_once_and_each_makes_its_payment(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = [json.dumps(order(order_id=f"order-{number}")).encode() for number in range(3)]
    creations = [with_head(f"of-one-head-{number}", body) for number, body in enumerate(bodies)]
    plain = [raw.exchange(pair.plain.port, data)[0] for data in creations]
    with create_connection(("127.0.0.1", pair.quick.port), 5) as connection:
        quick = [raw.exchange_on(connection, creations[0])[0]]
        parsed: list[FastPathProtocol] = []
        monkeypatch.setattr(FastPathProtocol, "call_application", parsed.append)
        quick += [raw.exchange_on(connection, data)[0] for data in creations[1:]]
        again = [raw.exchange_on(connection, creations[2])[0] for _ in range(2)]
    assert not parsed
    assert [without_chance(reply) for reply in quick] == [without_chance(reply) for reply in plain]
    assert [json.loads(reply.body)["order_id"] for reply in quick] == ["order-0", "order-1", "order-2"]
    assert [reply.headers.get("idempotent-replayed") for reply in again] == ["true", "true"]
    assert {reply.body for reply in again} == {quick[2].body}


AFTER_A_KNOWN_HEAD: dict[str, bytes] = {
    "another body": with_head("after-a-head-1", json.dumps(order(order_id="x" * 9)).encode()),
    "a body that is no JSON": with_head("after-a-head-2", b"x" * len(json.dumps(order()))),
    "a body that lacks something": with_head("after-a-head-3", b"{}"),
    "a key that is too short": with_head("short"),
    "a key with a space in it": with_head("with a space"),
    "a key with a control character": with_head("with-a-\x01-character"),
    "a key with letters beyond ASCII": with_head("with-\xe9-and-\xe8"),
    "a key that goes on": with_head("after-a-head-4\r\n and-goes-on"),
    "two keys": with_head("after-a-head-5\r\nIdempotency-Key: after-a-head-6"),
    "a key that ends the head": with_head("after-a-head-7\r\n"),
    "another API key": with_head("after-a-head-8", changes={"Authorization": "Bearer nobody"}),
    "another type": with_head("after-a-head-9", changes={"Content-Type": "text/plain"}),
    "a fault": with_head("after-a-head-10", changes={"X-Mock-Fault": "status=418"}),
    "a body that contains a head": with_head("after-a-head-11", b"\r\nIdempotency-Key: in-the-body\r\n"),
}


@pytest.mark.parametrize("name", AFTER_A_KNOWN_HEAD)
def test_what_resembles_a_known_head_is_answered_as_if_there_were_none(pair: Pair, name: str) -> None:
    data = AFTER_A_KNOWN_HEAD[name]
    replies, noted = [], []
    for server in pair:
        with create_connection(("127.0.0.1", server.port), 5) as connection:
            raw.exchange_on(connection, with_head("a-head-to-be-known"))
            replies.append(without_chance(raw.exchange_on(connection, data)[0]))
        [journal] = raw.exchange(server.port, raw.request("GET", "/_mock/requests?limit=1", KEY))
        [entry] = json.loads(journal.body)["data"]
        noted.append({name: entry[name] for name in ("path", "status", "payment_id", "idempotency", "error")})
    assert replies[0] == replies[1]
    assert noted[0] == noted[1]


def test_a_creation_in_chunks_is_not_known_by_its_head(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps(order()).encode()
    head = with_head("in-chunks-1", b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    chunked = head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    parsed: list[FastPathProtocol] = []
    call = FastPathProtocol.call_application

    def noted(protocol: FastPathProtocol) -> None:
        parsed.append(protocol)
        call(protocol)

    monkeypatch.setattr(FastPathProtocol, "call_application", noted)
    with create_connection(("127.0.0.1", pair.quick.port), 5) as connection:
        for key in (b"in-chunks-1", b"in-chunks-2", b"in-chunks-3"):
            [reply] = raw.exchange_on(connection, chunked.replace(b"in-chunks-1", key))
            assert reply.status == 201
    assert len(parsed) == 3


@pytest.mark.parametrize("cut", [100, -100, -1])
def test_a_creation_with_a_known_head_may_come_in_parts(pair: Pair, cut: int) -> None:
    with create_connection(("127.0.0.1", pair.quick.port), 5) as connection:
        raw.exchange_on(connection, with_head("in-parts-first"))
        data = with_head(f"in-parts-{cut}")
        connection.sendall(data[:cut])
        time.sleep(0.02)
        [reply] = raw.exchange_on(connection, data[cut:])
    assert (reply.status, "idempotent-replayed" in reply.headers) == (201, False)


def test_creations_with_a_known_head_may_come_together(pair: Pair) -> None:
    together = b"".join(with_head(f"together-{number}") for number in range(5))
    with create_connection(("127.0.0.1", pair.quick.port), 5) as connection:
        raw.exchange_on(connection, with_head("together-first"))
        replies = raw.exchange_on(connection, together, replies=5)
    assert [reply.status for reply in replies] == [201] * 5
    assert len({json.loads(reply.body)["id"] for reply in replies}) == 5


AFTER_A_KNOWN_REQUEST = {
    "the same": (raw.request("GET", "/v1/chains", KEY), 200),
    "another": (raw.request("GET", "/v1/nothing", KEY), 404),
    "what goes through ASGI": (raw.request("GET", "/_mock/clock", KEY), 200),
    "what is refused": (b"no request\r\n\r\n", 400),
}


@pytest.mark.parametrize("name", AFTER_A_KNOWN_REQUEST)
def test_what_comes_in_the_same_round_does_not_overtake_the_reply(pair: Pair, name: str) -> None:
    data, (following, status) = raw.request("GET", "/v1/chains", KEY), AFTER_A_KNOWN_REQUEST[name]
    with create_connection(("127.0.0.1", pair.quick.port), 5) as connection:
        [known] = raw.exchange_on(connection, data)
        received_at_once(pair, connection, data, following)
        replies = raw.exchange_on(connection, b"", replies=2)
    assert replies[0].body == known.body
    assert [reply.status for reply in replies] == [200, status]


def test_a_refusal_in_the_same_round_follows_the_reply_and_leaves_others_theirs(pair: Pair) -> None:
    """As when a deadline is over just then."""
    data = raw.request("GET", "/v1/chains", KEY)
    with (
        create_connection(("127.0.0.1", pair.quick.port), 5) as refused,
        create_connection(("127.0.0.1", pair.quick.port), 5) as other,
    ):
        for connection in (refused, other):
            raw.exchange_on(connection, data)
        protocol, beside = protocol_of(pair, refused), protocol_of(pair, other)

        def round_of_two() -> None:
            protocol.data_received(data)
            beside.data_received(data)
            protocol._refuse("bad_request")

        protocol.loop.call_soon_threadsafe(round_of_two)
        replies = raw.exchange_on(refused, b"", replies=2)
        [another] = raw.exchange_on(other, b"")
    assert [reply.status for reply in (*replies, another)] == [200, 400, 200]


@pytest.mark.parametrize("after", [b"GET  / HTTP/1.1\r\n\r\n", b"\x16", b"GET", b"\r\n"])
def test_a_request_and_the_beginning_of_another_are_not_cached_as_one(pair: Pair, after: bytes) -> None:
    data = raw.request("GET", "/v1/chains", {**KEY, "X-After": after.hex()})
    malformed = after.startswith((b"GET ", b"\x16"))
    for _ in range(3):
        replies = raw.exchange(pair.quick.port, data + after, replies=1 + malformed)
        assert [reply.status for reply in replies] == [200, 400][: 1 + malformed]


def test_empty_lines_between_requests_leave_no_deadline(pair: Pair) -> None:
    data = raw.request("GET", "/v1/chains", KEY)
    with create_connection(("127.0.0.1", pair.quick.port), 5) as connection:
        raw.exchange_on(connection, data)
        connection.sendall(b"\r\n")
        protocol = protocol_of(pair, connection)
        wait_until(lambda: protocol._head)
        assert protocol._deadline is not None
        [reply] = raw.exchange_on(connection, data)
        assert (reply.status, protocol._deadline) == (200, None)


def test_what_has_been_answered_goes_out_before_the_server_stops(pair: Pair) -> None:
    data = raw.request("GET", "/v1/chains", KEY)
    with create_connection(("127.0.0.1", pair.quick.port), 5) as connection:
        raw.exchange_on(connection, data)
        protocol = protocol_of(pair, connection)
        protocol.loop.call_soon_threadsafe(lambda: [protocol.data_received(data), protocol.shutdown()])
        [reply] = raw.exchange_on(connection, b"")
    assert reply.status == 200


@pytest.mark.parametrize("end", ["abort", "write_eof"])
def test_a_client_that_has_gone_in_the_same_round_leaves_others_their_replies(pair: Pair, end: str) -> None:
    data = raw.request("GET", "/v1/chains", KEY)
    with create_connection(("127.0.0.1", pair.quick.port), 5) as gone, contextlib.ExitStack() as stack:
        here = [stack.enter_context(create_connection(("127.0.0.1", pair.quick.port), 5)) for _ in range(2)]
        for connection in (gone, *here):
            raw.exchange_on(connection, data)
        first, second = (protocol_of(pair, connection) for connection in here)
        going = protocol_of(pair, gone)

        def round_of_three() -> None:
            for protocol in (first, going, second):
                protocol.data_received(data)
            getattr(going.transport, end)()

        first.loop.call_soon_threadsafe(round_of_three)
        replies = [raw.exchange_on(connection, b"")[0] for connection in here]
    assert [reply.status for reply in replies] == [200, 200]


def protocol_of(pair: Pair, connection: socket) -> Any:
    port = connection.getsockname()[1]
    [found] = [one for one in connections(pair) if one.client[1] == port]
    return found


def received_at_once(pair: Pair, connection: socket, *parts: bytes) -> None:
    """As when a connection is read more than once in a round of the event loop."""
    protocol = protocol_of(pair, connection)
    protocol.loop.call_soon_threadsafe(lambda: [protocol.data_received(part) for part in parts])


def test_so_many_requests_are_known_and_no_more(pair: Pair) -> None:
    for number in range(1_100):
        [reply] = polled(pair, raw.request("GET", "/v1/chains", {**KEY, "X-Number": f"{number}"}), 1)
        assert reply.status == 200
    assert 1_000 <= len(pair.quick.transport_state.request_cache) <= 1_050  # with the heads of other tests
