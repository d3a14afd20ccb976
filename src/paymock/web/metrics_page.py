"""The metrics page in the format of Prometheus, at an address of its own. This module needs the extra
`metrics`.
"""

from functools import partial
from itertools import accumulate

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from paymock.http.hosts import AllowedHosts
from paymock.http.requests import Request
from paymock.http.responses import Response
from paymock.http.routing import Route, Routes
from paymock.settings import Settings
from paymock.web.application import Application
from paymock.web.telemetry.access_log import RequestLog
from paymock.web.telemetry.metrics import BUCKETS, DURATION, METRICS, REQUESTS, WorkerCounters

PATH = "/metrics"
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS = [*map(str, BUCKETS), "+Inf"]


def create_metrics_app(
    app: Application, counters: WorkerCounters, address: Settings, log: RequestLog
) -> Application:
    """Return the application that serves the metrics of `app`, summed over all workers, at `address`."""
    routes: Routes[Route] = Routes()
    routes.add("GET", PATH, Route(partial(_page, _CounterCollector(counters))))
    return app.for_address(routes, AllowedHosts(address), log)


async def _page(collector: Collector, request: Request) -> Response:
    return Response(200, generate_latest(collector), _CONTENT_TYPE)


class _CounterCollector(Collector):
    """Collects the counters in the types of prometheus-client."""

    def __init__(self, counters: WorkerCounters) -> None:
        self._counters = counters

    def collect(self) -> list[Metric]:
        """Return all metrics."""
        families = {
            metric: CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
            for metric in METRICS
            if metric.kind == "counter"
        }
        for metric, labels, value in self._counters.counters():
            families[metric].add_metric(labels, value)
        durations: dict[tuple[str, str], tuple[list[int], float]] = {}
        for series in self._counters.series():
            families[REQUESTS].add_metric((series.route, series.method, series.status), sum(series.buckets))
            key = series.route, series.method
            buckets, seconds = durations.get(key, ([0] * len(series.buckets), 0.0))
            sums = [sum(pair) for pair in zip(buckets, series.buckets, strict=True)]
            durations[key] = sums, seconds + series.seconds
        histogram = HistogramMetricFamily(DURATION.name, DURATION.help, labels=DURATION.labels)
        for key, (buckets, seconds) in durations.items():
            histogram.add_metric(key, list(zip(_BOUNDS, accumulate(buckets), strict=True)), seconds)
        return [*families.values(), histogram]
