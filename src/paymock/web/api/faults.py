"""Faults that a test asks for: a status, a delay, a dropped reply. See docs/control-api.md."""

import asyncio
from collections.abc import Awaitable, Callable

from paymock.app.control_service import ControlService
from paymock.app.overrides import FaultDue
from paymock.rules.errors import PaymockError
from paymock.rules.faults import Fault, parse_fault
from paymock.rules.scenarios import DEFAULT_SCENARIO
from paymock.web.http.auth import REALM
from paymock.web.http.error_responses import RETRY_AFTER_SECONDS, refusal
from paymock.web.http.requests import Request
from paymock.web.http.responses import ConnectionDropped, Response

_HEADERS = {401: (("WWW-Authenticate", REALM),), 429: (("Retry-After", str(RETRY_AFTER_SECONDS)),)}
"""What a client may go by beside the status. A 503 has `Retry-After` in any case."""

CarryOut = Callable[[Request], Awaitable[Response]]


async def inject_fault(control: ControlService, request: Request, carry_out: CarryOut) -> Response:
    """Carries out a request below `/v1`, with the fault that it or an override of its sandbox asks for.

    Raises PaymockError `invalid_fault`, or `injected_fault` with the status that was asked for, and
    ConnectionDropped when the reply is to be lost.
    """
    asked = _header(request)
    if asked is not None:
        fault = parse_fault(asked)
        if fault is None:
            raise PaymockError("invalid_fault")
        request.scenario = DEFAULT_SCENARIO  # what carries a header of its own takes no override
        suffers = fault.times is None or await _tries(control, request, asked) <= fault.times
        return await _with_fault(fault if suffers else None, request, carry_out)
    while True:
        try:
            return await carry_out(request)
        except FaultDue as due:
            fault = parse_fault(due.fault.value)
            tries = await _tries(control, request, due.fault.value) if fault and fault.times else 1
            last = (fault and fault.status and fault.times) or tries
            if tries == last and not await control.overrides.take(request.sandbox, due.fault):
                continue  # another creation has taken it
            request.fault_applied = True
            return await _with_fault(fault if tries <= last else None, request, carry_out)


async def _with_fault(fault: Fault | None, request: Request, carry_out: CarryOut) -> Response:
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
        response = refusal(error)
    raise ConnectionDropped(response)


async def _tries(control: ControlService, request: Request, fault: str) -> int:
    key = request.headers.get(b"idempotency-key")
    operation = key.decode("latin-1").strip() if key else f"{request.method} {request.path}"
    return await control.overrides.tries(request.sandbox, operation, fault)


def _header(request: Request) -> str | None:
    try:
        return request.header(b"x-mock-fault")
    except ValueError:
        raise PaymockError("invalid_fault", "The X-Mock-Fault header was sent twice.") from None
