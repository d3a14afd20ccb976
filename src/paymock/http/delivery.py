"""Sends responses over ASGI, and interrupts them as a fault demands."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from paymock.http.requests import ClientGone, Header, Request
from paymock.http.responses import Response
from paymock.rules.faults import MAX_HANG, FaultKind

Sleep = Callable[[float], Coroutine[Any, Any, None]]
"""Waits for a number of seconds, or until the server stops."""


def is_interrupted(response: Response) -> bool:
    """Whether the connection is closed before the whole response is sent, or in place of it."""
    truncated = response.fault is not None and response.fault.kind is FaultKind.TRUNCATE
    return truncated or response.dropped


async def send_head(response: Response, headers: list[Header], send: Any) -> None:
    await send({"type": "http.response.start", "status": response.status, "headers": headers})


async def interrupt(
    request: Request,
    response: Response,
    headers: list[Header],
    sleep: Sleep,
    scope: Any,
    receive: Any,
    send: Any,
) -> None:
    """Send what the fault of the response lets through, and close the connection."""
    fault = response.fault
    kind = fault.kind if fault else FaultKind.DROP
    if kind is FaultKind.HANG:
        with suppress(ClientGone):
            await request.unless_gone(sleep(MAX_HANG))
    elif kind is FaultKind.TRUNCATE and fault:
        await send_head(response, headers, send)
        part = b"" if request.method == "HEAD" else response.body[: fault.number]
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await close_connection(scope, receive, reset=kind is FaultKind.RESET)


async def close_connection(scope: Any, receive: Any, *, reset: bool = False) -> None:
    """Close the connection without a reply, or the rest of it."""
    close = scope.get("paymock.reset" if reset else "paymock.close")
    if close is None:
        raise ConnectionResetError("a fault closed the connection")
    close()
    while (await receive())["type"] != "http.disconnect":
        pass
