"""API keys. A key is a sandbox. Specification: "Authentication"."""

import hmac
import re
from collections.abc import Iterable

from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import sandbox_of
from paymock.settings import OPEN_KEY_EXAMPLE
from paymock.web.http.requests import Request

REALM = 'Bearer realm="paymock"'
_BEARER = re.compile("(?i:bearer) +([!-~]+)")
_OPEN_KEY = re.compile("mk_test_[A-Za-z0-9_-]{1,64}")


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
