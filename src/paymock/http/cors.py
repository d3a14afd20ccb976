"""What pages of other origins may request."""

from typing import Any

from paymock.http.requests import Request
from paymock.http.responses import Response
from paymock.http.routing import CHECKOUT, METHODS, PUBLIC, Match

_ANY_ORIGIN = (PUBLIC.rstrip("/"), CHECKOUT, "/openapi.yaml", "/_mock/openapi.yaml")
"""What the paths begin with that pages of any origin may request: the service, mistyped paths included, and
the documents, but not the control API.
"""

_CORS_HEADERS = (
    b"access-control-allow-origin: *\r\n"
    b"access-control-expose-headers: Idempotent-Replayed, Retry-After, X-Request-Id, Location, Link, "
    b"X-Mock-Warning, WWW-Authenticate, Allow\r\n"
)

_PREFLIGHT = (
    (
        "Access-Control-Allow-Headers",
        "Authorization, Content-Type, Idempotency-Key, X-Mock-Scenario, X-Mock-Fault",
    ),
    ("Access-Control-Max-Age", "600"),
)


def cors_headers(path: str) -> bytes:
    return _CORS_HEADERS if path.startswith(_ANY_ORIGIN) else b""


def allowed_methods(match: Match[Any]) -> str:
    methods = list(match.targets)
    return ", ".join([*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"])


def options_response(match: Match[Any] | None, request: Request) -> Response | None:
    """Return the reply to `OPTIONS` for the path with this match; None for an unknown path.

    The preflight request of a browser is granted for any path and method that a page of any origin may
    request: the browser would hide the reply to a mistyped path, or to a wrong method, as a failure of CORS.
    Only the usual methods are granted, and none that a page has made up.
    """
    methods = allowed_methods(match) if match else ""
    headers = [("Allow", methods)] if match else []
    if request.path.startswith(_ANY_ORIGIN):
        requested = request.headers.get(b"access-control-request-method", b"").decode("latin-1")
        if requested in METHODS and requested not in methods.split(", "):
            methods = f"{methods}, {requested}".removeprefix(", ")
        elif match is None:
            return None  # not a preflight request
        headers += [("Access-Control-Allow-Methods", methods), *_PREFLIGHT]
    elif match is None and request.path != "*":  # which asks for the server: RFC 9110, 9.3.7
        return None
    return Response(204, content_type=None, headers=tuple(headers))
