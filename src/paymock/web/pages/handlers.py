"""The pages: the dashboard, whose scripts request all data from `/v1` and `/_mock` with an API key; the
checkout for customers, who have none; and static files. See docs/pages.md.

The pages name their scripts and styles by an address that changes with them; Swagger UI, which is no
template, by one that does not.
"""

import asyncio
import json
import math
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from paymock import __version__
from paymock.app.checkout import CheckoutService
from paymock.http.requests import Request
from paymock.http.responses import TEXT, Response, compressible, error_response
from paymock.payments.files import Catalog
from paymock.rules.errors import ERRORS, PaymockError
from paymock.rules.faults import FAULT_PRESETS, FAULT_ROWS
from paymock.rules.scenarios import (
    DEFAULT_SCENARIO,
    PAYMENT_WINDOW,
    SCENARIOS,
    TERMINAL_STATUSES,
    PaymentStatus,
    Scenario,
)
from paymock.rules.timeline import example_states, summarize
from paymock.schemas.public import OPERATION_IDS
from paymock.settings import OPEN_KEY_EXAMPLE
from paymock.web.documents import base_url, example_payment
from paymock.web.pages.templating import HTML, render, security_headers, static_path

PAGES = {
    "/": "payments.html",
    "/payments/{payment_id}": "payment.html",
    "/requests": "requests.html",
    "/faults": "faults.html",
}
"""The templates of the pages by path."""

_REFRESH_SECONDS = 10
"""The longest time until a page without JavaScript reloads."""

LLMS = "/llms.txt"
SWAGGER = "/swagger/"
SWAGGER_CONTROL = "/swagger/control/"

LINKS = {
    "/": "Dashboard",
    SWAGGER: "API: /v1",
    SWAGGER_CONTROL: "Control API: /_mock",
    "/openapi.yaml": "OpenAPI document of the service",
    LLMS: "For coding agents",
}
"""The pages to go on with, as far as a server has them, and their titles."""

_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": HTML,
    "js": "text/javascript; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
}
_FOLDER = Path(__file__).with_name("static")
_REVALIDATED = ("Cache-Control", "no-cache")
_KEPT = ("Cache-Control", "max-age=31536000, immutable")
_NAVIGATION = "\n".join(f'<a href="{path}">{title}</a>' for path, title in LINKS.items() if path[-1] == "/")
_DOCUMENTS = f'<nav class="documents" aria-label="Pages">{_NAVIGATION}</nav>'.encode()
_OPEN_KEY = f'<data id="open-key" value="{OPEN_KEY_EXAMPLE}"></data>'.encode()
_REQUIRED = ("order_id", "receive", "settlement", "pay_with")
_SWAGGER_FILES = ("paymock.js", "paymock.css", "swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png")


async def dashboard_page(
    request: Request,
    *,
    template: str,
    catalog: Catalog,
    scenarios: Mapping[str, Scenario],
    open_mode: bool,
    in_memory: bool,
) -> Response:
    """One page of the dashboard, which is the same for all users. Raises PaymockError `not_found` for that of
    a payment without `text/html` in `Accept`: a program takes its path for one of the API.
    """
    if request.params and b"text/html" not in request.headers.get(b"accept", b""):
        kind, path = ERRORS["not_found"], "/v1/payments/{payment_id}"
        raise PaymockError("not_found", f"{kind.meaning} Did you mean `{path}`? {kind.remedy}")
    payment = example_payment(catalog)
    html = render(
        template,
        request.root_path,
        scenarios=[*map(summarize, scenarios.values())],
        presets=FAULT_PRESETS,
        operations=OPERATION_IDS,
        statuses=sorted({200, 201, *(kind.status for kind in ERRORS.values())}),
        chains=catalog.chains.values(),
        assets={chain: catalog.assets(chain) for chain in catalog.chains},
        preselected=(payment["receive"]["chain"], payment["receive"]["asset"]),
        example=json.dumps(payment),
        open_key=OPEN_KEY_EXAMPLE if open_mode else None,
        in_memory=in_memory,
    )
    # `service-doc` would be for people, and `service-desc` is the OpenAPI document: RFC 8631.
    link = f'<{request.root_path}{LLMS}>; rel="describedby"; type="text/plain"'
    return Response(200, html, HTML, (*security_headers(), ("Link", link)))


