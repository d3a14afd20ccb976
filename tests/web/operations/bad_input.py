"""Requests that must be refused, and their neighbors that must not be: API keys, headers, methods, paths,
hosts, request lines, lengths, chunks, JSON, and the values in it.

In the bytes of a row, `{api_key}` stands for an API key whose sandbox is empty, `{key}` for an idempotency
key that was never used, `{payment}` for the id of a payment of the API key. The server's clock says
2030-01-31T12:00:00Z.
"""

import copy
import gzip
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from paymock.schemas.fields import EVENTS
from tests.support.client import ORDER, with_member

KIB = 1024
CHECKSUMMED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
PAYMENTS, WEBHOOKS = "/v1/payments", "/v1/webhooks"

HOST = "Host: 127.0.0.1"
AUTHORIZATION = "Authorization: Bearer {api_key}"
IDEMPOTENCY = "Idempotency-Key: {key}"
JSON_TYPE = "Content-Type: application/json"
KEYED_JSON = (AUTHORIZATION, JSON_TYPE, IDEMPOTENCY)
CHUNKED = "Transfer-Encoding: chunked"


class Case(NamedTuple):
    """A request and its expected reply.

    A refusal has the `code` and names the `fields`, no more and no fewer. `header` is a header of the reply.
    `body` is the JSON value that was sent: a creation shows it.
    """

    data: bytes
    status: int
    code: str = ""
    fields: tuple[str, ...] = ()
    header: tuple[str, str] | None = None
    body: Any = None


def changed(path: str, value: Any = ...) -> Any:
    """A complete order with `value` at `path`, in the notation of `details`, or without that member."""
    return with_member(copy.deepcopy(dict(ORDER)), path, value)


def encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


ORDER_BYTES = encoded(ORDER)


def head(*lines: str) -> bytes:
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


def send(method: str, path: str, *lines: str, body: bytes | None = None) -> bytes:
    """A request whose body, if it has one, is announced by its length."""
    length = [] if body is None else [f"Content-Length: {len(body)}"]
    return head(f"{method} {path} HTTP/1.1", HOST, *lines, *length) + (body or b"")


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


def read(path: str, *lines: str) -> bytes:
    return send("GET", path, *(lines or (AUTHORIZATION,)))


def post(body: bytes, *lines: str, path: str = PAYMENTS) -> bytes:
    return send("POST", path, *(lines or KEYED_JSON), body=body)


def cases(status: int, code: str, *requests: bytes, header: tuple[str, str] | None = None) -> list[Case]:
    return [Case(data, status, code, header=header) for data in requests]


def accepted(body: Any, path: str = PAYMENTS) -> Case:
    return Case(post(encoded(body), path=path), 201, body=body)


def refused(body: Any, *fields: str, path: str = PAYMENTS) -> Case:
    return Case(post(encoded(body), path=path), 422, "validation_failed", fields, body=body)


def values(path: str, good: Iterable[Any], bad: Iterable[Any]) -> list[Case]:
    """An order for each value at `path`."""
    return [accepted(changed(path, value)) for value in good] + [
        refused(changed(path, value), path) for value in bad
    ]


REALM = 'Bearer realm="paymock"'
MAX_BODY = 64 * KIB


def _authorized(value: str) -> bytes:
    return read("/v1/chains", f"Authorization:{value}")


