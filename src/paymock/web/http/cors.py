"""Cross-origin resource sharing (CORS), and the reply to `OPTIONS`."""

from typing import Any

from paymock.web.http.responses import Header, Response
from paymock.web.http.routing import CHECKOUT, PUBLIC, Match

_ANY_ORIGIN = (PUBLIC, CHECKOUT)
_HEADERS: tuple[Header, ...] = (
    (b"access-control-allow-origin", b"*"),
    (
        b"access-control-expose-headers",
        b"Idempotent-Replayed, Retry-After, X-Request-Id, Location, Link, X-Mock-Warning",
    ),
)
_PREFLIGHT = (
    (
        "Access-Control-Allow-Headers",
        "Authorization, Content-Type, Idempotency-Key, X-Mock-Scenario, X-Mock-Fault",
    ),
    ("Access-Control-Max-Age", "600"),
)


def cors_headers(path: str) -> tuple[Header, ...]:
    """Return the CORS headers of the reply to a request for `path`."""
    return _HEADERS if path.startswith(_ANY_ORIGIN) else ()


def allowed_methods(match: Match[Any]) -> str:
    """Return the methods of a path, as the header `Allow` lists them."""
    methods = list(match.targets)
    return ", ".join([*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"])


def options_response(match: Match[Any], path: str) -> Response:
    """Return the reply to `OPTIONS`, which also answers the preflight requests of browsers."""
    methods = allowed_methods(match)
    preflight: tuple[tuple[str, str], ...] = ()
    if path.startswith(_ANY_ORIGIN):
        preflight = (("Access-Control-Allow-Methods", methods), *_PREFLIGHT)
    return Response(204, content_type=None, headers=(("Allow", methods), *preflight))
