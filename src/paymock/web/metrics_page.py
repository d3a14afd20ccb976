"""The figures, as Prometheus reads them, at an address of their own. The module needs the extra `metrics`."""

from functools import partial
from itertools import accumulate

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from paymock.settings import Settings
from paymock.web.application import Application
from paymock.web.http.hosts import AllowedHosts
from paymock.web.http.requests import Request
from paymock.web.http.responses import Response
from paymock.web.http.routing import Route, Routes
from paymock.web.telemetry.access_log import RequestLog
from paymock.web.telemetry.metrics import BUCKETS, DURATION, METRICS, REQUESTS, WorkerCounters

PATH = "/metrics"
_FORM = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS = [*map(str, BUCKETS), "+Inf"]


def create_metrics_app(
    app: Application, counting: WorkerCounters, address: Settings, log: RequestLog
) -> Application:
    """The application that shows at `address` what is counted of `app`, in this worker and all others."""
    routes: Routes[Route] = Routes()
    routes.add("GET", PATH, Route(partial(_page, _Figures(counting))))
    return app.for_address(routes, AllowedHosts(address), log)


async def _page(figures: "_Figures", request: Request) -> Response:
    return Response(200, generate_latest(figures), _FORM)


class _Figures(Collector):
    """The figures, as prometheus-client asks for them."""

    def __init__(self, counting: WorkerCounters) -> None:
        self._counting = counting

    def collect(self) -> list[Metric]:
        """All metrics as they stand."""
        counters = {
            metric: CounterMetricFamily(metric.name, metric.meaning, labels=metric.labels)
            for metric in METRICS
            if metric.kind == "counter"
        }
        for metric, labels, value in self._counting.singles():
            counters[metric].add_metric(labels, value)
        times: dict[tuple[str, str], tuple[list[int], float]] = {}
        for one in self._counting.series():
            counters[REQUESTS].add_metric((one.route, one.method, one.status), sum(one.buckets))
            buckets, seconds = times.get((one.route, one.method), ([0] * len(one.buckets), 0.0))
            together = [sum(both) for both in zip(buckets, one.buckets, strict=True)]
            times[one.route, one.method] = together, seconds + one.seconds
        histogram = HistogramMetricFamily(DURATION.name, DURATION.meaning, labels=DURATION.labels)
        for key, (buckets, seconds) in times.items():
            histogram.add_metric(key, list(zip(_BOUNDS, accumulate(buckets), strict=True)), seconds)
        return [*counters.values(), histogram]
