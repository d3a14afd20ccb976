"""Swagger UI, from files of the package, for both OpenAPI documents. It needs no API key."""

from importlib.resources import files

from paymock.web.http.requests import Request
from paymock.web.http.responses import Response

SWAGGER_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_STATIC = {
    "/swagger/": ("index.html", "text/html; charset=utf-8"),
    "/swagger/paymock.js": ("paymock.js", "text/javascript; charset=utf-8"),
    "/swagger/paymock.css": ("paymock.css", "text/css; charset=utf-8"),
    "/swagger/swagger-ui.css": ("swagger-ui.css", "text/css; charset=utf-8"),
    "/swagger/swagger-ui-bundle.js": ("swagger-ui-bundle.js", "text/javascript; charset=utf-8"),
    "/swagger/favicon-32x32.png": ("favicon-32x32.png", "image/png"),
}
STATIC_PATHS = tuple(_STATIC)
CONTROL_PAGE = "/swagger/control/"
_DOCUMENTS = b"""<nav class="documents" aria-label="Documents">
      <a href="/swagger/">The service, /v1</a>
      <a href="/swagger/control/">The control API, /_mock</a>
    </nav>"""


async def redirect(request: Request) -> Response:
    return Response(308, content_type=None, headers=(("Location", "/swagger/"),))


async def static(request: Request, *, with_control: bool) -> Response:
    name, content_type = _STATIC["/swagger/" if request.path == CONTROL_PAGE else request.path]
    body = files("paymock.web.pages").joinpath("static", "swagger", name).read_bytes()
    if name == "index.html":
        body = body.replace(b"<!-- documents -->", _DOCUMENTS if with_control else b"")
    return Response(
        200, body, content_type, (("Content-Security-Policy", SWAGGER_POLICY), ("Cache-Control", "no-cache"))
    )
