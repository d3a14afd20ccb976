"""The requests of the transcript, in the order in which they are sent. `{id}` in a path stands for the id of
the payment that was created or replayed last.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.support import raw
from tests.support.client import order
from tests.support.specification import COURSES, DEPOSITS

HOST = "127.0.0.1:8402"
KEY = {"Authorization": "Bearer mk_test_transcript"}
PAYMENT, PAYMENTS, WEBHOOKS, CHAINS = "/v1/payments/{id}", "/v1/payments", "/v1/webhooks", "/v1/chains"
ORIGIN = {"Origin": "https://shop.example"}
ENDPOINT = {"url": "https://shop.example/hooks"}


class Exchange(NamedTuple):
    """A request, sent at noon or as many seconds later."""

    title: str
    request: bytes
    second: int = 600


def send(path: str, more: Mapping[str, str] = {}, method: str = "GET", body: bytes | None = None) -> bytes:
    return raw.request(method, path, {**KEY, **more}, body, HOST)


def post(key: str, body: Any, more: Mapping[str, str] = {}, path: str = PAYMENTS) -> bytes:
    """A request with an idempotency key; a body that is not bytes is encoded as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": key, **more}
    return send(path, headers, "POST", content)


def scenarios() -> Iterator[Exchange]:
    """A payment of each scenario: its creation, reads at each change, its checkout, and a replay."""
    for number, (scenario, course) in enumerate(COURSES.items()):
        seconds = sorted({at for at, _ in course[1:]} | {at for at, _, _ in DEPOSITS[scenario]})
        start = number * 60
        creation = post(f"transcript-{scenario}", order(), {"X-Mock-Scenario": scenario})
        yield Exchange(f"{scenario}: creation", creation, start)
        for second in seconds:
            for name, path in (("payment", PAYMENT), ("attempts", f"{PAYMENT}/attempts")):
                yield Exchange(f"{scenario}: {name} after {second} s", send(path), start + second)
        yield Exchange(f"{scenario}: checkout", send("/checkout/{id}.json"), start + seconds[-1])
        yield Exchange(f"{scenario}: replay", creation, start + seconds[-1])


LARGE = {f"key-{number}": "x" * 300 for number in range(50)}
UNICODE = {
    "name": "Zoë 🦊 東京",
    "escapes": '"\\/\b\f\n\r\t\x7f\u2028',
    "values": {"list": [1, 1.5, -0.0, 1e300, True, None]},
}
PREFLIGHT = {
    **ORIGIN,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization",
}

CREATIONS = {
    "no scenario": post("transcript-default", order()),
    "the same in other words": post("transcript-default", json.dumps(order(), indent=1).encode()),
    "a replay with another scenario": post(
        "transcript-default", order(), {"X-Mock-Scenario": "late_payment"}
    ),
    "the key of another payment": post("transcript-default", order(order_id="another")),
    "the key of a payment, for a webhook": post("transcript-default", ENDPOINT, path=WEBHOOKS),
    "Unicode": post("transcript-unicode", order(order_id="Bestellung № 7 ✓", metadata=UNICODE)),
    "large metadata": post("transcript-large", order(metadata=LARGE)),
    "optional fields left out": post("transcript-short", order(refund_to=..., metadata=...)),
    "another chain": post(
        "transcript-chain",
        order(receive__chain="ethereum", pay_with=[{"chain": "ethereum", "asset": "USDT"}], refund_to=None),
    ),
    "the least amount": post("transcript-least", order(receive__amount="1")),
    "an early expiry": post("transcript-expiry", order(expires_at="2030-01-31T13:10:10+01:00")),
}

FAULTS = {
    "a status": post("transcript-fault-1", order(), {"X-Mock-Fault": "status=503"}),
    "a status, once": post("transcript-fault-2", order(), {"X-Mock-Fault": "status=429; times=1"}),
    "a status, once, again": post("transcript-fault-2", order(), {"X-Mock-Fault": "status=429; times=1"}),
    "a status for a read": send(PAYMENT, {"X-Mock-Fault": "status=500"}),
    "a delay": post("transcript-fault-3", order(), {"X-Mock-Fault": "delay=1"}),
    "a drop": post("transcript-fault-4", order(), {"X-Mock-Fault": "drop"}),
    "after a drop": post("transcript-fault-4", order()),
}

