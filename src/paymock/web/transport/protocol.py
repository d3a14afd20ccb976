"""The request head, guarded while it is read. uvicorn's parser takes megabytes of headers, and answers
malformed HTTP in plain text; here a head has limits, and every refusal has the envelope. Specification:
"Limits", "Errors".
"""

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from paymock.rules.errors import PaymockError
from paymock.web.http.responses import Header, Response
from paymock.web.transport.connections import Connections, room_for_connections
from paymock.web.transport.request_cache import RequestCache
from paymock.web.transport.write_batch import WriteBatch

MAX_HEAD = 16 * 1024
"""The largest request head, in bytes."""

MAX_LINES = 100
"""The most header lines."""

_LINGER_SECONDS = 2.0
_RESOLUTION = 0.01  # seconds, coarser than that of any event loop: a timer may come a trifle early
_VERSIONS = ("1.0", "1.1")
_CLOSE = (b"connection", b"close")
_END_OF_HEAD = b"\r\n\r\n"


class TransportState:
    """What the connections of a server share: which of them are open, replies that have not been written yet,
    and requests that the fast path has answered before.
    """

    def __init__(self) -> None:
        self.connections = Connections(room_for_connections())
        self.write_batch = WriteBatch()
        self.request_cache = RequestCache()


class StrictHttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on the head, deadlines, strict versions, refusals in the envelope."""

    HEAD_SECONDS = 10.0
    """From the first byte of a request to the end of its head."""

    BODY_SECONDS = 15.0
    """From the end of the head to the end of the body."""

    def __init__(self, *args: Any, transport_state: TransportState, **kwargs: Any) -> None:
        self._transport_state = transport_state
        self._parts: list[bytes] = []  # of a body, as they came
        self.on_body = self._parts.append  # type: ignore[method-assign,assignment]  # called for each chunk
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._received = 0  # bytes of an unfinished head, white space and all
        self._tail = b""  # the last of them, since the empty line that ends a head can come in two parts
        self._too_large = False
        self._refusal: PaymockError | None = None
        self._method = b""
        self._allowed: float | None = None  # seconds for what is under way
        self._deadline: asyncio.TimerHandle | None = None
        self._silent_since = 0.0  # by the clock of the event loop
        self.used = False

    @property
    def answering(self) -> bool:
        """Whether a whole request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not (cycle.response_complete or cycle.more_body)

    def data_received(self, data: bytes) -> None:
        """Parses what arrived, and refuses what is not acceptable HTTP."""
        if self._refusal is not None:
            return
        self._unset_keepalive_if_required()
        before = self._received
        if self._in_head and before + len(data) > MAX_HEAD < before + self._rest_of_head(data):
            self._refuse("headers_too_large")
            return
        self._received = before + len(data) if self._in_head else 0
        try:
            self._feed(data)
            if not self._in_head:
                self._check_size()  # of the trailer
        except httptools.HttpParserError:
            self._refuse("headers_too_large" if self._too_large else "bad_request")
        if self._parts:
            self._collect()
        if self._received > MAX_HEAD and self._refusal is None:
            self._refuse("headers_too_large")
        if self._received:
            self._tail = (self._tail + data)[1 - len(_END_OF_HEAD) :]
        self._watch()

    def _watch(self) -> None:
        """Sets the deadline of what is under way. Most requests come whole and need none."""
        if self._refusal is not None or (self._in_head and not self._received):
            allowed = None
        else:
            allowed = self.HEAD_SECONDS if self._in_head else self.BODY_SECONDS
        if allowed != self._allowed:
            self._allowed = allowed
            if self._deadline is not None:
                self._deadline.cancel()
            let_go = self._transport_state.connections.in_turn
            self._deadline = self.loop.call_later(allowed, let_go, self._too_slow) if allowed else None

    def _too_slow(self) -> None:
        if self._is_over(self._deadline) and self._refusal is None and not self.transport.is_closing():
            self._refuse("bad_request", "The request did not come to its end in time.")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """A connection that stays silent is closed like one that falls silent."""
        super().connection_made(transport)
        self._await_next()
        self._transport_state.write_batch.flush()  # whoever gives way has had its reply
        self._transport_state.connections.add(self)

    def _await_next(self) -> None:
        """Another request may come, but not forever. A timer that is set stays: it is cheaper to look, once
        it is over, whether anything has come meanwhile.
        """
        self._silent_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._end_silence_at(self._silent_since + self.timeout_keep_alive)

    def _end_silence_at(self, moment: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_at(moment, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """Nothing has come for too long."""
        self._transport_state.connections.in_turn(self._close_if_idle)

    def _close_if_idle(self) -> None:
        if not self._is_over(self.timeout_keep_alive_task):
            return
        end = self._silent_since + self.timeout_keep_alive
        if end < self.loop.time() + _RESOLUTION:
            super().timeout_keep_alive_handler()
        else:
            self._end_silence_at(end)

    def _is_over(self, timer: asyncio.TimerHandle | None) -> bool:
        """Whether it is over, and nothing has come while the connection waited for its turn."""
        return timer is not None and timer.when() < self.loop.time() + _RESOLUTION

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._transport_state.connections.remove(self)
        if self._deadline is not None:
            self._deadline.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def _rest_of_head(self, data: bytes) -> int:
        """How many bytes of `data` belong to the head that has begun."""
        window = self._tail + data
        end = window.find(_END_OF_HEAD)
        return len(data) if end < 0 else end + len(_END_OF_HEAD) - len(self._tail)

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                # A server may ignore the offer to upgrade (RFC 9110, 7.8), but the parser has stopped after
                # the head. A new one reads the request again, without the offer, and then the rest.
                self.parser = httptools.HttpRequestParser(self)
                data = self._head_without_offer() + data[upgrade.args[0] :]
            else:
                return

    def _head_without_offer(self) -> bytes:
        fields = [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([self._method + b" " + self.url + b" HTTP/1.1", *fields, b"", b""])

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio has it
        """The client has gone, or takes its refusal for the end. The connection is closed in turn."""
        self._transport_state.connections.in_turn(self.transport.close)
        return True

    def on_headers_complete(self) -> None:
        """The head is whole: its version is known, and the application is called."""
        self._method = self.parser.get_method()
        version = self.parser.get_http_version()
        self._check_size(len(self._method) + len(self.url) + len("  HTTP/1.1\r\n\r\n"))
        if version not in _VERSIONS or self._method == b"CONNECT" or not self._framing_is_plain(version):
            raise ValueError("not a request that an origin server answers")
        if not self.parser.should_upgrade():
            self._in_head = False
            self._received = 0
            self._tail = b""
            self.call_application()
            self.headers = []  # the lines of a trailer come too late to be headers

    def shutdown(self) -> None:
        """The server stops: what has been answered goes out first."""
        self._transport_state.write_batch.flush()
        super().shutdown()

    def call_application(self) -> None:
        """Lets the application answer the request whose head is whole, after those before it."""
        self._unset_keepalive_if_required()  # one before it, in the same data, may have been answered
        self.scope["paymock.close"] = self.transport.close  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The body is whole."""
        if self.parser.should_upgrade():
            return
        if self.headers:
            self._check_size()
        self.complete_request()

    def complete_request(self) -> None:
        """Lets the application have the rest of the body."""
        if self._parts:
            self._collect()
        super().on_message_complete()
        self.request_completed(answered=self.cycle.response_complete and not self.pipeline)

    def request_completed(self, *, answered: bool) -> None:
        """A request has come to its end. Where it is `answered` already, the next is waited for, but not
        forever.
        """
        if not self.used:
            self._transport_state.connections.use(self)
        self._in_head = True
        if answered:
            self._await_next()

    def _collect(self) -> None:
        """Adds what has come to the body. The application is woken when it is whole, or large: a body in
        small pieces costs it no more than any other.
        """
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.body += b"".join(self._parts)
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
                cycle.message_event.set()
        self._parts.clear()

    def _framing_is_plain(self, version: str) -> bool:
        """The parser takes any coding before `chunked` and leaves it undone: only `chunked` is understood."""
        fields = dict(self.headers)
        if b"transfer-encoding" not in fields:
            return True
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        return codings == [b"chunked"] and version == "1.1"

    def _check_size(self, more: int = 0) -> None:
        """Raises ValueError when the header lines, and so many bytes more, are too large or too many."""
        size = more + len(b"".join(map(b"".join, self.headers))) + len(": \r\n") * len(self.headers)
        if size > MAX_HEAD or len(self.headers) > MAX_LINES:
            self._too_large = True
            raise ValueError("too large a head")

    def on_response_complete(self) -> None:
        """A request is answered: the next of this connection comes, or the refusal that waited."""
        another_begins = bool(self.pipeline)
        super().on_response_complete()
        if self.pipeline:
            self.flow.pause_reading()  # a client that only sends gets its answers before it is read again
        elif self._refusal is not None and not another_begins and not self.transport.is_closing():
            self._write_refusal(self._refusal)

    def _refuse(self, code: str, message: str | None = None) -> None:
        self._transport_state.write_batch.flush()  # a refusal must not overtake a reply
        self._refusal = PaymockError(code, message)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or (cycle.response_complete and self._in_head):
            self._write_refusal(self._refusal)
        elif cycle.response_complete:
            self.transport.close()  # it is the rest of a request that has been answered
        elif cycle.more_body and self.pipeline:
            self.pipeline.popleft()  # its turn has not come; when it does, it is refused
        elif cycle.more_body:
            cycle.disconnected = True
            cycle.waiting_for_100_continue = False  # nothing may be written after the refusal
            cycle.message_event.set()
            self._write_refusal(self._refusal)
        # Otherwise a request before it is still being answered: the refusal waits for its turn.

    def encoded(self, response: Response, lines: list[Header]) -> bytes:
        """Return the bytes of a reply with these header lines, after those that every reply has."""
        head = b"\r\n".join(map(b": ".join, (*self.server_state.default_headers, *lines)))
        return b"%b%b\r\n\r\n%b" % (STATUS_LINE[response.status], head, response.body)

    def _write_refusal(self, error: PaymockError) -> None:
        self._unset_keepalive_if_required()
        answer = self.app.refuse(error)
        self.transport.write(self.encoded(answer.response, [*answer.headers, _CLOSE]))
        # Closing with unread data would reset the connection, and the client might never see the reply.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_SECONDS, self._transport_state.connections.in_turn, self.transport.close)
