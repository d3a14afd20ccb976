"""For tests: a server in a thread, and sandboxes of a server, this one or another. See docs/testing.md.

A sandbox is driven by HTTP with the standard library alone; the server's modules are imported when one is
started here.
"""

import contextlib
import json
import os
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from math import isnan
from typing import Any, Self

from paymock.client.http import (
    Client,
    Json,
    Refused,
    Unreachable,
    checked_url,
    order_body,
    order_of,
    path_of,
)
from paymock.client.wait import NotReached, wait_for_payment

__all__ = ["Json", "NotReached", "Refused", "Sandbox", "ServerHandle", "Unreachable", "remote", "serve"]

__tracebackhide__ = True  # a failing test is shown by pytest with its own lines, not with these


class Sandbox:
    """Everything that belongs to one API key of a server, and control of its time.

    Attributes: `url` of the server and `api_key`, for the application under test. Payments come as the API
    shows them. Any thread may call any method. Each raises Refused when the server refuses, and
    Unreachable when it does not answer. As a context manager, it closes its connections at the end.
    """

    def __init__(self, url: str, api_key: str) -> None:
        self._client = Client(url, api_key)
        self.url = self._client.url
        self.api_key = api_key

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
        `expires_at`, and so on. Without a `scenario`, it takes what `next` has prepared. With the same
        `idempotency_key` and the same fields, it is a retry, and the order is the same too.
        """
        key = secrets.token_hex(16) if idempotency_key is None else idempotency_key
        body = order_body(order_of(key), chain, asset, str(amount)) | fields
        headers = {"Idempotency-Key": key}
        if scenario is not None:
            headers["X-Mock-Scenario"] = scenario
        created: Json = self._call("POST", "/v1/payments", body, headers)
        return created

    def payment(self, payment_id: str) -> Json:
        """The payment as it stands. Leaves no trace in `requests`."""
        payment: Json = self._call("GET", path_of(payment_id))["payment"]
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
            page = self._call("GET", "/_mock/payments", query=wanted)
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
        payment: Json = self._call("POST", path_of(payment_id, "advance"), body)
        return payment

    def deposit(self, payment_id: str, amount: str | int, asset: str | None = None) -> Json:
        """A transfer of `amount` raw units to the payment is observed now, beside those of its scenario;
        returns the payment. `asset` None: the one that the payment asks for.
        """
        body = {"amount": str(amount)} | ({} if asset is None else {"asset": asset})
        payment: Json = self._call("POST", path_of(payment_id, "deposits"), body)
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
        return wait_for_payment(self._client, payment_id, status, _seconds(timeout))

    def requests(self) -> list[Json]:
        """The last 1,000 requests below `/v1`, newest first: `method`, `path`, `status` (0 when the
        connection was dropped), `error`, `idempotency` (`new`, `replayed`, `conflict`), `at`, `request_id`,
        `duration_ms`.
        """
        entries: list[Json] = self._call("GET", "/_mock/requests", query={"limit": 1000})["data"]
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
        self._client.close()

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
        query: Mapping[str, Any] | None = None,
    ) -> Any:
        call = self._client.send(method, path, decode=json.loads, body=body, headers=headers, query=query)
        return call.result()


class ServerHandle:
    """A running server: its `url`, and sandboxes of it.

    `api_keys` are the keys that the server accepts, as far as they may be used here; without any, the
    server is in open mode.
    """

    def __init__(self, url: str, api_keys: Iterable[str] = ()) -> None:
        self.url = checked_url(url)
        self._free = list(dict.fromkeys(api_keys))
        self._open = not self._free

    @contextlib.contextmanager
    def sandbox(self) -> Iterator[Sandbox]:
        """A fresh sandbox, for the length of the block: empty, frozen, used by nobody else. It is forgotten
        at the end.

        In open mode it has a new random API key, otherwise one of the configured ones, after a reset. Raises
        Refused when the server does not accept the key, Unreachable when it does not answer, and
        RuntimeError when all configured keys are in use.
        """
        api_key = f"mk_test_{secrets.token_hex(16)}" if self._open else self._free_key()
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

    def _free_key(self) -> str:
        try:
            return self._free.pop()
        except IndexError:  # without a look before: another thread may take the last one
            message = "every configured API key has a sandbox in use; a key is for one at a time"
            raise RuntimeError(message) from None

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
    """The keys in the environment variable `PAYMOCK_API_KEY`, which are separated by commas, each once."""
    keys = os.environ.get("PAYMOCK_API_KEY", "").split(",")
    return list(dict.fromkeys(key.strip() for key in keys if key.strip()))


@contextlib.contextmanager
def serve(**settings: Any) -> Iterator[ServerHandle]:
    """A server in a thread of this process, on a free port and the in-memory store, for the length of the
    block. It handles no signals, and can be started from any thread.

    `settings` are those of `paymock.settings.Settings`: `fee_bps=50`, `seed="demo"`, `api_keys=["k"]`. Its
    log goes to standard error; `access_log=True` adds every request. Raises SettingsError, CatalogError or
    StartError when the settings cannot be served.
    """
    # Here, since it takes a moment, and only those who start a server should wait for it.
    from pathlib import Path

    from paymock.server.run import in_thread
    from paymock.settings import MEMORY_STORE, Settings, SettingsError
    from paymock.web.telemetry.access_log import RequestLog

    if isinstance(settings.get("catalog"), str):
        settings["catalog"] = Path(settings["catalog"])
    chosen = Settings(**{"port": 0, "access_log": False, **settings})
    if chosen.store != MEMORY_STORE or chosen.ready_file or chosen.metrics_address:
        raise SettingsError("a server in a thread is in memory, writes no ready file, and tells no figures")
    log = RequestLog(sys.stderr, chosen.log, requests=chosen.access_log, secrets=tuple(chosen.api_keys))
    with in_thread(chosen, log) as url:
        yield ServerHandle(url, chosen.api_keys)


def _seconds(timeout: float) -> float:
    if not isinstance(timeout, int | float):
        raise TypeError(f"timeout is a number of seconds, not {timeout!r}")
    if isnan(timeout):
        raise ValueError("timeout is a number of seconds, not nan")
    return timeout


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
