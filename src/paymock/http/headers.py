"""The checks before the handlers: the host, against DNS rebinding; the API key; the origin (CORS); headers.
Specification: "Authentication", "Limits", "Scenarios".
"""

import re
from collections.abc import Collection
from functools import lru_cache

from paymock.http.requests import Request
from paymock.rules.errors import ERRORS, PaymockError
from paymock.rules.timeline import scenario_hint
from paymock.schemas.json import shown_name

MAX_CACHED_LENGTH = 256
"""The longest host or key that is cached: a client sends both with each request."""


def sent_once(request: Request, name: bytes, code: str) -> str | None:
    """Return the value of a header, or None. Raises PaymockError with this code if it is repeated."""
    if name in request.repeated:
        raise PaymockError(code, f"The {name.decode().title()} header was sent twice.")
    value = request.headers.get(name)
    return None if value is None else value.decode("latin-1")


_MAX_TOLD = 5
"""How many unknown headers a warning names."""


def mock_header_warning(request: Request, *, with_faults: bool) -> str | None:
    """Return what to say of the headers `X-Mock-…` that are ignored, such as mistyped ones."""
    if b"x-mock-" not in b" ".join(request.headers):  # as of most clients
        return None
    sent = [name for name in request.headers if name.startswith(b"x-mock-")]
    known = ("X-Mock-Scenario", "X-Mock-Fault")[: 1 + with_faults]
    unknown = sorted({name.decode().title() for name in sent}.difference(known))
    names = ", ".join(f"{name:.64}" for name in unknown[:_MAX_TOLD])
    is_no = "is no header" if len(unknown) == 1 else "are no headers"
    return f"{names} {is_no} of this mock; known: {', '.join(known)}" if unknown else None


MIN_KEY_LENGTH, MAX_KEY_LENGTH = 8, 128
IDEMPOTENCY_KEY = f"[!-~]{{{MIN_KEY_LENGTH},{MAX_KEY_LENGTH}}}"
"""The regular expression of idempotency keys: visible ASCII characters."""

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
    code = "unsupported_content_encoding"
    sent = sent_once(request, b"content-encoding", code) or ""
    if sent.lower() in ("", "identity"):
        code = "unsupported_media_type"
        sent = sent_once(request, b"content-type", code) or ""
        if _is_json(sent):
            return
    told = f"`{shown_name(sent)}` was sent" if sent else "None was sent"
    raise PaymockError(code, f"{ERRORS[code].meaning} {ERRORS[code].remedy} {told}.")


@lru_cache(maxsize=256)  # clients use few media types, but parsing costs time with each body
def _is_json(content_type: str) -> bool:
    """Whether a Content-Type is JSON in UTF-8."""
    match = _JSON_TYPE.fullmatch(content_type)
    parameters = _PARAMETER.findall((match and match[1]) or "")
    charsets = [value.strip(' \t"').lower() for name, value in parameters if name.lower() == "charset"]
    return match is not None and all(charset in ("utf-8", "utf8") for charset in charsets)


def prefers_html(request: Request) -> bool:
    """Whether `Accept` names HTML and not JSON, as browsers do."""
    accepted = request.headers.get(b"accept", b"")
    return b"text/html" in accepted and b"json" not in accepted


def idempotency_key(request: Request) -> str:
    """Return the request's Idempotency-Key. Raises PaymockError `idempotency_key_missing` or
    `idempotency_key_invalid`. Specification: "Limits".
    """
    key = sent_once(request, b"idempotency-key", "idempotency_key_invalid")
    if not key:
        raise PaymockError("idempotency_key_missing")
    if not _IDEMPOTENCY_KEY.fullmatch(key):
        place = next((place for place, one in enumerate(key, 1) if not "!" <= one <= "~"), None)
        problem = f"has a length of {len(key)}; 8 to 128 characters are needed"
        if place:
            problem = f"has a character that is not visible ASCII, number {place} of {len(key)}"
        raise PaymockError("idempotency_key_invalid", f"The Idempotency-Key {problem}. A UUID is a good key.")
    return key


def requested_scenario(request: Request, scenarios: Collection[str]) -> str | None:
    """Return the scenario of the X-Mock-Scenario header, one of `scenarios`, or None without one. Raises
    PaymockError `invalid_scenario`, whose message names what was probably meant. Specification: "Scenarios".
    """
    name = sent_once(request, b"x-mock-scenario", "invalid_scenario")
    if name is not None and name not in scenarios:
        hint = scenario_hint(name, scenarios).capitalize()
        message = f"X-Mock-Scenario is not one of {', '.join(scenarios)}. {hint and f'{hint}.'}"
        raise PaymockError("invalid_scenario", message.rstrip())
    return name
