"""A client of a paymock server, for the commands and for tests: connections, requests, and what can go wrong.

It needs the standard library alone, so that a test that drives a server elsewhere imports nothing more.
"""

import hashlib
import http.client
import json
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode, urlsplit

T = TypeVar("T")

Json = dict[str, Any]
"""A JSON object as the API sends it: amounts are strings of raw units, times are strings in RFC 3339."""

PATIENCE = 40.0
"""Seconds until a reply must have come; longer than the longest delay that a fault can make."""

PAYOUT_ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
"""Where a merchant is paid who has named no address."""

_CONNECT = 5.0
_CONTROL_API = "/_mock/"

__tracebackhide__ = True  # a failing test is shown by pytest with its own lines, not with these


class Refused(Exception):
    """The server refused a request: the HTTP `status`, and `code`, `message` and `details` of the error.

    `details` lists what is wrong with which field: objects with `field` and `message`; often it is empty.
    """

    def __init__(self, request: str, status: int, code: str, message: str, details: list[Json]) -> None:
        problems = "".join(f"\n  {problem['field']}: {problem['message']}" for problem in details)
        super().__init__(f"{request} was refused with {status} {code}: {message}{problems}")
        self.status = status
        self.code = code
        self.message = message
        self.details = details


class Unreachable(ConnectionError):
    """No server answers at the URL, the connection broke before the reply, or something answers that is not
    paymock.
    """


class Client:
    """The server at `url`, and the sandbox that `api_key` opens there. Any thread may call any method.

    Connections are kept for the next request: as many as there have been requests at once, so that a thread
    that waits does not stop another. Raises ValueError when `url` is not one of HTTP.
    """

    def __init__(self, url: str, api_key: str | None = None) -> None:
        self.url = checked_url(url)
        self.api_key = api_key
        where = urlsplit(self.url)
        kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
        self._new = partial(kind, where.hostname or "", where.port)
        self._prefix = where.path
        self._idle: list[http.client.HTTPConnection] = []

    def send(
        self,
        method: str,
        path: str,
        *,
        decode: Callable[[bytes], T],
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        patience: float = PATIENCE,
    ) -> "Call[T]":
        """Sends a request, whose reply must come within `patience` seconds; `decode` makes the result of its
        body, and raises ValueError when paymock would not say that. Parameters of the query that are None
        are left out. Raises Unreachable.
        """
        present = {name: value for name, value in (query or {}).items() if value is not None}
        target = f"{path}?{urlencode(present, errors='surrogateescape')}" if present else path
        sent = {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}
        sent |= headers or {}
        content = None
        if body is not None:
            content = json.dumps(body, allow_nan=False).encode()
            sent["Content-Type"] = "application/json"
        connection = self._connection(patience)
        try:
            connection.request(method, self._prefix + target, content, sent)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self.unreachable(error) from None
        except BaseException:
            connection.close()
            raise
        return Call(self, connection, f"{method} {target}", decode)

    def close(self) -> None:
        """Closes the idle connections; the next request opens another."""
        while (connection := self._taken()) is not None:
            connection.close()

    def keep(self, connection: http.client.HTTPConnection) -> None:
        """Keeps a connection, whose last reply has been read, for the next request."""
        self._idle.append(connection)

    def unreachable(self, error: Exception) -> Unreachable:
        """Says in one line why there is no reply."""
        if isinstance(error, TimeoutError):
            return Unreachable(f"{self.url} does not answer")
        if isinstance(error, http.client.RemoteDisconnected | ConnectionResetError | BrokenPipeError):
            return Unreachable(f"{self.url} closed the connection without a reply")
        if isinstance(error, http.client.IncompleteRead):
            return Unreachable(f"{self.url} closed the connection in the middle of its reply")
        if isinstance(error, http.client.HTTPException):
            return Unreachable(f"what answers at {self.url} does not speak HTTP")
        reason = getattr(error, "strerror", None) or error
        return Unreachable(f"cannot reach {self.url}: {reason}. Is `paymock serve` running there?")

    def stranger(self, status: int = 200) -> Unreachable:
        """Says in one line that a reply with this HTTP status is not paymock's."""
        if status >= 500:
            return Unreachable(
                f"the server at {self.url} broke off with {status}: it stops, or is in trouble"
            )
        return Unreachable(f"what answers at {self.url} is not paymock, or of another version")

    def _connection(self, patience: float) -> http.client.HTTPConnection:
        while (kept := self._taken()) is not None:
            if _is_open(kept.sock):
                kept.sock.settimeout(patience)
                return kept
            kept.close()
        connection = self._new(timeout=min(_CONNECT, patience))
        try:
            connection.connect()
        except (OSError, UnicodeError) as error:  # the name of the host may be malformed
            connection.close()
            raise self.unreachable(error) from None
        connection.sock.settimeout(patience)
        return connection

    def _taken(self) -> http.client.HTTPConnection | None:
        try:
            return self._idle.pop()
        except IndexError:  # without a look before: another thread may take the last one
            return None


