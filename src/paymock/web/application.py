"""The ASGI application: what each request passes on its way, readable as a list, and what is said of it."""

import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

import msgspec

from paymock.app.control_service import ControlService
from paymock.app.overrides import FaultDue
from paymock.app.sandboxes import Sandboxes
from paymock.app.system_clock import Clock
from paymock.rules.errors import PaymockError
from paymock.schemas.public import ErrorEnvelope
from paymock.web.http import cors
from paymock.web.http.auth import Keyring
from paymock.web.http.error_responses import refusal
from paymock.web.http.hosts import AllowedHosts
from paymock.web.http.request_ids import request_ids
from paymock.web.http.requests import ClientGone, Request
from paymock.web.http.responses import JSON, ConnectionDropped, Response, raw_headers
from paymock.web.http.routing import CHECKOUT, PUBLIC, Routes
from paymock.web.telemetry import journal_entry
from paymock.web.telemetry.access_log import RequestLog
from paymock.web.telemetry.observer import Observer
from paymock.web.transport.connections import Connections, room_for_connections
from paymock.web.transport.request_cache import RequestCache
from paymock.web.transport.write_batch import WriteBatch

T = TypeVar("T")

_COMMON = raw_headers([("X-Content-Type-Options", "nosniff")])
_NOT_CACHED = (b"cache-control", b"no-store")
_CORS = raw_headers(
    [
        ("Access-Control-Allow-Origin", "*"),
        ("Access-Control-Expose-Headers", "Idempotent-Replayed, Retry-After, X-Request-Id, Location, Link"),
    ]
)
_HEAD = b"%bx-request-id: %b\r\ncontent-length: %d\r\n%b" + b"\r\n".join(
    [*map(b": ".join, [*_COMMON, (b"content-type", JSON.encode()), _NOT_CACHED, *_CORS]), b"", b""]
)
_ANY_ORIGIN = (PUBLIC, CHECKOUT)
"""Pages of any web origin may ask for what is below these paths."""

_FAULT = b"x-mock-fault"
_SHORTEST_KEY = 9
"""A shorter word may stand in a message by chance, and is no key that guards anything."""

Answer = Callable[[Request], Awaitable[Response]]


