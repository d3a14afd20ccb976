"""For tests: a server in a thread, and sandboxes of a server, this one or another. See docs/testing.md.

A sandbox is driven by HTTP with the standard library alone; the server's modules are imported when one is
started here.
"""

import contextlib
import http.client
import json
import os
import secrets
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

Json = dict[str, Any]
"""A JSON object as the API sends it: amounts are strings of raw units, times are strings in RFC 3339."""

_PATIENCE = 40.0
"""Seconds until a reply must have come; longer than the longest delay that a fault can make."""

_LONGEST_WAIT = 60.0
_PAYOUT_ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


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


class NotReached(Exception):
    """A wait was in vain. `payment` is the payment as it was at the end; `timed_out` is False when what was
    waited for can no longer come.
    """

    def __init__(self, message: str, payment: Json, *, timed_out: bool) -> None:
        super().__init__(message)
        self.payment = payment
        self.timed_out = timed_out


class Unreachable(ConnectionError):
    """No server answers at the URL, or the connection broke before the reply."""


class _Connections:
    """Connections to one server that are kept for the next request. As many as there are requests at once,
    so that a thread that waits does not stop another.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        self._kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        self._host, self._port, self._prefix = parts.hostname or "", parts.port, parts.path
        self._url = url
        self._idle: list[http.client.HTTPConnection] = []

    def exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> tuple[int, bytes]:
        """Status and body of the reply, which must come within `timeout` seconds. Raises Unreachable."""
        connection = self._connection(timeout)
        try:
            connection.request(method, self._prefix + path, body, dict(headers))
            response = connection.getresponse()
            status, content = response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            reason = str(error) or type(error).__name__
            raise Unreachable(f"{method} {path}: no reply from {self._url}: {reason}") from error
        except BaseException:
            connection.close()  # interrupted halfway: the next request would read the rest of this reply
            raise
        self._idle.append(connection)
        return status, content

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        while self._idle:
            connection = self._idle.pop()
            if _is_open(connection.sock):
                connection.sock.settimeout(timeout)
                return connection
            connection.close()
        return self._kind(self._host, self._port, timeout=timeout)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


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


class Sandbox:
    """Everything that belongs to one API key of a server, and control of its time.

    Attributes: `url` of the server and `api_key`, for the application under test. Payments come as the API
    shows them. Any thread may call any method. Each raises Refused when the server refuses, and
    Unreachable when it does not answer. As a context manager, it closes its connections at the end.
    """

    def __init__(self, url: str, api_key: str) -> None:
        self.url = _checked(url)
        self.api_key = api_key
        self._connections = _Connections(self.url)

    def now(self) -> datetime:
        """The time of the sandbox, in UTC."""
        return _time(self._call("GET", "/_mock/clock")["now"])

    def advance(self, seconds: float) -> datetime:
        """Moves the sandbox ahead by `seconds`, down to 0.001, frozen or not. Whatever is read next shows
        the new time, which is returned.
        """
        return _time(self._call("POST", "/_mock/clock/advance", {"seconds": seconds})["now"])

    def speed(self, factor: float) -> None:
        """Lets the time of the sandbox run `factor` times as fast as real time from now on, 0 to 10,000."""
        self._call("PUT", "/_mock/clock", {"speed": factor})

    def freeze(self) -> None:
        """Stops the time of the sandbox: only `advance` and `advance_payment` move it then."""
        self.speed(0)

    def create(
        self,
        scenario: str | None = None,
        *,
        amount: str | int = "1000000000000000000",
        chain: str = "bsc",
        asset: str = "USDT",
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> Json:
        """Creates a payment of `amount` raw units with a new order and a new idempotency key, as your
        application would, and returns it. `fields` are members of the request body: `order_id`, `metadata`,
        `expires_at`, and so on. Without a `scenario`, it takes what `next` has prepared.
        """
        body = {
            "order_id": f"order-{secrets.token_hex(4)}",
            "receive": {"chain": chain, "asset": asset, "amount": str(amount), "address": _PAYOUT_ADDRESS},
            "settlement": {"mode": "same_chain_merchant_payout"},
            "pay_with": [{"chain": chain, "asset": asset}],
            **fields,
        }
        headers = {"Idempotency-Key": idempotency_key or secrets.token_hex(16)}
        if scenario is not None:
            headers["X-Mock-Scenario"] = scenario
        created: Json = self._call("POST", "/v1/payments", body, headers)
        return created

    def payment(self, payment_id: str) -> Json:
        """The payment as it stands. Leaves no trace in `requests`."""
        payment: Json = self._call("GET", _payment(payment_id))["payment"]
        return payment

    def payments(
        self, *, status: str | None = None, scenario: str | None = None, order_id: str | None = None
    ) -> list[Json]:
        """The payments of the sandbox, newest first: all, or those that stand at `status`, follow
        `scenario`, or belong to `order_id`.
        """
        wanted = {"limit": "200", "status": status, "scenario": scenario, "order_id": order_id}
        found: list[Json] = []
        while True:
            page = self._call("GET", f"/_mock/payments{_query(wanted)}")
            found += page["data"]
            if page["next_cursor"] is None:
                return found
            wanted["cursor"] = page["next_cursor"]

    def advance_payment(self, payment_id: str, to: str | None = None, seconds: float | None = None) -> Json:
        """Moves one payment ahead of its sandbox and returns it: `to` a status, to the `"next"` change, to
        the `"end"` of its course, or by `seconds`. Raises Refused `status_unreachable` when that does not
        lie ahead.
        """
        step = {"to": to, "seconds": seconds}
        body = {name: value for name, value in step.items() if value is not None}
        payment: Json = self._call("POST", _payment(payment_id, "/advance"), body)
        return payment

    def deposit(self, payment_id: str, amount: str | int, asset: str | None = None) -> Json:
        """A transfer of `amount` raw units to the payment is observed now, beside those of its scenario;
        returns the payment. `asset` None: the one that the payment asks for.
        """
        body = {"amount": str(amount)} | ({} if asset is None else {"asset": asset})
        payment: Json = self._call("POST", _payment(payment_id, "/deposits"), body)
        return payment

    def next(
        self, scenario: str | None = None, fault: str | None = None, times: int | None = 1
    ) -> list[Json]:
        """What the next `times` creations without headers of their own meet: a scenario, a fault in the
        form of `X-Mock-Fault`, or both; `times` None: all, until `reset`. Returns all that is pending.
        """
        asked = {"scenario": scenario, "fault": fault}
        body = {name: value for name, value in asked.items() if value is not None} | {"times": times}
        pending: list[Json] = self._call("POST", "/_mock/next", body)["data"]
        return pending

    def wait(self, payment_id: str, status: str | None = None, timeout: float = 30) -> Json:
        """Returns the payment as soon as it has reached `status` or, without one, at its next change.

        Raises NotReached after `timeout` real seconds, and at once when it can no longer come. It wakes
        when another thread, or your application, moves time or pays.
        """
        remaining, before = max(0.0, timeout), None
        while True:
            patience = min(remaining, _LONGEST_WAIT)
            query = _query({"status": status, "timeout": f"{patience:.3f}"})
            result = self._call("GET", _payment(payment_id, "/wait") + query, timeout=patience + _PATIENCE)
            payment: Json = result["payment"]
            changed_between_two_requests = status is None and before not in (None, payment)
            if result["reached"] or changed_between_two_requests:
                return payment
            before = payment
            remaining -= patience
            shown = self._call("GET", _payment(payment_id))
            wanted = [entry for entry in shown["timeline"] if status in (None, entry["status"])]
            ahead = [entry for entry in wanted if not entry["reached"]]
            if status is not None and len(ahead) < len(wanted):
                continue  # it has come since the server answered
            if not ahead:
                what = f"{status} can no longer come" if status else "nothing changes any more"
                raise NotReached(f"{_standing(shown)}: {what}", shown["payment"], timed_out=False)
            if remaining <= 0:
                speed = self._call("GET", "/_mock/clock")["speed"]
                left = (_time(ahead[0]["at"]) - _time(shown["now"])).total_seconds()
                pace = f"runs at speed {speed:g}" if speed else "stands still: advance() moves it"
                what = f"{status or 'the next change'} lies {left:g} s ahead on a clock that {pace}"
                message = f"{_standing(shown)} after {timeout:g} s: {what}"
                raise NotReached(message, shown["payment"], timed_out=True)

    def requests(self) -> list[Json]:
        """The last 1,000 requests below `/v1`, newest first: `method`, `path`, `status` (0 when the
        connection was dropped), `error`, `idempotency` (`new`, `replayed`, `conflict`), `at`, `request_id`,
        `duration_ms`.
        """
        entries: list[Json] = self._call("GET", "/_mock/requests?limit=1000")["data"]
        return entries

    def reset(self) -> None:
        """Forgets payments, idempotency keys, webhook endpoints, overrides, requests and the time of the
        sandbox. When it was frozen, it is frozen afterwards.
        """
        frozen = self._call("GET", "/_mock/clock")["speed"] == 0
        self._forget()
        if frozen:
            self.freeze()

    def close(self) -> None:
        """Closes the connections; the next call opens another."""
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Sandbox of {self.url}>"

    def _forget(self) -> None:
        self._call("POST", "/_mock/reset")

    def _call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = _PATIENCE,
    ) -> Any:
        sent = {"Authorization": f"Bearer {self.api_key}", **(headers or {})}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        status, reply = self._connections.exchange(method, path, content, sent, timeout)
        if status == 204:
            return None
        request = f"{method} {path}"
        try:
            decoded = json.loads(reply)
            if status < 300:
                return decoded
            error: Json = decoded["error"]
            code, message, details = error["code"], error["message"], error.get("details", [])
        except (ValueError, KeyError, TypeError):
            text = f"the reply is not one of paymock's; is there another server at {self.url}?"
            raise Refused(request, status, "unknown_reply", text, []) from None
        if code == "not_found" and path.startswith("/_mock/"):
            message += " Was the server started with --no-control?"
        raise Refused(request, status, code, message, details)


class ServerHandle:
    """A running server: its `url`, and sandboxes of it.

    `api_keys` are the keys that the server accepts, as far as they may be used here; without any, the
    server is in open mode.
    """

    def __init__(self, url: str, api_keys: Iterable[str] = ()) -> None:
        self.url = _checked(url)
        self._free = list(api_keys)
        self._open = not self._free

    @contextlib.contextmanager
    def sandbox(self) -> Iterator[Sandbox]:
        """A fresh sandbox, for the length of the block: empty, frozen, used by nobody else. It is forgotten
        at the end.

        In open mode it has a new random API key, otherwise one of the configured ones, after a reset. Raises
        Refused when the server does not accept the key, Unreachable when it does not answer, and
        RuntimeError when all configured keys are in use.
        """
        if not (self._open or self._free):
            raise RuntimeError("every configured API key has a sandbox in use; a key is for one at a time")
        api_key = f"mk_test_{secrets.token_hex(16)}" if self._open else self._free.pop()
        try:
            with Sandbox(self.url, api_key) as sandbox:
                self._prepare(sandbox)
                try:
                    yield sandbox
                finally:
                    sandbox._forget()
        finally:
            if not self._open:
                self._free.append(api_key)

    def _prepare(self, sandbox: Sandbox) -> None:
        try:
            if not self._open:
                sandbox._forget()
            sandbox.freeze()
        except Refused as refused:
            if refused.status == 401:
                refused.add_note("A server that is not in open mode takes the keys in PAYMOCK_API_KEY.")
            raise

    def __repr__(self) -> str:
        return f"<ServerHandle on {self.url}>"


def remote(url: str | None = None, api_keys: Iterable[str] | None = None) -> ServerHandle:
    """A handle on a server that runs elsewhere. By default the one at `PAYMOCK_URL`, with the keys in
    `PAYMOCK_API_KEY`, separated by commas; without any, a server in open mode.

    Raises ValueError when no URL is given, or not one of HTTP.
    """
    url = os.environ.get("PAYMOCK_URL", "") if url is None else url
    return ServerHandle(url, named_api_keys() if api_keys is None else api_keys)


def named_api_keys() -> list[str]:
    """The keys in the environment variable `PAYMOCK_API_KEY`, which are separated by commas."""
    keys = os.environ.get("PAYMOCK_API_KEY", "").split(",")
    return [key.strip() for key in keys if key.strip()]


@contextlib.contextmanager
def serve(**settings: Any) -> Iterator[ServerHandle]:
    """A server in a thread of this process, on a free port and the in-memory store, for the length of the
    block. It handles no signals, and can be started from any thread.

    `settings` are those of `paymock.settings.Settings`: `fee_bps=50`, `seed="demo"`, `api_keys=["k"]`. Its
    log goes to standard error; `access_log=True` adds every request. Raises SettingsError, CatalogError or
    StartError when the settings cannot be served.
    """
    # Here, since it takes a moment, which only those pay who start a server.
    from paymock.server import in_thread
    from paymock.settings import MEMORY_STORE, Settings, SettingsError
    from paymock.web.log import RequestLog

    chosen = Settings(**{"port": 0, "access_log": False, **settings})
    if chosen.store != MEMORY_STORE or chosen.ready_file is not None:
        raise SettingsError("a server in a thread has the in-memory store, and writes no ready file")
    log = RequestLog(sys.stderr, chosen.log, requests=chosen.access_log, secrets=tuple(chosen.api_keys))
    with in_thread(chosen, log) as url:
        yield ServerHandle(url, chosen.api_keys)


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"the URL of a server is like http://127.0.0.1:8402, not {url!r}")
    return url.rstrip("/")


def _payment(payment_id: str, action: str = "") -> str:
    """The path of a payment, or of an action on it."""
    if not isinstance(payment_id, str):
        raise TypeError(f"a payment is named by its id, a string, not by {type(payment_id).__name__}")
    return f"/_mock/payments/{quote(payment_id, safe='')}{action}"


def _query(parameters: Mapping[str, str | None]) -> str:
    """The query of a URL; what is None is left out."""
    return "?" + urlencode({name: value for name, value in parameters.items() if value is not None})


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _standing(shown: Json) -> str:
    return f"payment {shown['payment']['id']} is {shown['payment']['status']}"
