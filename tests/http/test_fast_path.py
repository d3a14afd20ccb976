"""The fast path: the same replies as through ASGI, to what comes whole and to what does not."""

import contextlib
import hashlib
import inspect
import json
import re
from collections.abc import Sequence
from socket import create_connection, socket
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from harness.polling import wait_until
from paymock.http.fast_path import PlainParser
from tests.support import raw
from tests.support.client import order
from tests.support.fast_paths import JSON, KEY, Pair, creation, payment_id, without_chance

ALIKE = {
    "too large": creation("a-creation-5", order_id="x" * 65_536),
    "no host": b"GET /v1/chains HTTP/1.1\r\nAuthorization: Bearer mk_test_lane\r\n\r\n",
    "two hosts": raw.request("GET", "/v1/chains", {**KEY, "HOST": "localhost"}),
    "a fragment": raw.request("GET", "/v1/chains#top", KEY),
    "a body that nobody reads": raw.request("GET", "/v1/chains", KEY, b"something"),
    "the last of a connection": raw.request("GET", "/v1/chains", {**KEY, "Connection": "close"}),
    "the last of a proxy": raw.request("GET", "/v1/chains", {**KEY, "Proxy-Connection": "close"}),
    "HTTP/1.0": raw.request("GET", "/v1/chains", KEY).replace(b"HTTP/1.1", b"HTTP/1.0"),
    "an unknown method": raw.request("FOO", "/v1/payments", JSON, b"{}"),
    "DEL in a key": creation("a-creation\x7f"),
    "a control character in a header": raw.request("GET", "/v1/chains", {**KEY, "X-Other": "\x1b"}),
    "two spaces": raw.request("GET", " /v1/chains", KEY),
    "the control API": raw.request("GET", "/_mock/clock", KEY),
}
"""What the random requests below are not."""


@pytest.mark.parametrize("name", ALIKE)
def test_a_reply_of_the_fast_path_is_that_of_asgi(pair: Pair, name: str) -> None:
    [quick], [plain] = (raw.exchange(server.port, ALIKE[name]) for server in pair)
    assert without_chance(quick) == without_chance(plain)


