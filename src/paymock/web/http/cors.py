"""What a path answers to, for whoever asks before the request: `OPTIONS`, and the preflight of a browser."""

from typing import Any

from paymock.web.http.responses import Response
from paymock.web.http.routing import Match

_PREFLIGHT = (
    (
        "Access-Control-Allow-Headers",
        "Authorization, Content-Type, Idempotency-Key, X-Mock-Scenario, X-Mock-Fault",
    ),
    ("Access-Control-Max-Age", "600"),
)


def allowed(match: Match[Any]) -> str:
    """The methods that a path answers to, as the header `Allow` lists them."""
    methods = list(match.targets)
    return ", ".join([*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"])


def options(match: Match[Any], *, any_origin: bool) -> Response:
    """The reply to `OPTIONS`; `any_origin` lets pages of any web origin send what they ask about."""
    methods = allowed(match)
    asked = (("Access-Control-Allow-Methods", methods), *_PREFLIGHT) if any_origin else ()
    return Response(204, content_type=None, headers=(("Allow", methods), *asked))
