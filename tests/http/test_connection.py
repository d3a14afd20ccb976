"""One connection, without a socket: a request means the same however it is cut, and replies come in the order
of their requests, whatever comes in one turn of the event loop.
"""

import asyncio
import contextlib
import math
import random
import re
import time
from collections.abc import Sequence
from itertools import pairwise

import pytest

from paymock.http.parser import MAX_HEAD
from paymock.http.protocol import EncodedResponse
from paymock.http.requests import ClientGone, Request
from paymock.http.responses import Response, error_response
from paymock.rules.errors import PaymockError
from tests.support import raw
from tests.support.heads import GOOD, request_of
from tests.support.transport import Connection, turns
from tests.support.virtual_time import run

READ = raw.request("GET", "/read")
WAITS = raw.request("GET", "/waits")
BODY = raw.request("POST", "/read", {}, b"body")
MALFORMED = b"no request\r\n\r\n"


class Echo:
    """Answers with what it was asked. `/waits` takes some turns."""

    async def respond(self, request: Request) -> EncodedResponse:
        if request.path == "/waits":
            await turns(2)
        try:
            body = await request.body.read(request.client)
        except PaymockError as error:
            return error_response(error, ""), b""
        except ClientGone:
            return Response(0, lost=True), b""
        seen = request.method, request.path, request.query_string, sorted(request.headers.items()), body
        content = repr((seen, sorted(request.repeated), request.keeps_alive)).encode()
        return Response(200, content), b"content-length: %d\r\n" % len(content)

    def refuse(self, error: PaymockError, path: str) -> EncodedResponse:
        return error_response(error, ""), b"x-target: %b\r\n" % path.encode()