class NotAtOnce(Exception):
    """What was to be done at once has to wait for something."""


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """What `work` comes to when it waits for nothing. Raises NotAtOnce, and what it raises."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise NotAtOnce


class Route(NamedTuple):
    """Where a path leads: the handler, whether it needs an API key, and the handler that knows no faults,
    where there is one.
    """

    handler: Answer
    keyed: bool = False
    plain: Answer | None = None


class App:
    """An ASGI application: host, route, key, handler, in this order; every refusal in one envelope, one
    log line each. `connections` are those that it is reached by.
    """

    def __init__(
        self,
        routes: Routes[Route],
        sandboxes: Sandboxes,
        control: ControlService | None,
        hosts: AllowedHosts,
        keyring: Keyring,
        clock: Clock,
        log: RequestLog,
    ) -> None:
        self.routes = routes
        self._sandboxes = sandboxes
        self._control = control
        self._hosts = hosts
        self._keyring = keyring
        self._log = log
        self._clock = clock
        self.ids = request_ids()
        self.observer: Observer | None = None
        """Is told of every request, if there is one."""

        self.request_cache = RequestCache()
        """Requests that were answered at once."""

        self.write_batch = WriteBatch()
        """Replies that have not gone out yet."""

        self.connections = Connections(room_for_connections())
        self._common: list[tuple[bytes, bytes]] = []
        self._common_lines = b""

    @property
    def waiting(self) -> int:
        """How many requests wait for something to change."""
        return self._sandboxes.watchers

    @property
    def answers_at_once(self) -> bool:
        """Whether its store makes no request wait."""
        return self._sandboxes.store.at_once

    def stop(self) -> None:
        """Lets requests that wait for something end now, since the server stops."""
        self._sandboxes.stop()

    def beside(self, routes: Routes[Route], hosts: AllowedHosts, log: RequestLog) -> "App":
        """An application for another address, with other routes, on the same sandboxes."""
        return App(routes, self._sandboxes, None, hosts, self._keyring, self._clock, log)

    async def close(self) -> None:
        """Ends the connections to the store."""
        await self._sandboxes.store.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one request (ASGI)."""
        if scope["type"] != "http":
            raise RuntimeError(f"no {scope['type']} here")
        started = time.perf_counter()
        request = Request(scope, receive, next(self.ids))
        try:
            response = await self._answer(request, plainly=False)
        except ClientGone:
            return
        except ConnectionDropped as dropped:
            await self._written(request, dropped.args[0], started, dropped=True)
            await _drop(scope, receive)
            return
        try:
            headers = self.headers(response, request.id)
            if request.path.startswith(_ANY_ORIGIN):
                headers += _CORS
            await send({"type": "http.response.start", "status": response.status, "headers": headers})
            body, stream = (b"", None) if request.method == "HEAD" else (response.body, response.stream)
            await send({"type": "http.response.body", "body": body, "more_body": stream is not None})
            await self._written(request, response, started)
            if stream is not None:
                await self._push(request, stream, send)
        finally:
            if response.stream is not None:
                await response.stream.aclose()

    def answer_at_once(self, request: Request) -> Response | None:
        """The reply to a request below `/v1` that has come whole; None where it must go through ASGI: it asks
        for a fault, or has to wait for something. It can be repeated there.
        """
        started = time.perf_counter()
        if _FAULT in request.headers:
            return None
        try:
            return at_once(self._answered(request, started))
        except (NotAtOnce, FaultDue):
            return None

    async def _answered(self, request: Request, started: float) -> Response:
        response = await self._answer(request, plainly=True)
        await self._written(request, response, started)
        return response

    async def _push(self, request: Request, stream: AsyncGenerator[bytes, None], send: Any) -> None:
        """Sends the parts of `stream` as they come, until the client leaves or the server stops."""

        async def pushed() -> None:
            with contextlib.suppress(PaymockError):  # the store is away: whoever asks again is told so
                async for part in stream:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

        try:
            await request.unless_gone(pushed())
        except ClientGone:
            return
        except Exception:  # noqa: BLE001 - the last guard: the connection ends, and the client asks again
            self._log.defect(request.id)

    async def _written(
        self, request: Request, response: Response, started: float, *, dropped: bool = False
    ) -> None:
        seconds = time.perf_counter() - started
        self._log.request(request.method, request.path, response, request.id, seconds, request)
        if self.observer is not None:
            self.observer.request(request, response, seconds, dropped=dropped)
        if self._control is None or not request.path.startswith(PUBLIC):
            return
        try:
            sandbox = request.sandbox or self._keyring.sandbox(request)
            line = journal_entry.line(request, response, self._clock(), seconds, self._log, dropped=dropped)
            await self._control.journal.add(sandbox, line)
        except PaymockError:
            return  # without a key, or without the store, nothing is noted

    def refuse(self, error: PaymockError) -> tuple[Response, list[tuple[bytes, bytes]]]:
        """The reply to something that is not even a request, and its headers; logged like any other."""
        response, request_id = refusal(error), next(self.ids)
        self._log.request("-", "-", response, request_id, 0.0)
        if self.observer is not None:
            self.observer.malformed(response)
        return response, self.headers(response, request_id)

    def head(self, response: Response, request_id: str, common: list[tuple[bytes, bytes]]) -> bytes:
        """The header lines of a reply below `/v1`, with those that are `common` to all replies of the
        moment, and the empty line after them.
        """
        if common is not self._common:  # the server replaces the list each second, with the date in it
            self._common = common
            self._common_lines = b"".join([b"%b: %b\r\n" % line for line in common])
        more = "".join(map("%s: %s\r\n".__mod__, response.headers))
        return _HEAD % (self._common_lines, request_id.encode(), len(response.body), more.encode("latin-1"))

    @staticmethod
    def headers(response: Response, request_id: str) -> list[tuple[bytes, bytes]]:
        """The header lines of a reply that do not depend on the request."""
        headers = [(b"x-request-id", request_id.encode()), *_COMMON]
        if response.status != 204 and response.stream is None:
            headers.append((b"content-length", b"%d" % len(response.body)))
        if response.content_type:
            headers.append((b"content-type", response.content_type.encode()))
        if response.headers:
            headers += raw_headers(response.headers)
            if any(name == b"cache-control" for name, _ in headers):
                return headers
        headers.append(_NOT_CACHED)
        return headers

    async def _answer(self, request: Request, *, plainly: bool) -> Response:
        try:
            if request.route is None:
                self._find(request)
            if request.method == "OPTIONS":
                return cors.options(request.route, any_origin=request.path.startswith(_ANY_ORIGIN))
            route: Route = request.route
            if not plainly:
                return await route.handler(request)
            if route.plain is None:
                raise NotAtOnce
            return await route.plain(request)
        except PaymockError as error:
            return _without_key(refusal(error), request)
        except (ClientGone, ConnectionDropped, FaultDue, NotAtOnce):
            raise
        except Exception:  # noqa: BLE001 - the last guard: whatever goes wrong, a client gets the envelope
            self._log.defect(request.id)
            return refusal(PaymockError("internal_error"))

    def _find(self, request: Request) -> None:
        """Lets the request know where it leads and what its key opens. Raises PaymockError."""
        self._hosts.check(request)
        match = self.routes.find(request.path)
        if match is None:
            raise PaymockError("not_found")
        if request.method == "OPTIONS":
            request.route = match
            return
        route = match.targets.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = cors.allowed(match)
            raise PaymockError(
                "method_not_allowed", f"This path answers to {allowed}.", headers=[("Allow", allowed)]
            )
        request.params = match.params
        if route.keyed:
            request.sandbox = self._keyring.sandbox(request)
        request.route = route


async def _drop(scope: Any, receive: Any) -> None:
    """Closes the connection without a reply."""
    close = scope.get("paymock.close")
    if close is None:
        raise ConnectionResetError("the reply was dropped, as the fault asks")
    close()
    while (await receive())["type"] != "http.disconnect":
        pass


def _without_key(response: Response, request: Request) -> Response:
    """A refusal names unknown fields; the API key must not come back, even where it was sent as a name."""
    presented = request.headers.get(b"authorization", b"").split(b" ")[-1]
    named = len(presented) >= _SHORTEST_KEY and presented in response.body
    if not named or response.content_type != JSON:
        return response
    key, error = presented.decode("latin-1"), msgspec.json.decode(response.body, type=ErrorEnvelope).error
    error.message = error.message.replace(key, "***")
    for problem in error.details or ():
        problem.field = problem.field.replace(key, "***")
        problem.message = problem.message.replace(key, "***")
    return msgspec.structs.replace(response, body=msgspec.json.encode(ErrorEnvelope(error=error)))
