"""The checkout, which needs no API key: a page for customers, and its data for other pages."""

import math
from functools import lru_cache
from typing import Any

import msgspec

from paymock.app.checkout import CheckoutService
from paymock.http.error_responses import error_response
from paymock.http.requests import Request
from paymock.http.responses import Response
from paymock.http.routing import CHECKOUT
from paymock.http.sse import event_stream
from paymock.payments.checkout import Checkout
from paymock.rules.errors import PaymockError
from paymock.rules.scenarios import PAYMENT_WINDOW
from paymock.web.operations.operations import PAYMENT_ID, Operation
from paymock.web.pages.templating import HTML, render, security_headers

_REFRESH_SECONDS = 10
"""The longest time until a page without JavaScript reloads."""

_encode = msgspec.json.Encoder().encode


async def page(checkouts: CheckoutService, request: Request, *, frame_ancestors: str) -> Response:
    headers = security_headers(frame_ancestors)
    try:
        view = await checkouts.show(request.params["payment_id"])
    except PaymockError as error:
        response = error_response(error)
        html = render("message.html", status=error.status, message=error.message, refresh=_REFRESH_SECONDS)
        return msgspec.structs.replace(
            response, body=html, content_type=HTML, headers=(*response.headers, *headers)
        )
    seconds = _REFRESH_SECONDS if view.seconds is None else min(_REFRESH_SECONDS, math.ceil(view.seconds))
    html = render(
        "checkout.html",
        checkout=view.checkout,
        window=PAYMENT_WINDOW // 1000,
        qr=qr_code(view.checkout.payment_uri),
        refresh=None if view.checkout.final else max(1, seconds),
    )
    return Response(200, html, HTML, headers)


async def data(checkouts: CheckoutService, request: Request) -> Response:
    return Response(200, _encode((await checkouts.show(request.params["payment_id"])).checkout))


async def events(checkouts: CheckoutService, request: Request) -> Response:
    return await event_stream(checkouts.follow(request.params["payment_id"]))


@lru_cache(maxsize=256)
def qr_code(text: str) -> Any:
    """Return a QR code of `text` as inline SVG, which templates do not escape."""
    import segno  # slow to import, and needed only for checkouts
    from markupsafe import Markup

    svg = segno.make(text, error="m").svg_inline(
        svgclass="qr", lineclass=None, border=4, omitsize=True, dark="#000", light="#fff"
    )
    return Markup(svg)  # noqa: S704 - SVG by segno, not by a client


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