AUTH = [
    *cases(
        401, "unauthenticated",
        read("/v1/chains?access_token={api_key}", "X_Authorization: Bearer {api_key}", "X-Key: {api_key}"),
        post(b" " * 128 * KIB, JSON_TYPE, IDEMPOTENCY),
        send("POST", PAYMENTS, JSON_TYPE, CHUNKED) + chunked(*[b" " * 16 * KIB] * 8),
        *map(_authorized, ("", " Bearer", " Basic dXNlcjpwYXNz", " Bearer: {api_key}", " Bearer\t{api_key}")),
        read("/v1/chains", AUTHORIZATION, AUTHORIZATION),
        header=("www-authenticate", REALM),
    ),
    *cases(
        401, "unauthenticated",
        *map(_authorized, (" Bearer mk_live_4eC39HqL", f" Bearer mk_test_{'a' * 65}", " Bearer mk_test_a.b")),
        header=("www-authenticate", f'{REALM}, error="invalid_token"'),
    ),
    *cases(400, "bad_request", _authorized(" Bearer {api_key}\0")),
    *cases(200, "", *map(_authorized, ("  BEARER  {api_key} \t", f"Bearer mk_test_{'Z' * 64}"))),
]  # fmt: skip


def _orders(status: int, code: str, name: str, *lists: list[str]) -> list[Case]:
    others = [line for line in KEYED_JSON if not line.startswith(name)]
    return [
        Case(post(ORDER_BYTES, *others, *(f"{name}:{value}" for value in values)), status, code)
        for values in lists
    ]


HEADERS = [
    *_orders(400, "idempotency_key_missing", "Idempotency-Key", [], ["  \t "]),
    *_orders(400, "idempotency_key_invalid", "Idempotency-Key", [" abcdefg"], ["k" * 129], [" abcd efgh"],
             [" caf\u00e9-12345"], [" abcd\x1befgh"], [" abcdefgh", " abcdefgh"]),
    *_orders(400, "bad_request", "Idempotency-Key", [" abcd\0efgh"], [" abcd\nefgh"], [" abcd\refgh"]),
    *_orders(201, "", "Idempotency-Key", ["abcd,fgh"], ["  \t " + "k" * 128 + " \t "]),
    *_orders(400, "invalid_scenario", "X-Mock-Scenario", [""], [" HAPPY_PATH"], [" happy_path,late_payment"],
             [" happy_path\u00a0"], [" happy_path", " happy_path"]),
    *_orders(400, "invalid_fault", "X-Mock-Fault", [""], [" drop", " drop"]),
    *_orders(201, "", "X-Mock-Scenario", ["  \t manual_review \t "]),
    *_orders(415, "unsupported_media_type", "Content-Type", [], [" text/plain"], [" application/json x"],
             [" application/json; profile=x; charset=utf-16"], [" application/json", " application/json"]),
    *_orders(201, "", "Content-Type", ["application/json;"], [' APPLICATION/JSON ;CHARSET="UTF-8"'],
             [' application/json; profile="x; charset=utf-16"']),
    *_orders(415, "unsupported_content_encoding", "Content-Encoding", [" gzip"], [" gzip", " identity"]),
    *_orders(201, "", "Content-Encoding", [" Identity"]),
    *_orders(201, "", "Expect", [" 100-continue"]),
    *cases(400, "idempotency_key_missing",
           send("POST", PAYMENTS, AUTHORIZATION, JSON_TYPE, CHUNKED)
           + chunked(ORDER_BYTES).removesuffix(b"\r\n") + head("Idempotency-Key: abcdefgh")),
    *cases(200, "", read("/v1/chains", AUTHORIZATION, "Idempotency-Key: x", "X-Mock-Scenario: x",
                         "Content-Type: text/plain")),
    *cases(413, "payload_too_large",
           post(ORDER_BYTES.ljust(MAX_BODY + 1)),
           send("POST", PAYMENTS, *KEYED_JSON, f"Content-Length: {2**63 - 1}"),
           send("POST", PAYMENTS, *KEYED_JSON, f"Content-Length: {10**9:025}"),
           send("POST", PAYMENTS, *KEYED_JSON, CHUNKED) + b"40000000\r\n" + b" " * (MAX_BODY + 1)),
    *cases(201, "", post(ORDER_BYTES.ljust(MAX_BODY)),
           send("POST", PAYMENTS, *KEYED_JSON, CHUNKED) + chunked(ORDER_BYTES.ljust(MAX_BODY))),
]  # fmt: skip

