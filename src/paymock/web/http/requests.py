"""A request, as the handlers see it."""

import asyncio
from collections import Counter
from collections.abc import Collection, Coroutine, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from paymock.rules.errors import PaymockError
from paymock.web.http.responses import Header

T = TypeVar("T")

Scope = Mapping[str, Any]

MAX_BODY = 64 * 1024
"""The largest request body, in bytes."""


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


class Request(msgspec.Struct, eq=False):
    """One request: what was sent, and what is found out about it on its way.

    `path` is as it was sent, `headers` are by lower-case name. `route` is where it leads, `params` are the
    parameters in its path, `sandbox` is what its API key opens. `scenario` is the one that it has without
    asking for one, later that of its payment; `fault_applied` says whether it has had its fault. `key` is its
    idempotency key and `keyed` what its body means, once somebody has looked.
    """

    scope: Scope
    _receive: Any
    id: str
    _body: bytes | None = None
    method: str = ""
    path: str = ""
    headers: Mapping[bytes, bytes] = {}
    _repeated: Collection[bytes] = ()
    route: Any = None
    params: Mapping[str, str] = {}
    sandbox: str = ""
    scenario: str | None = None
    fault_applied: bool = False
    key: str | None = None
    keyed: Any = None

    def __repr__(self) -> str:
        return f"Request({self.id})"  # it holds an API key

    def __post_init__(self) -> None:
        """Reads the scope (ASGI)."""
        lines: Sequence[Header] = self.scope["headers"]
        self.method, self.path = self.scope["method"], self.scope["raw_path"].decode("latin-1")
        self.headers = dict(lines)
        if len(lines) != len(self.headers):
            self._repeated = _repeated(lines)

    @property
    def size(self) -> int:
        """How many bytes of its body are known."""
        return len(self._body or b"")

    def again(self, request_id: str) -> "Request":
        """The same request, sent once more: what was found out about it still holds."""
        again = copy(self)
        again.id, again.scenario = request_id, None
        return again

    def without_key(self) -> "Request":
        """What was found out about its head, but for the idempotency key."""
        known = self.again("")
        known.headers = {name: value for name, value in self.headers.items() if name != b"idempotency-key"}
        known.key, known.keyed, known.params = None, None, {}
        return known

    def with_key(self, request_id: str, key: bytes, body: bytes) -> "Request":
        """A request with the same head, and with an idempotency key, which is not among its `headers`."""
        anew = copy(self)
        anew.id, anew.key, anew._body = request_id, key.decode("ascii"), body
        return anew

    def header(self, name: bytes) -> str | None:
        """The value of a header without the white space around it, or None when it is absent.

        Raises ValueError when the header was sent more than once.
        """
        value = self.headers.get(name)
        if value is None:
            return None
        if name in self._repeated:
            raise ValueError(f"{name.decode()} was sent twice")
        return value.decode("latin-1").strip(" \t")

    def query(self, known: Collection[str]) -> dict[str, str]:
        """The parameters of the query. Raises ValueError when one is malformed, not `known`, or repeated."""
        text = self.scope["query_string"].decode("latin-1")
        try:
            pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True) if text else []
        except ValueError:  # whose message repeats what was sent
            raise ValueError("The query is not of the form name=value&name=value") from None
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("A parameter was sent twice")
        if found.keys() - set(known):
            raise ValueError(f"A parameter is unknown; known: {', '.join(known)}")
        return found

    async def body(self) -> bytes:
        """The whole body. Raises PaymockError `payload_too_large` as soon as it is known to exceed
        MAX_BODY, and ClientGone when the client leaves before its end.
        """
        if self._body is None:
            self._body = await self._read()
        return self._body

    async def unless_gone(self, answer: Coroutine[Any, Any, T]) -> T:
        """What `answer` comes to. Raises ClientGone as soon as the client has closed the connection, and
        `answer` is then given up. The body must have been read, or there is none.
        """
        answering, gone = asyncio.create_task(answer), asyncio.create_task(self._gone())
        try:
            await asyncio.wait((answering, gone), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                raise ClientGone
            return answering.result()
        finally:
            answering.cancel()
            gone.cancel()
            await asyncio.gather(answering, gone, return_exceptions=True)  # what is given up ends first

    async def _gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _read(self) -> bytes:
        announced = self.headers.get(b"content-length", b"0")
        if announced.isdigit() and int(announced.lstrip(b"0")[:20] or b"0") > MAX_BODY:
            raise PaymockError("payload_too_large")
        body = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body += message.get("body", b"")
            if len(body) > MAX_BODY:
                raise PaymockError("payload_too_large")
            if not message.get("more_body", False):
                return bytes(body)


def _repeated(lines: Sequence[Header]) -> Collection[bytes]:
    return [name for name, times in Counter(name for name, _ in lines).items() if times > 1]