REQUESTS = {
    "chains": send(CHAINS),
    "HEAD of chains": send(CHAINS, method="HEAD"),
    "chains for a page": send(CHAINS, ORIGIN),
    "chains, with a query": send(f"{CHAINS}?limit=1"),
    "assets": send(f"{CHAINS}/bsc/assets"),
    "assets of a test network": send(f"{CHAINS}/bsc_testnet/assets"),
    "a webhook": post("transcript-webhook", ENDPOINT, path=WEBHOOKS),
    "a replay of a webhook": post("transcript-webhook", ENDPOINT, path=WEBHOOKS),
    "another webhook of its key": post("transcript-webhook", {"url": "https://x.example"}, path=WEBHOOKS),
    "no URL": post("transcript-no-url", {"url": "shop", "events": 1}, path=WEBHOOKS),
    "webhooks": send(WEBHOOKS),
    "HEAD of a payment": send(PAYMENT, method="HEAD"),
    "a payment of another API key": send(PAYMENT, {"Authorization": "Bearer mk_test_another"}),
    "a preflight": raw.request("OPTIONS", PAYMENTS, PREFLIGHT, host=HOST),
    "OPTIONS": send(PAYMENT, method="OPTIONS"),
    "a preflight of a checkout": raw.request("OPTIONS", "/checkout/{id}.json", PREFLIGHT, host=HOST),
    "the OpenAPI document": raw.request("GET", "/openapi.yaml", host=HOST),
}

REFUSALS = {
    "no HTTP": b"GET  /v1/chains HTTP/1.1\r\n\r\n",
    "two hosts": send(CHAINS, {"host": "localhost"}),
    "another host": raw.request("GET", CHAINS, KEY, host="shop.example"),
    "no API key": raw.request("GET", CHAINS, host=HOST),
    "no such API key": send(CHAINS, {"Authorization": "Bearer unknown"}),
    "nothing at this path": send("/v1/paymets"),
    "a trailing slash": send(f"{CHAINS}/"),
    "another method": send(PAYMENTS, method="DELETE"),
    "no such chain": send(f"{CHAINS}/narnia/assets"),
    "no such payment": send(f"{PAYMENTS}/pay_unknown"),
    "attempts of no payment": send(f"{PAYMENTS}/pay_unknown/attempts"),
    "a checkout of no payment": raw.request("GET", "/checkout/pay_unknown.json", host=HOST),
    "no idempotency key": send(PAYMENTS, {"Content-Type": "application/json"}, "POST", b"{}"),
    "a short idempotency key": post("short", order()),
    "two idempotency keys": post("transcript-two", order(), {"idempotency-key": "transcript-three"}),
    "almost a scenario": post("transcript-scenario", order(), {"X-Mock-Scenario": "Late_Paymnt"}),
    "another media type": post("transcript-type", order(), {"Content-Type": "text/plain"}),
    "a compressed body": post("transcript-gzip", order(), {"Content-Encoding": "gzip"}),
    "too large": post("transcript-too-large", b" " * 65_537),
    "a large head": send(CHAINS, {f"X-{number}": "x" for number in range(100)}),
    "no JSON": post("transcript-json-1", b"{"),
    "no body": post("transcript-json-2", b""),
    "a duplicate name": post("transcript-json-3", b'{"order_id": "1", "order_id": "2"}'),
    "NaN": post("transcript-json-4", b'{"metadata": {"n": NaN}}'),
    "invalid UTF-8": post("transcript-json-5", b'{"order_id": "\xff"}'),
    "an empty object": post("transcript-invalid-1", {}),
    "an array": post("transcript-invalid-2", []),
    "several wrong values": post(
        "transcript-invalid-3",
        order(order_id=7, receive__amount="1.5", receive__address="0x1", expires_at="tomorrow", metadata=[]),
    ),
    "an unknown asset": post("transcript-invalid-4", order(receive__asset="DOGE", settlement__mode="swap")),
    "two items to pay with": post("transcript-invalid-5", order(pay_with=[{"chain": "bsc"}, None])),
    "unknown fields": post("transcript-invalid-6", order(oder_id="x", receive__amunt="1")),
    "too much metadata": post("transcript-invalid-7", order(metadata={"x": "x" * 16_384})),
    "expired before it began": post("transcript-invalid-8", order(expires_at="2020-01-01T00:00:00Z")),
}

EXCHANGES = [
    *scenarios(),
    *(Exchange(*item) for part in (CREATIONS, FAULTS, REQUESTS, REFUSALS) for item in part.items()),
]
