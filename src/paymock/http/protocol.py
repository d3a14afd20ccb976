"""The HTTP server of one connection: it takes the requests in their order, lets the application answer them
one at a time, and writes the replies. Refusals have the error envelope. Specification: "Limits", "Errors".

Theory of operation: a connection is in one of four phases, the table below. It is driven by the transport
(data, the end of the client's side, a full or empty write buffer), by the request that is being answered, and
by a timer. Then `_advance` reads on, and derives the phase and its deadline from what is left. Not obvious:

- Pipelining: what comes behind a request waits in `_buffer`; beyond _MAX_AHEAD bytes, nothing is received.
- A request is a coroutine that is driven at once. If it ends without waiting, its reply is written with all
  others of this turn of the event loop (WriteBatch); otherwise a task drives it on. So all stores take the
  same way, and one that never waits costs no task.
- The application gets a request when its head is complete, and may reply before the body has come. The next
  request begins behind that, so the rest is read, with a deadline: `_request` and `_reader` stay until then.
- There is one timer, which is not replaced for each request: when it expires, it is set again. A request
  that is being answered has no deadline, nor has a client that is slow to read its replies.
- A refusal is the reply to what cannot be read, or comes too late; earlier requests have their replies.
  Nothing is read after it, and the connection lingers, so that the client gets it.
- A client that has closed its side gets the replies to what it has sent; only a request that waits for
  something else ends early. If it ended within a request, that is refused.
- At a stop, an idle connection is closed after a last call, any other one after its next reply (`_last`).
"""

import asyncio
import math
import socket
import struct
import time
from collections.abc import Callable, Coroutine, Generator
from email.utils import formatdate
from functools import cache
from types import coroutine
from typing import Any, Protocol, TypeVar, cast

from msgspec import Struct

from paymock.http.connections import Connections, WriteBatch, connection_limit
from paymock.http.parser import (
    BLANK_LINES,
    END_OF_HEAD,
    MAX_HEAD,
    BodyReader,
    MalformedRequest,
    begin_body,
    check_beginning,
    parse_head,
    path_of,
)
from paymock.http.requests import Request
from paymock.http.responses import PHRASES, Response
from paymock.rules.errors import PaymockError
from paymock.rules.faults import Fault, FaultKind

T = TypeVar("T")


class Phase(Struct, eq=False):
    """What a connection waits for, at most so many seconds. Then it is refused or, without a text, closed."""

    seconds: float
    refusal: str | None = None


IDLE = Phase(75.0)  # for the first byte of a request; longer than the interval of a client that polls
HEAD = Phase(10.0, "The request was not complete in time.")  # from there to the end of its head
BODY = Phase(15.0, "The request was not complete in time.")  # from there to the end of its body
REPLY = Phase(math.inf)  # for the application, or until the client reads its replies

_LINGER_SECONDS = 2.0  # after a refusal, for a client that is still sending
_LAST_CALL_SECONDS = 0.5  # at a stop, after the last use: a first or a next request may be on its way
_TIMER_RESOLUTION_SECONDS = 0.01  # how early a timer may fire; coarser than the clock of any event loop
_STEPS_PER_TURN = 16  # requests, or parts of a body, of one connection before others have their turn
_MAX_AHEAD = 64 * 1024  # bytes behind a request that is not answered yet
_MESSAGE = b"%b%b%b\r\n%b"  # status line, date, other header lines; body
_CLOSE = b"connection: close\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


EncodedResponse = tuple[Response, bytes]
"""A response, and its header lines, each of which ends with CRLF."""


class Application(Protocol):
    """What answers the requests of a server."""

    async def respond(self, request: Request) -> EncodedResponse:
        """Answer a request, and record it."""

    def refuse(self, error: PaymockError, path: str) -> EncodedResponse:
        """Answer what is not an HTTP request, and record it. `path`: as far as it is known."""


