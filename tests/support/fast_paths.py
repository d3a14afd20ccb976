"""A server with the fast path beside one without it, and requests that both answer."""

import json
from typing import NamedTuple

from tests.support import raw
from tests.support.client import order
from tests.support.server import RunningServer

KEY = {"Authorization": "Bearer mk_test_lane"}
JSON = {**KEY, "Content-Type": "application/json"}


class Pair(NamedTuple):
    """Two servers with the same seed and the same time, one of them without it."""

    quick: RunningServer
    plain: RunningServer


def creation(key: str, more: dict[str, str] | None = None, **changes: object) -> bytes:
    headers = {**JSON, "Idempotency-Key": key, **(more or {})}
    return raw.request("POST", "/v1/payments", headers, json.dumps(order(**changes)).encode())


def payment_id(pair: Pair) -> str:
    replies = [raw.exchange(server.port, creation("a-payment-to-read"))[0] for server in pair]
    ids = {json.loads(reply.body)["id"] for reply in replies}
    assert len(ids) == 1
    return str(ids.pop())


def without_chance(reply: raw.RawReply) -> tuple[int, dict[str, str], bytes]:
    headers = {name: value for name, value in reply.headers.items() if name not in ("date", "x-request-id")}
    return reply.status, headers, reply.body
