"""The separate listener for metrics, if an address for it is configured."""

import socket
from collections.abc import Iterable

from paymock.rules.scenarios import SCENARIOS
from paymock.server.errors import StartError
from paymock.server.server import MetricsListener
from paymock.server.sockets import bind_sockets, server_url
from paymock.settings import Settings
from paymock.web.application import Application
from paymock.web.telemetry.access_log import RequestLog
from paymock.web.telemetry.metrics import RequestMetrics, SharedCounters


class MetricsEndpoint:
    """The address that serves metrics, and the counters of all workers. Without `metrics_address` in the
    settings nothing is counted or served. Raises StartError if prometheus-client is not installed.
    """

    def __init__(self, settings: Settings, log: RequestLog, scenarios: Iterable[str] = SCENARIOS) -> None:
        self._address = settings.metrics_listener
        self._log = log
        self._per_key = not settings.open_mode
        self.sockets: list[socket.socket] = []
        self.url: str | None = None
        if self._address is not None:
            try:
                import paymock.web.metrics_page  # noqa: F401 - fails here if the extra is not installed
            except ImportError:
                message = "--metrics-address requires the extra: pip install 'paymock[metrics]'"
                raise StartError(message) from None
            self._counters = SharedCounters(settings.workers, scenarios)

    def open(self) -> None:
        """Bind the address. Raises StartError."""
        if self._address is not None:
            from paymock.web.metrics_page import PATH

            self.sockets = bind_sockets(self._address, free_port_option="--metrics-address HOST:0")
            self.url = server_url(self._address, self.sockets) + PATH

    def create_listener(self, app: Application, worker: int = 0) -> MetricsListener | None:
        """Count the requests of `app` as those of one `worker`, and return the listener that serves the
        metrics of all workers; None if no address is configured.
        """
        if self._address is None:
            return None
        from paymock.web.metrics_page import create_metrics_app

        app.metrics = RequestMetrics(self._counters, worker, app.routes, per_key=self._per_key)
        page = create_metrics_app(app, app.metrics.counters, self._address, self._log)
        return MetricsListener(page, self.sockets)
