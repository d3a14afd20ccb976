"""The fast path: a plain request that arrives in one piece is answered at once, without the callbacks of
uvicorn, and the task and the messages of ASGI. All others are passed to the strict protocol, unchanged.
"""

from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from paymock.http.protocol import END_OF_HEAD, MAX_HEAD, MAX_LINES, StrictHttpProtocol
from paymock.http.requests import Body, Request

_G = ord("G")
_STARTS = (b"GET /v1/", b"POST /v1/")
_KEEP_ALIVE = (b"keep-alive", b"Keep-Alive")
_STRICT = frozenset((b"transfer-encoding", b"expect", b"proxy-connection"))
"""Headers that only the strict protocol handles."""

_MAX_NAMES, _MAX_NAME_LENGTH = 1_000, 64


class _LowerCase(dict[bytes, bytes]):
    """The names of headers in lower case, cached: clients send few."""

    def __missing__(self, name: bytes) -> bytes:
        if len(self) < _MAX_NAMES and len(name) <= _MAX_NAME_LENGTH:
            self[name] = name.lower()
        return name.lower()


_lower_case = _LowerCase()


class PlainParser:
    """The parser of the strict protocol for whole requests: its callbacks are methods of a dictionary and of
    a list, which cost less than functions in Python.
    """

    def __init__(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._targets: list[bytes] = []
        self.on_header = self._headers.__setitem__
        self.on_url = self._targets.append
        self._parser = httptools.HttpRequestParser(self)

    def parse(self, data: bytes) -> Request | None:
        """Return the request if `data` is exactly one, and plain; None if it is for the strict protocol."""
        if not data.startswith(_STARTS) or len(data) > MAX_HEAD:
            return None
        request = self._parse(data)
        if request is None:
            self._parser = httptools.HttpRequestParser(self)
        return request

    def _parse(self, data: bytes) -> Request | None:
        self._headers.clear()
        self._targets.clear()
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            return None
        end = data.find(END_OF_HEAD)
        if end < 0 or len(self._targets) != 1:  # a part of a request, or several
            return None
        headers = {_lower_case[name]: value for name, value in self._headers.items()}
        lines, body = data.count(b"\r\n", 0, end), data[end + len(END_OF_HEAD) :]
        method, target = "GET" if data[0] == _G else "POST", self._targets[0]
        if (
            len(headers) == lines <= MAX_LINES  # no name is repeated, and no line is folded
            and headers.get(b"content-length") == (b"%d" % len(body) if body else None)
            and _STRICT.isdisjoint(headers)
            and headers.get(b"connection", b"keep-alive") in _KEEP_ALIVE
            and data.startswith(b" HTTP/1.1\r\n", len(method) + 1 + len(target))
            and b"?" not in target
            and b"#" not in target
        ):
            return Request(method, target.decode("latin-1"), headers, Body(body))
        return None


class FastPathProtocol(StrictHttpProtocol):
    """The strict protocol with a fast path for requests below `/v1` that need not wait for anything."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._parser = PlainParser()

    def data_received(self, data: bytes) -> None:
        """Answer a plain request, if it can be answered at once."""
        state = self._transport_state
        request = self._parser.parse(data) if self._at_start() else None
        answer = None if request is None else self.app.answer_now(request)
        if answer is None:
            state.write_batch.flush()  # the next reply must not overtake these
            super().data_received(data)
            return
        self.server_state.total_requests += 1
        state.write_batch.add(self.transport, self.encode(answer))
        if not self.used:
            state.connections.mark_used(self)
        self._start_keep_alive()

    def _at_start(self) -> bool:
        """Whether the next byte is the first one of a request, and all requests before it are answered."""
        previous: RequestResponseCycle | None = self.cycle
        return (
            self._in_head
            and not self._head
            and (previous is None or previous.response_complete)
            and not self.flow.write_paused
            and self._refusal is None
        )
