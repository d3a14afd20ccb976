"""Where figures are counted, and the address at which they are told; none of it unless it is asked for."""

import socket

from paymock.metrics import Figures
from paymock.serving import Beside, uvicorn_config
from paymock.settings import Settings
from paymock.sockets import bind, url_of
from paymock.starting import StartError
from paymock.web.asgi import App
from paymock.web.log import RequestLog
from paymock.web.observer import Observer


class Telling:
    """What a server needs to tell figures: the memory in which its workers count, and an address. Without a
    metrics address, there is nothing to tell. Raises StartError when the extra is missing.
    """

    def __init__(self, settings: Settings, log: RequestLog) -> None:
        self._address = settings.for_metrics
        self._log = log
        self.sockets: list[socket.socket] = []
        self.url: str | None = None
        if self._address is not None:
            try:
                import paymock.web.metrics_page  # noqa: F401 - to know now whether it can be
            except ImportError:
                message = "--metrics-address needs the extra: pip install 'paymock[metrics]'"
                raise StartError(message) from None
            self._figures = Figures(settings.workers)

    def open(self) -> None:
        """Binds the address. Raises StartError."""
        if self._address is not None:
            from paymock.web.metrics_page import PATH

            self.sockets = bind(self._address, free="--metrics-address HOST:0")
            self.url = url_of(self._address, self.sockets) + PATH

    def of(self, app: App, worker: int = 0) -> Beside | None:
        """Counts what `app` answers as one `worker`, and returns what tells the figures of all of them."""
        if self._address is None:
            return None
        from paymock.web.metrics_page import create_metrics_app

        app.observer = Observer(self._figures, worker, app.routes.templates)
        page = create_metrics_app(app, app.observer.counting, self._address, self._log)
        return Beside(uvicorn_config(page), self.sockets)
