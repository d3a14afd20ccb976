"""Responses of the handlers, and the header lines to send them with."""

from collections.abc import AsyncGenerator
from functools import cache

import msgspec

Header = tuple[bytes, bytes]

JSON = "application/json"

REPLAYED = ("Idempotent-Replayed", "true")
"""The header of a response to a repeated request."""

WARNING = "X-Mock-Warning"
"""The name of the header that tells of a part of the request that was ignored."""

_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_NOT_CACHED = (b"cache-control", b"no-store")


class Response(msgspec.Struct, frozen=True):
    """What is sent to the client. The parts of a `stream` follow the `body` until the client disconnects.

    `error` (a code), `payment_id` and `scenario` (of a created payment) are for log, journal and metrics.
    """

    status: int
    body: bytes = b""
    content_type: str | None = JSON
    headers: tuple[tuple[str, str], ...] = ()
    error: str | None = None
    stream: AsyncGenerator[bytes, None] | None = None
    payment_id: str | None = None
    scenario: str | None = None

    @property
    def replayed(self) -> bool:
        """Whether this is the response to a repeated request."""
        return REPLAYED in self.headers

    @property
    def warning(self) -> str | None:
        """The value of the header WARNING."""
        return next((value for name, value in self.headers if name == WARNING), None)


class ConnectionDropped(Exception):
    """A fault: the connection is closed instead of sending the response, which is the first argument."""


def header_lines(response: Response, request_id: str, *more: Header) -> list[Header]:
    """Return the header lines of a response, in the order in which they are sent, with `more` at the end."""
    lines = [(b"x-request-id", request_id.encode()), _NO_SNIFFING]
    if response.status != 204 and response.stream is None:
        lines.append((b"content-length", b"%d" % len(response.body)))
    if response.content_type:
        lines.append((b"content-type", response.content_type.encode()))
    if response.headers:
        lines += [(_encoded_name(name), value.encode("latin-1")) for name, value in response.headers]
    if not response.headers or all(name != _NOT_CACHED[0] for name, _ in lines):
        lines.append(_NOT_CACHED)
    lines += more
    return lines


@cache  # there are few names
def _encoded_name(name: str) -> bytes:
    return name.lower().encode("latin-1")
