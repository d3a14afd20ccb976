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

_NO_STORE = b"cache-control: no-store\r\n"


class Response(msgspec.Struct, frozen=True):
    """What is sent to the client. The parts of a `stream` follow the `body` until the client disconnects.

    `error` (a code), `payment_id` and `scenario` (of a created payment) are for log, journal and metrics. If
    it is `dropped`, a fault closes the connection instead.
    """

    status: int
    body: bytes = b""
    content_type: str | None = JSON
    headers: tuple[tuple[str, str], ...] = ()
    error: str | None = None
    stream: AsyncGenerator[bytes, None] | None = None
    payment_id: str | None = None
    scenario: str | None = None
    dropped: bool = False

    @property
    def replayed(self) -> bool:
        """Whether this is the response to a repeated request."""
        return REPLAYED in self.headers

    @property
    def warning(self) -> str | None:
        """The value of the header WARNING."""
        return next((value for name, value in self.headers if name == WARNING), None)


def header_block(response: Response, request_id: str, more: bytes = b"") -> bytes:
    """Return the header lines of a response, in the order in which they are sent, with `more` at the end.
    Each ends with CRLF.
    """
    has_length = response.status != 204 and response.stream is None
    own = b"".join([_line(name, value) for name, value in response.headers])
    return b"x-request-id: %b\r\nx-content-type-options: nosniff\r\n%b%b%b%b%b" % (
        request_id.encode(),
        b"content-length: %d\r\n" % len(response.body) if has_length else b"",
        _content_type(response.content_type),
        own,
        b"" if own and b"cache-control: " in own else _NO_STORE,
        more,
    )


def header_lines(block: bytes) -> list[Header]:
    """Return the names and values in a header block, as ASGI has them."""
    lines = (line.partition(b": ") for line in block.split(b"\r\n")[:-1])
    return [(name, value) for name, _, value in lines]


def _line(name: str, value: str) -> bytes:
    return f"{name.lower()}: {value}\r\n".encode("latin-1")


@cache  # there are few types
def _content_type(value: str | None) -> bytes:
    return b"" if value is None else _line("content-type", value)
