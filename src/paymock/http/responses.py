"""Responses of the handlers, and the header lines to send them with."""

from collections.abc import AsyncGenerator
from functools import cache

import msgspec

from paymock.payments.timelines import RenderedPayment
from paymock.rules.faults import Fault

Header = tuple[bytes, bytes]

JSON = "application/json"

REPLAYED = ("Idempotent-Replayed", "true")
"""The header of a response to a repeated request."""

WARNING = "X-Mock-Warning"
"""The name of the header that tells of a part of the request that was ignored."""

_NO_STORE = b"cache-control: no-store\r\n"


class Response(msgspec.Struct, frozen=True):
    """What is sent to the client. The parts of a `stream` follow the `body` until the client disconnects.

    `error` (a code), the `payment` that it shows, `scenario` (of a created payment), and the `order_id` of a
    request with a fault are for log, journal and metrics. `fault` was injected; `carried_out` is the response
    that it replaces, if the request was carried out. A response is `lost` if the client has left.
    """

    status: int
    body: bytes = b""
    content_type: str | None = JSON
    headers: tuple[tuple[str, str], ...] = ()
    error: str | None = None
    stream: AsyncGenerator[bytes, None] | None = None
    payment: RenderedPayment | None = None
    scenario: str | None = None
    order_id: str | None = None
    fault: Fault | None = None
    carried_out: "Response | None" = None
    lost: bool = False

    @property
    def dropped(self) -> bool:
        return self.lost or (self.fault is not None and self.fault.loses_reply)

    @property
    def replayed(self) -> bool:
        return REPLAYED in self.headers

    @property
    def warning(self) -> str | None:
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
