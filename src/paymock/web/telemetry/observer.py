"""What is counted of a request: its route, never its path, and nothing that a client can make up."""

from collections.abc import Iterable

from paymock.web.http.requests import Request
from paymock.web.http.responses import Response
from paymock.web.http.routing import Routes
from paymock.web.telemetry.counters import (
    CONFLICTS,
    DROPPED,
    PAYMENTS,
    REPLAYS,
    STORE_ERRORS,
    Counting,
    Figures,
)

MALFORMED, UNKNOWN = "malformed", "unknown"
"""In place of a route: of what is not HTTP, and of a path that leads nowhere."""

_ERRORS = {
    "idempotency_key_reused_with_different_payload": CONFLICTS,
    "store_unavailable": STORE_ERRORS,
}
_CREATION = "/v1/payments"


class Observer:
    """Is told of every request, once, when it has been answered. It counts for worker `number`, by the
    `templates` of paths.
    """

    def __init__(self, figures: Figures, number: int, templates: Iterable[str]) -> None:
        names = [MALFORMED, UNKNOWN, *templates]
        self.counting = Counting(figures, number, names)
        self._routes: Routes[int] = Routes()
        for index, name in enumerate(names):
            self._routes.add("", name, index)
        self._creation = names.index(_CREATION)

    def request(self, request: Request, response: Response, seconds: float, *, dropped: bool) -> None:
        """Counts a request that was answered in so many seconds, or whose reply was dropped."""
        match = self._routes.find(request.path)
        route = 1 if match is None else match.targets[""]
        self.counting.request(route, request.method, DROPPED if dropped else response.status, seconds)
        if response.error in _ERRORS:
            self.counting.count(_ERRORS[response.error])
        elif response.replayed:
            self.counting.count(REPLAYS)
        elif route == self._creation and response.status == 201 and request.scenario:
            self.counting.count(PAYMENTS, request.scenario)

    def malformed(self, response: Response) -> None:
        """Counts what was refused before it was a request."""
        self.counting.request(0, "", response.status, 0.0)
