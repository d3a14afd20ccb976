"""The dashboard: pages without data. Their scripts request it from `/v1` and `/_mock` with an API key."""

import json

from paymock.http.requests import Request
from paymock.http.responses import Response
from paymock.payments.checkout import VIEWS
from paymock.rules.faults import FAULT_ROWS
from paymock.rules.tables import scenario_rows
from paymock.schemas.public import OPERATION_IDS
from paymock.settings import OPEN_KEY_EXAMPLE
from paymock.web.openapi.examples import ExampleContext
from paymock.web.pages.templating import HTML, render, security_headers

PAGES = {
    "/": "payments.html",
    "/payments/{payment_id}": "payment.html",
    "/requests": "requests.html",
    "/findings": "findings.html",
    "/findings/{finding_id}": "finding.html",
}
"""The templates of the pages by path."""


class DashboardPage:
    """The handler of one page of the dashboard."""

    def __init__(self, template: str, context: ExampleContext, *, open_mode: bool) -> None:
        self._template = template
        self._context = context
        self._open_mode = open_mode

    async def __call__(self, request: Request) -> Response:
        """Answer with the page, which is the same for all users."""
        catalog, receive = self._context.catalog, self._context.payment["receive"]
        html = render(
            self._template,
            scenarios=scenario_rows(self._context.scenarios.values()),
            views=VIEWS,
            faults=FAULT_ROWS,
            operations=OPERATION_IDS,
            chains=catalog.chains.values(),
            assets={chain: catalog.assets(chain) for chain in catalog.chains},
            preselected=(receive["chain"], receive["asset"]),
            example=json.dumps(self._context.payment),
            open_key=OPEN_KEY_EXAMPLE if self._open_mode else None,
        )
        return Response(200, html, HTML, security_headers())
