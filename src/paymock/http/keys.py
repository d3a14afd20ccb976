"""The API keys that the server accepts. Specification: "Authentication"."""

import hmac
import re
from collections.abc import Iterable

from paymock.cache import BoundedCache
from paymock.http.headers import MAX_CACHED_LENGTH
from paymock.http.requests import Request
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import sandbox_of
from paymock.settings import OPEN_KEY_EXAMPLE
from paymock.text import NAMED_KEY, OPEN_KEY

REALM = 'Bearer realm="paymock"'

_BEARER = re.compile("(?i:bearer) +([!-~]+)")
_CACHED_KEYS = 10_000
_FORMS = (  # of an `Authorization` header, and what a refusal says of it: never the key
    ("bearer +bearer( .*)?", "`Bearer` was sent twice."),
    ("bearer *", "`Bearer` was sent without a key."),
    ("(bearer +)?[\"'`<].*", "The key was sent in quotation marks or brackets."),
    (r"(bearer +)?(\$|%|\{\{).*", "The name of a variable was sent, not its value."),
    ("(basic|token|apikey|key) .*", "Another scheme than `Bearer` was sent."),
    ("bearer[^ ].*", "A space is missing after `Bearer`."),
    ("[!-~]+", "The key was sent without `Bearer`."),
)


class Keyring:
    """The accepted API keys: `api_keys`, and with each K of them every `K.NAME`; in open mode, without any,
    all of the form `mk_test_NAME`.
    """

    def __init__(self, api_keys: Iterable[str], names: Iterable[tuple[str, str]] = ()) -> None:
        """`names` are of some keys; those of all others are empty."""
        self.replace(api_keys, names)

    def replace(self, api_keys: Iterable[str], names: Iterable[tuple[str, str]] = ()) -> None:
        self._keys = [key.encode() for key in api_keys]
        self._names = dict(names)
        self._identities: BoundedCache[bytes, tuple[str, str, str]] = BoundedCache(_CACHED_KEYS)

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
                text = " ".join(filter(None, (reason, _form_of(request), hint)))
                raise PaymockError("unauthenticated", text, headers=headers)
            if len(value) <= MAX_CACHED_LENGTH:
                self._identities[value] = identity
        request.sandbox, request.owner, request.key_name = identity

    def _identify(self, token: str) -> tuple[str, str, str] | None:
        """Return the sandbox that a key opens, that of its owner, which is K for `K.NAME`, and K's name."""
        sandbox = sandbox_of(token)
        if not self._keys:
            return (sandbox, sandbox, "") if OPEN_KEY.fullmatch(token) else None
        match = NAMED_KEY.fullmatch(token)
        key = match[1] if match else ""
        # All keys are compared, in constant time, so that response times do not reveal them.
        is_key, is_named = (
            sum([hmac.compare_digest(presented.encode(), one) for one in self._keys]) > 0
            for presented in (token, key)
        )
        if is_key:
            return sandbox, sandbox, self._names.get(token, "")
        return (sandbox, sandbox_of(key), self._names.get(key, "")) if is_named else None


def _form_of(request: Request) -> str | None:
    """Return what is wrong with the form of the key that was sent, if that is seen."""
    sent = request.headers.get(b"authorization", b"").decode("latin-1").strip()
    if b"authorization" in request.repeated:
        return "The header was sent twice."
    if not sent and any(name in request.headers for name in (b"x-api-key", b"api-key", b"x-auth-token")):
        return "A key was sent in another header."
    return next((told for form, told in _FORMS if re.fullmatch(f"(?i:{form})", sent)), None)
