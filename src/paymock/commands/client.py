"""A small HTTP client of the mock, and how its failures end a command: 1 refused, 3 unreachable, 4 timeout.

Every call has a connection of its own, so that no call depends on what another has left behind.
"""

import http.client
import json
from collections.abc import Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import click
import msgspec

from paymock.core.wire import ErrorEnvelope

T = TypeVar("T")

PATIENCE = 35.0
"""Seconds to wait for a reply: longer than the longest delay that a fault can ask for."""

_CONNECT = 5.0
_CONTROL_API = "/_mock/"


class Refused(click.ClickException):
    """The server said no: its code, its message, and every detail, one a line. Exit status 1."""

    exit_code = 1

    def __init__(self, code: str, message: str, details: Mapping[str, str] | None = None) -> None:
        lines = [f"{code}: {message}", *(f"  {field}: {why}" for field, why in (details or {}).items())]
        super().__init__("\n".join(lines))


class Unreachable(click.ClickException):
    """Nothing answers, or something that is not paymock. Exit status 3."""

    exit_code = 3


class TimedOut(click.ClickException):
    """What was waited for did not come in time. Exit status 4."""

    exit_code = 4


class Client:
    """The server at `url` (without a slash at its end), and the sandbox of `key`."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = url
        self.key = key

    def call(
        self,
        of: type[T],
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        patience: float = PATIENCE,
    ) -> "Call[T]":
        """Sends a request; its reply, of the type `of`, is the result of the call. Parameters of the query
        that are None are left out. Raises Unreachable.
        """
        present = {name: value for name, value in (query or {}).items() if value is not None}
        target = f"{path}?{urlencode(present, errors='surrogateescape')}" if present else path
        sent = dict(headers or {})
        if self.key is not None:
            sent["Authorization"] = f"Bearer {self.key}"
        if body is not None:
            sent["Content-Type"] = "application/json"
        data = None if body is None else json.dumps(body).encode()
        where = urlsplit(self.url)
        kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
        connection = kind(where.hostname or "", where.port, timeout=min(_CONNECT, patience))
        try:
            connection.request(method, where.path + target, data, sent)
            connection.sock.settimeout(patience)
        except (OSError, UnicodeError, http.client.HTTPException) as error:  # a host can be no host name
            connection.close()
            raise self.unreachable(error) from None
        return Call(self, connection, target, of)

    def get(self, of: type[T], path: str, query: Mapping[str, Any] | None = None) -> T:
        """The reply to a GET. Raises Refused, Unreachable."""
        return self.call(of, "GET", path, query=query).result()

    def decoded(self, of: type[T], body: bytes) -> T:
        """What the body of a reply says. Raises Unreachable when paymock would not say it."""
        try:
            return msgspec.json.decode(body, type=of)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise Unreachable(f"what answers at {self.url} is not paymock, or of another version") from None

    def unreachable(self, error: Exception) -> Unreachable:
        """Says in one line why there is no reply."""
        if isinstance(error, TimeoutError):
            return Unreachable(f"{self.url} does not answer")
        if isinstance(error, http.client.RemoteDisconnected | ConnectionResetError | BrokenPipeError):
            return Unreachable(f"{self.url} closed the connection without a reply")
        if isinstance(error, http.client.HTTPException):
            return Unreachable(f"what answers at {self.url} does not speak HTTP")
        reason = getattr(error, "strerror", None) or error
        return Unreachable(f"cannot reach {self.url}: {reason}. Is `paymock serve` running there?")


class Call(Generic[T]):
    """A request that has been sent. `select` takes it: it is readable once the reply comes."""

    def __init__(
        self, client: Client, connection: http.client.HTTPConnection, target: str, of: type[T]
    ) -> None:
        self._client = client
        self._connection = connection
        self._target = target
        self._of = of
        self.replayed = False
        """Whether the reply repeats that of an earlier request with the same idempotency key."""

    def fileno(self) -> int:
        """The socket."""
        return self._connection.sock.fileno()

    def result(self) -> T:
        """The reply; waits for it. Raises Refused, Unreachable."""
        try:
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._client.unreachable(error) from None
        finally:
            self._connection.close()
        self.replayed = response.headers.get("Idempotent-Replayed") == "true"
        if response.status < 300:
            return self._client.decoded(self._of, body or b"null")
        refusal = self._client.decoded(ErrorEnvelope, body).error
        message = refusal.message
        if refusal.code == "not_found" and self._target.startswith(_CONTROL_API):
            message += " A server with --no-control has no control API."
        details = refusal.details if isinstance(refusal.details, list) else []
        raise Refused(refusal.code, message, {problem.field: problem.message for problem in details})


def path_of(payment_id: str, *rest: str) -> str:
    """The path of a payment in the control API, or of something below it."""
    return "/".join([_CONTROL_API + "payments", quote(payment_id, safe="", errors="surrogateescape"), *rest])
