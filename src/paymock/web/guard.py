"""What every request must pass before a handler sees it, and the shape of every refusal.

Hosts (against DNS rebinding), API keys, media types, idempotency keys and scenario names.
Specification: "Authentication", "Errors", "Limits".
"""

import hmac
import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache

import msgspec

from paymock.core.errors import PaymockError
from paymock.core.identity import sandbox_of
from paymock.core.scenarios import SCENARIOS
from paymock.core.wire import Error, ErrorEnvelope, Problem
from paymock.settings import OPEN_KEY_EXAMPLE, Settings
from paymock.web.http import IDEMPOTENCY_KEY, Request, Response

REALM = 'Bearer realm="paymock"'
RETRY_AFTER_SECONDS = 1
_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")

_BEARER = re.compile("(?i:bearer) +([!-~]+)")
_OPEN_KEY = re.compile("mk_test_[A-Za-z0-9_-]{1,64}")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::[0-9]{0,5})?")
_IDEMPOTENCY_KEY = re.compile(IDEMPOTENCY_KEY)
_JSON_TYPE = re.compile(r"application/json[ \t]*(;.*)?", re.IGNORECASE)
_PARAMETER = re.compile(r';[ \t]*([^=;" \t]+)=("(?:[^"\\]|\\.)*"|[^;]*)')


@lru_cache(maxsize=256)  # clients name few hosts, with every request
def _host_in(header: str) -> str | None:
    """The host, without the port, in a Host header; None when it is not valid."""
    match = _HOST.fullmatch(header)
    return match[1].lower() if match else None


class HostGuard:
    """Knows which hosts the server answers to."""

    def __init__(self, settings: Settings) -> None:
        own = [f"[{settings.host}]" if ":" in settings.host else settings.host] if settings.host else []
        named = [*_LOOPBACK_HOSTS, *own, *settings.allowed_hosts]
        self._allowed = {host.lower() for host in named}
        self._probes = () if settings.on_loopback else ("/livez", "/readyz")
        self._any = not settings.on_loopback and not settings.allowed_hosts

    def check(self, request: Request) -> None:
        """Raises PaymockError `bad_request` without exactly one valid Host header, `misdirected_request`
        when it names a host that the server does not answer to. Beyond loopback, probes may name any: they
        ask an address.
        """
        try:
            host = _host_in(request.header(b"host") or "")
        except ValueError:
            raise PaymockError("bad_request", "The Host header was sent twice.") from None
        if host is None:
            raise PaymockError("bad_request", "The Host header is missing or not a valid host.")
        if not self._any and host not in self._allowed and request.path not in self._probes:
            raise PaymockError("misdirected_request")


class Keyring:
    """Knows which API keys are accepted. A key is a sandbox. Specification: "Authentication"."""

    def __init__(self, api_keys: Iterable[str]) -> None:
        self._keys = [key.encode() for key in api_keys]

    def sandbox(self, request: Request) -> str:
        """The sandbox that the request's key opens. Raises PaymockError `unauthenticated`."""
        try:
            match = _BEARER.fullmatch(request.header(b"authorization") or "")
        except ValueError:
            match = None
        if match is None:
            raise PaymockError(
                "unauthenticated",
                "The request needs one header `Authorization: Bearer <API_KEY>`.",
                headers=[("WWW-Authenticate", REALM)],
            )
        token: str = match[1]
        if not self._accepts(token):
            hint = (
                "" if self._keys else f" In open mode, use any key mk_test_NAME, such as {OPEN_KEY_EXAMPLE}."
            )
            raise PaymockError(
                "unauthenticated",
                "This server does not accept the API key." + hint,
                headers=[("WWW-Authenticate", f'{REALM}, error="invalid_token"')],
            )
        return sandbox_of(token)

    def _accepts(self, token: str) -> bool:
        if not self._keys:
            return _OPEN_KEY.fullmatch(token) is not None
        presented = token.encode()
        # Each is compared, in constant time, so that the time of a reply tells nothing of them.
        return sum([hmac.compare_digest(presented, key) for key in self._keys]) > 0


def check_json_body(request: Request) -> None:
    """Raises PaymockError `unsupported_media_type` or `unsupported_content_encoding` unless the body is
    announced as plain JSON in UTF-8.
    """
    if (_once(request, b"content-encoding") or "identity").lower() != "identity":
        raise PaymockError("unsupported_content_encoding")
    if not _is_json(_once(request, b"content-type") or ""):
        raise PaymockError("unsupported_media_type")


@lru_cache(maxsize=256)  # clients know few media types, and send one with every body
def _is_json(content_type: str) -> bool:
    """Whether it stands for plain JSON in UTF-8."""
    match = _JSON_TYPE.fullmatch(content_type)
    parameters = _PARAMETER.findall((match and match[1]) or "")
    charsets = [value.strip(' \t"').lower() for name, value in parameters if name.lower() == "charset"]
    return match is not None and all(charset in ("utf-8", "utf8") for charset in charsets)


def _once(request: Request, name: bytes) -> str | None:
    """The value of a header, or one that is nothing's value when it was sent twice."""
    try:
        return request.header(name)
    except ValueError:
        return "sent twice"


def idempotency_key(request: Request) -> str:
    """The request's Idempotency-Key. Raises PaymockError `idempotency_key_missing` or
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


def scenario(request: Request) -> str | None:
    """The scenario that the request asks for, if it asks for one. Raises PaymockError `invalid_scenario`,
    naming the nearest value. Specification: "Scenarios".
    """
    try:
        name = request.header(b"x-mock-scenario")
    except ValueError:
        raise PaymockError("invalid_scenario", "The X-Mock-Scenario header was sent twice.") from None
    if name is not None and name not in SCENARIOS:
        nearest = get_close_matches(name.lower()[:64], SCENARIOS, n=1, cutoff=0.0)[0]
        raise PaymockError(
            "invalid_scenario",
            f"X-Mock-Scenario is not one of {', '.join(SCENARIOS)}. The nearest is {nearest}.",
        )
    return name


def refusal(error: PaymockError) -> Response:
    """The reply that carries `error`, in the envelope that every refusal has. Specification: "Errors"."""
    details = [Problem(field=field, message=message) for field, message in (error.details or {}).items()]
    body = Error(code=error.kind.code, message=error.message)
    if details:
        body.details = details
    headers = error.headers
    if error.status == 503:
        headers = (*headers, ("Retry-After", str(RETRY_AFTER_SECONDS)))
    return Response(
        error.status,
        msgspec.json.encode(ErrorEnvelope(error=body)),
        headers=headers,
        error=error.kind.code,
    )
