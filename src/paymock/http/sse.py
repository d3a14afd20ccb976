"""Server-sent events."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from paymock.http.responses import Response

_RETRY = b"retry: 1000\n\n"
"""The time after which a browser reconnects, in milliseconds."""

_UNBUFFERED = (("X-Accel-Buffering", "no"),)
"""Tells nginx and other proxies to pass events on at once."""


async def event_stream(messages: AsyncGenerator[msgspec.Struct, None]) -> Response:
    """Return a response that pushes `messages` as events in JSON. Raises what the first one raises."""
    events = _events(messages)
    first = await anext(events, b"")
    return Response(200, _RETRY + first, "text/event-stream", headers=_UNBUFFERED, stream=events)


async def _events(messages: AsyncGenerator[msgspec.Struct, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(messages):
        async for message in messages:
            yield b"data: " + msgspec.json.encode(message) + b"\n\n"
