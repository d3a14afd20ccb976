"""Metrics of the requests of a server, by prometheus-client. This module needs the extra `metrics`."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from paymock.http.requests import Request
from paymock.http.responses import Response
from paymock.http.routing import Routes
from paymock.sandbox.conflicts import CONFLICT
from paymock.web.responses import OperationResponse
from paymock.web.telemetry.exchange import Exchange

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "other")
"""The values of the label `method`."""

BUCKETS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)
"""The upper bounds of the histogram's buckets, in seconds; one more bucket has no bound."""

COURSE = "course"
"""The scenario of payments that follow none of the server."""

OTHER_KEYS = "other"
"""The label of keys without a name."""

COUNTERS = {
    "paymock_requests_total": (("route", "method", "status"), "Requests that were answered."),
    "paymock_requests_by_key_total": (("key", "status"), "Requests with a valid API key, by its name."),
    "paymock_payments_created_total": (("scenario",), "Payments that were created."),
    "paymock_replays_total": ((), "Requests answered with the reply to an earlier request."),
    "paymock_conflicts_total": ((), "Idempotency keys reused with a different payload."),
    "paymock_store_errors_total": ((), "Requests refused because the store did not answer."),
}
"""The label names and the help text of each counter."""

DURATION = (
    "paymock_request_duration_seconds",
    "Seconds from the request head to the end of the reply.",
    ("route", "method"),
)
"""The name, the help text and the label names of the histogram."""


class RequestMetrics:
    """Records each request once, when it has been answered. `routes` are those of the server; payments are
    counted by the names of `scenarios`, and those of all others as COURSE.
    """

    def __init__(self, routes: Routes[Any], scenarios: Iterable[str]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # they would double the series
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._routes = routes
        requests, by_key, payments, self._replays, conflicts, store_errors = (
            Counter(name, text, labels, registry=self._registry) for name, (labels, text) in COUNTERS.items()
        )
        duration = Histogram(*DURATION, buckets=BUCKETS, registry=self._registry)
        self._payments = {name: payments.labels(name) for name in (*scenarios, COURSE)}
        self._errors = {CONFLICT: conflicts, "store_unavailable": store_errors}
        # Looking up a series costs four times as much as counting in it.
        self._count = lru_cache(4096)(requests.labels)
        self._count_by_key = lru_cache(4096)(by_key.labels)
        self._duration = lru_cache(1024)(duration.labels)

    def record(self, exchange: Exchange) -> None:
        template = exchange.template
        if not template:  # it was refused before it was routed
            match = self._routes.find(exchange.path)
            template = "unknown" if match is None else match.template
        method = exchange.method if exchange.method in METHODS else "other"
        response, carried_out = exchange.response, exchange.carried_out
        status = "dropped" if response.dropped else str(response.status)
        self._count(template, method, status).inc()
        if exchange.key_name is not None:
            self._count_by_key(exchange.key_name or OTHER_KEYS, status).inc()
        self._duration(template, method).observe(exchange.seconds)
        if carried_out.error in self._errors:
            self._errors[carried_out.error].inc()
        elif exchange.is_replayed:
            self._replays.inc()
        elif isinstance(carried_out, OperationResponse) and carried_out.scenario:
            self._payments.get(carried_out.scenario, self._payments[COURSE]).inc()

    async def page(self, _: Request) -> Response:
        return Response(200, generate_latest(self._registry), _CONTENT_TYPE)
