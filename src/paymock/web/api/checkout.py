"""The checkout: a page for a customer, and its data for those who build their own. Neither needs a key."""

import math
from functools import lru_cache
from typing import Any

import msgspec

from paymock.app.checkout_service import CheckoutService
from paymock.resources.checkout import Checkout
from paymock.rules.errors import PaymockError
from paymock.web.api.operations import PAYMENT_ID, Operation
from paymock.web.http.error_responses import error_response
from paymock.web.http.requests import Request
from paymock.web.http.responses import Response
from paymock.web.http.routing import CHECKOUT
from paymock.web.http.sse import event_stream
from paymock.web.http.templates import HTML, policy, rendered

_REFRESH_SECONDS = 10
"""How often a page without JavaScript asks again while nothing is about to change."""

_encode = msgspec.json.Encoder().encode


async def page(checkouts: CheckoutService, request: Request, *, frame_ancestors: str) -> Response:
    headers = policy(frame_ancestors)
    try:
        shown = await checkouts.show(request.params["payment_id"])
    except PaymockError as error:
        refused = error_response(error)
        html = rendered("message.html", status=error.status, message=error.message)
        return msgspec.structs.replace(
            refused, body=html, content_type=HTML, headers=(*refused.headers, *headers)
        )
    seconds = _REFRESH_SECONDS if shown.seconds is None else min(_REFRESH_SECONDS, math.ceil(shown.seconds))
    html = rendered(
        "checkout.html",
        checkout=shown.checkout,
        qr=qr_code(shown.checkout.payment_uri),
        refresh=None if shown.checkout.final else max(1, seconds),
    )
    return Response(200, html, HTML, headers)


async def data(checkouts: CheckoutService, request: Request) -> Response:
    return Response(200, _encode((await checkouts.show(request.params["payment_id"])).checkout))


async def events(checkouts: CheckoutService, request: Request) -> Response:
    return await event_stream(checkouts.follow(request.params["payment_id"]))


@lru_cache(maxsize=256)
def qr_code(text: str) -> Any:
    """`text` as the inline SVG of a QR code, which a template takes as it is."""
    import segno  # slow to import, and a server without checkouts needs none
    from markupsafe import Markup

    svg = segno.make(text, error="m").svg_inline(
        svgclass="qr", lineclass=None, border=4, omitsize=True, dark="#000", light="#fff"
    )
    return Markup(svg)  # noqa: S704 - it is made of our own address


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
        errors=("payment_not_found", "store_unavailable"),
        parameters=PAYMENT_ID,
    ),
)
