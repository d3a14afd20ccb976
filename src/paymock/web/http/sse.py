"""Server-sent events: what is pushed to pages, and to whoever follows a checkout."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from paymock.web.http.responses import Response

_RETRY = b"retry: 1000\n\n"
"""Milliseconds after which a browser connects again."""

_UNBUFFERED = (("X-Accel-Buffering", "no"),)
"""Proxies that know it pass events on at once."""


async def event_stream(messages: AsyncGenerator[msgspec.Struct, None]) -> Response:
    """The reply that pushes `messages`, as JSON, one event each. Raises what making the first one raises."""
    events = _events(messages)
    first = await anext(events, b"")
    return Response(200, _RETRY + first, "text/event-stream", headers=_UNBUFFERED, stream=events)


async def _events(messages: AsyncGenerator[msgspec.Struct, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(messages):
        async for message in messages:
            yield b"data: " + msgspec.json.encode(message) + b"\n\n"
