"""Checks of request headers: media type, idempotency key, scenario. Specification: "Limits", "Scenarios"."""

import re
from collections.abc import Collection
from difflib import get_close_matches
from functools import lru_cache

from paymock.http.requests import Request
from paymock.rules.errors import PaymockError

MIN_KEY_LENGTH, MAX_KEY_LENGTH = 8, 128
IDEMPOTENCY_KEY = f"[!-~]{{{MIN_KEY_LENGTH},{MAX_KEY_LENGTH}}}"
"""The regular expression of idempotency keys: visible ASCII characters."""

CHECKED_HEADERS = frozenset((b"authorization", b"idempotency-key", b"x-mock-scenario", b"x-mock-fault"))
"""Headers of which handlers check every character: a control character in one gets its own error."""

_IDEMPOTENCY_KEY = re.compile(IDEMPOTENCY_KEY)
_JSON = b"application/json"
_JSON_TYPE = re.compile(r"application/json[ \t]*(;.*)?", re.IGNORECASE)
_PARAMETER = re.compile(r';[ \t]*([^=;" \t]+)=("(?:[^"\\]|\\.)*"|[^;]*)')


def check_json_body(request: Request) -> None:
    """Check that the headers announce a body of plain JSON in UTF-8.

    Raises PaymockError `unsupported_media_type` or `unsupported_content_encoding`.
    """
    headers = request.headers
    if headers.get(b"content-type") == _JSON and b"content-encoding" not in headers and not request.repeated:
        return  # as most clients have it
    if (_single(request, b"content-encoding") or "identity").lower() != "identity":
        raise PaymockError("unsupported_content_encoding")
    if not _is_json(_single(request, b"content-type") or ""):
        raise PaymockError("unsupported_media_type")


@lru_cache(maxsize=256)  # clients use few media types, but parsing costs time with each body
def _is_json(content_type: str) -> bool:
    """Whether a Content-Type is JSON in UTF-8."""
    match = _JSON_TYPE.fullmatch(content_type)
    parameters = _PARAMETER.findall((match and match[1]) or "")
    charsets = [value.strip(' \t"').lower() for name, value in parameters if name.lower() == "charset"]
    return match is not None and all(charset in ("utf-8", "utf8") for charset in charsets)


def _single(request: Request, name: bytes) -> str | None:
    """Return the value of a header, or one that is never valid if the header is repeated."""
    try:
        return request.header(name)
    except ValueError:
        return "repeated"


def prefers_html(request: Request) -> bool:
    """Whether `Accept` names HTML and not JSON, as browsers do."""
    accepted = request.headers.get(b"accept", b"")
    return b"text/html" in accepted and b"json" not in accepted


def idempotency_key(request: Request) -> str:
    """Return the request's Idempotency-Key. Raises PaymockError `idempotency_key_missing` or
    `idempotency_key_invalid`. Specification: "Limits".
    """
    try:
        key = request.header(b"idempotency-key")
    except ValueError:
        raise PaymockError("idempotency_key_invalid", "The Idempotency-Key header was sent twice.") from None
    if not key:
        raise PaymockError("idempotency_key_missing")
    if not _IDEMPOTENCY_KEY.fullmatch(key):
        raise PaymockError("idempotency_key_invalid")
    return key


def requested_scenario(request: Request, scenarios: Collection[str]) -> str | None:
    """Return the scenario of the X-Mock-Scenario header, one of `scenarios`, or None without one. Raises
    PaymockError `invalid_scenario`, whose message names the nearest value. Specification: "Scenarios".
    """
    try:
        name = request.header(b"x-mock-scenario")
    except ValueError:
        raise PaymockError("invalid_scenario", "The X-Mock-Scenario header was sent twice.") from None
    if name is not None and name not in scenarios:
        nearest = get_close_matches(name.lower()[:64], scenarios, n=1, cutoff=0.0)[0]
        raise PaymockError(
            "invalid_scenario",
            f"X-Mock-Scenario is not one of {', '.join(scenarios)}. The nearest is {nearest}.",
        )
    return name
