"""Sends mutated requests to a server, many connections at once, and judges what comes back.

Whatever a client sends, the server answers in well-formed HTTP, refuses in the envelope of every refusal, has
no defect, and lets go of the connection when the client does.
"""

import asyncio
import json
import random
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import uvloop

from harness.polling import wait_until
from harness.process_info import count_open_files
from harness.server_process import server_process
from paymock.rules.errors import ERRORS
from tests.support import raw
from tests.support.client import ORDER

CONNECTIONS = 48
SILENCE_SECONDS = 2
"""So long a client waits for more before it ends its side: the request may want a body that never comes."""

HANG_SECONDS = 60
"""So long the server may take to let go after that, on a machine that runs many tests at once."""

LAST = b"\r\n\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
"""Ends a head that was left open, and asks for an end of the connection."""

_HEAD = re.compile(
    rb"HTTP/1\.1 ([1-5][0-9]{2}) [ -~]*\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: [ -~]*\r\n)*)\r\n", re.ASCII
)


Reply = tuple[int, dict[str, str], bytes | None]
"""A reply: its status, its header lines by lower-case name, its body; None: the reply to HEAD."""


@dataclass
class Outcome:
    """What came of a run: how often each status was answered, and what was wrong."""

    replies: Counter[str] = field(default_factory=Counter)
    silent: int = 0
    """Requests without a reply: those that want a body that never comes."""

    violations: list[str] = field(default_factory=list)


def proof(folder: Path, count: int, seed: int) -> Outcome:
    """Sends so many requests to a server of its own, and looks after it."""
    outcome = Outcome()
    with server_process(folder, "--no-access-log") as served:
        httpx.get(f"{served.url}/readyz")  # the first connection opens a file that stays
        files = count_open_files(served.process.pid)
        uvloop.run(_run(served.port, seed, iter(range(count)), outcome))
        if httpx.get(f"{served.url}/readyz").status_code != 200:
            outcome.violations.append("the server does not serve on")
        wait_until(lambda: count_open_files(served.process.pid) <= files)
        status, output = served.stop(signal.SIGTERM)
    output += served.stderr or ""
    if status or "defect" in output or "Traceback" in output:
        outcome.violations.append(f"the server ended with {status} and said: {output}")
    return outcome


async def _run(port: int, seed: int, numbers: Iterator[int], outcome: Outcome) -> None:
    async def work() -> None:
        for number in numbers:
            data, good = request_of(seed, number)
            received = await _exchange(port, data + LAST)
            found = problems(received, data, good, outcome)
            outcome.violations += [f"seed {seed}, number {number}: {problem}" for problem in found]

    async with asyncio.TaskGroup() as workers:
        for _ in range(CONNECTIONS):
            workers.create_task(work())