_READABLE = (
    "/v1/chains", "/v1/chains/bsc/assets", "/v1/payments/{payment}", "/v1/payments/{payment}/attempts",
    "/openapi.yaml", "/swagger/", "/livez", "/readyz",
)  # fmt: skip
_ALLOWED = {
    **dict.fromkeys(_READABLE, "GET, HEAD, OPTIONS"),
    PAYMENTS: "POST, OPTIONS",
    WEBHOOKS: "GET, HEAD, POST, OPTIONS",
}

METHODS = [
    *(Case(send(method, path, *KEYED_JSON), 405, "method_not_allowed", header=("allow", allowed))
      for path, allowed in _ALLOWED.items()
      for method in ("GET", "POST", "DELETE", "FOO", "get", "!#$%&'*+.^_`|~", "A" * 64)
      if method not in allowed.split(", ")),
    *(Case(send("OPTIONS", path), 204, header=("allow", allowed)) for path, allowed in _ALLOWED.items()),
    *cases(204, "", send("OPTIONS", "*")),
    *cases(
        400, "bad_request",
        *(send(method, "/v1/chains", AUTHORIZATION) for method in ("", "A" * 65, "G(T)", "CONNECT")),
        send("CONNECT", "merchant.example:443", *KEYED_JSON),
    ),
    *cases(
        200, "",
        read("/v1/payments/{payment}?_method=DELETE", AUTHORIZATION, "X-HTTP-Method-Override: DELETE"),
        send("GET", "/v1/chains", AUTHORIZATION, JSON_TYPE, body=b"{"),
    ),
]  # fmt: skip

_NOWHERE = (
    "/v1", "//v1/chains", "/V1/chains", "/v1/chains%2F", "/v1/x/../chains", "/v1\\chains", "/v1/payments/",
    "/swagger/..%2f..%2fetc%2fpasswd", "/swagger/%2e%2e/%2e%2e/etc/passwd", "/swagger/swagger-ui.css%00.js",
    "/v1/chains/", "/v1//chains", "/v1/%63hains", "/v1/chains;x=1", "/openapi.yaml/", "/.env",
    "/v1/payment/status", "/swagger/index.html", "/%zz", "//", "*", "/checkout/{payment}.json/",
    "/Checkout/{payment}.json", "/" + "a/" * 2000,
)  # fmt: skip
_NO_PAYMENT = ("{payment}a", "{payment}%0A", "{payment}%2Fattempts", "%c0%af", "pay_", "a" * 5000)

PATHS = [
    *cases(404, "not_found", *map(read, _NOWHERE), send("FOO", "/v1/nothing", AUTHORIZATION)),
    *cases(
        404, "payment_not_found",
        *(read(f"{start}{value}{end}")
          for start, end in (("/v1/payments/", ""), ("/v1/payments/", "/attempts"), ("/checkout/", ".json"))
          for value in _NO_PAYMENT),
    ),
    *cases(
        404, "chain_not_found",
        *(read(f"/v1/chains/{value}/assets")
          for value in ("solana", "BSC", "bsc%0a", "%2562sc", "bsc%2F", "%ff")),
    ),
    *cases(
        200, "",
        *map(read, ("/v1/chains?x[]=%zz&?/../x", "/v1/chains?x=" + "a" * 10 * KIB, "/v1/chains#x",
                    "http://127.0.0.1/v1/chains", "/v1/chains/%62sc/assets")),
    ),
]  # fmt: skip


API_KEY_LENGTH = 40
READ, CREATE = "GET /v1/chains HTTP/1.1", f"POST {PAYMENTS} HTTP/1.1"
_LENGTH = len(ORDER_BYTES)
_CHUNK = b"%x\r\n%s\r\n" % (_LENGTH, ORDER_BYTES)
_LAST = b"0\r\n\r\n"


def _raw(*lines: str, start: str = READ, host: str = HOST) -> bytes:
    return head(start, host, AUTHORIZATION, *lines)


