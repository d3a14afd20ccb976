"""A response, as handlers make it, and the header lines that it is sent with."""

from collections.abc import AsyncGenerator
from functools import cache

import msgspec

Header = tuple[bytes, bytes]

JSON = "application/json"

REPLAYED = ("Idempotent-Replayed", "true")
"""The header of a reply to a request that was sent before."""

_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_NOT_CACHED = (b"cache-control", b"no-store")


class Response(msgspec.Struct, frozen=True):
    """What goes back to the client. The parts of a `stream` follow the `body`, as they come, while the client
    stays.

    The last fields are for log, journal and metrics: the error code, and the payment that was created with
    its scenario.
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
        """Whether it answers a request that was sent before."""
        return REPLAYED in self.headers


class ConnectionDropped(Exception):
    """The connection is to be closed in place of sending the response that is its first argument: a fault."""


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
