"""The one assembly point: every route, and what each request passes on its way, readable as a list."""

import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple

import msgspec

from paymock.checkouts import Checkouts
from paymock.clock import Clock
from paymock.control import Control
from paymock.core.catalog import Catalog
from paymock.core.errors import PaymockError
from paymock.core.records import OriginRecord
from paymock.core.wire import ErrorEnvelope
from paymock.sandboxes import Sandboxes
from paymock.service import Service
from paymock.settings import Settings
from paymock.stores.base import Store
from paymock.web import assets, books, checkout, dashboard, guard, journal, pages
from paymock.web import control as control_handlers
from paymock.web.examples import Premises
from paymock.web.faults import suffering
from paymock.web.http import JSON, ClientGone, ConnectionDropped, Request, Response, raw_headers
from paymock.web.log import RequestLog
from paymock.web.openapi import OpenApiPage
from paymock.web.operations import CHECKOUT, PUBLIC
from paymock.web.request_id import request_ids
from paymock.web.routes import Match, Routes

_COMMON = raw_headers([("X-Content-Type-Options", "nosniff")])
_NOT_CACHED = raw_headers([("Cache-Control", "no-store")])
_CORS = raw_headers(
    [
        ("Access-Control-Allow-Origin", "*"),
        ("Access-Control-Expose-Headers", "Idempotent-Replayed, Retry-After, X-Request-Id, Location, Link"),
    ]
)
_ANY_ORIGIN = (PUBLIC, CHECKOUT)
"""Pages of any web origin may ask for what is below these paths."""

_SHORTEST_KEY = 9
"""A shorter word may stand in a message by chance, and is no key that guards anything."""

_PREFLIGHT = (
    (
        "Access-Control-Allow-Headers",
        "Authorization, Content-Type, Idempotency-Key, X-Mock-Scenario, X-Mock-Fault",
    ),
    ("Access-Control-Max-Age", "600"),
)


Answer = Callable[[Request], Awaitable[Response]]


class Route(NamedTuple):
    """Where a path leads: the handler, and whether it needs an API key."""

    handler: Answer
    keyed: bool = False


def create_app(
    settings: Settings, catalog: Catalog, store: Store, origin: OriginRecord, clock: Clock, log: RequestLog
) -> "App":
    """The whole service as an ASGI application. `origin` is that of the store."""
    sandboxes = Sandboxes(store, clock, origin)
    service = Service(catalog, settings.fee_bps, sandboxes)
    control = Control(catalog, sandboxes) if settings.control else None
    keyring = guard.Keyring(settings.api_keys)
    premises = Premises(catalog, settings.fee_bps, keyring)
    checkouts = Checkouts(catalog, sandboxes)
    routes: Routes[Route] = Routes()
    for operation in books.PUBLIC_BOOK.operations:
        handler: Answer = partial(operation.handler, checkouts if operation.of_checkout else service)
        if control is not None and operation.keyed:
            handler = partial(suffering, control, carry_out=handler)
        routes.add(operation.method, operation.path, Route(handler, operation.keyed))
    routes.add("GET", "/openapi.yaml", Route(OpenApiPage(books.PUBLIC_BOOK, premises)))
    if control is not None:
        for operation in books.CONTROL_BOOK.operations:
            routes.add(
                operation.method, operation.path, Route(partial(operation.handler, control), keyed=True)
            )
        routes.add("GET", "/_mock/events", Route(partial(control_handlers.events, control), keyed=True))
        routes.add("GET", "/_mock/openapi.yaml", Route(OpenApiPage(books.CONTROL_BOOK, premises)))
        routes.add("GET", pages.CONTROL_PAGE, Route(partial(pages.static, with_control=True)))
        for path, template in dashboard.PAGES.items():
            routes.add(
                "GET", path, Route(dashboard.DashboardPage(template, premises, open_mode=settings.open_mode))
            )
    ancestors = " ".join(settings.frame_ancestors) or "'none'"
    customers = partial(checkout.page, checkouts, frame_ancestors=ancestors)
    routes.add("GET", checkout.PATH, Route(customers))
    routes.add("GET", f"{checkout.PATH}/events", Route(partial(checkout.events, checkouts)))
    for path in assets.paths():
        routes.add("GET", path, Route(assets.asset))
    routes.add("GET", "/swagger", Route(pages.swagger_redirect))
    for path in pages.STATIC_PATHS:
        routes.add("GET", path, Route(partial(pages.static, with_control=control is not None)))
    return App(routes, sandboxes, control, guard.HostGuard(settings), keyring, clock, log)