class Call(Generic[T]):
    """A request that has been sent. `select` takes it: it is readable once the reply comes."""

    def __init__(
        self,
        client: Client,
        connection: http.client.HTTPConnection,
        request: str,
        decode: Callable[[bytes], T],
    ) -> None:
        self._client = client
        self._connection = connection
        self._request = request
        self._decode = decode
        self.replayed = False
        """Whether the reply repeats that of an earlier request with the same idempotency key."""

    def fileno(self) -> int:
        """The socket."""
        return self._connection.sock.fileno()

    def result(self) -> T:
        """What the reply says; waits for it. Raises Refused, Unreachable."""
        try:
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise self._client.unreachable(error) from None
        except BaseException:
            self._connection.close()  # interrupted halfway: the next request would read the rest of it
            raise
        self._client.keep(self._connection)
        self.replayed = response.headers.get("Idempotent-Replayed") == "true"
        try:
            if response.status < 300:
                return self._decode(content or b"null")
            refused = self._refused(response.status, json.loads(content)["error"])
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise self._client.stranger(response.status) from None
        raise refused

    def _refused(self, status: int, error: Json) -> Refused:
        code, message = error["code"], error["message"]
        if code == "not_found" and _CONTROL_API in self._request:
            message += " A server with --no-control has no control API."
        return Refused(self._request, status, code, message, error.get("details") or [])


def checked_url(url: str) -> str:
    """The URL of a server, without a slash at its end. Raises ValueError when it is not one of HTTP."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"the URL of a server is like http://127.0.0.1:8402, not {url!r}")
    return url.rstrip("/")


def path_of(payment_id: str, *rest: str) -> str:
    """The path of a payment in the control API, or of something below it. Raises TypeError or ValueError for
    what cannot be an id.
    """
    if not isinstance(payment_id, str):
        raise TypeError(f"a payment is named by its id, a string, not by {type(payment_id).__name__}")
    if not payment_id:
        raise ValueError("a payment is named by its id, like pay_0123, not by an empty string")
    return "/".join([f"{_CONTROL_API}payments", quote(payment_id, safe="", errors="surrogateescape"), *rest])


def order_body(order_id: str, chain: str, asset: str, amount: str, address: str = PAYOUT_ADDRESS) -> Json:
    """The body of a creation with what is required and nothing else; `amount` is in raw units."""
    return {
        "order_id": order_id,
        "receive": {"chain": chain, "asset": asset, "amount": amount, "address": address},
        "settlement": {"mode": "same_chain_merchant_payout"},
        "pay_with": [{"chain": chain, "asset": asset}],
    }


def order_of(idempotency_key: str) -> str:
    """The order id of a payment for which only an idempotency key is given: a retry must have the same."""
    return f"order-{hashlib.blake2b(idempotency_key.encode(), digest_size=4).hexdigest()}"


def _is_open(idle: socket.socket | None) -> bool:
    """Whether the server has kept an idle connection open."""
    if idle is None:
        return False
    idle.settimeout(0)
    try:
        socket.socket.recv(idle, 1, socket.MSG_PEEK)  # below TLS, which cannot peek
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False  # the end of the stream, or something that nobody asked for
