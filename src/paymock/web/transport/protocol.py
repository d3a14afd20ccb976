"""uvicorn's HTTP protocol with limits and deadlines. Its parser accepts megabytes of headers, and its reply
to malformed HTTP is plain text; here heads are limited, and every refusal has the error envelope.
Specification: "Limits", "Errors".
"""

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from paymock.rules.errors import PaymockError
from paymock.web.http.responses import Header, Response
from paymock.web.transport.connections import Connections, connection_limit
from paymock.web.transport.request_cache import RequestCache
from paymock.web.transport.write_batch import WriteBatch

MAX_HEAD = 16 * 1024
"""The largest request head, in bytes."""

MAX_LINES = 100
"""The largest number of header lines."""

_LINGER_SECONDS = 2.0
"""How long a connection stays open after a refusal, for a client that is still sending."""

_TIMER_RESOLUTION_SECONDS = 0.01
"""How early a timer may fire; coarser than the clock of any event loop."""

_VERSIONS = ("1.0", "1.1")
_CLOSE = (b"connection", b"close")
_END_OF_HEAD = b"\r\n\r\n"


class TransportState:
    """What the connections of a server share: the list of them, the replies that are not written yet, and the
    cache of requests that the fast path has answered.
    """

    def __init__(self) -> None:
        self.connections = Connections(connection_limit())
        self.write_batch = WriteBatch()
        self.request_cache = RequestCache()


class StrictHttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on the head, deadlines, strict framing, and refusals in the envelope."""

    HEAD_SECONDS = 10.0
    """The time limit from the first byte of a request to the end of its head."""

    BODY_SECONDS = 15.0
    """The time limit from the end of the head to the end of the body."""

    def __init__(self, *args: Any, transport_state: TransportState, **kwargs: Any) -> None:
        self._transport_state = transport_state
        self._body_parts: list[bytes] = []
        self.on_body = self._body_parts.append  # type: ignore[method-assign,assignment]  # called for each part
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._received = 0  # bytes of an unfinished head, white space included
        self._tail = b""  # the last of them: the empty line that ends a head can arrive in two parts
        self._too_large = False
        self._refusal: PaymockError | None = None
        self._method = b""
        self._time_limit: float | None = None  # of the current head or body, in seconds
        self._deadline: asyncio.TimerHandle | None = None
        self._idle_since = 0.0  # by the clock of the event loop
        self.used = False

    @property
    def answering(self) -> bool:
        """Whether a complete request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not (cycle.response_complete or cycle.more_body)

    def data_received(self, data: bytes) -> None:
        """Parse the data; refuse what is not acceptable HTTP."""
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
                self._check_head_size()  # the trailer counts too
        except httptools.HttpParserError:
            self._refuse("headers_too_large" if self._too_large else "bad_request")
        if self._body_parts:
            self._append_body()
        if self._received > MAX_HEAD and self._refusal is None:
            self._refuse("headers_too_large")
        if self._received:
            self._tail = (self._tail + data)[1 - len(_END_OF_HEAD) :]
        self._set_deadline()

    def _set_deadline(self) -> None:
        """Set the deadline of the current head or body. Most requests arrive in one piece and need none."""
        if self._refusal is not None or (self._in_head and not self._received):
            limit = None
        else:
            limit = self.HEAD_SECONDS if self._in_head else self.BODY_SECONDS
        if limit != self._time_limit:
            self._time_limit = limit
            if self._deadline is not None:
                self._deadline.cancel()
            defer = self._transport_state.connections.defer
            self._deadline = self.loop.call_later(limit, defer, self._on_deadline) if limit else None

    def _on_deadline(self) -> None:
        if self._has_expired(self._deadline) and self._refusal is None and not self.transport.is_closing():
            self._refuse("bad_request", "The request was not complete in time.")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Register the connection. It is closed if no request comes within the keep-alive time."""
        super().connection_made(transport)
        self._start_keep_alive()
        self._transport_state.write_batch.flush()  # before another connection may be closed for this one
        self._transport_state.connections.add(self)

    def _start_keep_alive(self) -> None:
        """Start to wait for the next request. A timer that is running stays: checking the idle time when it
        fires is cheaper than replacing it for each request.
        """
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._check_idle_at(self._idle_since + self.timeout_keep_alive)

    def _check_idle_at(self, moment: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_at(moment, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection soon if it is still idle then."""
        self._transport_state.connections.defer(self._close_if_idle)

    def _close_if_idle(self) -> None:
        if not self._has_expired(self.timeout_keep_alive_task):
            return
        end = self._idle_since + self.timeout_keep_alive
        if end < self.loop.time() + _TIMER_RESOLUTION_SECONDS:
            super().timeout_keep_alive_handler()
        else:
            self._check_idle_at(end)

    def _has_expired(self, timer: asyncio.TimerHandle | None) -> bool:
        """Whether `timer` has expired: data that came since may have canceled or replaced it."""
        return timer is not None and timer.when() < self.loop.time() + _TIMER_RESOLUTION_SECONDS

    def connection_lost(self, exc: Exception | None) -> None:
        """Unregister the connection, and cancel its timers."""
        self._transport_state.connections.remove(self)
        if self._deadline is not None:
            self._deadline.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def _rest_of_head(self, data: bytes) -> int:
        """Return how many bytes of `data` belong to the unfinished head."""
        window = self._tail + data
        end = window.find(_END_OF_HEAD)
        return len(data) if end < 0 else end + len(_END_OF_HEAD) - len(self._tail)

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                # A server may ignore the Upgrade header (RFC 9110, 7.8), but the parser has stopped after the
                # head. A new one parses the head again, without that header, and then the rest.
                self.parser = httptools.HttpRequestParser(self)
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
            else:
                return

    def _head_without_upgrade(self) -> bytes:
        fields = [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([self._method + b" " + self.url + b" HTTP/1.1", *fields, b"", b""])

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio has it
        """Close the connection soon: the client has closed its side."""
        self._transport_state.connections.defer(self.transport.close)
        return True

    def on_headers_complete(self) -> None:
        """Check the complete head, and call the application."""
        self._method = self.parser.get_method()
        version = self.parser.get_http_version()
        self._check_head_size(len(self._method) + len(self.url) + len("  HTTP/1.1\r\n\r\n"))
        if version not in _VERSIONS or self._method == b"CONNECT" or not self._has_known_framing(version):
            raise ValueError("not a request that an origin server answers")
        if not self.parser.should_upgrade():
            self._in_head = False
            self._received = 0
            self._tail = b""
            self.call_application()
            self.headers = []  # what the parser adds now is the trailer

    def shutdown(self) -> None:
        """Write pending replies, then close the connection: the server stops."""
        self._transport_state.write_batch.flush()
        super().shutdown()

    def call_application(self) -> None:
        """Let the application answer the request with this head, after the requests before it."""
        self._unset_keepalive_if_required()  # a request before it in the same data may have set it
        self.scope["paymock.close"] = self.transport.close  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Complete the request, whose body has been received."""
        if self.parser.should_upgrade():
            return
        if self.headers:
            self._check_head_size()
        self.complete_request()

    def complete_request(self) -> None:
        """Pass the rest of the body to the application."""
        if self._body_parts:
            self._append_body()
        super().on_message_complete()
        self.request_completed(answered=self.cycle.response_complete and not self.pipeline)

    def request_completed(self, *, answered: bool) -> None:
        """Prepare for the next request. If this one is `answered` already, the keep-alive time starts."""
        if not self.used:
            self._transport_state.connections.mark_used(self)
        self._in_head = True
        if answered:
            self._start_keep_alive()

    def _append_body(self) -> None:
        """Append the received parts to the body. The application is woken only when it is complete or large,
        so that a body in many small parts costs no more than any other.
        """
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.body += b"".join(self._body_parts)
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
                cycle.message_event.set()
        self._body_parts.clear()

    def _has_known_framing(self, version: str) -> bool:
        """Whether there is no transfer coding but `chunked`. The parser accepts others before it, but does
        not decode them.
        """
        fields = dict(self.headers)
        if b"transfer-encoding" not in fields:
            return True
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        return codings == [b"chunked"] and version == "1.1"

    def _check_head_size(self, extra_bytes: int = 0) -> None:
        """Raise ValueError if the header lines and `extra_bytes` are too large, or the lines too many."""
        size = extra_bytes + len(b"".join(map(b"".join, self.headers))) + len(": \r\n") * len(self.headers)
        if size > MAX_HEAD or len(self.headers) > MAX_LINES:
            self._too_large = True
            raise ValueError("the head is too large")

    def on_response_complete(self) -> None:
        """Go on with the next request of this connection, or write the refusal that waited for its turn."""
        has_next = bool(self.pipeline)
        super().on_response_complete()
        if self.pipeline:
            self.flow.pause_reading()  # a client that only sends gets its replies before more is read
        elif self._refusal is not None and not has_next and not self.transport.is_closing():
            self._write_refusal(self._refusal)

    def _refuse(self, code: str, message: str | None = None) -> None:
        self._transport_state.write_batch.flush()  # a refusal must not overtake a reply
        self._refusal = PaymockError(code, message)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or (cycle.response_complete and self._in_head):
            self._write_refusal(self._refusal)
        elif cycle.response_complete:
            self.transport.close()  # the malformed data is the rest of a request that was answered
        elif cycle.more_body and self.pipeline:
            self.pipeline.popleft()  # it is refused when those before it are answered
        elif cycle.more_body:
            cycle.disconnected = True
            cycle.waiting_for_100_continue = False  # nothing may be written after the refusal
            cycle.message_event.set()
            self._write_refusal(self._refusal)
        # Otherwise a request before it is being answered, and `on_response_complete` writes the refusal.

    def encode_response(self, response: Response, lines: list[Header]) -> bytes:
        """Return the bytes of a reply, with the header lines `lines` after uvicorn's own."""
        head = b"\r\n".join(map(b": ".join, (*self.server_state.default_headers, *lines)))
        return b"%b%b\r\n\r\n%b" % (STATUS_LINE[response.status], head, response.body)

    def _write_refusal(self, error: PaymockError) -> None:
        self._unset_keepalive_if_required()
        answer = self.app.refuse(error)
        self.transport.write(self.encode_response(answer.response, [*answer.headers, _CLOSE]))
        # Closing a socket with unread data resets the connection, and the client might not get the reply.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_SECONDS, self._transport_state.connections.defer, self.transport.close)
