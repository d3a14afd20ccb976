"""Faults that a test asks for: a status, a delay, a dropped reply. See docs/control-api.md."""

import asyncio
from collections.abc import Awaitable, Callable

from paymock.control import Control
from paymock.core.errors import PaymockError
from paymock.core.faults import parse_fault
from paymock.core.records import Override
from paymock.web.http import ConnectionDropped, Request, Response

CREATION = ("POST", "/v1/payments")


async def suffering(
    control: Control, request: Request, carry_out: Callable[[Request], Awaitable[Response]]
) -> Response:
    """Carries out a request below `/v1`, with the fault that it or an override of its sandbox asks for.

    Raises PaymockError `invalid_fault`, or `injected_fault` with the status that was asked for, and
    ConnectionDropped when the reply is to be lost.
    """
    override = await _override(control, request)
    if override is not None:
        request.scenario = override.scenario
    asked = _header(request)
    text = override.fault if override is not None else asked
    if text is None:
        response = await carry_out(request)
        if override is not None and response.status == 201:
            await control.overrides.take(request.sandbox, override)
        return response
    fault = parse_fault(text)
    if fault is None:
        raise PaymockError("invalid_fault")
    suffers = await control.overrides.suffers(request.sandbox, _operation(request), fault.times)
    if override is not None:
        await control.overrides.take(request.sandbox, override)
    if suffers and fault.status:
        raise PaymockError("injected_fault", status=fault.status)
    if suffers and fault.delay:
        await asyncio.sleep(fault.delay / 1000)
    response = await carry_out(request)
    if suffers and fault.drop:
        raise ConnectionDropped(response)
    return response


async def _override(control: Control, request: Request) -> Override | None:
    key = request.headers.get(b"idempotency-key")
    own = b"x-mock-scenario" in request.headers or b"x-mock-fault" in request.headers
    if (request.method, request.path) != CREATION or own or key is None:
        return None
    return await control.overrides.first(request.sandbox, key.decode("latin-1").strip())


def _header(request: Request) -> str | None:
    try:
        return request.header(b"x-mock-fault")
    except ValueError:
        raise PaymockError("invalid_fault", "The X-Mock-Fault header was sent twice.") from None


def _operation(request: Request) -> str:
    key = request.headers.get(b"idempotency-key")
    return key.decode("latin-1").strip() if key else f"{request.method} {request.path}"
