"""Requests as the handlers see them."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl

import msgspec

from paymock.rules.errors import PaymockError
from paymock.schemas import json as json_decoding

T = TypeVar("T")

MAX_BODY = 64 * 1024  # bytes


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


class Client(Protocol):
    """The connection over which a request came."""

    @property
    def has_left(self) -> bool:
        """Whether the client has closed the connection."""

    def gone(self) -> asyncio.Future[None]:
        """A future that is done when the client has closed the connection, or its side of it."""

    def end(self) -> None:
        """End what the request waits for, and the connection after the reply."""

    def send_continue(self) -> None:
        """Ask a client that waits for it to send the body: RFC 9110, 10.1.1."""


class Body:
    """The body of a request, which is read as it arrives: its `content`, once it is complete, and the JSON
    value that it was `decoded` to.
    """

    __slots__ = ("_changed", "_failed", "_parts", "_too_large", "content", "decoded")

    def __init__(self, content: bytes | None = None, length: int = 0) -> None:
        """Of an incomplete body, `length` is the announced length."""
        self.content = content
        self.decoded: Any = msgspec.UNSET
        self._too_large = length > MAX_BODY or (content is not None and len(content) > MAX_BODY)
        self._parts = bytearray()
        self._failed = False
        self._changed: asyncio.Event | None = None

    def append(self, part: bytes) -> None:
        """Add a part that has arrived. The parts of a body that is too large are not kept."""
        if len(self._parts) + len(part) > MAX_BODY:
            self._too_large = True
            self._parts.clear()
            self._notify()
        elif not self._too_large:
            self._parts += part

    def complete(self) -> None:
        self.content = bytes(self._parts)
        self._notify()

    def fail(self) -> None:
        """The rest will not arrive."""
        self._failed = True
        self._notify()

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()

    async def read(self, client: Client | None = None) -> bytes:
        """Return the complete body.

        Raises PaymockError `payload_too_large` as soon as the length is known to exceed MAX_BODY, and
        ClientGone if the client closes the connection before the end.
        """
        while True:
            if self._too_large:
                raise PaymockError("payload_too_large")
            if self.content is not None:
                return self.content
            if self._failed:
                raise ClientGone
            if self._changed is None:
                self._changed = asyncio.Event()
                if client is not None:
                    client.send_continue()
            self._changed.clear()
            await self._changed.wait()


_NO_BODY = Body(b"")


class Request(msgspec.Struct, eq=False):
    """What a client sent. `path` is as it was sent, `headers` are by lower-case name, `repeated` are the
    names that were sent more than once. `is_current` tells HTTP/1.1 from HTTP/1.0, and `keeps_alive` whether
    the connection stays open after the reply (RFC 9112, 9.3).

    The application adds the id, the operation, the template of the path, the values of its parameters, the
    `root_path`: what links to this server begin with, behind a proxy, and what the key opens: a sandbox, and
    the sandbox of the configured key K, its owner. They differ for `K.NAME`. `key_name` is the name that the
    operator gave K. `on_sent` is called when the reply has been sent, or never will be.
    """

    method: str
    path: str
    headers: dict[bytes, bytes]
    query_string: str = ""
    is_current: bool = True
    keeps_alive: bool = True
    body: Body = _NO_BODY
    client: Client | None = None
    repeated: Collection[bytes] = ()
    template: str = ""
    params: Mapping[str, str] = {}
    sandbox: str = ""
    owner: str = ""
    key_name: str = ""
    operation: str = ""
    root_path: str = ""
    id: str = ""
    on_sent: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"Request({self.method})"  # its headers hold an API key

    def query(self, allowed: Collection[str]) -> dict[str, str]:
        """Return the parameters of the query.

        Raises ValueError if a parameter is malformed, not `allowed`, or repeated.
        """
        text = self.query_string
        try:
            pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True) if text else []
        except ValueError:  # its message repeats the query, which may hold secrets
            raise ValueError("The query is not of the form name=value&name=value") from None
        parameters = dict(pairs)
        if len(parameters) != len(pairs):
            raise ValueError("A parameter was sent twice")
        if parameters.keys() - set(allowed):
            raise ValueError(f"A parameter is unknown; known: {', '.join(allowed)}")
        return parameters

    async def json(self) -> Any:
        """Return the decoded body. Raises ClientGone; PaymockError `invalid_json`, `payload_too_large`."""
        body = self.body
        if body.decoded is msgspec.UNSET:
            body.decoded = json_decoding.decode(await body.read(self.client))
        return body.decoded

    def end(self) -> None:
        if self.client is not None:
            self.client.end()

    async def unless_gone(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`. The body must have been read before.

        If the client closes the connection first, cancels `work` and raises ClientGone.
        """
        working = asyncio.create_task(work)
        gone = self.client.gone() if self.client else asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ClientGone
            return working.result()
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)  # let cancellation finish
