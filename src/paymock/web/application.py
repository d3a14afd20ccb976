"""The application: routes, authenticates, answers and records each request."""

import asyncio
import os
import re
import time
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from paymock.app.control import ControlService
from paymock.http.cors import allowed_methods, cors_headers, options_response
from paymock.http.headers import mock_header_warning, prefers_html
from paymock.http.hosts import AllowedHosts
from paymock.http.keys import Keyring
from paymock.http.protocol import EncodedResponse
from paymock.http.requests import ClientGone, Request
from paymock.http.responses import Response, error_response, header_block, refusal, with_warning
from paymock.http.routing import PUBLIC, Handler, Route, Routes
from paymock.rules.errors import ERRORS, PaymockError
from paymock.rules.faults import MAX_HANG, FaultKind
from paymock.sandbox.clock import Clock
from paymock.sandbox.sandboxes import Sandboxes
from paymock.sandbox.scheduler import SCHEDULER
from paymock.web.responses import OperationResponse, in_place_of
from paymock.web.telemetry.access_log import RequestLog
from paymock.web.telemetry.exchange import Exchange
from paymock.web.telemetry.journal_entry import encoded_entry

if TYPE_CHECKING:
    from paymock.web.telemetry.metrics import RequestMetrics  # needs an extra

_ELSEWHERE = {
    "/_mock/events|/checkout/[^/]*/events": (
        "Event streams were removed: poll `GET /_mock/clock` or `/checkout/{payment_id}.json`."
    ),
    "/(v1/)?(healthz?|ping|status)/?": "Health checks are `/livez` and `/readyz`.",
    r"/(v1/)?openapi\.json": "The document is `/openapi.yaml`.",
    ".*/(cancel|capture|confirm|refunds?|void)(/.*)?": "This service has none: payments cannot be reversed.",
    "(/v1)?/(charges|invoices|orders|payment_intents|checkout/sessions)(/.*)?": "Use `POST /v1/payments`.",
}
"""What paths of other services, and of earlier versions, are probably meant for."""


class Application:
    """The service. For each request it checks the host, finds the route, checks the API key and calls the
    handler, in this order. Refusals have the error envelope, and replies are logged.
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
        root_path: str = "",
    ) -> None:
        self.routes = routes
        self._root_path = root_path
        self._sandboxes = sandboxes
        self.notifier = sandboxes.notifier
        self._control = control
        self._hosts = hosts
        self.keyring = keyring
        self._log = log
        self._clock = clock
        server = os.urandom(5).hex()  # request ids are short, cheap, and unique in practice across servers
        self._id_prefix, self._count = f"req_{server}_", count(1)
        self.metrics: RequestMetrics | None = None
        """Records every request, if set."""
        self.unknown_page: Handler | None = None
        """Answers browsers where there is no page, if set."""

    async def close(self) -> None:
        await self._sandboxes.close()

    async def respond(self, request: Request) -> EncodedResponse:
        started = time.perf_counter()
        request.id = request_id = f"{self._id_prefix}{next(self._count):x}"
        if self._root_path:  # some proxies remove it, and some do not
            request.root_path = self._root_path
            is_below = f"{request.path}/".startswith(f"{self._root_path}/")
            if is_below and self.routes.find(request.path) is None:
                request.path = request.path.removeprefix(self._root_path) or "/"
        try:
            response = await self._answer(request)
        except ClientGone:
            return Response(0, lost=True), b""  # nobody waits for it
        except Exception as error:  # noqa: BLE001 - whatever fails, the client gets the envelope
            if isinstance(error, PaymockError):
                response = refusal(error, request)
                if response.error == "store_unavailable":
                    self._log.store_failure(error.message)
            else:
                self._log.defect(request_id)
                response = error_response(PaymockError("internal_error"), request_id)
        if warning := mock_header_warning(request, with_faults=self._control is not None):
            response = with_warning(response, warning)
        fault = response.fault
        if fault is not None and fault.kind is FaultKind.HANG:
            try:
                with self.notifier.waiting_request(request.owner, request.end):
                    self._record(request, response, request_id, started)
                    # until the client leaves or the server stops, but not for ever
                    end = asyncio.get_running_loop().time() + MAX_HANG
                    with suppress(ClientGone):
                        await request.unless_gone(self.notifier.sleep_until(end))
                    return response, b""
            except PaymockError as error:
                recorded = response if isinstance(response, OperationResponse) else OperationResponse(0)
                response = in_place_of(recorded.carried_out, refusal(error, request), recorded.target)
        self._record(request, response, request_id, started)
        headers = header_block(response, request_id, cors_headers(request.path))
        return response, headers

    def refuse(self, error: PaymockError, path: str) -> EncodedResponse:
        request_id = f"{self._id_prefix}{next(self._count):x}"
        response = error_response(error, request_id)
        exchange = Exchange(request_id, "-", "-", response, 0.0, "malformed")
        self._log.request(exchange)
        if self.metrics is not None:
            self.metrics.record(exchange)
        return response, header_block(response, request_id, cors_headers(path))

    async def _answer(self, request: Request) -> Response:
        """Find the handler and the sandbox of a request, and call it. Raises PaymockError to refuse it."""
        if request.headers.get(b"host") not in self._hosts.accepted or request.repeated:
            self._hosts.check(request)
        match = self.routes.find(request.path)
        options = options_response(match, request) if request.method == "OPTIONS" else None
        if options is not None:
            return options
        if match is None:
            is_page = request.method in ("GET", "HEAD") and not f"{request.path}/".startswith(PUBLIC)
            if self.unknown_page is not None and is_page and prefers_html(request):
                return await self.unknown_page(request)
            kind, path, similar = ERRORS["not_found"], request.path, self.routes.similar(request.path)
            exact = re.sub("/+", "/", path).rstrip("/")
            near = f" Did you mean `{similar}`?" if similar else ""
            if exact != path and self.routes.find(exact):
                near = f" Slashes must match exactly. Did you mean `{exact}`?"
            hint = next((f" {text}" for form, text in _ELSEWHERE.items() if re.fullmatch(form, path)), near)
            raise PaymockError("not_found", f"{kind.meaning}{hint} {kind.remedy}")
        route = match.targets.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = allowed_methods(match)
            message = f"This path supports {allowed}."
            if match.template == "/v1/payments":
                message += " There is no list of payments: keep the `id` of each."
            raise PaymockError("method_not_allowed", message, headers=[("Allow", allowed)])
        if route.needs_key:
            self.keyring.authenticate(request)
            if request.owner != request.sandbox:
                self._sandboxes.owner_limits.owners[request.sandbox] = request.owner
        if not request.owner or SCHEDULER.get()[1] is not request.owner:  # once for a connection with one key
            SCHEDULER.set((self.notifier.scheduler, request.owner))
        request.template, request.params = match.template, match.params
        request.operation = route.operation
        return await route.handler(request)

    def _record(self, request: Request, response: Response, request_id: str, started: float) -> None:
        exchange = Exchange.of(request, response, request_id, time.perf_counter() - started)
        self._log.request(exchange)
        if self.metrics is not None:
            self.metrics.record(exchange)
        if self._control is None or not request.path.startswith(PUBLIC):
            return
        try:
            if not request.sandbox:
                self.keyring.authenticate(request)
            exchange.answered_at = self._clock()
            exchange.clock = self._sandboxes.known_clock(request.sandbox)
            journal, sandbox = self._control.journal, request.sandbox
            journal.add(sandbox, partial(encoded_entry, exchange, self._log, journal, sandbox))
        except PaymockError:
            return  # without a valid key, or without the store, there is no entry
