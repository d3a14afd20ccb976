"""uvicorn's HTTP protocol with limits and deadlines. Its parser accepts megabytes of headers, and its reply
to malformed HTTP is plain text; here heads are limited, and every refusal has the error envelope.
Specification: "Limits", "Errors".
"""

import asyncio
import re
import socket
import struct
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from paymock.http.connections import Connections, WriteBatch, connection_limit
from paymock.http.headers import CHECKED_HEADERS
from paymock.http.routing import METHODS, Answer
from paymock.rules.errors import PaymockError

MAX_HEAD = 16 * 1024
"""The largest request head, in bytes."""

MAX_LINES = 100
"""The largest number of header lines."""

_LINGER_SECONDS = 2.0
"""How long a connection stays open after a refusal, for a client that is still sending."""

_TIMER_RESOLUTION_SECONDS = 0.01
"""How early a timer may fire; coarser than the clock of any event loop."""

_CLOSE = b"connection: close\r\n"
END_OF_HEAD = b"\r\n\r\n"

_REQUEST_LINE = re.compile(rb"(?:\r\n)*([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}) ([!-~]+) HTTP/1\.[01]\r\n")
"""A request line after any number of empty lines: RFC 9112, 2.2 and 3. Logs show the method: it is short."""

_PARTIAL_LINE = re.compile(
    rb"(?:\r\n)*(?:\r|[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}(?: (?:[!-~]+(?: [!-~]*\r?)?)?)?)?"
)
"""The beginning of what may become one."""

_PARSED_METHODS = frozenset(method.encode() for method in METHODS)
_STAND_IN = b"POST"
"""What the parser sees in place of any other method: it refuses those that it does not know."""

