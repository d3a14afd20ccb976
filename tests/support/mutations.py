"""Requests that are nearly HTTP: good ones, mutated by chance, the same for the same seed."""

import json
import random
import re
from collections.abc import Callable, Sequence

from tests.support import raw
from tests.support.client import ORDER

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
_MUTATIONS_EACH = (1, 1, 1, 2, 2, 3, 5)
_LONG = (300, 9_000, 20_000)
_MANY = (2, 50, 120)

Mutation = Callable[[random.Random, bytearray], None]


def request_of(seed: int, number: int) -> tuple[bytes, int | None]:
    """The request with this number. One of fifty is left as good as it was, with others before it and maybe
    something malformed after it: how many of them are to be answered with a success.
    """
    choice = random.Random(f"{seed}-{number}")  # noqa: S311 - the same again for the same seed
    if number % _UNTOUCHED == 0:
        good = choice.choices(GOOD, k=choice.randint(1, 4))
        return b"".join(good) + choice.choice((b"", _MALFORMED)), len(good)
    data = bytearray(choice.choice(GOOD))
    for _ in range(choice.choice(_MUTATIONS_EACH)):
        choice.choice(_MUTATIONS)(choice, data)
    return bytes(data), None


def _at(choice: random.Random, data: bytearray) -> int:
    """A place, rather in the head than in the body, and rather at an edge than within a word."""
    end = data.find(b"\r\n\r\n") + 4 if choice.random() < 0.8 else len(data)
    place = choice.randint(0, max(0, end))
    edge = data.find(choice.choice((b"\r\n", b" ", b":", b"/")), place)
    return edge if edge >= 0 and choice.random() < 0.5 else place


def _flip(choice: random.Random, data: bytearray) -> None:
    if data:
        data[min(_at(choice, data), len(data) - 1)] ^= 1 << choice.randrange(8)


def _overwrite(choice: random.Random, data: bytearray) -> None:
    if data:
        data[min(_at(choice, data), len(data) - 1)] = choice.randrange(256)


def _insert(choice: random.Random, data: bytearray) -> None:
    place = _at(choice, data)
    data[place:place] = choice.randbytes(choice.randint(1, 8))


def _put_word(choice: random.Random, data: bytearray) -> None:
    place = _at(choice, data)
    data[place : place + choice.choice((0, 0, 1, 4))] = choice.choice(_WORDS)


def _put_line(choice: random.Random, data: bytearray) -> None:
    """A line of the list, where a line begins."""
    place = data.find(b"\r\n", _at(choice, data)) + 2
    data[place:place] = choice.choice(_LINES)


def _change_value(choice: random.Random, data: bytearray) -> None:
    """The value of one header line for that of another, or for nearly anything that may stand there."""
    lines = list(_LINE.finditer(data))
    if lines:
        line = choice.choice(lines)
        printable = bytes(choice.choices(range(0x20, 0x7F), k=choice.randint(0, 20)))
        data[slice(*line.span(1))] = choice.choice((choice.choice(lines)[1], printable, line[1] * 2))


def _change_target(choice: random.Random, data: bytearray) -> None:
    start, end = data.find(b" ") + 1, data.find(b" HTTP/")
    if 0 < start < end:
        place = choice.randint(start, end)
        data[place : choice.randint(place, end)] = choice.choice(
            (*_TARGETS, choice.choice(GOOD).split(b" ")[1])
        )


def _change_method(choice: random.Random, data: bytearray) -> None:
    end = data.find(b" ")
    if end > 0:
        data[:end] = choice.choice(_METHODS)


def _delete(choice: random.Random, data: bytearray) -> None:
    place = _at(choice, data)
    del data[place : place + choice.choice((1, 2, 4, 16, 64))]


def _repeat(choice: random.Random, data: bytearray) -> None:
    place = _at(choice, data)
    part = data[place : place + choice.choice((1, 4, 32, 200))]
    data[place:place] = part * choice.choice(_MANY)


def _lengthen(choice: random.Random, data: bytearray) -> None:
    place = _at(choice, data)
    data[place:place] = choice.choice((b"x", b" ", b"0", b"/", b"%41", b"\r\n")) * choice.choice(_LONG)


def _swap_lines(choice: random.Random, data: bytearray) -> None:
    lines = bytes(data).split(b"\r\n")
    first, second = choice.randrange(len(lines)), choice.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    data[:] = b"\r\n".join(lines)


def _change_line_ends(choice: random.Random, data: bytearray) -> None:
    data[:] = bytes(data).replace(
        b"\r\n", choice.choice((b"\n", b"\r", b"\r\r\n", b" \r\n")), choice.choice((1, -1))
    )


def _cut(choice: random.Random, data: bytearray) -> None:
    del data[_at(choice, data) :]


def _splice(choice: random.Random, data: bytearray) -> None:
    """The beginning of this one and the end of another."""
    other = bytearray(choice.choice(GOOD))
    data[_at(choice, data) :] = other[_at(choice, other) :]


def _follow(choice: random.Random, data: bytearray) -> None:
    """Another one in the same breath."""
    data += choice.choice(GOOD)


_MUTATIONS: Sequence[Mutation] = (
    *[_change_value, _change_target] * 3,
    *[_change_method, _put_line] * 2,
    *(
        _flip,
        _overwrite,
        _insert,
        _put_word,
        _delete,
        _repeat,
        _lengthen,
        _swap_lines,
        _change_line_ends,
        _cut,
    ),
    *(_splice, _follow),
)
"""Rather those that leave HTTP, lest all requests end in the parser."""
