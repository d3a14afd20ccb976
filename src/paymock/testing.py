"""For tests: a server in a thread, and sandboxes of a local or a remote server. See docs/testing.md.

A sandbox is driven over HTTP with the standard library only; the modules of the server are imported when one
is started here.
"""

import contextlib
import json
import os
import secrets
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Self

from paymock.client import arguments
from paymock.client.api_keys import ApiKeyPool
from paymock.client.description import describe
from paymock.client.http import (
    Call,
    Client,
    ConnectionPool,
    Json,
    Refused,
    Unreachable,
    default_order_id,
    fault_rule_path,
    normalize_url,
    payment_path,
    payment_request,
)
from paymock.client.wait import (
    NotReached,
    advance_until_observed,
    wait_for_order,
    wait_for_payment,
    wait_for_requests,
)

__all__ = ["Json", "NotReached", "Refused", "Sandbox", "ServerHandle", "Unreachable", "remote", "serve"]

MIN_ADVANCE = 0.001
"""The shortest step of a clock, in seconds: the resolution of time."""

_FAULTS_PATH = "/_mock/faults"

before_reset: "list[Callable[[Sandbox], None]]" = getattr(
    sys.modules.get("_paymock_pytest"), "before_reset", []
)
"""What is called with each sandbox of a ServerHandle at the end of its block, before the reset."""

open_sandboxes: "list[Sandbox]" = []
"""The sandboxes of each ServerHandle whose block has not ended."""

__tracebackhide__ = True  # pytest shows a failing test with its own lines, not with these