async def llms_txt(
    request: Request, *, catalog: Catalog, scenarios: Mapping[str, Scenario], control: bool, open_mode: bool
) -> Response:
    """`/llms.txt`, for the base URL that the client used. Without the `control` API, it says nothing of it.
    Browsers show plain text, and download Markdown.
    """
    payment, states = example_payment(catalog), example_states(SCENARIOS[DEFAULT_SCENARIO])
    statuses = {state.status: state.at // 1000 for state in reversed(states)}
    text = render(
        "llms.txt",
        "",
        server=base_url(request),
        version=__version__,
        control=control,
        open_mode=open_mode,
        default_scenario=DEFAULT_SCENARIO,
        scenarios=map(summarize, scenarios.values()),
        example=json.dumps({name: payment[name] for name in _REQUIRED}),
        terminal=[status for status in PaymentStatus if status in TERMINAL_STATUSES],
        happy_path=reversed(statuses.items()),
        operations=OPERATION_IDS,
        faults=FAULT_ROWS,
    )
    return Response(200, text, TEXT, (_REVALIDATED,))


async def unknown_page(request: Request, *, paths: Collection[str]) -> Response:
    """Answer a browser where there is no page, with links to those of LINKS that are among `paths`."""
    links = {path: text for path, text in LINKS.items() if path in paths}
    html = render("unknown.html", request.root_path, links=links, path=request.path)
    response = error_response(PaymockError("not_found"), request.id)
    return replace(response, body=html, content_type=HTML, headers=security_headers())


async def checkout_page(
    checkouts: CheckoutService, request: Request, *, frame_ancestors: str, in_memory: bool
) -> Response:
    """`in_memory`: the payments are gone after a restart."""
    headers = security_headers(frame_ancestors)
    try:
        view = await checkouts.show(request.params["payment_id"])
    except PaymockError as error:
        response = error_response(error, request.id)
        values = {"message": error.message, "refresh": _REFRESH_SECONDS, "in_memory": in_memory}
        html = render("message.html", request.root_path, status=error.status, **values)
        return replace(response, body=html, content_type=HTML, headers=(*response.headers, *headers))
    seconds = _REFRESH_SECONDS if view.seconds is None else min(_REFRESH_SECONDS, math.ceil(view.seconds))
    html = render(
        "checkout.html",
        request.root_path,
        checkout=view.checkout,
        lies_ahead=view.lies_ahead,
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


class StaticFile(Struct, frozen=True):
    """A file below the folder `static`, and its headers. In HTML, `documents` replaces its placeholder."""

    path: str
    headers: tuple[tuple[str, str], ...] = (_REVALIDATED,)
    documents: bytes = b""

    async def __call__(self, request: Request) -> Response:
        body = _FOLDER.joinpath(*self.path.split("/")).read_bytes()
        extension = self.path.rpartition(".")[2]
        if extension == "html":
            body = body.replace(b"<!-- documents -->", self.documents)
            body = body.replace(b'="/', b'="%b/' % request.root_path.encode())
        # in a thread: to compress Swagger UI takes a tenth of a second, once
        return await asyncio.to_thread(compressible, request, body, _TYPES[extension], self.headers)


def static_files(*, with_control: bool, open_mode: bool) -> Mapping[str, StaticFile]:
    """Return every static file by its URL path. `with_control`: Swagger UI also shows the control API."""
    documents = _DOCUMENTS * with_control + _OPEN_KEY * open_mode
    names = sorted(file.name for file in _FOLDER.joinpath("pages").iterdir())
    swagger_headers = (security_headers(images="'self' data:")[0], _REVALIDATED)
    index = StaticFile("swagger/index.html", swagger_headers, documents)
    return {
        **{f"/assets/{name}": StaticFile(f"pages/{name}") for name in names},
        **{f"{static_path()}/{name}": StaticFile(f"pages/{name}", (_KEPT,)) for name in names},
        **{SWAGGER + name: StaticFile(f"swagger/{name}", swagger_headers) for name in _SWAGGER_FILES},
        SWAGGER: index,
        **({SWAGGER_CONTROL: index} if with_control else {}),
    }


async def redirect_to_swagger(request: Request) -> Response:
    return Response(308, content_type=None, headers=(("Location", request.root_path + SWAGGER),))
