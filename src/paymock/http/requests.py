"""Requests as the handlers see them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from paymock.rules.errors import PaymockError
from paymock.schemas import json_decoding
from paymock.schemas.fields import MAX_ORDER_ID

T = TypeVar("T")

Header = tuple[bytes, bytes]
"""The name, in lower case, and the value of a header line."""

Receive = Callable[[], Awaitable[Mapping[str, Any]]]

MAX_BODY = 64 * 1024
"""The largest request body, in bytes."""


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


class Body(msgspec.Struct, eq=False):
    """The body of a request: its `content`, or the ASGI messages to `receive` when it is read, and the JSON
    value that it was `decoded` to. One that is `too_large` is not read again. `complete`: its last message
    has been received. `ended` tells whether the client has closed its side of the connection.
    """

    content: bytes | None = None
    receive: Receive | None = None
    decoded: Any = msgspec.UNSET
    too_large: bool = False
    complete: bool = False
    ended: Callable[[], bool] = bool

    async def read(self, content_length: bytes) -> bytes:
        """Return the complete body. `content_length` is the announced length.

        Raises PaymockError `payload_too_large` as soon as the length is known to exceed MAX_BODY, and
        ClientGone if the client closes the connection before the end.
        """
        if self.content is None:
            if content_length.isdigit() and int(content_length.lstrip(b"0")[:20] or b"0") > MAX_BODY:
                self.too_large = True
            if self.too_large:
                raise PaymockError("payload_too_large")
            content = bytearray()
            while True:
                message = await self.next_message()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                content += message.get("body", b"")
                if len(content) > MAX_BODY:
                    self.too_large = True
                    raise PaymockError("payload_too_large")
                if not message.get("more_body", False):
                    break
            self.content = bytes(content)
        return self.content

    async def disconnected(self) -> None:
        """Return when the client has closed the connection, or its side of it: then a message comes after
        the last one, unless it was closed before that was received.
        """
        was_complete = False
        while not (was_complete or (self.complete and self.ended())):
            was_complete = self.complete
            await self.next_message()

    async def next_message(self) -> Mapping[str, Any]:
        """Return the next ASGI message."""
        if self.receive is None:
            raise RuntimeError("a complete request has no more messages")
        message = await self.receive()
        self.complete = not message.get("more_body", False)
        return message


class Request(msgspec.Struct, frozen=True, eq=False):
    """What a client sent. `path` is as it was sent, `headers` are by lower-case name, `repeated` are the
    names that were sent more than once.

    The application adds the operation, the template of the path, the values of its parameters, and the
    sandbox of the key.
    """

    method: str
    path: str
    headers: Mapping[bytes, bytes]
    content: Body
    query_string: bytes = b""
    repeated: Collection[bytes] = ()
    template: str = ""
    params: Mapping[str, str] = {}
    sandbox: str = ""
    operation: str = ""

    def __repr__(self) -> str:
        return f"Request({self.method})"  # its headers hold an API key

    def header(self, name: bytes) -> str | None:
        """Return the value of a header without surrounding white space, or None if it is absent.

        Raises ValueError if the header was sent more than once.
        """
        value = self.headers.get(name)
        if value is None:
            return None
        if name in self.repeated:
            raise ValueError(f"{name.decode()} was sent twice")
        return value.decode("latin-1").strip(" \t")

    def query(self, allowed: Collection[str]) -> dict[str, str]:
        """Return the parameters of the query.

        Raises ValueError if a parameter is malformed, not `allowed`, or repeated.
        """
        text = self.query_string.decode("latin-1")
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
        body = self.content
        if body.decoded is msgspec.UNSET:
            content = body.content
            if content is None:
                content = await body.read(self.headers.get(b"content-length", b"0"))
            body.decoded = json_decoding.decode(content)
        return body.decoded

    @property
    def order_id(self) -> str | None:
        """The order that the body names, if it has been decoded."""
        body = self.content.decoded
        order_id = body.get("order_id") if isinstance(body, dict) else None
        return order_id if isinstance(order_id, str) and len(order_id) <= MAX_ORDER_ID else None

    async def client_has_left(self) -> bool:
        """Whether the client has closed the connection. The body must have been read before."""
        try:
            async with asyncio.timeout(0):
                while (await self.content.next_message())["type"] != "http.disconnect":
                    pass  # one that has closed its side only still gets its reply
        except TimeoutError:
            return False
        return True

    async def unless_gone(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`. The body must have been read before.

        If the client closes the connection first, cancels `work` and raises ClientGone.
        """
        working, gone = asyncio.create_task(work), asyncio.create_task(self.content.disconnected())
        try:
            await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ClientGone
            return working.result()
        finally:
            working.cancel()
            gone.cancel()
            await asyncio.gather(working, gone, return_exceptions=True)  # let cancellation finish


def parse_request(
    method: str, path: bytes, lines: Collection[Header], content: Body, query_string: bytes = b""
) -> Request:
    """Return the request with these header lines."""
    headers = dict(lines)
    repeated: Collection[bytes] = ()
    if len(lines) != len(headers):
        repeated = [name for name, count in Counter(name for name, _ in lines).items() if count > 1]
    return Request(method, path.decode("latin-1"), headers, content, query_string, repeated)