async def _exchange(port: int, data: bytes) -> bytes | None:
    """All that the server sends until it ends the connection, or None when it does not."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = bytearray()

    async def receive() -> None:
        with suppress(ConnectionError):
            while part := await reader.read(65536):
                received.extend(part)

    receiving = asyncio.create_task(receive())
    try:
        half = len(data) // 2
        writer.write(data[:half])
        await asyncio.sleep(0)  # two packets, mostly
        writer.write(data[half:])
        await asyncio.wait((receiving,), timeout=SILENCE_SECONDS)
        if not receiving.done():
            writer.write_eof()
            await asyncio.wait((receiving,), timeout=HANG_SECONDS)
        return bytes(received) if receiving.done() else None
    finally:
        writer.transport.abort()


def problems(received: bytes | None, data: bytes, good: int | None, outcome: Outcome) -> Iterator[str]:
    """What is wrong with what came back for `data`, which was `good` requests before something else; counts
    the replies. None: the server did not let go of the connection.
    """
    if received is None:
        yield "the server does not let go of the connection"
        return
    try:
        replies = [*parsed(received)]
    except ValueError as malformed:
        yield f"{malformed}: {received[:200]!r}"
        return
    statuses = [status for status, _, _ in replies]
    outcome.silent += not replies
    outcome.replies.update(map(str, statuses))
    if good is not None and (len(statuses) != good + 1 or max(statuses[:good]) >= 300):
        yield f"{good} good requests got {statuses}"
    for number, (status, headers, body) in enumerate(replies):
        if status >= 500:
            yield f"status {status}: {body!r}"
        if "x-request-id" not in headers:
            yield f"status {status} without X-Request-Id"
        if body is None and b"HEAD" not in data:
            yield f"status {status} without the body that its head announces"
        if status >= 400 and body is not None:
            error = json.loads(body)["error"] if headers.get("content-type") == "application/json" else None
            if not error or ERRORS[error["code"]].status != status or not error["message"]:
                yield f"status {status} with {body!r}"
        if headers.get("connection") == "close" and number + 1 < len(replies):
            yield "a reply after the one that was to be the last"


def parsed(received: bytes) -> Iterator[Reply]:
    """The replies. Raises ValueError."""
    while received:
        head = _HEAD.match(received)
        if head is None:
            raise ValueError("no head of a reply")
        received = received[head.end() :]
        status, lines = int(head[1]), head[2].decode("ascii").splitlines()
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        if len(headers) != len(lines):
            raise ValueError("a header line twice")
        if status == 100:
            continue
        if status != 204 and not headers.get("content-length", "").isdigit():
            raise ValueError("no length")
        length = 0 if status == 204 else int(headers["content-length"])
        if length and (not received or received.startswith(b"HTTP/1.1 ")):
            yield status, headers, None
            continue
        if len(received) < length:
            raise ValueError("half a body")
        yield status, headers, received[:length]
        received = received[length:]


API_KEY = "mk_test_mutations"
_JSON = {
    "Authorization": f"Bearer {API_KEY}",
    "Content-Type": "application/json",
    "Idempotency-Key": "order-1001-payment",
}
_AUTHORIZED = {"Authorization": f"Bearer {API_KEY}"}
_BODY = json.dumps(dict(ORDER)).encode()
_CHUNKED = raw.request("POST", "/v1/payments", {**_JSON, "Transfer-Encoding": "chunked"})

GOOD: Sequence[bytes] = (
    raw.request("GET", "/v1/chains", _AUTHORIZED),
    raw.request("GET", "/v1/chains/bsc/assets", {**_AUTHORIZED, "Accept": "application/json"}),
    raw.request("HEAD", "/v1/webhooks", _AUTHORIZED),
    raw.request("GET", "/_mock/payments?limit=1&status=completed", _AUTHORIZED),
    raw.request("GET", "/_mock/requests?limit=1", {**_AUTHORIZED, "Connection": "keep-alive"}),
    raw.request("GET", "/livez", {"User-Agent": "probe/1.0", "Accept-Encoding": "gzip, br"}),
    raw.request("GET", "http://localhost/readyz", {"Cookie": "a=b; c=d"}),
    raw.request("GET", "/livez", {"Connection": "Upgrade", "Upgrade": "h2c"}),
    raw.request("OPTIONS", "/v1/payments", {"Origin": "https://shop.example"}),
    raw.request("POST", "/v1/payments", {**_JSON, "X-Mock-Scenario": "late_payment"}, _BODY),
    raw.request("POST", "/v1/payments", {**_JSON, "Expect": "100-continue"}, _BODY),
    raw.request("PUT", "/_mock/clock", _JSON, b'{"speed": 0}'),
    raw.request("DELETE", "/_mock/next", _AUTHORIZED),
    _CHUNKED + b"%x\r\n%s\r\n0\r\n\r\n" % (len(_BODY), _BODY),
    _CHUNKED + b"5;a=1\r\n%s\r\n%x\r\n%s\r\n0\r\nX-Last: 1\r\n\r\n" % (_BODY[:5], len(_BODY) - 5, _BODY[5:]),
)  # fmt: skip
"""Requests that succeed, of every kind that has a way of its own through the parser."""

_METHODS = b"GET HEAD POST PUT PATCH DELETE OPTIONS TRACE CONNECT PRI get M-SEARCH COPY G\xc3\x89T".split()
_VERSIONS = b"HTTP/1.1 HTTP/1.0 HTTP/0.9 HTTP/2.0 HTTP/1.10 http/1.1 HTTP/1.1\tHTTP/1.1".split(b" ")
_LINES = tuple(
    line.encode() + b"\r\n"
    for line in (
        "Host:", "Host: evil.example", "Host: localhost", "Host: [::1]:8402", "Content-Length: 0",
        "Content-Length: 5", "Content-Length: -1", "Content-Length: +2", "Content-Length: 1, 2",
        "Content-Length: 99999999999999999999", "Content-Length: 0x10", "Transfer-Encoding: chunked",
        "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: xchunked", "Transfer-Encoding : chunked",
        "Transfer-Encoding:\x0bchunked", "Connection: close", "Connection: Upgrade\r\nUpgrade: websocket",
        "Connection: content-length, host", "Expect: 200-ok", "Expect: 100-continue",
        "Content-Encoding: gzip", "Content-Type: text/plain", "TE: trailers", "Authorization: Bearer",
        "Authorization: Basic dXNlcjpwYXNz", "Idempotency-Key: x", "X-Mock-Scenario: happy",
        "X-Forwarded-Host: evil.example", "Range: bytes=0-1", "FFFFFFFFFFFFFFFF", "-1", "",
    )
)  # fmt: skip
_MARKS = (
    b"\n", b"\r", b"\r\n\r\n", b"\n\n", b"\r\n ", b"\r\n\t", b"\0", b" ", b"\t", b":", b"Host: ", b"%",
    b"%00", b"%ff", b"%2e%2e%2f", b"../", b"//", b"?", b"#", b"\xff", b"\xc3\xa9", b"\xe2\x80\xa8", b"\x7f",
    b"\x1b[31m", b"{}", b"0", b"0\r\n\r\n",
)  # fmt: skip
_WORDS: Sequence[bytes] = (*_METHODS, *_VERSIONS, *_LINES, *_MARKS)
"""What parsers have stumbled over, put in anywhere."""

_TARGETS: Sequence[bytes] = (
    b"%00", b"%2F", b"%zz", b"%", b"..", b"//", b"/", b"?", b"&limit=0", b"&limit=1", b"=", b"#", b"*", b"\\",
    b"~", b";a", b"http://", b"http://evil.example/", b"//evil.example/", b"@", b":80", b"{id}", b"x" * 300,
)  # fmt: skip
_LINE = re.compile(rb"\r\n[!-9;-~]+: ?([^\r\n]*)")
_UNTOUCHED = 50
_MALFORMED = b"GET / HTTP/9.9\r\n\r\n"


def request_of(seed: int, number: int) -> tuple[bytes, int | None]:
    """The request with this number. One of fifty is left as good as it was, with others before it and maybe
    something malformed after it: how many of them are to be answered with a success.
    """
    choice = random.Random(f"{seed}-{number}")  # noqa: S311 - the same again for the same seed
    if number % _UNTOUCHED == 0:
        good = choice.choices(GOOD, k=choice.randint(1, 4))
        return b"".join(good) + choice.choice((b"", _MALFORMED)), len(good)
    data = choice.choice(GOOD)
    for _ in range(choice.choice((1, 1, 1, 2, 2, 3, 5))):
        data = choice.choice(_MUTATIONS)(choice, data)
    return data, None


def _place(choice: random.Random, data: bytes) -> int:
    """Rather in the head than in the body, and rather at an edge than within a word."""
    end = data.find(b"\r\n\r\n") + 4 if choice.random() < 0.8 else len(data)
    place = choice.randint(0, max(0, end))
    edge = data.find(choice.choice((b"\r\n", b" ", b":", b"/")), place)
    return edge if edge >= 0 and choice.random() < 0.5 else place


def _splice(choice: random.Random, data: bytes) -> bytes:
    """Insert or overwrite something: odd bytes, words, a part again and again, much of one character."""
    place, other = _place(choice, data), choice.choice(GOOD)
    part = data[place : place + choice.choice((1, 4, 32, 200))]
    length, new = choice.choice(
        (
            (0, choice.randbytes(choice.randint(1, 8))),
            (1, choice.randbytes(1)),
            (choice.choice((0, 0, 1, 4)), choice.choice(_WORDS)),
            (choice.choice((1, 2, 4, 16, 64)), b""),
            (0, part * choice.choice((2, 50, 120))),
            (
                0,
                choice.choice((b"x", b" ", b"0", b"/", b"%41", b"\r\n"))
                * choice.choice((300, 9_000, 20_000)),
            ),
            (len(data), choice.choice((b"", other[_place(choice, other) :]))),
        )
    )
    return data[:place] + new + data[place + length :]


def _put_line(choice: random.Random, data: bytes) -> bytes:
    place = data.find(b"\r\n", _place(choice, data)) + 2
    return data[:place] + choice.choice(_LINES) + data[place:]


def _change_value(choice: random.Random, data: bytes) -> bytes:
    """The value of one header line for that of another, or for nearly anything that may stand there."""
    lines = list(_LINE.finditer(data))
    if not lines:
        return data
    start, end = choice.choice(lines).span(1)
    printable = bytes(choice.choices(range(0x20, 0x7F), k=choice.randint(0, 20)))
    return (
        data[:start] + choice.choice((choice.choice(lines)[1], printable, data[start:end] * 2)) + data[end:]
    )


def _change_target(choice: random.Random, data: bytes) -> bytes:
    start, end = data.find(b" ") + 1, data.find(b" HTTP/")
    if not 0 < start < end:
        return data
    place = choice.randint(start, end)
    new = choice.choice((*_TARGETS, choice.choice(GOOD).split(b" ")[1]))
    return data[:place] + new + data[choice.randint(place, end) :]


def _change_method(choice: random.Random, data: bytes) -> bytes:
    return choice.choice(_METHODS) + data[max(0, data.find(b" ")) :]


def _change_lines(choice: random.Random, data: bytes) -> bytes:
    """Swap two, or end one or all of them in another way."""
    lines = data.split(b"\r\n")
    first, second = choice.randrange(len(lines)), choice.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    other_end = choice.choice((b"\n", b"\r", b"\r\r\n", b" \r\n"))
    return choice.choice((b"\r\n".join(lines), data.replace(b"\r\n", other_end, choice.choice((1, -1)))))


_MUTATIONS: Sequence[Callable[[random.Random, bytes], bytes]] = (
    *[_change_value, _change_target] * 3,
    *[_change_method, _put_line, _change_lines] * 2,
    *[_splice] * 9,
    lambda choice, data: data + choice.choice(GOOD),
)
"""Rather those that leave HTTP, lest all requests end in the parser."""
