"""The one assembly point: every route, and what each request passes on its way, readable as a list."""

import time
from typing import Any

from paymock.clock import Clock
from paymock.core.catalog import Catalog
from paymock.core.errors import PaymockError
from paymock.service import Service
from paymock.settings import Settings
from paymock.stores.base import Store
from paymock.web import api, guard, pages
from paymock.web.http import ClientGone, Request, Response, raw_headers
from paymock.web.log import RequestLog
from paymock.web.openapi import OpenApiPage
from paymock.web.operations import KEYED, Handler
from paymock.web.request_id import request_ids
from paymock.web.routes import Match, Routes

_COMMON = raw_headers([("X-Content-Type-Options", "nosniff")])
_NOT_CACHED = raw_headers([("Cache-Control", "no-store")])
_CORS = raw_headers(
    [
        ("Access-Control-Allow-Origin", "*"),
        ("Access-Control-Expose-Headers", "Idempotent-Replayed, Retry-After, X-Request-Id, Location"),
    ]
)
_PREFLIGHT = (
    (
        "Access-Control-Allow-Headers",
        "Authorization, Content-Type, Idempotency-Key, X-Mock-Scenario, X-Mock-Fault",
    ),
    ("Access-Control-Max-Age", "600"),
)

OPERATIONS = (*api.OPERATIONS, *pages.OPERATIONS)
"""What the OpenAPI document describes."""


def create_app(settings: Settings, catalog: Catalog, store: Store, clock: Clock, log: RequestLog) -> "App":
    """The whole service as an ASGI application."""
    routes: Routes[Handler] = Routes()
    for operation in OPERATIONS:
        routes.add(operation.method, operation.path, operation.handler)
    routes.add("GET", "/openapi.yaml", OpenApiPage(OPERATIONS))
    routes.add("GET", "/swagger", pages.swagger_redirect)
    for path in pages.STATIC_PATHS:
        routes.add("GET", path, pages.static)
    return App(
        routes,
        Service(catalog, settings.fee_bps, store, clock),
        guard.HostGuard(settings),
        guard.Keyring(settings.api_keys),
        log,
    )


class App:
    """An ASGI application: host, route, key, handler, in this order; every refusal in one envelope, one
    log line each.
    """

    def __init__(
        self,
        routes: Routes[Handler],
        service: Service,
        hosts: guard.HostGuard,
        keyring: guard.Keyring,
        log: RequestLog,
    ) -> None:
        self._routes = routes
        self._service = service
        self._hosts = hosts
        self._keyring = keyring
        self._log = log
        self._ids = request_ids()

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
        headers = self.headers(response, request.id)
        if request.path.startswith(KEYED):
            headers += _CORS
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else response.body})
        self._log.request(request.method, request.path, response, request.id, time.perf_counter() - started)

    def refuse(self, error: PaymockError) -> tuple[Response, list[tuple[bytes, bytes]]]:
        """The reply to something that is not even a request, and its headers; logged like any other."""
        response, request_id = guard.refusal(error), next(self._ids)
        self._log.request("-", "-", response, request_id, 0.0)
        return response, self.headers(response, request_id)

    @staticmethod
    def headers(response: Response, request_id: str) -> list[tuple[bytes, bytes]]:
        """The header lines of a reply that do not depend on the request."""
        headers = [(b"x-request-id", request_id.encode()), *_COMMON, *raw_headers(response.headers)]
        if response.status != 204:
            headers.append((b"content-length", b"%d" % len(response.body)))
        if response.content_type:
            headers.append((b"content-type", response.content_type.encode()))
        if not any(name == b"cache-control" for name, _ in headers):
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
            handler = match.targets.get("GET" if request.method == "HEAD" else request.method)
            if handler is None:
                allowed = _allow(match)
                raise PaymockError(
                    "method_not_allowed", f"This path answers to {allowed}.", headers=[("Allow", allowed)]
                )
            request.params = match.params
            if request.path.startswith(KEYED):
                request.sandbox = self._keyring.sandbox(request)
            return await handler(self._service, request)
        except PaymockError as error:
            return guard.refusal(error)
        except ClientGone:
            raise
        except Exception:  # noqa: BLE001 - the last guard: whatever goes wrong, a client gets the envelope
            self._log.defect(request.id)
            return guard.refusal(
                PaymockError(
                    "internal_error", f"A defect in the mock; its log has the details under {request.id}."
                )
            )


def _allow(match: Match[Handler]) -> str:
    methods = list(match.targets)
    return ", ".join([*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"])


def _options(match: Match[Handler], request: Request) -> Response:
    allowed = _allow(match)
    preflight = (
        (("Access-Control-Allow-Methods", allowed), *_PREFLIGHT) if request.path.startswith(KEYED) else ()
    )
    return Response(204, content_type=None, headers=(("Allow", allowed), *preflight))
