"""The checks before the handlers: the host, against DNS rebinding; the API key; the origin (CORS); headers.
Specification: "Authentication", "Limits", "Scenarios".
"""

import hmac
import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Any

from paymock.cache import BoundedCache
from paymock.http.requests import Request
from paymock.http.responses import Response
from paymock.http.routing import CHECKOUT, METHODS, PUBLIC, Match
from paymock.rules.errors import ERRORS, PaymockError
from paymock.rules.identifiers import sandbox_of
from paymock.rules.timeline import scenario_hint
from paymock.schemas.json_decoding import shown_name
from paymock.settings import OPEN_KEY_EXAMPLE, Address
from paymock.text import NAMED_KEY, OPEN_KEY

_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]", "host.docker.internal")
"""No DNS server of an attacker answers for any of them."""

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::[0-9]{0,5})?")

_CACHED_HOSTS, _CACHED_KEYS, _MAX_CACHED_LENGTH = 256, 10_000, 256
"""How many accepted hosts and keys are cached, and the longest: a client sends both with each request."""


def sent_once(request: Request, name: bytes, code: str) -> str | None:
    """Return the value of a header, or None. Raises PaymockError with this code if it is repeated."""
    if name in request.repeated:
        raise PaymockError(code, f"The {name.decode().title()} header was sent twice.")
    value = request.headers.get(name)
    return None if value is None else value.decode("latin-1")


class AllowedHosts:
    """The hosts that the server accepts in the Host header."""

    def __init__(self, address: Address) -> None:
        bound = [f"[{address.host}]" if ":" in address.host else address.host] if address.host else []
        self._allowed = {host.lower() for host in (*_LOOPBACK_HOSTS, *bound, *address.allowed_hosts)}
        self._health_checks = () if address.on_loopback else ("/livez", "/readyz")
        self._allow_any = not address.on_loopback and not address.allowed_hosts
        self.accepted: BoundedCache[bytes, bool] = BoundedCache(_CACHED_HOSTS)

    def check(self, request: Request) -> None:
        """Check the Host header. Health checks beyond loopback may name any host: they connect to an address.

        Raises PaymockError `bad_request` without exactly one valid Host header, which HTTP/1.0 need not have,
        and `misdirected_request` if the host is not allowed.
        """
        value = request.headers.get(b"host", b"")
        if not request.is_current and b"host" not in request.headers:
            return  # RFC 9112, 3.2; every browser sends one
        if value in self.accepted and b"host" not in request.repeated:
            return
        match = _HOST.fullmatch(sent_once(request, b"host", "bad_request") or "")
        if match is None:
            raise PaymockError("bad_request", "The Host header is missing or not a valid host.")
        if self._allow_any or match[1].lower() in self._allowed:
            if len(value) <= _MAX_CACHED_LENGTH:
                self.accepted[value] = True
        elif request.path not in self._health_checks:
            raise PaymockError("misdirected_request")


REALM = 'Bearer realm="paymock"'
_BEARER = re.compile("(?i:bearer) +([!-~]+)")


class Keyring:
    """The accepted API keys: `api_keys`, and with each K of them every `K.NAME`; in open mode, without any,
    all of the form `mk_test_NAME`.
    """

    def __init__(self, api_keys: Iterable[str]) -> None:
        self.replace(api_keys)

    def replace(self, api_keys: Iterable[str]) -> None:
        self._keys = [key.encode() for key in api_keys]
        self._identities: BoundedCache[bytes, tuple[str, str]] = BoundedCache(_CACHED_KEYS)

    def authenticate(self, request: Request) -> None:
        """Set what the API key of the request opens. Raises PaymockError `unauthenticated`."""
        value = request.headers.get(b"authorization", b"")
        is_repeated = b"authorization" in request.repeated
        identity = None if is_repeated else self._identities.get(value)
        if identity is None:
            match = None if is_repeated else _BEARER.fullmatch(value.decode("latin-1"))
            identity = self._identify(match[1]) if match else None
            if identity is None:
                reason, challenge = "The request needs one header `Authorization: Bearer <API_KEY>`.", REALM
                if match:
                    reason = "This server does not accept the API key."
                    challenge = f'{REALM}, error="invalid_token"'
                hint = (
                    "The server has configured keys: each KEY, and KEY.NAME for a sandbox of its own."
                    if self._keys
                    else f"In open mode, use any key mk_test_NAME, such as {OPEN_KEY_EXAMPLE}."
                )
                headers = [("WWW-Authenticate", challenge)]
                raise PaymockError("unauthenticated", f"{reason} {hint}", headers=headers)
            if len(value) <= _MAX_CACHED_LENGTH:
                self._identities[value] = identity
        request.sandbox, request.owner = identity

    def _identify(self, token: str) -> tuple[str, str] | None:
        """Return the sandbox that a key opens, and that of its owner, which is K for `K.NAME`."""
        sandbox = sandbox_of(token)
        if not self._keys:
            return (sandbox, sandbox) if OPEN_KEY.fullmatch(token) else None
        match = NAMED_KEY.fullmatch(token)
        key = match[1] if match else ""
        # All keys are compared, in constant time, so that response times do not reveal them.
        is_key, is_named = (
            sum([hmac.compare_digest(presented.encode(), one) for one in self._keys]) > 0
            for presented in (token, key)
        )
        if is_key:
            return sandbox, sandbox
        return (sandbox, sandbox_of(key)) if is_named else None


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
    """Return the CORS headers of the reply to a request for `path`, as a part of a header block."""
    return _CORS_HEADERS if path.startswith(_ANY_ORIGIN) else b""


def allowed_methods(match: Match[Any]) -> str:
    """Return the methods of a path, as the header `Allow` lists them."""
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


def mock_header_warning(request: Request, *, with_faults: bool) -> str | None:
    """Return what to say of the first header `X-Mock-…` that is ignored, such as a mistyped one."""
    known = ("X-Mock-Scenario", "X-Mock-Fault")[: 1 + with_faults]
    for name in request.headers:
        if name.startswith(b"x-mock-") and (shown := name.decode().title()) not in known:
            return f"{shown:.64} is no header of this mock; known: {', '.join(known)}"
    return None


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