def _hosts(*hosts: str) -> bytes:
    return head(READ, *(f"Host:{host}" for host in hosts), AUTHORIZATION)


def _posted(*lines: str, host: str = HOST, body: bytes = ORDER_BYTES) -> bytes:
    """An order whose framing is in `lines`."""
    return head(CREATE, host, *KEYED_JSON, *lines) + body


def _coded(*codings: str, body: bytes | None = None) -> bytes:
    """An order in chunks, whose transfer codings are in these lines."""
    return _posted(*(f"Transfer-Encoding: {coding}" for coding in codings), body=body or chunked(ORDER_BYTES))


def _chunks(body: bytes) -> bytes:
    return _coded("chunked", body=body)


def _head_of(size: int) -> bytes:
    """A request that is nothing but a head of so many bytes."""
    rest = len(_raw("X-Fill: ")) - len("{api_key}") + API_KEY_LENGTH
    return _raw("X-Fill: " + "x" * (size - rest))


def _many_lines(count: int) -> bytes:
    return _raw(*(f"X-{number}: x" for number in range(count - 2)))


HOSTS = [
    *cases(
        400, "bad_request",
        head(READ, AUTHORIZATION),
        _raw(start="GET /v1/chains HTTP/1.0", host="Host:"),
        head(CREATE, *KEYED_JSON, f"Content-Length: {_LENGTH}") + ORDER_BYTES,
        _hosts(" 127.0.0.1", " 127.0.0.1"),
        _hosts(" 127.0.0.1", " evil.example"),
        *map(_hosts, ("", "  ", " 127.0.0.1, evil.example", " 127.0.0.1 evil.example", " 127.0.0.1/x",
                      " http://127.0.0.1", " user@127.0.0.1", " 127.0.0.1:http", " []", " [::1",
                      " 127.0.0.1\\x", " 127.0.0.%31", " löcalhost", " 127.0.0.1\0")),
    ),
    *cases(
        421, "misdirected_request",
        *map(_hosts, (" evil.example", " attacker.example:8080", " localhost.evil.example", " evillocalhost",
                      " 127.0.0.1.nip.io", " 0.0.0.0", " 127.0.0.2", " [::]", " 192.168.1.1",
                      " localhost.", " docker.internal", " host.docker.internal.evil.example")),
        head(READ, "Host: evil.example"),
        head("GET /swagger/ HTTP/1.1", "Host: evil.example"),
        head(f"OPTIONS {PAYMENTS} HTTP/1.1", "Host: evil.example"),
        _posted(f"Content-Length: {_LENGTH}", host="Host: evil.example"),
        _raw("X-Forwarded-Host: 127.0.0.1", host="Host: evil.example"),
        _raw(start="GET http://evil.example:8402/v1/chains HTTP/1.1"),
        _raw(start="GET http://evil.example/v1/chains HTTP/1.0"),
        head("GET /livez HTTP/1.0", "Host: evil.example"),
    ),
    *cases(
        200, "",
        *map(_hosts, (" localhost", " LOCALHOST:8402", " 127.0.0.1:8402", " [::1]:8402", " \t127.0.0.1\t ",
                      " host.docker.internal:8402")),
        head("GET /v1/chains HTTP/1.0", AUTHORIZATION),
        head("GET /livez HTTP/1.0"),
        _raw("X-Forwarded-Host: evil.example"),
        _raw(start="GET http://127.0.0.1:8402/v1/chains HTTP/1.1", host="Host: evil.example"),
    ),
]  # fmt: skip