async def conversation(parts: Sequence[bytes], *, slowly: bool) -> tuple[bytes, bool]:
    """What comes back, and whether the connection is closed then. `slowly`: a part in each turn."""
    connection = Connection(Echo())
    for part in parts:
        connection.send(part)
        if slowly:
            await turns()
    for _ in range(20):
        await turns()
    connection.protocol.eof_received()
    await turns()
    written = connection.transport.written.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")
    return re.sub(rb"date: [^\r]*", b"", written), connection.transport.closed or connection.protocol._refused


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    bounds = [0, *sorted(places), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


@pytest.mark.parametrize("count", [600, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_a_request_means_the_same_however_it_is_cut(count: int) -> None:
    async def check() -> None:
        for number in range(count):
            data, _ = request_of(8402, number)
            choice = random.Random(number)  # noqa: S311 - the same again
            places = [choice.randint(0, len(data)) for _ in range(choice.choice((1, 1, 2, 5)))]
            for slowly in (False, True):
                whole = await conversation([data], slowly=slowly)
                assert await conversation(cut(data, places), slowly=slowly) == whole, (number, places)

    run(check())


@pytest.mark.parametrize("data", GOOD)
def test_a_good_request_means_the_same_cut_at_every_byte(data: bytes) -> None:
    async def check() -> None:
        whole = await conversation([data], slowly=False)
        assert whole[0].startswith(b"HTTP/1.1 200")
        assert await conversation([data[at : at + 1] for at in range(len(data))], slowly=True) == whole

    run(check())


def test_ten_times_the_chunks_of_a_body_cost_ten_times_the_time() -> None:
    head = raw.request("POST", "/read", {"Transfer-Encoding": "chunked"})

    def seconds(count: int, *, slowly: bool) -> float:
        parts = [head, *[b"1\r\na\r\n"] * count, b"0\r\n\r\n"]
        began = time.process_time()
        written, _ = run(conversation(parts if slowly else [b"".join(parts)], slowly=slowly))
        assert b"a" * count in written
        return time.process_time() - began

    for slowly in (False, True):
        few, many = (min(seconds(count, slowly=slowly) for _ in range(5)) for count in (300, 3_000))
        assert many < 50 * few


@pytest.mark.parametrize("first", [READ, WAITS])
@pytest.mark.parametrize(("second", "status"), [(READ, 200), (WAITS, 200), (MALFORMED, 400)])
@pytest.mark.parametrize("parts", [1, 2])
async def test_what_comes_in_the_same_turn_does_not_overtake_a_reply(
    first: bytes, second: bytes, status: int, parts: int
) -> None:
    connection = Connection(Echo())
    connection.send(*((first, second) if parts > 1 else (first + second,)))
    await turns(8)
    assert connection.statuses == [200, status]
    assert b"/read" in connection.transport.written or first is WAITS


async def test_the_end_of_one_client_in_a_turn_leaves_others_their_replies() -> None:
    one = Connection(Echo())
    gone, other = Connection(Echo(), one), Connection(Echo(), one)
    for connection in (one, gone, other):
        connection.send(READ)
    gone.transport.abort()
    await turns()
    assert (one.statuses, gone.statuses, other.statuses) == ([200], [], [200])


async def test_a_connection_that_is_closed_answers_nothing_more() -> None:
    connection = Connection(Echo())
    connection.send(READ * 20)
    connection.protocol.shutdown()
    await turns()
    assert len(connection.statuses) == 16
    assert not connection.protocol.answering


@pytest.mark.parametrize("path", ["/read", "/waits"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_defect_ends_the_connection(path: str) -> None:
    class Broken(Echo):
        async def respond(self, request: Request) -> EncodedResponse:
            await super().respond(request)
            raise LookupError

    connection = Connection(Broken())
    with contextlib.suppress(LookupError):  # in the turn of the request
        connection.send(raw.request("GET", path))
    await turns(9)
    assert (connection.statuses, connection.transport.closed) == ([], True)


def test_a_server_that_stops_waits_a_moment_for_a_request_that_is_on_its_way() -> None:
    async def stop() -> tuple[float, Connection, Connection]:
        loop, idle, busy = asyncio.get_running_loop(), Connection(Echo()), Connection(Echo())
        busy.send(READ)
        for connection in (idle, busy):
            connection.protocol.shutdown()
        busy.send(READ)
        started = loop.time()
        while not idle.transport.closed:
            await asyncio.sleep(0.01)
        return loop.time() - started, idle, busy

    seconds, idle, busy = run(stop())
    assert (idle.statuses, idle.transport.closed) == ([], True)
    assert 0.4 < seconds < 1
    assert (busy.statuses, busy.transport.closed) == ([200, 200], True)
    assert busy.transport.written.count(b"connection: close") == 1


async def test_what_has_been_answered_goes_out_before_the_server_stops() -> None:
    connection = Connection(Echo())
    connection.send(READ, b"GET /re")
    connection.protocol.shutdown()
    assert (connection.statuses, connection.transport.closed) == ([200], True)


async def test_many_requests_of_one_client_leave_others_their_turn() -> None:
    greedy = Connection(Echo())
    other = Connection(Echo(), greedy)
    greedy.send(READ * 100)
    other.send(READ)
    await turns(1)
    assert 0 < len(greedy.statuses) < 100
    assert other.statuses == [200]
    await turns(20)
    assert len(greedy.statuses) == 100


@pytest.mark.parametrize("first", [READ, raw.request("POST", "/read", {"Transfer-Encoding": "chunked"})])
async def test_a_client_that_sends_faster_than_it_is_answered_is_read_no_more(first: bytes) -> None:
    connection = Connection(Echo())
    connection.send(first)
    for _ in range(5):
        connection.send(READ * 1_000 if first is READ else b"1\r\nx\r\n" * 10_000)
    assert not connection.transport.reads
    for _ in range(200):
        await turns()
    assert connection.transport.reads
    assert connection.statuses == ([200] * 5_001 if first is READ else [])


async def test_a_client_that_does_not_read_is_read_no_more() -> None:
    connection = Connection(Echo())
    connection.protocol.pause_writing()
    connection.send(READ * 3)
    await turns()
    assert (connection.statuses, connection.transport.reads) == ([], False)
    assert connection.protocol._deadline == math.inf  # its requests have arrived
    connection.protocol.resume_writing()
    await turns()
    assert (connection.statuses, connection.transport.reads) == ([200] * 3, True)


async def test_a_client_that_sends_ahead_of_its_replies_is_read_no_more() -> None:
    connection = Connection(Echo())
    connection.send(WAITS + READ * 2_000)
    assert not connection.transport.reads
    for _ in range(200):
        await turns()
    assert (len(connection.statuses), connection.transport.reads) == (2_001, True)


async def test_a_client_that_leaves_ends_what_waits_for_it() -> None:
    left = asyncio.Event()

    class Waiting(Echo):
        async def respond(self, request: Request) -> EncodedResponse:
            try:
                await request.unless_gone(asyncio.sleep(60))
            except ClientGone:
                left.set()
            return Response(0, lost=True), b""

    connection = Connection(Waiting())
    connection.send(READ)
    await turns()
    connection.protocol.eof_received()
    await asyncio.wait_for(left.wait(), 10)
    await turns()
    assert connection.transport.closed


@pytest.mark.parametrize("data", [b"HEAD /" + b"x" * MAX_HEAD, b"HEAD /%zz HTTP/9\r\n\r\n"])
async def test_a_refusal_of_head_has_no_body(data: bytes) -> None:
    connection = Connection(Echo())
    connection.send(data)
    assert connection.transport.written.endswith(b"\r\n\r\n")


LATE = {
    "after an idle time": (b"", 70, READ),
    "on a connection that is idle again": (READ, 70, READ),
    "after a head in two parts": (READ[:9], 9, READ[9:]),
    "after a body in two parts": (BODY[:-1], 14, BODY[-1:]),
    "behind another one": (b"", 70, WAITS + READ),
}
"""What comes first, how many seconds before the rest, and that."""


@pytest.mark.parametrize("when", LATE)
async def test_no_deadline_ends_a_request_that_is_answered(when: str) -> None:
    class Slow(Echo):
        async def respond(self, request: Request) -> EncodedResponse:
            answer = await super().respond(request)
            await asyncio.sleep(60)
            return answer

    first, seconds, rest = LATE[when]
    connection = Connection(Slow())
    connection.send(first)
    if first is READ:
        await asyncio.sleep(60)
    await asyncio.sleep(seconds)
    connection.send(rest)
    await asyncio.sleep(120.1)
    assert {*connection.statuses} == {200}
    assert connection.protocol._request is None
    await asyncio.sleep(75)
    assert connection.transport.closed


async def test_each_request_has_the_whole_time_for_its_head_and_for_its_body() -> None:
    connection = Connection(Echo())
    for first, second, seconds in ((READ[:9], READ[9:], 9), (BODY[:-1], BODY[-1:], 14)):
        connection.send(first)
        for _ in range(3):
            await asyncio.sleep(seconds)
            connection.send(second + first)
        connection.send(second)
    await turns()
    assert connection.statuses == [200] * 8