class Sandbox:
    """A sandbox: everything that belongs to one API key of a server, and control of its clock.

    Attributes: `url` of the server and `api_key`, for the application under test. Payments are returned as
    the API sends them. Thread-safe. Each method raises Refused when the server refuses, and Unreachable when
    it does not answer. As a context manager, it closes its connections at the end, which it may share with
    other sandboxes of the server.
    """

    is_judged = False
    """Whether `paymock.verify.verify` has judged an application in it, and tells what happened."""

    def __init__(self, url: str, api_key: str, connections: ConnectionPool | None = None) -> None:
        self._client = Client(url, arguments.api_key("api_key", api_key), connections)
        self.url = self._client.url
        self.api_key = api_key

    def now(self) -> datetime:
        """Return the time of the sandbox, in UTC."""
        return _parse_time(self._call("GET", "/_mock/clock")["now"])

    def advance(self, seconds: float | timedelta) -> datetime:
        """Advance the clock of the sandbox by `seconds`, at least 0.001, frozen or not; return the new time.

        Every later read shows that time.
        """
        body = {"seconds": arguments.seconds("seconds", seconds, minimum=MIN_ADVANCE)}
        return _parse_time(self._call("POST", "/_mock/clock/advance", body)["now"])

    def speed(self, factor: float) -> None:
        """Set the speed of the clock of the sandbox: `factor` times real time, from 0 to 10,000."""
        self._call("PUT", "/_mock/clock", {"speed": arguments.number("factor", factor)})

    def freeze(self) -> None:
        """Stop the clock of the sandbox: only `advance` and `advance_payment` move time then."""
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
        """Create a payment of `amount` raw units and return it.

        The order and the idempotency key are new. `fields` are members of the request body: `order_id`,
        `metadata`, `expires_at` (also as a datetime), and so on. Without a `scenario`, the override set by
        `next` applies. With the same `idempotency_key` and the same fields, it is a retry, with the same
        order; it warns if the payment follows another scenario.
        """
        key = secrets.token_hex(16) if idempotency_key is None else idempotency_key
        headers = {"Idempotency-Key": arguments.header("idempotency_key", key)}
        if scenario is not None:
            headers["X-Mock-Scenario"] = arguments.header("scenario", scenario)
        units = arguments.raw_units("amount", amount)
        coin = arguments.text("chain", chain), arguments.text("asset", asset)
        if isinstance(fields.get("expires_at"), datetime):
            fields["expires_at"] = arguments.time("expires_at", fields["expires_at"])
        call = self._send(
            "POST", "/v1/payments", payment_request(default_order_id(key), *coin, units) | fields, headers
        )
        created: Json = call.result()
        if call.warning:
            warnings.warn(call.warning, stacklevel=2)
        return created

    def payment(self, payment_id: str) -> Json:
        """Return the payment. The read does not appear in `requests`."""
        payment: Json = self._call("GET", payment_path(payment_id))["payment"]
        return payment

    def payments(
        self,
        *,
        status: str | None = None,
        scenario: str | None = None,
        order_id: str | None = None,
        search: str | None = None,
    ) -> list[Json]:
        """List the payments of the sandbox, newest first. The arguments are filters; `search` is what the
        order or the id begins with.
        """
        filters = {"status": status, "scenario": scenario, "order_id": order_id, "search": search}
        query = {"limit": "200"}
        query |= {name: arguments.text(name, value) for name, value in filters.items() if value is not None}
        payments: list[Json] = []
        while True:
            page = self._call("GET", "/_mock/payments", query=query)
            payments += page["data"]
            if page["next_cursor"] is None:
                return payments
            query["cursor"] = page["next_cursor"]

    def advance_payment(
        self,
        payment_id: str,
        to: str | None = None,
        seconds: float | timedelta | None = None,
        *,
        until_observed: bool = False,
        timeout: float | timedelta = 30,
    ) -> Json:
        """Advance one payment ahead of its sandbox and return it.

        Either `to` a status, to the `"next"` change or to the `"end"` of its timeline, or by `seconds`. With
        `until_observed`, it goes from change to change, and stays at each until the application has read the
        payment in that state. Raises Refused `status_unreachable` when the status does not lie ahead, and
        NotReached when the application has not read a change within `timeout` real seconds for all of them,
        at most 60; the payment then stands at that change.
        """
        body: Json = {} if to is None else {"to": to}
        if seconds is not None:
            body["seconds"] = arguments.seconds("seconds", seconds, minimum=MIN_ADVANCE)
        if until_observed:
            return advance_until_observed(
                self._client, payment_id, body, arguments.seconds("timeout", timeout)
            )
        payment: Json = self._call("POST", payment_path(payment_id, "advance"), body)
        return payment

    def deposit(self, payment_id: str, amount: str | int, asset: str | None = None) -> Json:
        """Simulate a deposit of `amount` raw units, beside those of the scenario; return the payment.

        By default in the asset that the payment asks for.
        """
        body = {"amount": arguments.raw_units("amount", amount)} | ({} if asset is None else {"asset": asset})
        payment: Json = self._call("POST", payment_path(payment_id, "deposits"), body)
        return payment

    def next(
        self,
        scenario: str | None = None,
        fault: str | None = None,
        times: int | None = 1,
        *,
        course: Json | None = None,
        order_id: str | None = None,
    ) -> list[Json]:
        """Set a scenario, a fault in the form of `X-Mock-Fault`, or both, for the next `times` creations.

        In place of the name of a scenario, `course` describes one, with the fields of a file of scenarios.
        They apply to requests without the headers `X-Mock-Scenario` and `X-Mock-Fault`; with `times` None, to
        all until `reset`; with an `order_id`, to those of that order only. Returns all pending overrides.
        """
        override = {"scenario": scenario, "course": course, "fault": fault, "order_id": order_id}
        body = {name: value for name, value in override.items() if value is not None} | {"times": times}
        pending: list[Json] = self._call("POST", "/_mock/next", body)["data"]
        return pending

    def clear_next(self, order_id: str | None = None) -> None:
        """Delete all pending overrides, or those for the creations of one order."""
        self._call("DELETE", "/_mock/next", query={"order_id": order_id})

    def fault(
        self,
        fault: str,
        *,
        operation: str | None = None,
        order_id: str | None = None,
        payment_id: str | None = None,
        skip: int = 0,
        times: int | None = 1,
    ) -> Json:
        """Add a rule that injects a fault, in the form of `X-Mock-Fault`, into requests of the application.

        It selects the requests of an `operation` (`getPayment`), about an order or about a payment; None
        selects all. The first `skip` of them pass, and the next `times` get the fault (None: all).
        Returns the rule, with its `id`.
        """
        body: Json = {"fault": arguments.text("fault", fault), "skip": skip, "times": times}
        selected = {"operation": operation, "order_id": order_id, "payment_id": payment_id}
        body |= {name: arguments.text(name, value) for name, value in selected.items() if value is not None}
        rule: Json = self._call("POST", _FAULTS_PATH, body)
        return rule

    def faults(self) -> list[Json]:
        """List the fault rules in their order: `seen` requests were selected, `applied` of them got the
        fault.
        """
        rules: list[Json] = self._call("GET", _FAULTS_PATH)["data"]
        return rules

    def clear_faults(self, rule_id: str | None = None) -> None:
        """Delete the fault rule with this id, or all."""
        self._call("DELETE", _FAULTS_PATH if rule_id is None else fault_rule_path(rule_id))

    def wait(self, payment_id: str, status: str | None = None, timeout: float | timedelta = 30) -> Json:
        """Wait until the payment reaches `status` or, without one, until its next change; return the payment.

        Raises NotReached after `timeout` real seconds, or at once when the change can no longer come. Changes
        that another thread or the application makes end the wait too.
        """
        if status is not None:
            arguments.text("status", status)
        return wait_for_payment(self._client, payment_id, status, arguments.seconds("timeout", timeout))

    def wait_for(self, order_id: str, status: str | None = None, timeout: float | timedelta = 30) -> Json:
        """Wait until the newest payment of the order, which need not exist yet, reaches `status` or, without
        one, exists; return the payment.

        Raises NotReached after `timeout` real seconds, or at once when the status can no longer come.
        """
        if status is not None:
            arguments.text("status", status)
        order_id = arguments.text("order_id", order_id)
        return wait_for_order(self._client, order_id, status, arguments.seconds("timeout", timeout))

    def wait_for_requests(
        self,
        count: int = 1,
        *,
        operation: str | None = None,
        order_id: str | None = None,
        payment_id: str | None = None,
        shown: str | None = None,
        after: str | None = None,
        timeout: float | timedelta = 30,
    ) -> list[Json]:
        """Wait until the application has sent `count` requests that match all given arguments, and return
        those that match, newest first, in the form of `requests`.

        `operation` is an operation id such as `getPayment`, `shown` the status of the payment in the reply,
        `after` the `request_id` of an earlier request. Requests that got a fault count, too, but show no
        status. Raises NotReached after `timeout` real seconds.
        """
        query = {
            "operation": operation,
            "order_id": order_id,
            "payment_id": payment_id,
            "shown": shown,
            "after": after,
        }
        for name, value in query.items():
            if value is not None:
                arguments.text(name, value)
        seconds = arguments.seconds("timeout", timeout)
        return wait_for_requests(self._client, query, arguments.integer("count", count), seconds)

    def requests(self) -> list[Json]:
        """List the last 1,000 requests below `/v1`, newest first: `method`, `path`, `operation`, `order_id`,
        `payment_id`, `status` (0 when the client got no reply), `error`, `message`, `details`, `shown` (the
        status of the payment in the reply), `idempotency` (`new`, `replayed`, `conflict`), `fault`, `at` (in
        real time), `virtual_at`, `request_id`, `duration_ms`.
        """
        entries: list[Json] = self._call("GET", "/_mock/requests", query={"limit": 1000})["data"]
        return entries

    def describe(self) -> str:
        """Return the last payments with their timelines and deposits, the fault rules and the last requests,
        as text without API keys and addresses, for the message of a failure.
        """
        return describe(self._client)

    def reset(self) -> None:
        """Delete payments, idempotency keys, webhook endpoints, overrides, fault rules and requests, and
        reset the clock.

        A frozen sandbox stays frozen.
        """
        frozen = self._call("GET", "/_mock/clock")["speed"] == 0
        self._reset()
        if frozen:
            self.freeze()

    def close(self) -> None:
        """Close the connections. The sandbox stays usable: the next call opens a new connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Sandbox of {self.url}>"

    def _reset(self) -> None:
        self._call("POST", "/_mock/reset")

    def _call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> Any:
        return self._send(method, path, body, headers, query).result()

    def _send(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> Call[Any]:
        for name, value in (body or {}).items():
            arguments.check_json(name, value)
        return self._client.send(method, path, decode=json.loads, body=body, headers=headers, query=query)


class ServerHandle:
    """A running server: its `url`, and fresh sandboxes of it.

    `api_keys` are the keys to use, which the server must accept; without any, the server must be in open
    mode. The sandboxes share their connections, so that most tests need not open one.
    """

    def __init__(self, url: str, api_keys: Iterable[str] = ()) -> None:
        self.url = normalize_url(url)
        self._connections = ConnectionPool(self.url)
        weakref.finalize(self, self._connections.close)
        self._keys = ApiKeyPool(arguments.api_keys("api_keys", api_keys))

    @contextlib.contextmanager
    def sandbox(self) -> Iterator[Sandbox]:
        """Yield a sandbox that is empty, frozen and used by nobody else; reset it at the end of the block.

        In open mode it has a new random API key, otherwise one of the configured ones, after a reset. A child
        process that is forked within the block can use the sandbox, and does not reset it. Raises Refused
        when the server does not accept the key, Unreachable when it does not answer, and RuntimeError when
        all configured keys are in use.
        """
        process = os.getpid()
        api_key = self._keys.take() if self._keys else f"mk_test_{secrets.token_hex(16)}"
        try:
            sandbox = Sandbox(self.url, api_key, self._connections)
            self._prepare(sandbox)
            open_sandboxes.append(sandbox)
            try:
                yield sandbox
            finally:
                open_sandboxes.remove(sandbox)
                if os.getpid() == process:
                    for call in before_reset:
                        call(sandbox)
                    sandbox._reset()
        finally:
            self._keys.release(api_key)

    def close(self) -> None:
        """Close the connections of the sandboxes. The handle stays usable: the next call opens a new one."""
        self._connections.close()

    def _prepare(self, sandbox: Sandbox) -> None:
        try:
            if self._keys:
                sandbox._reset()
            sandbox.freeze()
        except Refused as refused:
            if refused.status == 401:
                refused.add_note(
                    "For a server that is not in open mode, set PAYMOCK_API_KEY to one of its API keys."
                )
            raise

    def __repr__(self) -> str:
        return f"<ServerHandle on {self.url}>"


def remote(url: str | None = None, api_keys: Iterable[str] | None = None) -> ServerHandle:
    """Return a handle on a running server: by default the one at `PAYMOCK_URL`, with the keys in
    `PAYMOCK_API_KEY`, separated by commas. Without keys, the server must be in open mode.

    Raises ValueError when there is no URL, or not an HTTP URL.
    """
    url = os.environ.get("PAYMOCK_URL", "") if url is None else url
    return ServerHandle(url, api_keys_from_environment() if api_keys is None else api_keys)


def api_keys_from_environment() -> list[str]:
    """The keys in the variable `PAYMOCK_API_KEY`, which are separated by commas, without duplicates."""
    keys = os.environ.get("PAYMOCK_API_KEY", "").split(",")
    return list(dict.fromkeys(key.strip() for key in keys if key.strip()))


@contextlib.contextmanager
def serve(**settings: Any) -> Iterator[ServerHandle]:
    """Run a server for the length of the block: in a thread, on a free port, with the in-memory store.

    It handles no signals, and can be started from any thread. `settings` are those of
    `paymock.settings.Settings`: `fee_bps=50`, `seed="demo"`, `api_keys=["k"]`. The log goes to standard
    error; `access_log=True` adds every request. Raises TypeError for a setting of a wrong type, and
    SettingsError, CatalogError, ScenarioFileError or StartError when the server cannot start with them.
    """
    # Imported here, since it takes long, and a remote sandbox does not need it.
    from pathlib import Path

    from paymock.server.run import serve_in_thread
    from paymock.settings import MEMORY_STORE, Settings, SettingsError
    from paymock.web.telemetry.access_log import RequestLog

    if "api_keys" in settings:
        settings["api_keys"] = tuple(arguments.api_keys("api_keys", settings["api_keys"]))
    for name in {"host", "seed"} & settings.keys():
        if settings[name] is not None:
            arguments.text(name, settings[name])
    for name in {"catalog", "scenarios"} & settings.keys():
        if settings[name] is not None:
            settings[name] = Path(arguments.path(name, settings[name]))
    options = Settings(**{"port": 0, "access_log": False, **settings})
    if options.store != MEMORY_STORE or options.ready_file or options.metrics_address:
        raise SettingsError(
            "a server in a thread supports neither another store, nor a ready file, nor a metrics address"
        )
    log = RequestLog(sys.stderr, options.log, requests=options.access_log, secrets=tuple(options.api_keys))
    with (
        serve_in_thread(options, log) as url,
        contextlib.closing(ServerHandle(url, options.api_keys)) as handle,
    ):
        yield handle


def _parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text)
