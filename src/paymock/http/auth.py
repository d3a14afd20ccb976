"""Authentication by API keys. Specification: "Authentication"."""

import hmac
import re
from collections.abc import Iterable

from paymock.cache import BoundedCache
from paymock.http.requests import Request
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import sandbox_of
from paymock.settings import OPEN_KEY_EXAMPLE

REALM = 'Bearer realm="paymock"'
_BEARER = re.compile("(?i:bearer) +([!-~]+)")
_CACHED, _MAX_CACHED_LENGTH = 1_000, 256
"""For how many headers the sandbox is cached, and the longest: a client sends one with each request."""

_OPEN_KEY = re.compile("mk_test_[A-Za-z0-9_-]{1,64}")


class Keyring:
    """The accepted API keys: `api_keys`, or in open mode, without any, all of the form `mk_test_NAME`."""

    def __init__(self, api_keys: Iterable[str]) -> None:
        self._keys = [key.encode() for key in api_keys]
        self._sandboxes: BoundedCache[bytes, str] = BoundedCache(_CACHED)

    def sandbox(self, request: Request) -> str:
        """Return the sandbox of the request's API key. Raises PaymockError `unauthenticated`."""
        value = request.headers.get(b"authorization", b"")
        sandbox = None if b"authorization" in request.repeated else self._sandboxes.get(value)
        if sandbox is None:
            sandbox = self._authenticate(request)
            if len(value) <= _MAX_CACHED_LENGTH:
                self._sandboxes[value] = sandbox
        return sandbox

    def _authenticate(self, request: Request) -> str:
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
        # All keys are compared, in constant time, so that response times do not reveal them.
        return sum([hmac.compare_digest(presented, key) for key in self._keys]) > 0