_STARTS = (
    "GET /v1/chains HTTP/0.9", "GET /v1/chains HTTP/1.2", "GET /v1/chains HTTP/1.10", "GET /v1/chains HTTP/1",
    "GET /v1/chains HTTP/2", "GET /v1/chains HTTP/2.0", "GET /v1/chains HTTP/3.0", "GET /v1/chains HTTP/9.9",
    "GET /v1/chains http/1.1", "GET /v1/chains HTTX/1.1", "GET /v1/chains HTTP/1.x", "GET /v1/chains HTTP/",
    "GET /v1/chains HTTP/1.1 x", "GET /v1/chains RTSP/1.0", "DESCRIBE /v1/chains RTSP/1.0",
    "SOURCE /v1/chains ICE/1.0", "GET  /v1/chains HTTP/1.1", "GET /v1/chains  HTTP/1.1",
    "GET /v1/chains HTTP/1.1 ", "GET\t/v1/chains HTTP/1.1", "GET /v1/chains\tHTTP/1.1",
    "\tGET /v1/chains HTTP/1.1", " GET /v1/chains HTTP/1.1", "GET\v/v1/chains HTTP/1.1", "GET /v1/chains",
    "GET /v1/chains ", "GET HTTP/1.1", "GET v1/chains HTTP/1.1", "GET /v1/chains x HTTP/1.1",
    "GET /v1/\tchains HTTP/1.1", "GET /v1/\0chains HTTP/1.1", "GET /v1/payments/é HTTP/1.1",
    "GET /v1/chains?x=é HTTP/1.1",
)  # fmt: skip
_HEADERS = (
    "X-Header", ": x", "X Header: x", "X-Header : x", "X-Header\t: x", "X-Hëader: x", "X-(Header): x",
    "X-\0: x", "X-Header: a\0b", "X-Header: a\x7fb", "X-Header: a\x1bb", "X-Header: a\rb",
    "X-Header: x\nX-Another: y",
)  # fmt: skip

