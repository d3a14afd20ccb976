"""The ASGI application: routes, authenticates, answers and records each request."""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator
from itertools import count
from typing import Any

from msgspec.structs import replace

from paymock.app.control import ControlService
from paymock.app.faults import Suspended
from paymock.http.auth import Keyring
from paymock.http.cors import allowed_methods, cors_headers, options_response
from paymock.http.delivery import close_connection, interrupt, is_interrupted, send_head
from paymock.http.hosts import AllowedHosts
from paymock.http.requests import Body, ClientGone, Request, parse_request
from paymock.http.responses import Response, error_response, header_block, header_lines, refusal
from paymock.http.routing import PUBLIC, Answer, Route, Routes
from paymock.rules.errors import PaymockError
from paymock.rules.faults import FaultKind
from paymock.sandbox.clock import Clock
from paymock.sandbox.sandboxes import Sandboxes
from paymock.web.telemetry import journal_entry
from paymock.web.telemetry.access_log import RequestLog
from paymock.web.telemetry.metrics import RequestMetrics

_FAULT = b"x-mock-fault"


class Application:
    """The service as an ASGI application. For each request it checks the host, finds the route, checks the
    API key and calls the handler, in this order. Refusals have the error envelope, and replies are logged.
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
        server = os.urandom(5).hex()  # request ids are short, cheap, and unique in practice across servers
        self._request_ids = (f"req_{server}_{number:x}" for number in count(1))
        self.metrics: RequestMetrics | None = None
        """Records every request, if set."""

    @property
    def waiting(self) -> int:
        return self._sandboxes.notifier.waiting

    def limit_waiting(self, number: int) -> None:
        """Let at most this number of requests wait at a time; refuse others."""
        self._sandboxes.notifier.max_waiting = number

    @property
    def never_waits(self) -> bool:
        """Whether its store answers without a pause, so that the fast path can be used."""
        return self._sandboxes.never_waits

    def stop(self) -> None:
        """End the requests that wait for a change: the server stops."""
        self._sandboxes.notifier.stop()

    def for_address(self, routes: Routes[Route], hosts: AllowedHosts, log: RequestLog) -> "Application":
        """Return an application with other routes on the same sandboxes, for another address."""
        return Application(routes, self._sandboxes, None, hosts, self._keyring, self._clock, log)

    async def close(self) -> None:
        await self._sandboxes.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request (ASGI)."""
        if scope["type"] != "http":
            raise RuntimeError(f"unsupported ASGI scope {scope['type']}")
        started = time.perf_counter()
        request_id = next(self._request_ids)
        request = parse_request(
            scope["method"],
            scope["raw_path"],
            scope["headers"],
            Body(receive=receive, ended=scope.get("paymock.ended", bool)),
            scope["query_string"],
        )
        try:
            request, response = await self._respond(request, request_id)
        except ClientGone:
            await close_connection(scope, receive)
            return
        with contextlib.ExitStack() as waiting:
            if response.fault is not None and response.fault.kind is FaultKind.HANG:
                try:
                    waiting.enter_context(self._sandboxes.notifier.waiting_request())
                except PaymockError as error:
                    carried_out, order_id = response.carried_out, response.order_id
                    response = replace(refusal(error, request), carried_out=carried_out, order_id=order_id)
            headers = header_lines(header_block(response, request_id, cors_headers(request.path)))
            if is_interrupted(response):
                await self._record(request, response, request_id, started)
                await interrupt(request, response, headers, self._sleep, scope, receive, send)
                return
        try:
            await send_head(response, headers, send)
            body, stream = (b"", None) if request.method == "HEAD" else (response.body, response.stream)
            await send({"type": "http.response.body", "body": body, "more_body": stream is not None})
            await self._record(request, response, request_id, started)
            if stream is not None:
                await self._push(request, request_id, stream, send)
        finally:
            if response.stream is not None:
                await response.stream.aclose()

    def answer_now(self, request: Request) -> Answer | None:
        """Answer a complete request without suspending. Return None, without a visible effect, if the request
        must go through ASGI: it has a fault, or has to wait.
        """
        if _FAULT in request.headers:
            return None
        answering = self._answer(request)
        try:
            answering.send(None)
        except StopIteration as done:
            answer: Answer = done.value
            return answer
        except Suspended:
            return None
        answering.close()  # it has to wait
        return None

    def refuse(self, error: PaymockError, path: str) -> Answer:
        """Return the answer to what is not an HTTP request, and record it. `path`: as far as it is known."""
        response, request_id = error_response(error), next(self._request_ids)
        self._log.request("-", "-", response, request_id, 0.0)
        if self.metrics is not None:
            self.metrics.record_malformed(response)
        return Answer(response, header_block(response, request_id, cors_headers(path)))

    async def _answer(self, request: Request) -> Answer:
        started = time.perf_counter()
        request_id = next(self._request_ids)
        request, response = await self._respond(request, request_id, fast=True)
        await self._record(request, response, request_id, started)
        return Answer(response, header_block(response, request_id, cors_headers(request.path)))

    async def _respond(
        self, request: Request, request_id: str, *, fast: bool = False
    ) -> tuple[Request, Response]:
        """Return the response, and the request with its sandbox, as far as that is known.

        Raises ClientGone; on the `fast` path Suspended if it must be left.
        """
        try:
            request, route = self._route(request)
            handler = route.fast_handler if fast else route.handler
            if handler is None:
                raise Suspended
            return request, await handler(request)
        except (ClientGone, Suspended):
            raise
        except Exception as error:  # noqa: BLE001 - whatever fails, the client gets the envelope
            return request, self._error_response(error, request, request_id)

    def _route(self, request: Request) -> tuple[Request, Route]:
        """Find the route and the sandbox of a request. Raises PaymockError to refuse it."""
        self._hosts.check(request)
        match = self.routes.find(request.path)
        options = options_response(match, request) if request.method == "OPTIONS" else None
        if options is not None:

            async def reply(_: Request) -> Response:
                return options

            return request, Route(reply)
        if match is None:
            raise PaymockError("not_found")
        route = match.targets.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            allowed = allowed_methods(match)
            raise PaymockError(
                "method_not_allowed", f"This path answers to {allowed}.", headers=[("Allow", allowed)]
            )
        sandbox = self._keyring.sandbox(request) if route.needs_key else ""
        template, _, params = match
        request = replace(
            request, template=template, params=params, sandbox=sandbox, operation=route.operation
        )
        return request, route

    def _error_response(self, error: Exception, request: Request, request_id: str) -> Response:
        if isinstance(error, PaymockError):
            return refusal(error, request)
        self._log.defect(request_id)
        return error_response(PaymockError("internal_error"))

    async def _sleep(self, seconds: float) -> None:
        """Wait for `seconds`, or until the server stops."""
        await self._sandboxes.notifier.sleep_until(asyncio.get_running_loop().time() + seconds)

    async def _push(
        self, request: Request, request_id: str, stream: AsyncGenerator[bytes, None], send: Any
    ) -> None:
        """Send the parts of `stream` until the client disconnects or the stream ends."""

        async def push() -> None:
            with contextlib.suppress(PaymockError):  # the store failed: a client that reconnects gets 503
                async for part in stream:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

        try:
            await request.unless_gone(push())
        except ClientGone:
            return
        except Exception:  # noqa: BLE001 - whatever fails, the stream ends, and the client reconnects
            self._log.defect(request_id)

    async def _record(self, request: Request, response: Response, request_id: str, started: float) -> None:
        """Log a reply, and add it to the metrics and to the journal of its sandbox."""
        seconds = time.perf_counter() - started
        if self._log.requests:
            self._log.request(request.method, request.path, response, request_id, seconds, request)
        if self.metrics is not None:
            self.metrics.record(request, response, seconds)
        if self._control is None or not request.path.startswith(PUBLIC):
            return
        try:
            sandbox = request.sandbox or self._keyring.sandbox(request)
            now = self._clock()
            virtual = self._sandboxes.virtual_time(sandbox, now)
            entry = journal_entry.entry_for(request, response, request_id, now, virtual, seconds, self._log)
            await self._control.journal.add(sandbox, entry)
        except PaymockError:
            return  # without a valid key, or without the store, there is no entry
