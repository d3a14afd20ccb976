"""Values of a wrong type, and members that are missing, unknown or null."""

import json

from tests.support.client import ORDER, with_member
from tests.web.api.bad_input.building import (
    CHECKSUMMED,
    accepted,
    accepted_values,
    changed,
    unacceptable,
    unacceptable_values,
)

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