LINES = [
    *cases(
        400, "bad_request",
        *(_raw(start=line) for line in _STARTS),
        b"GET /v1/chains\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        bytes.fromhex("16030100a5010000a10303") + bytes(160),  # TLS
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"\x05\x01\x00",  # SOCKS
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + _raw(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        bytes(100),
        ORDER_BYTES,
        *map(_raw, _HEADERS),
        head(READ, " " + HOST, AUTHORIZATION),
        _raw("X-Header: x", " y"),
        _raw("X-Header: x", "\ty"),
        head(READ, HOST, "Authorization: Bearer", " {api_key}"),
        _raw().replace(b"\r\n", b"\n"),
        _raw().replace(b"\r\n", b"\n", 1),
        _raw().replace(b"\r\n", b"\r") + b"\r\n\r\n",
    ),
    *cases(
        200, "",
        _raw("Connection: close", start="GET /v1/chains HTTP/1.0"),
        b"\r\n\r\n" + _raw(),
        _raw("X-Empty:"),
        _raw(*["X-Same: x"] * 50),
        _raw("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="),
        _raw("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"),
        send("GET", "/v1/chains", AUTHORIZATION, body=head("DELETE / HTTP/1.1")),
    ),
]  # fmt: skip

LENGTHS = [
    *cases(
        400, "bad_request",
        *(_posted(f"Content-Length:{length}")
          for length in (f" {_LENGTH}, {_LENGTH}", f" +{_LENGTH}", " -1", f" {_LENGTH}.0", f" {_LENGTH:#x}",
                         " 4_0", " 4 0", " abc", " ４０", "", f" {'9' * 30}", f" {2**64}")),
        _posted(f"Content-Length: {_LENGTH}", "Content-Length: 5"),
        _posted(f"Content-Length: {_LENGTH}", f"Content-Length: {_LENGTH}"),
        *(_posted(*lines, body=chunked(ORDER_BYTES))
          for lines in ((f"Content-Length: {_LENGTH}", CHUNKED), (CHUNKED, f"Content-Length: {_LENGTH}"),
                        ("Content-Length: 0", CHUNKED), ("Transfer-Encoding : chunked",))),
        _posted("Transfer-Encoding: identity", f"Content-Length: {_LENGTH}"),
        _coded("identity", body=ORDER_BYTES),
        _coded("gzip", body=gzip.compress(ORDER_BYTES)),
        _coded("gzip, chunked", body=chunked(gzip.compress(ORDER_BYTES))),
        *map(_coded, ("xchunked", "chunked, gzip", "gzip, chunked", "chunked, chunked", "\x0bchunked")),
        _coded("gzip", "chunked"),
        _coded("chunked", "chunked"),
        _coded("chunked").replace(b"HTTP/1.1", b"HTTP/1.0"),
    ),
    *cases(201, "", _coded("CHUNKED"), _posted(f"Content-Length: 000{_LENGTH}")),
]  # fmt: skip

CHUNKS = [
    *cases(
        400, "bad_request",
        *(_chunks(body + _LAST)
          for body in (b"\r\n" + ORDER_BYTES + b"\r\n", b"zz\r\nabc\r\n", b"-1\r\nabc\r\n", b"+" + _CHUNK,
                       b"0x" + _CHUNK, b"1_0\r\n" + b" " * 16 + b"\r\n", b" " + _CHUNK,
                       b"3\r\n" + ORDER_BYTES + b"\r\n", _CHUNK[:-2], _CHUNK[:-2] + b"\n",
                       _CHUNK.replace(b"\r\n", b"\n", 1), _CHUNK.replace(b"\r\n", b";x\n\r\n", 1))),
        *map(_chunks, (b"F" * 17 + b"\r\nabc", _CHUNK + b"0\r\nX\r\n\r\n", _CHUNK + b"0\r\nX Y: z\r\n\r\n")),
    ),
    *cases(
        201, "",
        *map(_chunks, (b"%X\r\n%s\r\n" % (_LENGTH, ORDER_BYTES) + _LAST, b"0000" + _CHUNK + _LAST,
                       _CHUNK + b"000\r\n\r\n", _CHUNK + b"0\r\nX-Checksum: x\r\n\r\n",
                       _CHUNK.replace(b"\r\n", b';name="value"\r\n', 1) + _LAST)),
    ),
]  # fmt: skip

HEADS = [
    *cases(
        431, "headers_too_large",
        *map(_many_lines, (101, 10_000)),
        *map(_head_of, (16 * KIB + 1, 17 * KIB, 64 * KIB, 1024 * KIB)),
        _chunks(_CHUNK + b"0\r\n" + head(*(f"X-{number}: x" for number in range(101)))),
        _raw(*(f"X-{number}: {'x' * 250}" for number in range(80))),
        b"\r\n" * 10_000,
        _raw("X" * 20 * KIB + ": x"),
        _raw("X-Header: x" + " " * 20 * KIB),
        _raw("X-Header: " + "x" * 20 * KIB)[:-4],
        _raw(start=f"GET /v1/{'x' * 20 * KIB} HTTP/1.1"),
        _raw(start=f"GET /v1/chains?{'x' * 20 * KIB} HTTP/1.1"),
        _raw("Cookie: " + "a=b; " * 4 * KIB),
        head(READ, HOST, "Authorization: Bearer " + "a" * 20 * KIB),
    ),
    *cases(200, "", _many_lines(100), _head_of(15 * KIB), _head_of(16 * KIB)),
]  # fmt: skip


def _metadata(value: bytes) -> bytes:
    return encoded(changed("metadata", {"x": "?"})).replace(b'"?"', value)


JSON_SYNTAX = [
    *cases(
        400, "invalid_json",
        send("POST", PAYMENTS, *KEYED_JSON),
        send("POST", PAYMENTS, *KEYED_JSON, CHUNKED) + b"0\r\n\r\n",
        post(b'{"url": "https://a.example/", "url": "https://b.example/"}', path=WEBHOOKS),
        *map(post, (b" \r\n\t ", ORDER_BYTES[:-1], ORDER_BYTES * 2, b"[" * 60_000)),
        *(post(_metadata(value)) for value in (b"NaN", b"9" * 5000, b'"caf\xe9"', b"[" * 31 + b"]" * 31)),
    ),
    *cases(
        201, "",
        post(b" \r\n\t" + json.dumps(ORDER, indent=4).replace("\n", "\r\n\t").encode() + b" \r\n\t"),
        *(post(_metadata(value))
          for value in (rb'"\"\\\/\b\f\n\r\t\ud83d\ude00\\ud83d"', "\"a\x7f\u2028\ufeff\uffff\"".encode(),
                        b"-0", b"1.7976931348623157e308", b"[" + b"[]," * 40 + b"[]]")),
    ),
    Case(post(_metadata(b"[" * 30 + b"]" * 30)), 422, "validation_failed", ("metadata",)),
]  # fmt: skip
"""What else is no JSON: tests/schemas/test_json.py."""

FIELDS = [
    *(refused(body, "body") for body in (None, "x", [ORDER], json.loads("[" * 32 + "]" * 32))),
    refused({}, "order_id", "receive", "settlement", "pay_with"),
    *(refused(changed(path, value), path)
      for path, value in (("receive.chain", ...), ("receive", None), ("receive.amount", 1), ("pay_with", {}),
                          ("pay_with[0]", "bsc"), ("metadata", "x"), ("expires_at", 1), ("refund_to", True),
                          ("__proto__", "x"), ("receive.memo", "x"), ("pay_with[0].amount", "x"))),
    refused({**ORDER, "": None, "receive.memo": 1}, "", "receive.memo"),
    *(accepted(changed(path, value))
      for path in ("refund_to", "expires_at", "metadata") for value in (..., None)),
    refused({"order_id": "", "receive": {}, "settlement": {"mode": "swap"}, "pay_with": [None], "memo": 1},
            "order_id", "receive.chain", "receive.asset", "receive.amount", "receive.address",
            "settlement.mode", "pay_with[0]", "memo"),
    *values("order_id", ("x", "💸" * 128, "\u202e../<b>\u00a0"), ("", "x" * 129, "a\0b", "a\x9fb")),
    *values("settlement.mode", (), ("", "same_chain_merchant_payout\n", ["x"])),
]  # fmt: skip

MAX_AMOUNT = (2**256 - 1) * 100 // 101
"""The largest amount whose due, with a fee of a hundredth, fits in 256 bits."""

AMOUNTS = values(  # ExchangeUnion/xud#1905, gitcoinco/web#10889, dydxprotocol/v4-web#266
    "receive.amount",
    ("1", str(MAX_AMOUNT)),
    ("", "0", "01", "-1", "+1", " 1", "1.5", "1\n", "1_000", "1,000", "1e3", "1.725e+21", "0x10", "NaN",
     "１２", "²", "٣", str(MAX_AMOUNT + 1), str(2**256), "1" * 79, "9" * 5000),
)  # fmt: skip

_ADDRESSES = (
    (CHECKSUMMED, CHECKSUMMED.lower(), "0x" + CHECKSUMMED[2:].upper()),
    ("0x" + "0" * 40, CHECKSUMMED[:-1] + "D", CHECKSUMMED[:-1], CHECKSUMMED + "\n", "0x" + "a" * 10_000,
     CHECKSUMMED + "0", CHECKSUMMED[2:], "vitalik.eth"),
)  # fmt: skip
ADDRESSES = values("receive.address", *_ADDRESSES) + values("refund_to.address", *_ADDRESSES)


def _route(chain: str, asset: str) -> Any:
    route = {"chain": chain, "asset": asset}
    return {**ORDER, "receive": {**ORDER["receive"], **route}, "pay_with": [route], "refund_to": None}


ROUTES = [
    *(refused(_route(chain, "USDT"), "receive.chain", "pay_with[0].chain")
      for chain in ("", "BSC", "bsc\n", "bs\u0441", "x" * 10_000)),
    *(refused(_route("bsc", asset), "receive.asset", "pay_with[0].asset") for asset in ("usdt", "ETH")),
    *(accepted(_route(*route)) for route in (("bsc", "BNB"), ("ethereum", "ETH"), ("bsc_testnet", "USDT"))),
    *(refused(changed(path, value), path)
      for path, value in (("refund_to.chain", "solana"), ("pay_with[0].chain", "ethereum"),
                          ("pay_with[0].asset", "USDC"), ("pay_with", []))),
    refused(changed("pay_with", [*ORDER["pay_with"], {}]), "pay_with", "pay_with[1].chain",
            "pay_with[1].asset"),
]  # fmt: skip

EXPIRES_AT = values(
    "expires_at",
    ("2030-01-31T12:00:00.001Z", "2030-01-31t12:30:00.123456789z", "2030-02-01T12:30:00+23:59",
     "2032-02-29T00:00:00Z", "9999-12-31T23:59:59Z", "2030-06-30T23:59:60Z",
     "2031-01-31T12:00:00.1234567890123456789Z"),
    ("2030-01-31T12:00:00Z", "2030-01-31T17:30:00+05:30", "2030-01-31", "2031-01-31T12:30:00",
     "2031-02-29T12:30:00Z", "2030-06-30T23:58:60Z", "2031-01-31T12:30:00+24:00", "0001-01-01T00:00:00+14:00",
     "0000-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "2031-01-31T12:30:00Z\n", ""),
)  # fmt: skip
"""What else is no time: tests/rules/test_times.py."""


def _deep(levels: int) -> Any:
    return {"a": _deep(levels - 1)} if levels > 1 else {}


def _sized(size: int) -> Any:
    """Metadata that takes so many bytes, an even number, as compact JSON."""
    return {"k": "é" * ((size - len('{"k":""}')) // 2)}


METADATA = values(
    "metadata",
    (dict.fromkeys(map(str, range(50))), {"💸" * 64: None}, _deep(8), _sized(16 * KIB),
     {"a-b": {"~t": "!t"}},  # btcpayserver/btcpayserver#4223
     {"b": 2**53 - 1, "a": [1 - 2**53, -2.5e-8, 1.0, True]}, {"<b>\u202e\x7f": "{{7*7}}"}),
    (dict.fromkeys(map(str, range(51))), {"": "value-1"}, {"💸" * 65: "value-1"}, _deep(9),
     _sized(16 * KIB + 2), {"k": [{"n": -(2**53)}]}, {"k": ["value-1\0"]}, {"key-1\0": 1}),
)  # fmt: skip

_URL = "https://merchant.example/hooks"
_BAD_URLS = (
    None, "/hooks", "https:///hooks", "ftp://merchant.example/", "https://user:hunter2@merchant.example/",
    "https://merchant.example/#x", "https://merchant.example:65536/", f"{_URL}\n", _URL.ljust(2049, "a"),
    "https://merchant.example\\@evil.example/", "https://händler.example/", "https://[::1/hooks",
    "https://merchant.example:0/", "http://[::g]/",
)  # fmt: skip

WEBHOOK = [
    *(refused({"url": url}, "url", path=WEBHOOKS) for url in _BAD_URLS),
    *(accepted({"url": url}, path=WEBHOOKS)
      for url in ("HTTP://[2001:db8::1]:65535/@hooks?a=%20", _URL.ljust(2048, "a"))),
    *(refused({"url": _URL, "events": events}, field, path=WEBHOOKS)
      for events, field in (([], "events"), (["*", "*"], "events"), (["payment.failed", "x"], "events[1]"))),
    *(accepted({"url": _URL, "events": events}, path=WEBHOOKS) for events in (None, list(EVENTS[1:]))),
    refused({"url": _URL, "description": "💸" * 257}, "description", path=WEBHOOKS),
    *(accepted({"url": _URL, "description": text}, path=WEBHOOKS) for text in (None, "", "💸" * 256)),
    refused({"events": ["x"], "description": 2, "secret": "x"},
            "url", "events[0]", "description", "secret", path=WEBHOOKS),
]  # fmt: skip
