"""Fault injection: by the header of a request, by the rules of its sandbox, or by an override. See
docs/faults.md.
"""

import asyncio
from contextlib import suppress
from http import HTTPStatus

from msgspec.structs import replace

from paymock.app.control import ControlService
from paymock.app.faults import RulesDue
from paymock.app.overrides import FaultDue
from paymock.http.auth import REALM
from paymock.http.headers import idempotency_key
from paymock.http.requests import Request
from paymock.http.responses import Response, error_response, refusal
from paymock.http.routing import Handler
from paymock.rules.errors import RETRY_AFTER_SECONDS, PaymockError
from paymock.rules.faults import FAULT_FORM, Fault, FaultKind, FaultTarget, parse_fault
from paymock.sandbox.retries import RetryDeadline
from paymock.schemas.public import CREATE_PAYMENT

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


async def ignore_faults(request: Request, carry_out: Handler) -> Response:
    """Carry out a request whatever faults another server has left in the store."""
    return await carry_out(replace(request, rules_counted=True, fault_applied=True))


async def without_faults(control: ControlService, request: Request, carry_out: Handler) -> Response:
    """Carry out a request without a fault header, unless a fault may be injected into it. Raises RulesDue or
    FaultDue if one may; then nothing has been carried out.
    """
    try:
        return await carry_out(request)
    except PaymockError as error:
        # A refused request has not met the rules yet.
        if error.kind.code != "store_unavailable" and await control.fault_rules.exist(request.sandbox):
            raise RulesDue from None
        raise


async def inject_fault(control: ControlService, request: Request, carry_out: Handler) -> Response:
    """Carry out a request below `/v1` with the fault of its header, or of a rule or an override of its
    sandbox, in this order. The response has the fault that was applied. Raises PaymockError `invalid_fault`.
    """
    header = _fault_header(request)
    try:
        if header is None:
            return await without_faults(control, request, carry_out)
    except RulesDue:
        pass
    except FaultDue as due:  # there were no rules; those that are added from now on are for later requests
        return await _apply_override(control, replace(request, rules_counted=True), carry_out, due)
    return await _apply_rules(control, request, carry_out, header)


async def _apply_rules(
    control: ControlService, request: Request, carry_out: Handler, header: str | None
) -> Response:
    """Carry out a request with the fault of its header or of a rule, and count it in the rules."""
    target, attempt = await _target(control, request), _attempt(request)
    counting = control.fault_rules.count(request.sandbox, target, attempt, applies=header is None)
    request = replace(request, rules_counted=True)
    if header is not None:
        with suppress(PaymockError):  # the fault of a header needs no store
            await counting
        fault = requested_fault(header)
        if fault.times is not None:
            number = await control.fault_rules.count_attempt(request.sandbox, attempt, header)
            if number > fault.times:
                return await carry_out(request)
        return await _apply(fault, target, request, carry_out)
    rule_fault = await counting
    if rule_fault is not None:
        return await _apply(parse_fault(rule_fault), target, replace(request, fault_applied=True), carry_out)
    try:
        return await carry_out(request)
    except FaultDue as due:
        return await _apply_override(control, request, carry_out, due)


async def _apply_override(
    control: ControlService, request: Request, carry_out: Handler, due: FaultDue
) -> Response:
    """Carry out a creation with the first fault of the queue of overrides."""
    target, attempt = await _target(control, request), _attempt(request)
    deadline = RetryDeadline()
    while True:
        fault, number = parse_fault(due.fault.value), 1
        if fault and fault.times:
            number = await control.fault_rules.count_attempt(request.sandbox, attempt, due.fault.value)
        last = (fault and fault.prevents and fault.times) or number
        if number != last or await control.overrides.take(request.sandbox, due.fault):
            fault = fault if number <= last else None
            return await _apply(fault, target, replace(request, fault_applied=True), carry_out)
        deadline.check()  # a concurrent creation has taken the fault
        try:
            return await carry_out(request)
        except FaultDue as another:
            due = another


async def _apply(fault: Fault | None, target: FaultTarget, request: Request, carry_out: Handler) -> Response:
    if fault is None:
        return await carry_out(request)
    if fault.kind is FaultKind.DELAY:
        return await _delay(fault, request, carry_out)
    carried_out = await _result(request, carry_out) if fault.after else None
    response = _error_reply(fault) if fault.kind is FaultKind.STATUS else carried_out or Response(0)
    return replace(response, fault=fault, carried_out=carried_out, order_id=target.order_id)


async def _delay(fault: Fault, request: Request, carry_out: Handler) -> Response:
    seconds = fault.number / 1000
    if fault.after:
        response = await _result(request, carry_out)
        await asyncio.sleep(seconds)
    else:
        await asyncio.sleep(seconds)
        response = await _result(request, carry_out)
    return replace(response, fault=fault, lost=await request.client_has_left())


async def _result(request: Request, carry_out: Handler) -> Response:
    try:
        return await carry_out(request)
    except PaymockError as error:
        return refusal(error, request)


def requested_fault(header: str) -> Fault:
    """Return the fault that the header `X-Mock-Fault` asks for. Raises PaymockError `invalid_fault`."""
    fault = parse_fault(header)
    if fault is None:
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
    payment_id = request.params.get("payment_id")
    if payment_id is not None:
        order_id = await control.order_of(request.sandbox, payment_id)
    elif request.operation == CREATE_PAYMENT:
        with suppress(PaymockError):
            await request.json()
        order_id = request.order_id
        with suppress(PaymockError):
            payment_id = await control.payment_id_of(request.sandbox, idempotency_key(request))
    else:
        order_id = None
    return FaultTarget(request.operation, order_id, payment_id)


def _attempt(request: Request) -> str:
    """Return what tells the attempts of one operation from those of others."""
    key = request.headers.get(b"idempotency-key")
    return key.decode("latin-1").strip() if key else f"{request.method} {request.path}"


def _fault_header(request: Request) -> str | None:
    try:
        return request.header(b"x-mock-fault")
    except ValueError:
        raise PaymockError("invalid_fault", "The X-Mock-Fault header was sent twice.") from None
