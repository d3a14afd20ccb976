"""JSON, and the values in it: an accepted and a refused neighbor for each rule."""

import json
from typing import Any

from paymock.schemas.fields import EVENTS
from tests.support.client import ORDER
from tests.web.operations.bad_input.building import (
    CHECKSUMMED,
    CHUNKED,
    KEYED_JSON,
    KIB,
    ORDER_BYTES,
    PAYMENTS,
    WEBHOOKS,
    Case,
    accepted,
    cases,
    changed,
    encoded,
    post,
    refused,
    send,
    values,
)


def _metadata(value: bytes) -> bytes:
    return encoded(changed("metadata", {"x": "?"})).replace(b'"?"', value)


JSON_SYNTAX = [
    *cases(
        400, "invalid_json",
        send("POST", PAYMENTS, *KEYED_JSON),
        send("POST", PAYMENTS, *KEYED_JSON, CHUNKED) + b"0\r\n\r\n",
        post(b'{"url": "https://a.example/", "url": "https://b.example/"}', path=WEBHOOKS),
        *map(post, (
            b" \r\n\t ", ORDER_BYTES[:-1], ORDER_BYTES * 2, ORDER_BYTES[:-1] + b",}", b"[" * 60_000,
            b"\xef\xbb\xbf" + ORDER_BYTES, json.dumps(ORDER).encode("utf-16"),
            b'{"\\u006frder_id": "order-1001", ' + ORDER_BYTES[1:],
        )),
        *(post(_metadata(value))
          for value in (b"NaN", b"01", b"1e400", b"9" * 5000, b'"caf\xe9"', b'"\xed\xa0\xbd"', b'"a\nb"',
                        rb'"\x41"', rb'"\ud83dx"', b'{"k": 1, "k": 1}', b"[" * 31 + b"]" * 31)),
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

AMOUNTS = values(
    "receive.amount",
    ("1", str(MAX_AMOUNT)),
    ("", "0", "01", "-1", "1.5", "1\n", "1_000", "１２", str(MAX_AMOUNT + 1), "9" * 5000),
)

_ADDRESSES = (
    (CHECKSUMMED, CHECKSUMMED.lower()),
    ("0x" + "0" * 40, CHECKSUMMED[:-1] + "D", CHECKSUMMED[:-1], CHECKSUMMED + "\n", "0x" + "a" * 10_000),
)
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
     "2032-02-29T00:00:00Z", "9999-12-31T23:59:59Z"),
    ("2030-01-31T12:00:00Z", "2030-01-31T17:30:00+05:30", "2030-01-31", "2031-01-31T12:30:00",
     "2031-02-29T12:30:00Z", "2030-06-30T23:59:60Z", "2031-01-31T12:30:00+24:00", "0001-01-01T00:00:00+14:00",
     "9999-12-31T23:59:59-14:00", "2031-01-31T12:30:00Z\n", "２０３１-01-31T12:30:00Z"),
)  # fmt: skip


def _deep(levels: int) -> Any:
    return {"a": _deep(levels - 1)} if levels > 1 else {}


def _sized(size: int) -> Any:
    """Metadata that takes so many bytes, an even number, as compact JSON."""
    return {"k": "é" * ((size - len('{"k":""}')) // 2)}


METADATA = values(
    "metadata",
    (dict.fromkeys(map(str, range(50))), {"💸" * 64: None}, _deep(8), _sized(16 * KIB),
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
