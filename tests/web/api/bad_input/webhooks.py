"""Webhook endpoints."""

from collections.abc import Iterable, Mapping
from typing import Any

from paymock.schemas.fields import EVENTS
from tests.web.api.bad_input.building import KIB, WEBHOOKS, accepted, unacceptable
from tests.web.api.bad_input.json_types import NO_ARRAY, NO_BODY, NO_STRING

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
