"""What is served without an API key: the OpenAPI document, Swagger UI from files of the package, and
health checks.
"""

from importlib.resources import files

import msgspec

from paymock.core import wire
from paymock.service import Service
from paymock.web.http import Request, Response
from paymock.web.operations import Operation

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


async def swagger_redirect(request: Request) -> Response:
    return Response(308, content_type=None, headers=(("Location", "/swagger/"),))


async def static(request: Request, *, with_control: bool) -> Response:
    name, content_type = _STATIC["/swagger/" if request.path == CONTROL_PAGE else request.path]
    body = files("paymock.web").joinpath("static", "swagger", name).read_bytes()
    if name == "index.html":
        body = body.replace(b"<!-- documents -->", _DOCUMENTS if with_control else b"")
    return Response(
        200, body, content_type, (("Content-Security-Policy", SWAGGER_POLICY), ("Cache-Control", "no-cache"))
    )


async def livez(service: Service, request: Request) -> Response:
    return _OK


async def readyz(service: Service, request: Request) -> Response:
    await service.ready()
    return _OK


_OK = Response(200, msgspec.json.encode(wire.Health(status="ok")))

OPERATIONS = (
    Operation(
        method="GET",
        path="/livez",
        handler=livez,
        operation_id="livez",
        tag="Health",
        summary="Is the process alive?",
        description="For a supervisor: answers as long as the process does.",
        reply=wire.Health,
    ),
    Operation(
        method="GET",
        path="/readyz",
        handler=readyz,
        operation_id="readyz",
        tag="Health",
        summary="Can requests be served?",
        description="For a load balancer: 503 while the store cannot be reached.",
        reply=wire.Health,
        errors=("store_unavailable",),
    ),
)
