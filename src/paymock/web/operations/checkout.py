"""The data of the checkout, which needs no API key."""

import msgspec

from paymock.app.checkout import CheckoutService
from paymock.http.requests import Request
from paymock.http.responses import Response, event_stream
from paymock.http.routing import CHECKOUT
from paymock.payments.checkout import Checkout
from paymock.web.operations.operations import PAYMENT_ID, Operation

_encode = msgspec.json.Encoder().encode


async def data(checkouts: CheckoutService, request: Request) -> Response:
    return Response(200, _encode((await checkouts.show(request.params["payment_id"])).checkout))


async def events(checkouts: CheckoutService, request: Request) -> Response:
    return await event_stream(checkouts.follow(request.params["payment_id"]))


PATH = CHECKOUT + "{payment_id}"
OPERATIONS = (
    Operation(
        method="GET",
        path=f"{PATH}.json",
        handler=data,
        operation_id="getCheckout",
        tag="Checkout",
        summary="Read what the customer sees",
        description=f"""For those who build a checkout of their own. It needs no API key: whoever has the
id of a payment, which cannot be guessed, may see this much of it, and pages of any web origin may.

`{PATH}/events` pushes the same as server-sent events: now, and whenever it changes. `{PATH}` is a page.""",
        reply=Checkout,
        errors=("store_unavailable",),
        parameters=PAYMENT_ID,
    ),
)
