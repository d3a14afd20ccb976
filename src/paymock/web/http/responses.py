"""A response, as the handlers make it."""

from collections.abc import AsyncGenerator, Iterable

import msgspec

Header = tuple[bytes, bytes]

JSON = "application/json"

REPLAYED = ("Idempotent-Replayed", "true")
"""The header of a reply to a request that was sent before."""


class ConnectionDropped(Exception):
    """The connection is to be closed in place of the reply that is its first argument: a fault."""


class Response(msgspec.Struct, frozen=True):
    """What goes back. `error` is the error code, for the log. The parts of a `stream` follow the `body`, as
    they come, while the client stays.
    """

    status: int
    body: bytes = b""
    content_type: str | None = JSON
    headers: tuple[tuple[str, str], ...] = ()
    error: str | None = None
    stream: AsyncGenerator[bytes, None] | None = None

    @property
    def replayed(self) -> bool:
        """Whether it answers a request that was sent before."""
        return REPLAYED in self.headers


def raw_headers(headers: Iterable[tuple[str, str]]) -> list[Header]:
    """Header lines as ASGI wants them."""
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
