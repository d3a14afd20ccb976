"""Connections, requests and errors of the client."""

import http.client
import json
import os
import re
import socket
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode, urlsplit

T = TypeVar("T")

Json = dict[str, Any]
"""A JSON object as the API sends it: amounts are strings of raw units, times are strings in RFC 3339."""

DEFAULT_TIMEOUT = 40.0
"""Seconds until a reply must arrive; longer than the longest delay of a fault."""

_CONNECT_TIMEOUT = 5.0
_CONTROL_API = "/_mock/"
_URL = re.compile(r"(https?://)?(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._~-]*)(?::([0-9]{1,5}))?(/[!->@-~]*)?", re.I)

__tracebackhide__ = True  # pytest shows a failing test with its own lines, not with these


class Refused(Exception):
    """The server refused a request: the HTTP `status`, and the `error` with `code`, `message` and `details`.

    `details` lists the invalid fields: objects with `field` and `message`; often it is empty.
    """

    def __init__(self, request: str, status: int, error: Json) -> None:
        self.status, self.error = status, error
        self.code, self.message, self.details = error["code"], error["message"], error.get("details") or []
        problems = "".join(f"\n  {problem['field']}: {problem['message']}" for problem in self.details)
        super().__init__(f"{request} was refused with {status} {self.code}: {self.message}{problems}")


class Unreachable(ConnectionError):
    """No server answers at the URL, the connection broke before the reply, or the reply is not paymock's."""


def monotonic() -> float:
    """Seconds on a clock that freezegun and time-machine leave alone."""
    return time.monotonic() if sys.platform == "win32" else time.clock_gettime(time.CLOCK_MONOTONIC)


