"""Fault injection: error statuses, delays, dropped replies. See docs/control-api.md."""

import asyncio

from msgspec.structs import replace

from paymock.app.contention import Contention
from paymock.app.control_service import ControlService
from paymock.app.overrides import FaultDue
from paymock.rules.errors import PaymockError
from paymock.rules.faults import Fault, parse_fault
from paymock.web.http.auth import REALM
from paymock.web.http.error_responses import RETRY_AFTER_SECONDS, error_response
from paymock.web.http.requests import Request
from paymock.web.http.responses import Response
from paymock.web.http.routing import Handler

_HEADERS = {401: (("WWW-Authenticate", REALM),), 429: (("Retry-After", str(RETRY_AFTER_SECONDS)),)}
"""The headers of injected errors. Every 503 has `Retry-After` anyway."""


async def inject_fault(control: ControlService, request: Request, carry_out: Handler) -> Response:
    """Carry out a request below `/v1` with the fault of its header, or of an override of its sandbox.

    The response to a fault that drops the reply is `dropped`. Raises PaymockError `invalid_fault`, or
    `injected_fault` with the status of the fault.
    """
    value = _fault_header(request)
    if value is not None:
        fault = parse_fault(value)
        if fault is None:
            raise PaymockError("invalid_fault")
        applies = fault.times is None or await _count_attempt(control, request, value) <= fault.times
        return await _apply(fault if applies else None, request, carry_out)
    contention = Contention()
    while True:
        try:
            return await carry_out(request)
        except FaultDue as due:
            fault = parse_fault(due.fault.value)
            attempt = await _count_attempt(control, request, due.fault.value) if fault and fault.times else 1
            last = (fault and fault.status and fault.times) or attempt
            if attempt == last and not await control.overrides.take(request.sandbox, due.fault):
                contention.check()  # a concurrent creation has taken the fault
                continue
            applied = replace(request, fault_applied=True)
            return await _apply(fault if attempt <= last else None, applied, carry_out)


async def _apply(fault: Fault | None, request: Request, carry_out: Handler) -> Response:
    if fault is None:
        return await carry_out(request)
    if fault.status:
        raise PaymockError("injected_fault", status=fault.status, headers=_HEADERS.get(fault.status, ()))
    if fault.delay:
        await asyncio.sleep(fault.delay / 1000)
    if not fault.drop:
        return await carry_out(request)
    try:
        response = await carry_out(request)
    except PaymockError as error:
        response = error_response(error)
    return replace(response, dropped=True)


async def _count_attempt(control: ControlService, request: Request, fault: str) -> int:
    """Return how often this operation has been attempted with this fault, this time included."""
    key = request.headers.get(b"idempotency-key")
    operation = key.decode("latin-1").strip() if key else f"{request.method} {request.path}"
    return await control.overrides.count_attempt(request.sandbox, operation, fault)


def _fault_header(request: Request) -> str | None:
    try:
        return request.header(b"x-mock-fault")
    except ValueError:
        raise PaymockError("invalid_fault", "The X-Mock-Fault header was sent twice.") from None