_CONTROL = re.compile(rb"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Control characters that a server may accept in a value, in contrast to NUL, CR and LF: RFC 9110, 5.5."""

_OBS_TEXT = b"\xff"

_UPGRADE = re.compile(rb"upgrade:[\t -~\x80-\xff]*", re.IGNORECASE)
"""A well-formed header line that offers to upgrade. Any other is refused by the parser."""


class TransportState:
    """What the connections of a server share: the list of them, the replies that are not written yet, and the
    header lines that uvicorn adds.
    """

    def __init__(self) -> None:
        self.connections = Connections(connection_limit())
        self.write_batch = WriteBatch()
        self._default_headers: list[tuple[bytes, bytes]] = []
        self._encoded = b""

    def encoded(self, default_headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the header lines that uvicorn adds to each reply. It replaces them once a second."""
        if default_headers is not self._default_headers:
            self._default_headers = default_headers
            self._encoded = b"".join([b"%b: %b\r\n" % line for line in default_headers])
        return self._encoded


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
        self._head = b""  # of an unfinished head what was received
        self._body_left: int | None = None  # bytes of the body to come; None: it is chunked
        self._tail = b""  # the end of a chunked body so far: its empty line can arrive in two parts
        self._too_large = False
        self._refusal: PaymockError | None = None
        self._method = self._target = b""
        self._receiving: RequestResponseCycle | None = None  # an unfinished request that has been handed over
        self._active: RequestResponseCycle | None = None  # the request that the application got last
        self._time_limit: float | None = None  # of the current head or body, in seconds
        self._deadline: asyncio.TimerHandle | None = None
        self._ended = False  # whether the client has closed its side
        self._idle_since = 0.0  # by the clock of the event loop
        self.used = False

    @property
    def answering(self) -> bool:
        cycle = self._active
        return cycle is not None and not (cycle.response_complete or cycle.more_body)

    def data_received(self, data: bytes) -> None:
        """Parse the data; refuse what is not acceptable HTTP."""
        if self._refusal is not None:
            return
        self._unset_keepalive_if_required()
        try:
            while data:
                data = self._feed_head(data) if self._in_head else self._feed_body(data)
            if not self._in_head:
                self._check_trailer()
        except (httptools.HttpParserError, ValueError):
            self._refuse("headers_too_large" if self._too_large else "bad_request")
        if self._body_parts and self._refusal is None:
            self._append_body()
        self._set_deadline()

    def _set_deadline(self) -> None:
        """Set the deadline of the current head or body. Most requests arrive in one piece and need none."""
        if self._refusal is not None or (self._in_head and not self._head):
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
        if self._active is not None:  # uvicorn tells only the request that was received last
            self._active.disconnected = True
            self._active.message_event.set()

    def _feed_head(self, data: bytes) -> bytes:
        """Parse a head once it is complete, so that it means the same however it arrives; return what follows
        it. Raises HttpParserError and ValueError.
        """
        received, head = len(self._head), self._head + data
        line = _REQUEST_LINE.match(head)
        if line is None:
            self._check_head_size(len(head))
            if not _PARTIAL_LINE.fullmatch(head):
                raise ValueError("not a request line")
            self._head = head
            return b""
        self._method, self._target = line.groups()
        start, first = line.span(1)
        end = head.find(END_OF_HEAD, max(line.end() - len(b"\r\n"), received - len(END_OF_HEAD)))
        size = len(head) if end < 0 else end + len(END_OF_HEAD)
        self._check_head_size(size - start)
        if end < 0:
            self._head = head
            return b""
        self._head = b""
        self._parse_head((self._method if self._method in _PARSED_METHODS else _STAND_IN) + head[first:size])
        return head[size:]

    def _parse_head(self, head: bytes) -> None:
        """Parse a complete head: again, if the parser refuses it, without what a server may ignore or accept,
        but the parser does not: an offer to upgrade (RFC 9110, 7.8), and control characters of which handlers
        refuse the header. Raises HttpParserError.
        """
        try:
            self.parser.feed_data(head)
        except httptools.HttpParserCallbackError:
            raise
        except (httptools.HttpParserUpgrade, httptools.HttpParserError):
            line, *fields = head.split(b"\r\n")
            lines = [line]
            for field in fields:
                name, colon, value = field.partition(b":")
                if name.lower() in CHECKED_HEADERS:
                    value = _CONTROL.sub(_OBS_TEXT, value)
                if not _UPGRADE.fullmatch(field):
                    lines.append(name + colon + value)
            self.parser = httptools.HttpRequestParser(self)
            self.parser.feed_data(b"\r\n".join(lines))

    def _feed_body(self, data: bytes) -> bytes:
        """Pass the rest of a body to the parser, and return what follows it. Raises HttpParserError."""
        if self._body_left is not None:
            size = self._body_left
            self._body_left -= len(data[:size])
        else:
            # A chunked body ends with an empty line; the data of a chunk may contain one, too.
            window = self._tail + data
            end = window.find(END_OF_HEAD)
            size = len(data) if end < 0 else end + len(END_OF_HEAD) - len(self._tail)
            self._tail = window[1 - len(END_OF_HEAD) :] if end < 0 else b""
        self.parser.feed_data(data[:size])
        return data[size:]

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio has it
        """Close the connection when all that was received is answered: the client has closed its side. A
        request that only waits learns of it, and ends; one that has not come to its end is refused.
        """
        self._ended = True
        if self._refusal is None and (self._head.strip(b"\r\n") or self._receiving is not None):
            self._refuse("bad_request", "The connection was closed before the end of the request.")
        elif self._active is None or self._active.response_complete:
            self._transport_state.connections.defer(self.transport.close)
        else:
            self._active.message_event.set()
        return True

    def on_headers_complete(self) -> None:
        """Check the complete head, and call the application."""
        self._check_line_count()
        if self._method == b"CONNECT":
            raise ValueError("not a request that an origin server answers")
        fields = dict(self.headers)
        self._body_left = int(fields.get(b"content-length", b"0"))
        if b"transfer-encoding" in fields:
            self._check_transfer_coding()
            self._body_left = None
        if not self.parser.should_upgrade():
            self._in_head = False
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
        self.scope["paymock.reset"] = self._reset  # type: ignore[typeddict-unknown-key]
        self.scope["paymock.ended"] = lambda: self._ended  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()
        self.scope["method"] = self._method.decode("ascii")
        self._receiving = self.cycle

    def _reset(self) -> None:
        """Close the connection with a TCP reset. What the client has not received yet is lost."""
        no_linger = struct.pack("ii", 1, 0)
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
        self.transport.abort()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._active = cycle
        super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        """Complete the request, whose body has been received."""
        if self.parser.should_upgrade():
            return
        if self.headers:
            self._check_trailer()
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
        self._receiving = None
        self._target = b""
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

    def _check_transfer_coding(self) -> None:
        """Raise ValueError if there is a transfer coding but `chunked`. The parser accepts others before it,
        but does not decode them.
        """
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        if codings != [b"chunked"] or self.parser.get_http_version() != "1.1":
            raise ValueError("unknown transfer coding")

    def _check_head_size(self, size: int) -> None:
        """Raise ValueError if a head or a trailer of `size` bytes is too large."""
        if size > MAX_HEAD:
            self._too_large = True
            raise ValueError("the head is too large")

    def _check_line_count(self) -> None:
        """Raise ValueError if there are too many header lines."""
        if len(self.headers) > MAX_LINES:
            self._too_large = True
            raise ValueError("too many header lines")

    def _check_trailer(self) -> None:
        """Raise ValueError if the trailer is too large. The same limits apply to it as to the head."""
        self._check_head_size(sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers))
        self._check_line_count()

    def on_response_complete(self) -> None:
        """Go on with the next request of this connection, or write the refusal that waited for its turn."""
        has_next = bool(self.pipeline)
        super().on_response_complete()
        if self.pipeline:
            self.flow.pause_reading()  # a client that only sends gets its replies before more is read
        elif not has_next and not self.transport.is_closing():
            if self._refusal is not None:
                self._write_refusal(self._refusal)
            elif self._ended:
                self.transport.close()

    def _refuse(self, code: str, message: str | None = None) -> None:
        """Refuse what is being received, when the requests before it are answered."""
        self._transport_state.write_batch.flush()  # a refusal must not overtake a reply
        self._refusal = PaymockError(code, message)
        cycle = self._receiving
        if cycle is not None and cycle.response_started:
            self.transport.close()  # the malformed data is the rest of a request that has its reply
            return
        if cycle is not None and cycle is self._active:
            self._active = None
            cycle.disconnected = True
            cycle.waiting_for_100_continue = False  # nothing may be written after the refusal
            cycle.message_event.set()
        elif cycle is not None:
            self.pipeline.popleft()
        if self._active is None or self._active.response_complete:
            self._write_refusal(self._refusal)
        # Otherwise `on_response_complete` writes it.

    def encode(self, answer: Answer, more: bytes = b"") -> bytes:
        """Return the bytes of a reply, with the header lines `more` at the end."""
        response, headers = answer
        default = self._transport_state.encoded(self.server_state.default_headers)
        return b"%b%b%b%b\r\n%b" % (STATUS_LINE[response.status], default, headers, more, response.body)

    def _write_refusal(self, error: PaymockError) -> None:
        self._unset_keepalive_if_required()
        answer = self.app.refuse(error, self._target.decode("ascii"))
        self.transport.write(self.encode(answer, _CLOSE))
        # Closing a socket with unread data resets the connection, and the client might not get the reply.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_LINGER_SECONDS, self._transport_state.connections.defer, self.transport.close)
