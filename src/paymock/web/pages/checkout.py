"""The checkout: a page for customers, who have no API key. See docs/pages.md."""

import math
from functools import lru_cache
from typing import Any

import msgspec

from paymock.app.checkout import CheckoutService
from paymock.http.requests import Request
from paymock.http.responses import Response, error_response
from paymock.rules.errors import PaymockError
from paymock.rules.scenarios import PAYMENT_WINDOW
from paymock.web.pages.templating import HTML, render, security_headers

_REFRESH_SECONDS = 10
"""The longest time until a page without JavaScript reloads."""


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


@lru_cache(maxsize=256)
def qr_code(text: str) -> Any:
    """Return a QR code of `text` as inline SVG, which templates do not escape."""
    import segno  # slow to import, and needed only for checkouts
    from markupsafe import Markup

    svg = segno.make(text, error="m").svg_inline(
        svgclass="qr", lineclass=None, border=4, omitsize=True, dark="#000", light="#fff"
    )
    return Markup(svg)  # noqa: S704 - SVG by segno, not by a client
