"""The address at which a server's figures are served, and the memory that they are counted in; neither exists
unless it is asked for.
"""

import socket

from paymock.server.announce import StartError
from paymock.server.sockets import bind, url_of
from paymock.server.uvicorn_server import MetricsListener, uvicorn_config
from paymock.settings import Settings
from paymock.web.application import Application
from paymock.web.telemetry.access_log import RequestLog
from paymock.web.telemetry.metrics import RequestMetrics, SharedCounters


class MetricsAddress:
    """The `metrics_address` of a server, and what its workers count. Without such an address nothing is
    counted. Raises StartError when the extra is missing.
    """

    def __init__(self, settings: Settings, log: RequestLog) -> None:
        self._address = settings.metrics_listener
        self._log = log
        self.sockets: list[socket.socket] = []
        self.url: str | None = None
        if self._address is not None:
            try:
                import paymock.web.metrics_page  # noqa: F401 - to find out now whether the extra is there
            except ImportError:
                message = "--metrics-address needs the extra: pip install 'paymock[metrics]'"
                raise StartError(message) from None
            self._figures = SharedCounters(settings.workers)

    def open(self) -> None:
        """Binds the address. Raises StartError."""
        if self._address is not None:
            from paymock.web.metrics_page import PATH

            self.sockets = bind(self._address, free="--metrics-address HOST:0")
            self.url = url_of(self._address, self.sockets) + PATH

    def beside(self, app: Application, worker: int = 0) -> MetricsListener | None:
        """Counts what `app` answers as one `worker`, and returns what serves the figures of all of them."""
        if self._address is None:
            return None
        from paymock.web.metrics_page import create_metrics_app

        app.metrics = RequestMetrics(self._figures, worker, app.routes.templates)
        page = create_metrics_app(app, app.metrics.counters, self._address, self._log)
        return MetricsListener(uvicorn_config(page), self.sockets)
