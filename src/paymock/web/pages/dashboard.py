"""The dashboard: pages without data. Their scripts ask `/v1` and `/_mock` with a key that is typed in."""

import json

from paymock.resources.checkout import VIEWS
from paymock.rules.scenarios import SCENARIOS
from paymock.settings import OPEN_KEY_EXAMPLE
from paymock.web.http.requests import Request
from paymock.web.http.responses import Response
from paymock.web.http.templates import HTML, render, security_headers
from paymock.web.openapi.examples import ExampleContext

PAGES = {"/": "payments.html", "/payments/{payment_id}": "payment.html", "/requests": "requests.html"}
"""The template of each page, by its path."""


class DashboardPage:
    """Answers with one page of the dashboard."""

    def __init__(self, template: str, premises: ExampleContext, *, open_mode: bool) -> None:
        self._template = template
        self._premises = premises
        self._open_mode = open_mode

    async def __call__(self, request: Request) -> Response:
        """The page, the same for everybody."""
        catalog, usual = self._premises.catalog, self._premises.payment["receive"]
        html = render(
            self._template,
            scenarios=SCENARIOS.values(),
            views=VIEWS,
            chains=catalog.chains.values(),
            assets={chain: catalog.assets(chain) for chain in catalog.chains},
            usual=(usual["chain"], usual["asset"]),
            example=json.dumps(self._premises.payment),
            open_key=OPEN_KEY_EXAMPLE if self._open_mode else None,
        )
        return Response(200, html, HTML, security_headers())
