"""Faults that a test asks for: a status, a delay, a dropped reply. See docs/control-api.md."""

import asyncio
from collections.abc import Awaitable, Callable

from paymock.control import Control
from paymock.core.errors import PaymockError
from paymock.core.faults import parse_fault
from paymock.core.scenarios import DEFAULT_SCENARIO
from paymock.overrides import FaultDue
from paymock.web.http import ConnectionDropped, Request, Response

CarryOut = Callable[[Request], Awaitable[Response]]


async def suffering(control: Control, request: Request, carry_out: CarryOut) -> Response:
    """Carries out a request below `/v1`, with the fault that it or an override of its sandbox asks for.

    Raises PaymockError `invalid_fault`, or `injected_fault` with the status that was asked for, and
    ConnectionDropped when the reply is to be lost.
    """
    asked = _header(request)
    if asked is not None:
        request.scenario = DEFAULT_SCENARIO  # what carries a header of its own takes no override
        return await _with_fault(asked, control, request, carry_out)
    while True:
        try:
            return await carry_out(request)
        except FaultDue as due:
            override = due.override
            if override.fault and await control.overrides.take(request.sandbox, override):
                request.scenario = override.scenario or DEFAULT_SCENARIO
                return await _with_fault(override.fault, control, request, carry_out)


async def _with_fault(text: str, control: Control, request: Request, carry_out: CarryOut) -> Response:
    fault = parse_fault(text)
    if fault is None:
        raise PaymockError("invalid_fault")
    suffers = await control.overrides.suffers(request.sandbox, _operation(request), fault.times)
    if suffers and fault.status:
        raise PaymockError("injected_fault", status=fault.status)
    if suffers and fault.delay:
        await asyncio.sleep(fault.delay / 1000)
    response = await carry_out(request)
    if suffers and fault.drop:
        raise ConnectionDropped(response)
    return response


def _header(request: Request) -> str | None:
    try:
        return request.header(b"x-mock-fault")
    except ValueError:
        raise PaymockError("invalid_fault", "The X-Mock-Fault header was sent twice.") from None


def _operation(request: Request) -> str:
    key = request.headers.get(b"idempotency-key")
    return key.decode("latin-1").strip() if key else f"{request.method} {request.path}"
