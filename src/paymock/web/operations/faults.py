"""Fault injection: by the header of a request, by the rules of its sandbox, or by an override. See
docs/faults.md.
"""

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec.structs import replace

from paymock.app.faults import FaultInjection, RequestAttempt
from paymock.http.auth import REALM
from paymock.http.headers import idempotency_key
from paymock.http.requests import ClientGone, Request
from paymock.http.responses import Response, error_response, refusal
from paymock.http.routing import Handler
from paymock.rules.errors import RETRY_AFTER_SECONDS, PaymockError
from paymock.rules.fault_injection import Decision
from paymock.rules.faults import FAULT_FORM, Fault, FaultKind, FaultTarget, parse_fault
from paymock.sandbox.retries import RetryDeadline
from paymock.sandbox.sandboxes import SandboxChanged
from paymock.schemas.public import CREATE_PAYMENT, PAYMENT_READS
from paymock.web.operations.operations import keyed_request
from paymock.web.telemetry.journal_entry import order_id_of

_HEADERS = {401: (("WWW-Authenticate", REALM),), 429: (("Retry-After", str(RETRY_AFTER_SECONDS)),)}
"""The headers of injected errors. Every 503 has `Retry-After` anyway."""

_OWN_HEADERS = (b"x-mock-scenario", b"x-mock-fault")
"""A creation with one of them takes no override."""

_STATUSES = frozenset(HTTPStatus)
_MESSAGES = {
    after: f"An injected fault, with the requested status. {outcome} Retry as your client should."
    for after, outcome in ((False, "Nothing was stored."), (True, "The request was carried out."))
}
_GATEWAY_PAGE = (
    "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n"
    "<hr><center>gateway</center>\r\n</body>\r\n</html>\r\n"
)


async def inject_fault(faults: FaultInjection, request: Request, carry_out: Handler) -> Response:
    """Carry out a request below `/v1` with the fault of its header, or of a rule or an override of its
    sandbox, in this order. The response has the fault that was applied. Raises PaymockError `invalid_fault`.
    """
    header = _fault_header(request) if b"x-mock-fault" in request.headers else None
    response, deadline = None, RetryDeadline()
    while header is None and (decision := faults.undisturbed(request.sandbox, request.operation)):
        request.decision = decision
        try:
            response = await _result(request, carry_out)
        except SandboxChanged:  # another process has changed it
            deadline.check()
            continue
        if request.method == "POST" and response.error is None:
            return response
        if (
            response.error is not None or request.operation not in PAYMENT_READS
        ):  # it has not seen its sandbox
            with suppress(PaymockError):  # the catalog needs no store
                await faults.refresh(request.sandbox)
        if faults.undisturbed(request.sandbox, request.operation):
            return response
    request.decision = None
    return await _inject(faults, request, carry_out, header, response)


async def _inject(
    faults: FaultInjection,
    request: Request,
    carry_out: Handler,
    header: str | None,
    response: Response | None,
) -> Response:
    """Decide about a request to which a fault may apply, and carry it out unless there is a response."""
    attempt = await _attempt(request)
    if header is None:

        async def create(decision: Decision) -> Response:
            request.decision = decision
            try:
                return await carry_out(request)
            finally:
                request.decision = None

        decision, target, created = await faults.decide(attempt, create)
        fault, rule_id, response = decision.fault, decision.rule_id, created or response
    else:
        target, rule_id = FaultTarget(request.operation), None
        with suppress(PaymockError):  # the fault of a header needs no store
            target = await faults.count(attempt)
        fault = requested_fault(header)
        if fault.times and await faults.count_attempt(attempt, header) > fault.times:
            fault = None
    if fault is None:
        return response or await _result(request, carry_out)
    carried_out = (response or await _result(request, carry_out)) if fault.after else None
    if fault.keeps_reply:
        try:
            if fault.kind is FaultKind.DELAY:
                await asyncio.sleep(fault.number / 1000)
            elif fault.kind is FaultKind.HOLD:
                with faults.waiting_request(request.owner):
                    await request.unless_gone(faults.hold(request.sandbox, rule_id))
        except ClientGone:
            return replace(carried_out or Response(0), fault=fault, target=target, lost=True)
        except PaymockError as error:
            return replace(refusal(error, request), carried_out=carried_out, target=target)
        response = carried_out or await _result(request, carry_out)
        if fault.kind is FaultKind.EXTRA:
            response = _with_unknown_members(response)
        return replace(response, fault=fault, lost=request.client is not None and request.client.has_left)
    shown = _error_reply(fault) if fault.kind is FaultKind.STATUS else carried_out or Response(0)
    return replace(shown, fault=fault, carried_out=carried_out, target=target)


async def _result(request: Request, carry_out: Handler) -> Response:
    try:
        return await carry_out(request)
    except PaymockError as error:
        return refusal(error, request)


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


async def _attempt(request: Request) -> RequestAttempt:
    header = request.headers.get(b"idempotency-key")
    identity = header.decode("latin-1").strip() if header else f"{request.method} {request.path}"
    order_id = key = creation = None
    if request.operation == CREATE_PAYMENT:
        with suppress(PaymockError):
            await request.json()
        order_id = order_id_of(request)
        with suppress(PaymockError):
            key = idempotency_key(request)
            if request.headers.keys().isdisjoint(_OWN_HEADERS):
                creation = await keyed_request(request)
    payment_id = request.params.get("payment_id")
    return RequestAttempt(request.sandbox, request.operation, identity, payment_id, order_id, key, creation)


def _fault_header(request: Request) -> str | None:
    try:
        return request.header(b"x-mock-fault")
    except ValueError:
        raise PaymockError("invalid_fault", "The X-Mock-Fault header was sent twice.") from None
