"""Fault injection: by the header of a request, by the rules of its sandbox, or by an override. See
docs/faults.md.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec.structs import replace

from paymock.app.control import ControlService
from paymock.app.faults import Injection, Prevented
from paymock.http.auth import REALM
from paymock.http.headers import idempotency_key
from paymock.http.requests import ClientGone, Request
from paymock.http.responses import Response, error_response, refusal
from paymock.rules.errors import RETRY_AFTER_SECONDS, PaymockError
from paymock.rules.faults import FAULT_FORM, Fault, FaultKind, FaultTarget, parse_fault
from paymock.sandbox.sandboxes import Sandboxes
from paymock.schemas.public import CREATE_PAYMENT
from paymock.web.telemetry.journal_entry import order_id_of

_HEADERS = {401: (("WWW-Authenticate", REALM),), 429: (("Retry-After", str(RETRY_AFTER_SECONDS)),)}
"""The headers of injected errors. Every 503 has `Retry-After` anyway."""

_STATUSES = frozenset(HTTPStatus)
_MESSAGES = {
    after: f"An injected fault, with the requested status. {outcome} Retry as your client should."
    for after, outcome in ((False, "Nothing was stored."), (True, "The request was carried out."))
}
_GATEWAY_PAGE = (
    "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n"
    "<hr><center>gateway</center>\r\n</body>\r\n</html>\r\n"
)


CarryOut = Callable[[Request, Injection], Awaitable[Response]]
"""Carries out a request, and decides about its fault if it adds something."""


async def ignore_faults(sandboxes: Sandboxes, request: Request, carry_out: CarryOut) -> Response:
    """Carry out a request whatever faults another server has left in the store."""
    return await carry_out(
        request, Injection(sandboxes, request.sandbox, partial(_attempt, request), decided=True)
    )


async def inject_fault(control: ControlService, request: Request, carry_out: CarryOut) -> Response:
    """Carry out a request below `/v1` with the fault of its header, or of a rule or an override of its
    sandbox, in this order. The response has the fault that was applied. Raises PaymockError `invalid_fault`.
    """
    injection = control.injection(request.sandbox, partial(_attempt, request))
    header = _fault_header(request) if b"x-mock-fault" in request.headers else None
    if header is not None:
        await _take_header(control, request, injection, header)
    response = Response(0) if injection.is_before else await _result(request, carry_out, injection)
    if injection.is_without_fault:
        return response
    if injection.seen is None and not injection.decided:
        await _see(injection, response)
    if injection.is_due:
        await injection.decide_alone(await _target(control, request))
    fault = injection.fault
    if fault is None:
        return response
    carried_out = response if fault.after else None
    if fault.keeps_reply:
        try:
            await _postpone(control, request, injection, fault)
        except ClientGone:
            return replace(response, fault=fault, target=injection.target, lost=True)
        except PaymockError as error:
            return replace(refusal(error, request), carried_out=carried_out, target=injection.target)
        response = carried_out or await _result(request, carry_out, injection)
        if fault.kind is FaultKind.EXTRA:
            response = _with_unknown_members(response)
        return replace(response, fault=fault, lost=request.client is not None and request.client.has_left)
    shown = _error_reply(fault) if fault.kind is FaultKind.STATUS else carried_out or Response(0)
    return replace(shown, fault=fault, carried_out=carried_out, target=injection.target)


async def _postpone(control: ControlService, request: Request, injection: Injection, fault: Fault) -> None:
    if fault.kind is FaultKind.DELAY:
        await asyncio.sleep(fault.number / 1000)
    elif fault.kind is FaultKind.HOLD:
        with control.waiting_request(request.owner):
            await request.unless_gone(injection.hold())


async def _take_header(control: ControlService, request: Request, injection: Injection, header: str) -> None:
    """Give the request the fault of its header, which only counts in the rules."""
    target = await _target(control, request)
    with suppress(PaymockError):  # the fault of a header needs no store
        await injection.decide_alone(target, has_fault=True)
    fault = requested_fault(header)
    limited = fault.times is not None and await injection.count_attempt(header) > fault.times
    injection.settle(target, None if limited else fault)


async def _result(request: Request, carry_out: CarryOut, injection: Injection) -> Response:
    try:
        return await carry_out(request, injection)
    except Prevented:
        return Response(0)
    except PaymockError as error:
        return refusal(error, request)


async def _see(injection: Injection, response: Response) -> None:
    """Read the rules for a request that has not read its sandbox."""
    if response.error == "store_unavailable":
        return
    try:
        await injection.see()
    except PaymockError:
        if response.error is not None:
            raise
        # the catalog needs no store


def _with_unknown_members(response: Response) -> Response:
    """Return a reply with one more member in each object, except in `metadata`, which is the client's own."""

    def extended(value: Any) -> Any:
        if isinstance(value, list):
            return [extended(item) for item in value]
        if not isinstance(value, dict):
            return value
        members = {name: item if name == "metadata" else extended(item) for name, item in value.items()}
        return members | {"x_mock_unknown": {}}

    if response.error is not None:
        return response
    return replace(response, body=msgspec.json.encode(extended(msgspec.json.decode(response.body))))


def requested_fault(header: str) -> Fault:
    """Return the fault that the header `X-Mock-Fault` asks for. Raises PaymockError `invalid_fault`."""
    fault = parse_fault(header)
    if fault is None or fault.kind is FaultKind.HOLD:
        raise PaymockError("invalid_fault", f"X-Mock-Fault must be {FAULT_FORM}.")
    return fault


def injected_error(fault: Fault) -> PaymockError:
    headers = _HEADERS.get(fault.number, ())
    return PaymockError("injected_fault", _MESSAGES[fault.after], status=fault.number, headers=headers)


def _error_reply(fault: Fault) -> Response:
    status, response = fault.number, error_response(injected_error(fault))
    if not fault.html:
        return response
    phrase = f" {HTTPStatus(status).phrase}" if status in _STATUSES else ""
    page = _GATEWAY_PAGE.format(f"{status}{phrase}")
    return replace(response, body=page.encode(), content_type="text/html")


async def _target(control: ControlService, request: Request) -> FaultTarget:
    """Return what the rules compare: of a creation, the order in its body and the payment of its key."""
    payment_id, ahead = request.params.get("payment_id"), None
    if payment_id is not None:
        order_id, ahead = await control.order_and_lead(request.sandbox, payment_id)
    elif request.operation == CREATE_PAYMENT:
        with suppress(PaymockError):
            await request.json()
        order_id = order_id_of(request)
        with suppress(PaymockError):
            payment_id = await control.payment_id_of(request.sandbox, idempotency_key(request))
    else:
        order_id = None
    return FaultTarget(request.operation, order_id, payment_id, ahead)


def _attempt(request: Request) -> str:
    """Return what tells the attempts of one operation from those of others."""
    key = request.headers.get(b"idempotency-key")
    return key.decode("latin-1").strip() if key else f"{request.method} {request.path}"


def _fault_header(request: Request) -> str | None:
    try:
        return request.header(b"x-mock-fault")
    except ValueError:
        raise PaymockError("invalid_fault", "The X-Mock-Fault header was sent twice.") from None