class ConnectionPool:
    """Connections to the server at `url`. Thread-safe, and usable after a fork.

    Connections are reused: there are as many as there were concurrent requests, so that a thread that waits
    does not block another. A child process opens its own. There are no locks, which another thread could hold
    during a fork. Raises ValueError when `url` is not an HTTP URL.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(normalize_url(url))
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._new_connection = partial(kind, parts.hostname or "", parts.port)
        self._idle: dict[int, list[http.client.HTTPConnection]] = {}
        """The idle connections, by the id of the process that opened them."""

    @property
    def idle(self) -> list[http.client.HTTPConnection]:
        """The idle connections of this process, after closing its copies of those of its parent."""
        process = os.getpid()
        if process not in self._idle:
            for parent in [*self._idle]:
                for connection in self._idle.pop(parent, ()):  # another thread may do the same
                    connection.close()
        return self._idle.setdefault(process, [])

    def take(self, timeout: float) -> http.client.HTTPConnection:
        """An open connection; `timeout` is in seconds. Raises OSError, UnicodeError for a malformed host."""
        while (idle := self._pop_idle()) is not None:
            if _is_open(idle.sock):
                idle.sock.settimeout(timeout)
                return idle
            idle.close()
        connection = self._new_connection(timeout=min(_CONNECT_TIMEOUT, timeout))
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        connection.sock.settimeout(timeout)
        return connection

    def release(self, connection: http.client.HTTPConnection) -> None:
        self.idle.append(connection)

    def close(self) -> None:
        """Close the idle connections. The pool stays usable."""
        while (connection := self._pop_idle()) is not None:
            connection.close()

    def _pop_idle(self) -> http.client.HTTPConnection | None:
        try:
            return self.idle.pop()
        except IndexError:  # no check beforehand: another thread may take the last one
            return None


class Client:
    """A client of the server at `url`, for the sandbox of `api_key`, which may share `connections` with
    others. Thread-safe, and usable after a fork. Raises ValueError when `url` is not an HTTP URL, or
    `api_key` cannot be one.
    """

    def __init__(
        self, url: str, api_key: str | None = None, connections: ConnectionPool | None = None
    ) -> None:
        self.url = normalize_url(url)
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise ValueError("api_key must consist of visible ASCII characters")  # it is not shown
        self.api_key = api_key
        self.connections = connections or ConnectionPool(self.url)
        self._prefix = urlsplit(self.url).path

    def send(
        self,
        method: str,
        path: str,
        *,
        decode: Callable[[bytes], T],
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> "Call[T]":
        """Send a request, whose reply must arrive within `timeout` seconds.

        `decode` turns the body of the reply into the result, and raises ValueError for an unexpected body.
        Parameters of the query that are None are left out. Raises Unreachable.
        """
        parameters = {name: value for name, value in (query or {}).items() if value is not None}
        target = f"{path}?{urlencode(parameters, errors='surrogateescape')}" if parameters else path
        all_headers = {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}
        all_headers |= headers or {}
        content = None
        if body is not None:
            content = json.dumps(body, allow_nan=False).encode()
            all_headers["Content-Type"] = "application/json"
        try:
            connection = self.connections.take(timeout)
        except (OSError, UnicodeError) as error:
            raise self.unreachable(error) from None
        try:
            connection.request(method, self._prefix + target, content, all_headers)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self.unreachable(error) from None
        except BaseException:
            connection.close()
            raise
        return Call(self, connection, f"{method} {target}", decode)

    def close(self) -> None:
        """Close the idle connections. The client stays usable: the next request opens a new connection."""
        self.connections.close()

    def unreachable(self, error: Exception) -> Unreachable:
        if isinstance(error, TimeoutError):
            return Unreachable(f"{self.url} does not answer")
        if isinstance(error, http.client.RemoteDisconnected | ConnectionResetError | BrokenPipeError):
            return Unreachable(f"{self.url} closed the connection without a reply")
        if isinstance(error, http.client.IncompleteRead):
            return Unreachable(f"{self.url} closed the connection in the middle of its reply")
        if isinstance(error, http.client.HTTPException):
            return Unreachable(f"the server at {self.url} does not speak HTTP")
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLCertVerificationError):
            return Unreachable(f"{self.url} does not speak TLS: try http://")
        reason = getattr(error, "strerror", None) or error
        return Unreachable(f"cannot reach {self.url}: {reason}. Is `paymock serve` running there?")


@dataclass(eq=False)
class Call(Generic[T]):
    """A request that has been sent. It can be passed to `select`: it is readable once the reply arrives.

    The reply belongs to the process that sent the request.
    """

    _client: Client
    _connection: http.client.HTTPConnection
    _request: str
    _decode: Callable[[bytes], T]
    _process: int = field(default_factory=os.getpid)
    replayed: bool = False
    """Whether the reply repeats that of an earlier request with the same idempotency key."""
    warning: str | None = None
    """What the reply says of a part of the request that was ignored."""

    def fileno(self) -> int:
        return self._connection.sock.fileno()

    def result(self) -> T:
        """Wait for the reply and return its decoded body. Raises Refused, Unreachable, and RuntimeError in
        another process than the one that sent the request.
        """
        if os.getpid() != self._process:
            raise RuntimeError(f"process {self._process} sent the request and gets its reply")
        try:
            with self._connection.getresponse() as response:  # a finalizer that closes it swallows Ctrl-C
                content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise self._client.unreachable(error) from None
        except BaseException:
            self._connection.close()  # a half-read reply must not be left for the next request
            raise
        self._client.connections.release(self._connection)
        self.replayed = response.headers.get("Idempotent-Replayed") == "true"
        self.warning = response.headers.get("X-Mock-Warning")
        try:
            if response.status == 204:
                return self._decode(b"null")
            is_text = response.headers.get("Content-Type", "").startswith("text/plain")
            if response.status < 300 and (content.startswith(b"{") or is_text):
                return self._decode(content)
            refusal = json.loads(content)["error"]
            is_rule = f"{_CONTROL_API}faults/" in self._request  # which can be unknown
            if refusal["code"] == "not_found" and _CONTROL_API in self._request and not is_rule:
                refusal["message"] += " A server with --no-control has no control API."
            refused = Refused(self._request, response.status, refusal)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            what = "is not paymock, or is another version of it"
            if response.status >= 500:
                what = f"failed with {response.status}: it is stopping or broken"
            raise Unreachable(f"the server at {self._client.url} {what}") from None
        raise refused


def normalize_url(url: str) -> str:
    """The URL of a server, which may be given as HOST:PORT, without a trailing slash. Raises ValueError when
    it is not an HTTP URL, or has a password, which messages would repeat.
    """
    if not isinstance(url, str):
        raise TypeError(f"the URL of a server must be a string, not {type(url).__name__}")
    if "@" in url:
        raise ValueError("the URL of a server must be like http://127.0.0.1:8402, without user and password")
    match = _URL.fullmatch(url)
    if match is None or not (match[2] if match[1] else match[3]) or not 0 < int(match[3] or 80) < 65_536:
        raise ValueError("the URL of a server must be like http://127.0.0.1:8402 or localhost:8402")
    scheme, host, port, path = match.groups(default="")
    url = (url if scheme else f"http://{host or '127.0.0.1'}:{port}{path}").rstrip("/")
    if url.endswith("/v1"):
        raise ValueError("the URL of a server must be given without /v1")
    return url


def _is_open(connection: socket.socket | None) -> bool:
    """Whether the server has kept an idle connection open."""
    if connection is None:
        return False
    connection.settimeout(0)
    try:
        socket.socket.recv(connection, 1, socket.MSG_PEEK)  # below TLS, which cannot peek
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False  # end of stream, or unsolicited data