class ServerState:
    """What the connections of a server share: the list of them, the replies that are not written yet, and the
    tasks of requests that wait. `on_close` is called when a connection has ended.
    """

    def __init__(self, app: Application) -> None:
        self.app = app
        self.connections = Connections(connection_limit())
        self.write_batch = WriteBatch()
        self.tasks: set[asyncio.Task[None]] = set()
        self.on_close: Callable[[], object] = bool
        self._date, self._dated = b"", 0.0

    def date(self) -> bytes:
        """The header line `Date`: RFC 9110, 6.6.1."""
        now = time.time()
        if not 0 <= now - self._dated < 1:
            self._dated = now // 1
            self._date = b"date: %b\r\n" % formatdate(now, usegmt=True).encode()
        return self._date


class HttpProtocol(asyncio.Protocol):
    """A connection of a client."""

    def __init__(self, state: ServerState) -> None:
        # Of the server.
        self._state = state
        self._loop = asyncio.get_running_loop()
        # Of the connection.
        self.transport: asyncio.Transport
        self.peer: tuple[str, int] | None = None
        self.used = False
        self._last = False  # whether it ends with the next reply
        self._refused = False  # whether nothing is read any more
        self._ended = False  # whether the client has closed its side
        self._gone: asyncio.Future[None] | None = None  # done then
        # What was received, and is not read yet.
        self._buffer = b""
        self._searched = 0  # how many bytes of it do not contain the end of a head
        self._skipped = 0  # how many bytes of empty lines came before it
        self._is_scheduled = False  # whether it is read in the next turn of the event loop
        self._reading_paused = False
        self._writable: asyncio.Event | None = None  # while the client does not read its replies
        # The request that is being answered, or has a body that is not read yet.
        self._request: Request | None = None
        self._reader: BodyReader | None = None  # of the rest of that body
        self._answered = False  # whether its reply has been written
        self._unsent: Request | None = None  # it has its reply, which the client is slow to read
        # The deadline.
        self._phase = IDLE
        self._deadline = math.inf  # by the clock of the event loop
        self._timer: asyncio.TimerHandle | None = None

    @property
    def answering(self) -> bool:
        return self._request is not None and self._reader is None and not self._answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.peer = transport.get_extra_info("peername")
        self._set_deadline()
        self._state.write_batch.flush()  # before another connection may be closed for this one
        self._state.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._refused = self._ended = True
        self._state.connections.remove(self)
        if self._timer is not None:
            self._timer.cancel()
        self._fail_request()
        self.resume_writing()
        self._state.on_close()

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            self._buffer += data
            if self._is_scheduled:
                self._limit_reading()
            else:
                self._advance()

    def eof_received(self) -> bool:
        self._ended = True
        if self.answering:
            self._notify_gone()
        else:
            self._advance()
        return True

    def pause_writing(self) -> None:
        self._writable = asyncio.Event()
        self._limit_reading()
        self._set_deadline()

    def resume_writing(self) -> None:
        if self._writable is not None:
            self._writable.set()
            self._writable = None
            if (request := self._unsent) is not None and request.on_sent is not None:
                self._end_sending(request, request.on_sent)
            self._advance()

    def shutdown(self) -> None:
        self._last = True
        if self._phase is IDLE:
            self._deadline += _LAST_CALL_SECONDS - IDLE.seconds
            self._set_timer()
        elif self._request is None or self._answered:
            self._close()

    def _advance(self) -> None:
        """Read from what was received, until a request waits for its reply or for the rest of its body."""
        self._is_scheduled = False
        try:
            self._read()
        except MalformedRequest as error:
            self._refuse(error.code)
        if self._is_scheduled:
            self._loop.call_soon(self._advance)
        elif self._ended:
            self._end_reading()
        if self._request or self._buffer or self._skipped or self._reading_paused or self._timer is None:
            self._limit_reading()
            self._set_deadline()
        else:  # as after most requests
            self._phase, self._deadline = IDLE, self._loop.time() + IDLE.seconds

    def _read(self) -> None:
        for _ in range(_STEPS_PER_TURN):
            if not self._buffer or self._refused or self._writable or self.transport.is_closing():
                return
            if self._reader is not None:
                self._buffer, is_complete = self._reader.feed(self._buffer)
                if is_complete:
                    self._reader = None
                    if not self.used:
                        self._state.connections.mark_used(self)
                    if self._answered:
                        self._request = None
            elif self._request is not None or not self._read_request():
                return
        self._is_scheduled = bool(self._buffer)

    def _end_reading(self) -> None:
        """The client has closed its side: close the connection, unless a reply is to come before."""
        if self._refused:
            self._state.connections.defer(self.transport.close)  # it need not linger
        elif self._writable is None and not self.answering:
            if self._reader is not None or self._buffer.strip(b"\r\n"):
                self._refuse("bad_request", "The connection was closed before the end of the request.")
            else:
                self._state.connections.defer(self._close)

    def _read_request(self) -> bool:
        """Return whether a whole head had come, whose request is being answered. Raises MalformedRequest."""
        if self._buffer.startswith(b"\r\n"):  # RFC 9112, 2.2; empty lines count in the size of the head
            data = BLANK_LINES.sub(b"", self._buffer, 1)
            self._skipped += len(self._buffer) - len(data)
            self._buffer, self._searched = data, 0
            if self._skipped > MAX_HEAD:
                raise MalformedRequest("headers_too_large")
        data = self._buffer
        end = data.find(END_OF_HEAD, self._searched)
        size = len(data) if end < 0 else end + len(END_OF_HEAD)
        if end < 0 or size > MAX_HEAD:
            check_beginning(data[:MAX_HEAD])
        if size > MAX_HEAD:
            raise MalformedRequest("headers_too_large")
        if end < 0:
            self._searched = max(0, size - len(END_OF_HEAD) + 1)
            return False
        request = parse_head(data[:end])
        data = data[size:]
        self._reader, self._buffer = begin_body(request, data)
        self._request, self._answered, request.client = request, False, self
        self._searched, self._skipped = 0, 0
        self._phase, self._deadline = REPLY, math.inf
        if self._reader is None and not self.used:
            self._state.connections.mark_used(self)
        answering = self._state.app.respond(request)
        try:
            waiting_for = answering.send(None)
        except StopIteration as done:
            self._reply(request, *done.value)
            if request.on_sent is not None:
                self._end_sending(request, request.on_sent)
        except Exception:
            self.transport.abort()
            raise
        else:
            task = self._loop.create_task(self._finish_answering(request, answering, waiting_for))
            self._state.tasks.add(task)
            task.add_done_callback(self._state.tasks.discard)
        return True

    async def _finish_answering(
        self, request: Request, answering: Coroutine[Any, Any, EncodedResponse], waiting_for: Any
    ) -> None:
        try:
            self._reply(request, *await _resumed(answering, waiting_for))
        except Exception:
            self.transport.abort()
            raise
        finally:
            if request.on_sent is not None:
                self._end_sending(request, request.on_sent)
        self._advance()

    def _reply(self, request: Request, response: Response, headers: bytes) -> None:
        """Write a reply, or what its fault lets through. It may be the last one of the connection."""
        if self._refused:
            return
        fault, body = response.fault, b"" if request.method == "HEAD" else response.body
        last = self._last or not request.keeps_alive
        if fault is not None or response.lost:
            if response.dropped:
                self._drop(fault)
                return
            if fault is not None and fault.kind is FaultKind.TRUNCATE:
                body = body[: fault.number]
                self._last = True
        self._write(response.status, headers + _CLOSE if last else headers, body)
        self._answered = True
        if last or self._last:
            self._close()
        elif self._reader is None:
            self._request = None

    def _end_sending(self, request: Request, on_sent: Callable[[], None]) -> None:
        """Tell whoever waits for it that the reply has been sent; later, if the client is slow to read it."""
        self._state.write_batch.flush()
        self._unsent = None if self._writable is None else request
        if self._unsent is None:
            request.on_sent = None
            on_sent()

    def _drop(self, fault: Fault | None) -> None:
        self._state.write_batch.flush()
        if fault is not None and fault.kind is FaultKind.RESET:
            # By a reset, the client loses what it has not received yet.
            linger = self.transport.get_extra_info("socket")
            linger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        else:
            self.transport.close()

    def _write(self, status: int, headers: bytes, body: bytes) -> None:
        message = _MESSAGE % (_status_line(status), self._state.date(), headers, body)
        self._state.write_batch.add(self.transport, message)

    def _close(self) -> None:
        self._state.write_batch.flush()
        self.transport.close()

    def _refuse(self, code: str, message: str | None = None) -> None:
        """Refuse what is being received, instead of answering it, and read nothing more."""
        self._refused = True
        request = self._request
        if request is not None and self._answered:
            self._close()  # the malformed data is the rest of a request that has its reply
            return
        path = path_of(self._buffer) if request is None else request.path
        is_head = self._buffer.startswith(b"HEAD ") if request is None else request.method == "HEAD"
        self._buffer = b""
        self._fail_request()
        response, headers = self._state.app.refuse(PaymockError(code, message), path)
        body = b"" if is_head else response.body
        self._write(response.status, headers + _CLOSE, body)
        self._state.write_batch.flush()
        # Closing a socket with unread data resets the connection, and the client might not get the reply.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._loop.call_later(_LINGER_SECONDS, self._state.connections.defer, self.transport.close)

    def _fail_request(self) -> None:
        if self._request is not None and self._reader is not None:
            self._request.body.fail()
        self._notify_gone()

    def _limit_reading(self) -> None:
        """Read nothing more while the client does not read its replies, or sends too much ahead of them."""
        waits = self._is_scheduled or self.answering
        is_limited = self._writable is not None or (waits and len(self._buffer) > _MAX_AHEAD)
        if is_limited != self._reading_paused and not self.transport.is_closing():
            self._reading_paused = is_limited
            (self.transport.pause_reading if is_limited else self.transport.resume_reading)()

    # What handlers want to know of the client.

    @property
    def has_left(self) -> bool:
        return self.transport.is_closing()

    def gone(self) -> asyncio.Future[None]:
        if self._gone is None:
            self._gone = self._loop.create_future()
        if self._ended:
            self._notify_gone()
        return self._gone

    def _notify_gone(self) -> None:
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    def end(self) -> None:
        self._last = True
        self.gone()
        self._notify_gone()

    def send_continue(self) -> None:
        request = self._request
        if request and request.is_current and request.headers.get(b"expect", b"").lower() == b"100-continue":
            self._state.write_batch.add(self.transport, _CONTINUE)

    def _set_deadline(self) -> None:
        if self._writable is not None:
            phase = REPLY
        elif self._reader is not None:
            phase = BODY
        elif self._request is not None or self._is_scheduled:
            phase = REPLY
        elif self._buffer or self._skipped:
            phase = HEAD
        else:
            phase = IDLE
        if phase is not self._phase or phase is IDLE:
            self._phase, self._deadline = phase, self._loop.time() + phase.seconds
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            if self._timer.when() <= self._deadline:
                return
            self._timer.cancel()
        self._timer = None
        if self._deadline < math.inf:
            self._timer = self._loop.call_at(self._deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._state.connections.defer(self._check_deadline)

    def _check_deadline(self) -> None:
        """Close or refuse what has waited for too long. Data may have come since the timer expired."""
        if self._refused:
            return
        if self._deadline > self._loop.time() + _TIMER_RESOLUTION_SECONDS:
            self._set_timer()
        elif self._phase.refusal is None:
            self._close()
        else:
            self._refuse("bad_request", self._phase.refusal)


@coroutine
def _resumed(work: Coroutine[Any, Any, T], waiting_for: Any) -> Generator[Any, Any, T]:
    """Drive on a coroutine that has begun, and waits. Return its result."""
    while True:
        try:
            yield waiting_for
        except BaseException as error:  # noqa: BLE001 - of what it waits for, or to cancel it
            try:
                waiting_for = work.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result
        else:
            return (yield from work.__await__())


@cache  # there are few statuses
def _status_line(status: int) -> bytes:
    return f"HTTP/1.1 {status} {PHRASES.get(status, '')}\r\n".encode()