class App:
    """An ASGI application: host, route, key, handler, in this order; every refusal in one envelope, one
    log line each.
    """

    def __init__(
        self,
        routes: Routes[Route],
        sandboxes: Sandboxes,
        control: Control | None,
        hosts: guard.HostGuard,
        keyring: guard.Keyring,
        clock: Clock,
        log: RequestLog,
    ) -> None:
        self._routes = routes
        self._sandboxes = sandboxes
        self._control = control
        self._hosts = hosts
        self._keyring = keyring
        self._log = log
        self._clock = clock
        self._ids = request_ids()

    @property
    def waiting(self) -> int:
        """How many requests wait for something to change."""
        return self._sandboxes.watchers

    def stop(self) -> None:
        """Lets requests that wait for something end now, since the server stops."""
        self._sandboxes.stop()

    async def close(self) -> None:
        """Ends the connections to the store."""
        await self._sandboxes.store.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one request (ASGI)."""
        if scope["type"] != "http":
            raise RuntimeError(f"no {scope['type']} here")
        started = time.perf_counter()
        request = Request(scope, receive, next(self._ids))
        try:
            response = await self._answer(request)
        except ClientGone:
            return
        except ConnectionDropped as dropped:
            await self._written(request, dropped.args[0], started, dropped=True)
            await _drop(scope, receive)
            return
        if response.error:
            response = _without_key(response, request)
        headers = self.headers(response, request.id)
        if request.path.startswith(_ANY_ORIGIN):
            headers += _CORS
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        whole = response.stream is None or request.method == "HEAD"
        body = b"" if request.method == "HEAD" else response.body
        await send({"type": "http.response.body", "body": body, "more_body": not whole})
        await self._written(request, response, started)
        if response.stream is not None:
            await self._push(request, response.stream, send)

    async def _push(self, request: Request, stream: AsyncGenerator[bytes, None], send: Any) -> None:
        """Sends the parts of `stream` as they come, until the client leaves or the server stops."""

        async def pushed() -> None:
            with contextlib.suppress(PaymockError):  # the store is away: whoever asks again is told so
                async for part in stream:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

        try:
            async with aclosing(stream):
                if request.method != "HEAD":
                    await request.unless_gone(pushed())
        except ClientGone:
            return
        except Exception:  # noqa: BLE001 - the last guard: the connection ends, and the client asks again
            self._log.defect(request.id)

    async def _written(
        self, request: Request, response: Response, started: float, *, dropped: bool = False
    ) -> None:
        seconds = time.perf_counter() - started
        self._log.request(request.method, request.path, response, request.id, seconds)
        if self._control is None or not request.path.startswith(PUBLIC):
            return
        with contextlib.suppress(PaymockError):  # without a key, or without the store, nothing is noted
            sandbox = request.sandbox or self._keyring.sandbox(request)
            path = self._log.masked(request.path)
            await self._control.journal.add(
                sandbox,
                journal.entry(
                    request,
                    path,
                    response,
                    self._clock(),
                    seconds,
                    dropped=dropped,
                    masked=self._log.without_secrets,
                ),
            )

    def refuse(self, error: PaymockError) -> tuple[Response, list[tuple[bytes, bytes]]]:
        """The reply to something that is not even a request, and its headers; logged like any other."""
        response, request_id = guard.refusal(error), next(self._ids)
        self._log.request("-", "-", response, request_id, 0.0)
        return response, self.headers(response, request_id)

    @staticmethod
    def headers(response: Response, request_id: str) -> list[tuple[bytes, bytes]]:
        """The header lines of a reply that do not depend on the request."""
        headers = [(b"x-request-id", request_id.encode()), *_COMMON]
        if response.headers:
            headers += raw_headers(response.headers)
        if response.status != 204 and response.stream is None:
            headers.append((b"content-length", b"%d" % len(response.body)))
        if response.content_type:
            headers.append((b"content-type", response.content_type.encode()))
        if not any(name == "Cache-Control" for name, _ in response.headers):
            headers += _NOT_CACHED
        return headers

    async def _answer(self, request: Request) -> Response:
        try:
            self._hosts.check(request)
            match = self._routes.find(request.path)
            if match is None:
                raise PaymockError("not_found")
            if request.method == "OPTIONS":
                return _options(match, request)
            route = match.targets.get("GET" if request.method == "HEAD" else request.method)
            if route is None:
                allowed = _allow(match)
                raise PaymockError(
                    "method_not_allowed", f"This path answers to {allowed}.", headers=[("Allow", allowed)]
                )
            request.params = match.params
            if route.keyed:
                request.sandbox = self._keyring.sandbox(request)
            return await route.handler(request)
        except PaymockError as error:
            return guard.refusal(error)
        except (ClientGone, ConnectionDropped):
            raise
        except Exception:  # noqa: BLE001 - the last guard: whatever goes wrong, a client gets the envelope
            self._log.defect(request.id)
            return guard.refusal(PaymockError("internal_error"))


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
    return response._replace(body=msgspec.json.encode(ErrorEnvelope(error=error)))


def _allow(match: Match[Route]) -> str:
    methods = list(match.targets)
    return ", ".join([*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"])


def _options(match: Match[Route], request: Request) -> Response:
    allowed = _allow(match)
    preflight = (
        (("Access-Control-Allow-Methods", allowed), *_PREFLIGHT)
        if request.path.startswith(_ANY_ORIGIN)
        else ()
    )
    return Response(204, content_type=None, headers=(("Allow", allowed), *preflight))
