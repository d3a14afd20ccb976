"""The control API `/_mock`: its handlers. See docs/control-api.md."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from paymock import journal
from paymock.control import Control
from paymock.core import strict_json
from paymock.core.errors import PaymockError
from paymock.core.scenarios import SCENARIOS, PaymentStatus
from paymock.found import Filter
from paymock.web import guard
from paymock.web.events import event_stream
from paymock.web.http import REPLAYED, Request, Response

MAX_PAGE = 200
MAX_WAIT = 60
_INTEGER = re.compile("[0-9]{1,18}")
_NUMBER = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")
_encode = msgspec.json.Encoder().encode


async def get_clock(control: Control, request: Request) -> Response:
    return _ok(await control.clock(request.sandbox))


async def set_clock(control: Control, request: Request) -> Response:
    return _ok(await control.set_clock(request.sandbox, await _body(request)))


async def advance(control: Control, request: Request) -> Response:
    return _ok(await control.advance(request.sandbox, await _body(request)))


async def advance_payment(control: Control, request: Request) -> Response:
    payment_id = request.params["payment_id"]
    return _ok(await control.advance_payment(request.sandbox, payment_id, await _body(request)))


async def deposit(control: Control, request: Request) -> Response:
    key = guard.idempotency_key(request) if b"idempotency-key" in request.headers else None
    body = await _body(request)
    fingerprint = strict_json.fingerprint(request.method, request.path, body)
    payment, replayed = await control.deposit(
        request.sandbox, request.params["payment_id"], body, key, fingerprint
    )
    return _ok(payment, *([REPLAYED] if replayed else []))


async def list_payments(control: Control, request: Request) -> Response:
    query = _query(request, "limit", "cursor", "status", "scenario", "order_id")
    cursor = _integer(query, "cursor", 10**18) if "cursor" in query else None
    wanted = Filter(
        _choice(query, "status", [*PaymentStatus]),
        _choice(query, "scenario", [*SCENARIOS]),
        query.get("order_id"),
    )
    page = await control.payments(request.sandbox, wanted, _integer(query, "limit", MAX_PAGE, 50), cursor)
    return _ok(page)


async def get_payment(control: Control, request: Request) -> Response:
    return _ok(await control.payment(request.sandbox, request.params["payment_id"]))


async def wait(control: Control, request: Request) -> Response:
    query = _query(request, "status", "timeout")
    timeout = query.get("timeout", "30")
    if not _NUMBER.fullmatch(timeout) or float(timeout) > MAX_WAIT:
        raise PaymockError("invalid_query", f"timeout must be a number of seconds from 0 to {MAX_WAIT}.")
    status = _choice(query, "status", [*PaymentStatus])
    waiting = control.wait(request.sandbox, request.params["payment_id"], status, float(timeout))
    return _ok(await request.unless_gone(waiting))


async def events(control: Control, request: Request) -> Response:
    query = _query(request, "payment_id")
    return await event_stream(control.feed.follow(request.sandbox, query.get("payment_id")))


async def set_next(control: Control, request: Request) -> Response:
    return _ok(await control.overrides.add(request.sandbox, await _body(request)))


async def get_next(control: Control, request: Request) -> Response:
    return _ok(await control.overrides.pending(request.sandbox))


async def clear_next(control: Control, request: Request) -> Response:
    await control.overrides.clear(request.sandbox)
    return Response(204, content_type=None)


async def list_requests(control: Control, request: Request) -> Response:
    query = _query(request, "limit", "payment_id")
    limit = _integer(query, "limit", journal.LENGTH, 100)
    return _ok(await control.journal.newest(request.sandbox, limit, query.get("payment_id")))


async def forget_requests(control: Control, request: Request) -> Response:
    await control.journal.clear(request.sandbox)
    return Response(204, content_type=None)


async def reset(control: Control, request: Request) -> Response:
    await control.reset(request.sandbox)
    return Response(204, content_type=None)


def _ok(reply: Any, *headers: tuple[str, str]) -> Response:
    return Response(200, _encode(reply), headers=headers)


async def _body(request: Request) -> Any:
    guard.check_json_body(request)
    return strict_json.decode(await request.body())


def _query(request: Request, *known: str) -> dict[str, str]:
    try:
        return request.query(known)
    except ValueError as error:
        raise PaymockError("invalid_query", f"{error}.") from None


def _integer(query: Mapping[str, str], name: str, most: int, default: int = 0) -> int:
    value = query.get(name, str(default))
    if not _INTEGER.fullmatch(value) or not 0 <= int(value) <= most or (name == "limit" and int(value) == 0):
        least = 1 if name == "limit" else 0
        raise PaymockError("invalid_query", f"{name} must be an integer from {least} to {most}.")
    return int(value)


def _choice(query: Mapping[str, str], name: str, allowed: list[str]) -> str | None:
    value = query.get(name)
    if value is not None and value not in allowed:
        raise PaymockError("invalid_query", f"{name} must be one of {', '.join(allowed)}.")
    return value
