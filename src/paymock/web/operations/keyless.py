"""Operations that need no API key: health checks, and the data of the checkout."""

import msgspec

from paymock import __version__
from paymock.app.checkout import CheckoutService
from paymock.app.payments import PaymentsService
from paymock.http.requests import Request
from paymock.http.responses import Response
from paymock.http.routing import CHECKOUT
from paymock.payments.checkout import Checkout
from paymock.schemas import public as schemas
from paymock.web.operations.operations import Operation

_OK = Response(200, msgspec.json.encode(schemas.Health(status="ok", version=__version__)))


async def livez(service: PaymentsService, request: Request) -> Response:
    return _OK


async def readyz(service: PaymentsService, request: Request) -> Response:
    await service.ready()
    return _OK


async def checkout_data(checkouts: CheckoutService, request: Request) -> Response:
    return Response(200, msgspec.json.encode((await checkouts.show(request.params["payment_id"])).checkout))


PAGE = CHECKOUT + "{payment_id}"
"""The path of the page of a checkout."""

HEALTH = (
    Operation(
        route="GET /livez",
        handler=livez,
        operation_id="livez",
        tag="Health",
        summary="Is the process alive?",
        description="For a supervisor: replies as long as the process runs.",
        reply=schemas.Health,
    ),
    Operation(
        route="GET /readyz",
        handler=readyz,
        operation_id="readyz",
        tag="Health",
        summary="Can requests be served?",
        description="For a load balancer: 503 while the store cannot be reached.",
        reply=schemas.Health,
        errors=("store_unavailable",),
    ),
)
CHECKOUTS = (
    Operation(
        route=f"GET {PAGE}.json",
        handler=checkout_data,
        operation_id="getCheckout",
        tag="Checkout",
        summary="Read what the customer sees",
        description=f"""For those who build a checkout of their own. It needs no API key: whoever has the
id of a payment, which cannot be guessed, may see this much of it, and pages of any web origin may.

`{PAGE}` is a page.""",
        reply=Checkout,
        errors=("store_unavailable",),
    ),
)