HEADERS = {
    "Authorization": ["Bearer mk_test_lane", "bearer  mk_test_lane", "Bearer wrong", ""],
    "Content-Type": ["application/json", "application/json; charset=UTF-8", "text/plain"],
    "Idempotency-Key": ["random-key-1", "random-key-2", "short", "a-payment-to-read"],
    "X-Mock-Scenario": ["underpaid_expired", "unknown"],
    "X-Mock-Fault": ["status=503", "status=429; times=1", "delay=1", "unknown"],
    "Host": ["localhost:80", "other.example"],
    "Origin": ["https://shop.example"],
    "Traceparent": ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
    "Expect": ["100-continue"],
    "Upgrade": ["h2c"],
}
USUAL = [(name, HEADERS[name][0]) for name in ("Authorization", "Content-Type", "Idempotency-Key")]
METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT")
PATHS = (
    "/v1/chains",
    "/v1/chains/bsc/assets",
    "/v1/chains/%62sc/assets",
    "/v1/payments",
    "/v1/payments/{id}",
    "/v1/payments/{id}/attempts",
    "/v1/payments/pay_unknown",
    "/v1/webhooks",
    "/v1/nothing",
    "/v1/chains/",
    "/v1/chains?limit=1",
    "/checkout/{id}.json",
    "/livez",
)
BODIES = [json.dumps(order(**changes)).encode() for changes in ({}, {"order_id": "another"}, {"order_id": 7})]
BODIES += [b'{"url": "https://shop.example"}', b"[]", b"{", b""]
FAST = [("GET", path, b"") for path in PATHS[:6]] + [("POST", "/v1/payments", body) for body in BODIES[:3]]


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A request, often one for the fast path. `{id}` stands for the id of a payment."""
    anything = st.tuples(st.sampled_from(METHODS), st.sampled_from(PATHS), st.sampled_from(BODIES))
    method, path, body = draw(st.sampled_from(FAST) | anything)
    lines = draw(st.just(USUAL) | st.lists(st.sampled_from(USUAL), unique=True))
    for name in draw(st.just([]) | st.lists(st.sampled_from([*HEADERS]), max_size=2)):
        lines = [*lines, (name, draw(st.sampled_from(HEADERS[name])))]
    lines = [("Host", "localhost"), *lines]
    if body and draw(st.booleans()):
        lines.append(("Transfer-Encoding", "chunked"))
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    elif body:
        lines.append(("Content-Length", f"{len(body)}"))
    if draw(st.booleans()):
        lines = [(name.lower(), value) for name, value in lines]
    head = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in lines), "", ""]
    return "\r\n".join(head).encode() + body


LAST = raw.request("GET", "/livez", {"Connection": "close"})
VARIABLE = re.compile(rb'(?<=date: )[^\r]+|req_[0-9a-f]+_[0-9a-f]+|(?<="duration_ms":)[0-9.e-]+')


def conversation(port: int, parts: Sequence[bytes], *, in_turn: bool) -> bytes:
    """Send the parts and LAST; return all bytes of the replies, with what is different in each run masked. If
    they are sent `in_turn`, each waits for the reply to the one before it.
    """
    received = b""
    with create_connection(("127.0.0.1", port), 60) as connection:
        for part in (*parts, LAST):
            with contextlib.suppress(ConnectionError):  # the server closes the connection after a refusal
                connection.sendall(part)
                received += connection.recv(65_536) if in_turn and part is not LAST else b""
        while data := connection.recv(65_536):
            received += data
    return VARIABLE.sub(b"*", received)


@pytest.mark.parametrize(
    "count", [15, pytest.param(200, marks=pytest.mark.ci), pytest.param(1000, marks=pytest.mark.nightly)]
)
def test_random_requests_get_the_same_bytes_and_journal(pair: Pair, count: int) -> None:
    """The status lines, the header lines in their order and case, the bodies, and what the journal keeps."""

    @settings(max_examples=count)
    @given(st.lists(requests(), min_size=1, max_size=4), st.data())
    def check(pipeline: list[bytes], data: st.DataObject) -> None:
        for server in pair:
            raw.exchange(server.port, raw.request("POST", "/_mock/reset", KEY))
        parts = [request.replace(b"{id}", payment_id(pair).encode()) for request in pipeline]
        in_turn = data.draw(st.booleans())
        if not in_turn:
            sent = b"".join(parts)
            cut = data.draw(st.integers(0, len(sent)))
            parts = [sent[:cut], sent[cut:]]
        quick, plain = (conversation(server.port, parts, in_turn=in_turn) for server in pair)
        assert quick == plain
        journal = raw.request("GET", "/_mock/requests", KEY)
        quick, plain = (VARIABLE.sub(b"*", raw.exchange(server.port, journal)[0].body) for server in pair)
        assert quick == plain

    check()


FIRST = b"POST /v1/payments HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer mk_test_a\r\n%b\r\n\r\n"
SECOND = b"GET /v1/chains HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n"


@pytest.mark.parametrize(
    ("repeated", "second"),
    [
        (b"Authorization: Bearer mk_test_b", b""),
        (b"Host: b", b""),
        (b"X: 1\r\nX: 2", b"Authorization: Bearer mk_test_b\r\n"),
        (b"X: 1\r\nX: 2", b"Host: b\r\n"),
    ],
)
def test_two_requests_that_come_together_are_not_taken_for_one(repeated: bytes, second: bytes) -> None:
    """The second one announces its own length, as if it were the body of the first."""
    length = len(SECOND % (second, 10))
    parser = PlainParser()
    assert parser.parse(FIRST % repeated + SECOND % (second, length)) is None
    plain = parser.parse(raw.request("GET", "/v1/chains", KEY))
    assert plain is not None
    assert plain.path == "/v1/chains"


def test_pending_faults_and_scenarios_are_taken_alike(pair: Pair) -> None:
    overrides = b'{"scenario": "underpaid_expired"}', b'{"fault": "status=500"}'
    requests = [raw.request("POST", "/_mock/next", JSON, body) for body in overrides]
    requests += [creation("the-first-creation"), creation("the-first-creation"), creation("the-second-one")]
    quick, plain = ([raw.exchange(server.port, data)[0] for data in requests] for server in pair)
    assert [without_chance(reply) for reply in quick] == [without_chance(reply) for reply in plain]
    assert [reply.status for reply in quick] == [200, 200, 500, 201, 201]


@pytest.mark.parametrize("cut", [10, 100, -100, -1])
def test_a_request_in_parts_is_answered(pair: Pair, cut: int) -> None:
    data = creation(f"a-request-in-parts-{cut}")
    with create_connection(("127.0.0.1", pair.quick.port), 60) as connection:
        connection.sendall(data[:cut])
        wait_until(lambda: any(one._target or one._head for one in protocols(pair)))
        [reply] = raw.exchange_on(connection, data[cut:])
    assert (reply.status, "idempotent-replayed" in reply.headers) == (201, False)


def test_what_can_be_answered_at_once_is(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("this should not go through ASGI")

    monkeypatch.setattr(HttpToolsProtocol, "_start_asgi_task", refused)
    with create_connection(("127.0.0.1", pair.quick.port), 60) as connection:
        for data in (raw.request("GET", "/v1/chains", KEY), creation("answered-at-once")) * 2:
            [reply] = raw.exchange_on(connection, data)
            assert reply.status in (200, 201)


@pytest.mark.ci  # thousands of requests
@pytest.mark.parametrize("path", ["/v1/chains", "/livez"], ids=["fast path", "ASGI"])
def test_a_client_that_reads_nothing_does_not_fill_the_memory(pair: Pair, path: str) -> None:
    sent, data = 0, raw.request("GET", path, KEY)
    with create_connection(("127.0.0.1", pair.quick.port), 60) as connection:
        connection.settimeout(0.5)
        with contextlib.suppress(TimeoutError):  # the server has stopped reading
            while sent < 20e6:
                sent += connection.send(data * 100)
    assert sent < 20e6
    [reply] = raw.exchange(pair.quick.port, data)
    assert reply.status == 200


AFTER_A_READ = {
    "the same": (raw.request("GET", "/v1/chains", KEY), 200),
    "another": (raw.request("GET", "/v1/nothing", KEY), 404),
    "what goes through ASGI": (raw.request("GET", "/_mock/clock", KEY), 200),
    "what is refused": (b"no request\r\n\r\n", 400),
}


@pytest.mark.parametrize("name", AFTER_A_READ)
def test_what_comes_in_the_same_round_does_not_overtake_the_reply(pair: Pair, name: str) -> None:
    data, (following, status) = raw.request("GET", "/v1/chains", KEY), AFTER_A_READ[name]
    with create_connection(("127.0.0.1", pair.quick.port), 60) as connection:
        [known] = raw.exchange_on(connection, data)
        received_at_once(pair, connection, data, following)
        replies = raw.exchange_on(connection, b"", replies=2)
    assert replies[0].body == known.body
    assert [reply.status for reply in replies] == [200, status]


def test_a_refusal_in_the_same_round_follows_the_reply_and_leaves_others_theirs(pair: Pair) -> None:
    """As when a deadline is over just then."""
    data = raw.request("GET", "/v1/chains", KEY)
    with (
        create_connection(("127.0.0.1", pair.quick.port), 60) as refused,
        create_connection(("127.0.0.1", pair.quick.port), 60) as other,
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
def test_a_request_and_the_beginning_of_another_are_not_taken_for_one(pair: Pair, after: bytes) -> None:
    data = raw.request("GET", "/v1/chains", {**KEY, "X-After": after.hex()})
    malformed = after.startswith((b"GET ", b"\x16"))
    for _ in range(3):
        replies = raw.exchange(pair.quick.port, data + after, replies=1 + malformed)
        assert [reply.status for reply in replies] == [200, 400][: 1 + malformed]


def test_empty_lines_between_requests_leave_no_deadline(pair: Pair) -> None:
    data = raw.request("GET", "/v1/chains", KEY)
    with create_connection(("127.0.0.1", pair.quick.port), 60) as connection:
        raw.exchange_on(connection, data)
        connection.sendall(b"\r\n")
        protocol = protocol_of(pair, connection)
        wait_until(lambda: protocol._head)
        assert protocol._deadline is not None
        [reply] = raw.exchange_on(connection, data)
        assert (reply.status, protocol._deadline) == (200, None)


def test_what_has_been_answered_goes_out_before_the_server_stops(pair: Pair) -> None:
    data = raw.request("GET", "/v1/chains", KEY)
    with create_connection(("127.0.0.1", pair.quick.port), 60) as connection:
        raw.exchange_on(connection, data)
        protocol = protocol_of(pair, connection)
        protocol.loop.call_soon_threadsafe(lambda: [protocol.data_received(data), protocol.shutdown()])
        [reply] = raw.exchange_on(connection, b"")
    assert reply.status == 200


@pytest.mark.parametrize("end", ["abort", "write_eof"])
def test_a_client_that_has_gone_in_the_same_round_leaves_others_their_replies(pair: Pair, end: str) -> None:
    data = raw.request("GET", "/v1/chains", KEY)
    with create_connection(("127.0.0.1", pair.quick.port), 60) as gone, contextlib.ExitStack() as stack:
        here = [stack.enter_context(create_connection(("127.0.0.1", pair.quick.port), 60)) for _ in range(2)]
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


def test_uvicorn_is_the_one_that_the_fast_path_was_written_for() -> None:
    """The fast path replaces these methods. Where they have changed, compare them, and renew the digest."""
    source = "".join(
        inspect.getsource(getattr(HttpToolsProtocol, name))
        for name in (
            "__init__",
            "on_message_begin",
            "on_headers_complete",
            "on_body",
            "on_message_complete",
            "on_response_complete",
            "shutdown",
        )
    )
    assert hashlib.sha256(source.encode()).hexdigest()[:16] == "3d8a2c0242453cd6"


def protocol_of(pair: Pair, connection: socket) -> Any:
    port = connection.getsockname()[1]
    [found] = [one for one in protocols(pair) if one.client[1] == port]
    return found


def protocols(pair: Pair) -> list[Any]:
    return [*pair.quick.transport_state.connections._group_of]


def received_at_once(pair: Pair, connection: socket, *parts: bytes) -> None:
    """As when a connection is read more than once in a round of the event loop."""
    protocol = protocol_of(pair, connection)
    protocol.loop.call_soon_threadsafe(lambda: [protocol.data_received(part) for part in parts])
