"""A sandbox of a server, with every call of the control API. What the server checks, it checks."""

import hashlib
import json
import os
import re
import secrets
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from math import inf
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from paymock.client.http import DEFAULT_TIMEOUT, Call, Client, ConnectionPool, Json, monotonic
from paymock.text import OPEN_KEY, SANDBOX_NAME

MAX_WAIT = 60.0
"""The most seconds that one request may wait; a longer wait is made of several requests."""

GRACE_PERIOD = 5.0
"""Seconds after the end of a wait until its reply must arrive."""

DEFAULT_PAYOUT_ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

_STORY_TIMEOUT = 10.0
_MAX_PAGE = 200
_RETRY_PAUSE = 0.1
"""Seconds between two requests when the server ends a wait early, by at least as much."""

__tracebackhide__ = True  # pytest shows a failing test with its own lines, not with these


class Route(NamedTuple):
    """The method and the path of an operation, and the name of the type of its reply."""

    method: str
    path: str
    reply: str | None


ROUTES = {
    "createPayment": Route("POST", "/v1/payments", "Payment"),
    "getClock": Route("GET", "/_mock/clock", "PolledClock"),
    "setClock": Route("PUT", "/_mock/clock", "VirtualClock"),
    "advanceClock": Route("POST", "/_mock/clock/advance", "VirtualClock"),
    "advancePayment": Route("POST", "/_mock/payments/{payment_id}/advance", "Payment"),
    "makeDeposit": Route("POST", "/_mock/payments/{payment_id}/deposits", "Payment"),
    "listPayments": Route("GET", "/_mock/payments", "PaymentPage"),
    "getStory": Route("GET", "/_mock/story", "str"),
    "getPaymentDetail": Route("GET", "/_mock/payments/{payment_id}", "PaymentDetail"),
    "waitForPayment": Route("GET", "/_mock/payments/{payment_id}/wait", "WaitResult"),
    "waitForOrder": Route("GET", "/_mock/wait", "OrderWaitResult"),
    "waitForRequests": Route("GET", "/_mock/requests/wait", "RequestWaitResult"),
    "setNext": Route("POST", "/_mock/next", "PendingOverrideList"),
    "getNext": Route("GET", "/_mock/next", "PendingOverrideList"),
    "clearNext": Route("DELETE", "/_mock/next", None),
    "addFault": Route("POST", "/_mock/faults", "FaultRule"),
    "listFaults": Route("GET", "/_mock/faults", "FaultRuleList"),
    "deleteFault": Route("DELETE", "/_mock/faults/{fault_id}", None),
    "clearFaults": Route("DELETE", "/_mock/faults", None),
    "listScenarios": Route("GET", "/_mock/scenarios", "ScenarioList"),
    "listRequests": Route("GET", "/_mock/requests", "Journal"),
    "forgetRequests": Route("DELETE", "/_mock/requests", None),
    "reset": Route("POST", "/_mock/reset", None),
}
"""What the calls send, by the id of the operation: as in the tables of the server, which a test compares."""


class NotReached(Exception):
    """A wait ended without what was expected, as the server words it.

    `payment` is the payment at the end, if there is one; `timed_out` is False when the change can no longer
    come.
    """

    def __init__(self, message: str, payment: Json | None, *, timed_out: bool) -> None:
        super().__init__(message)
        self.payment = payment
        self.timed_out = timed_out


class Sandbox:
    """A sandbox: everything that belongs to one API key of a server, and control of its clock.

    With a `name`, it is one of the sandboxes of a configured key: `api_key.name`.

    Attributes: `url` of the server and `api_key`, for the application under test. Payments are returned as
    the API sends them. Thread-safe. Each method raises Refused when the server refuses, and Unreachable when
    it does not answer. As a context manager, it closes its connections at the end, which it may share with
    other sandboxes of the server. A payment is named by its id, or by its order for the newest payment of it.
    """

    is_judged = False
    """Whether `paymock.verify.verify` has judged an application in it, and tells what happened."""

    def __init__(
        self, url: str, api_key: str, connections: ConnectionPool | None = None, *, name: str | None = None
    ) -> None:
        self.name = None if name is None else _checked_name(name)
        self.secret = api_key  # what no text may show, also as a part of `api_key`
        self.api_key = api_key if name is None else f"{api_key}.{name}"
        self._client = Client(url, self.api_key, connections)
        self.url = self._client.url

    @classmethod
    def own(
        cls, url: str, api_key: str | None, name: str | None = None, connections: ConnectionPool | None = None
    ) -> Self:
        """A sandbox for one user: of a configured key the one with this name, by default with that in
        PAYMOCK_SANDBOX or a random one. Without a key, the server must be in open mode; a key of open mode is
        used as it is. Raises ValueError for an invalid name.
        """
        if name is None:
            name = os.environ.get("PAYMOCK_SANDBOX") or f"test-{secrets.token_hex(8)}"
        _checked_name(name)
        if api_key is None or OPEN_KEY.fullmatch(api_key):
            return cls(url, api_key or f"mk_test_{name}", connections)
        return cls(url, api_key, connections, name=name)

    @property
    def dashboard_url(self) -> str:
        """The page of this sandbox. With a configured key, the link has the name only."""
        if OPEN_KEY.fullmatch(self.api_key):
            return f"{self.url}/#key={self.api_key}"
        return f"{self.url}/#sandbox={self.name}" if self.name else f"{self.url}/"

    def now(self) -> datetime:
        """Return the time of the sandbox, in UTC."""
        return datetime.fromisoformat(self.clock()["now"])

    def clock(self) -> Json:
        """Return the time of the sandbox, `now`, and its `speed`: how much faster than real time it runs."""
        return self.call("getClock")

    def advance(self, seconds: float | timedelta) -> datetime:
        """Advance the clock of the sandbox by `seconds`, at least 0.001, frozen or not; return the new time.

        Every later read shows that time.
        """
        clock = self.call("advanceClock", body={"seconds": _seconds("seconds", seconds)})
        return datetime.fromisoformat(clock["now"])

    def speed(self, factor: float) -> None:
        """Set the speed of the clock of the sandbox: `factor` times real time, from 0 to 10,000."""
        self.call("setClock", body={"speed": factor})

    def freeze(self, at: str | datetime | None = None) -> None:
        """Stop the clock of the sandbox: only `advance` and `advance_payment` move time then.

        It stands `at` a time, RFC 3339 or a datetime with an offset, until a reset: of an empty sandbox only.
        """
        now = at.isoformat() if isinstance(at, datetime) else at
        self.call("setClock", body={"speed": 0} | _given({"now": now}))

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
        if isinstance(fields.get("expires_at"), datetime):
            fields["expires_at"] = fields["expires_at"].isoformat()
        body = payment_request(default_order_id(key), chain, asset, str(amount)) | fields
        headers = {"Idempotency-Key": key} | ({} if scenario is None else {"X-Mock-Scenario": scenario})
        call = self.send("createPayment", body=body, headers=headers)
        created: Json = call.result()
        if call.warning:
            warnings.warn(call.warning, stacklevel=2)
        return created

    def payment(self, payment_id: str, *, at: float | timedelta | None = None) -> Json:
        """Return the payment, now or `at` seconds after its creation: no clock moves. The read does not
        appear in `requests`.
        """
        payment: Json = self.detail(payment_id, at=at)["payment"]
        return payment

    def detail(self, payment_id: str, *, at: float | timedelta | None = None) -> Json:
        """Return the `payment` with its `scenario` and its `timeline`: all changes, past and upcoming."""
        seconds = None if at is None else f"{_seconds('at', at):.3f}"
        return self.call("getPaymentDetail", payment_id=payment_id, query={"at": seconds})

    def payments(
        self,
        *,
        status: str | None = None,
        scenario: str | None = None,
        order_id: str | None = None,
        search: str | None = None,
    ) -> list[Json]:
        """List the payments of the sandbox, newest first. The arguments are filters; `search` is a part
        of the order, the beginning of the id, or a whole invoice address or transaction hash.
        """
        filters = {"status": status, "scenario": scenario, "order_id": order_id, "search": search}
        return [*payment_page(self, inf, **filters)["data"]]

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
            body["seconds"] = _seconds("seconds", seconds)
        if not until_observed:
            return self.call("advancePayment", payment_id=payment_id, body=body)
        limit = _seconds("timeout", timeout)
        body |= {"until_observed": True, "timeout": limit}
        within = min(limit, MAX_WAIT) + GRACE_PERIOD
        result = self.call(
            "advancePayment", payment_id=payment_id, body=body, timeout=within, reply="ObservedPayment"
        )
        payment: Json = result["payment"]
        if not result["observed"]:
            raise NotReached(result["message"], payment, timed_out=True)
        return payment

    def deposit(self, payment_id: str, amount: str | int, asset: str | None = None) -> Json:
        """Simulate a deposit of `amount` raw units, in addition to those of the scenario; return the payment.

        By default in the asset that the payment asks for.
        """
        body = {"amount": str(amount)} | ({} if asset is None else {"asset": asset})
        return self.call("makeDeposit", payment_id=payment_id, body=body)

    def next(
        self,
        scenario: str | None = None,
        times: int | None = 1,
        *,
        course: Json | None = None,
        order_id: str | None = None,
        order_id_prefix: str | None = None,
        metadata: Json | None = None,
        fault: None = None,
    ) -> list[Json]:
        """Set a scenario for the next `times` creations.

        In place of the name of a scenario, `course` describes one, with the fields of a file of scenarios.
        They apply to requests without the headers `X-Mock-Scenario` and `X-Mock-Fault`, with these conditions
        if any; with `times` None, to all until `reset`. Returns all pending overrides.
        """
        if fault is not None:  # as before 0.4
            raise TypeError(f'next() takes no fault: call fault({fault!r}, operation="createPayment")')
        override = {"scenario": scenario, "course": course, "order_id": order_id, "metadata": metadata}
        override["order_id_prefix"] = order_id_prefix
        return self._list("setNext", body=_given(override) | {"times": times})

    def pending(self) -> list[Json]:
        """List the pending overrides in the order in which they are taken."""
        return self._list("getNext")

    def clear_next(
        self, order_id: str | None = None, *, order_id_prefix: str | None = None, metadata: Json | None = None
    ) -> None:
        """Delete all pending overrides, or those with these conditions."""
        conditions = {"order_id": order_id, "order_id_prefix": order_id_prefix}
        text = None if metadata is None else json.dumps(metadata)
        self.call("clearNext", query={**conditions, "metadata": text})

    def fault(
        self,
        fault: str,
        *,
        operation: str | None = None,
        order_id: str | None = None,
        order_id_prefix: str | None = None,
        payment_id: str | None = None,
        skip: int = 0,
        times: int | None = 1,
    ) -> Json:
        """Add a rule that injects a fault, in the form of `X-Mock-Fault`, into requests of the application.

        It selects the requests of an `operation` (`getPayment`), about an order, all whose ids begin so, or a
        payment; None selects all. The first `skip` of them pass, and the next `times` get the fault (None:
        all). Requests that get `hold` go on when `clear_faults` deletes the rule. Returns it, with its `id`.
        """
        selected = {"operation": operation, "order_id": order_id, "payment_id": payment_id}
        selected["order_id_prefix"] = order_id_prefix
        body = {"fault": fault, "skip": skip, "times": times}
        return self.call("addFault", body=_given(selected) | body)

    def faults(self) -> list[Json]:
        """List the fault rules in their order: `seen` requests were selected, `applied` of them got the
        fault, and it holds `waiting` of these at the moment.
        """
        return self._list("listFaults")

    def clear_faults(self, rule_id: str | None = None) -> None:
        """Delete the fault rule with this id, or all."""
        if rule_id is None:
            self.call("clearFaults")
        else:
            self.call("deleteFault", fault_id=rule_id)

    def scenarios(self) -> list[Json]:
        """List the scenarios of the server, each with what it leads to."""
        return self._list("listScenarios")

    def wait(self, payment_id: str, status: str | None = None, timeout: float | timedelta = 30) -> Json:
        """Wait until the payment reaches `status` or, without one, until its next change; return the payment.

        Raises NotReached after `timeout` real seconds, or at once when the change can no longer come. Changes
        that another thread or the application makes end the wait too.
        """
        limit, previous = _seconds("timeout", timeout), None
        for result in self._results("waitForPayment", limit, {"status": status}, payment_id=payment_id):
            payment: Json = result["payment"]
            changed_between_requests = status is None and previous not in (None, payment)
            if result["reached"] or changed_between_requests:
                return payment
            previous = payment
        raise NotReached(result["message"], payment, timed_out=result["possible"])

    def wait_for(self, order_id: str, status: str | None = None, timeout: float | timedelta = 30) -> Json:
        """Wait until the newest payment of the order, which need not exist yet, reaches `status` or, without
        one, exists; return the payment.

        Raises NotReached after `timeout` real seconds, or at once when the status can no longer come.
        """
        query = {"order_id": order_id, "status": status}
        for result in self._results("waitForOrder", _seconds("timeout", timeout), query):
            if result["reached"]:
                payment: Json = result["payment"]
                return payment
        raise NotReached(result["message"], result["payment"], timed_out=result["possible"])

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
        wanted = {"operation": operation, "order_id": order_id, "payment_id": payment_id, "shown": shown}
        query = wanted | {"after": after, "count": count}
        for result in self._results("waitForRequests", _seconds("timeout", timeout), query):
            if result["reached"]:
                return [*result["data"]]
        raise NotReached(result["message"], None, timed_out=True)

    def requests(self, limit: int = 1_000) -> list[Json]:
        """List the last requests below `/v1`, at most 1,000, newest first: `method`, `path`, `operation`,
        `order_id`, `payment_id`, `status` (0 when the client got no reply), `error`, `message`, `details`,
        `shown` (the status of the payment in the reply), `idempotency` (`new`, `replayed`, `conflict`),
        `fault`, `at` (in real time), `virtual_at`, `payment_ahead_seconds`, `fetch_site`, `request_id`,
        `duration_ms`, `key` (its number within the order), `differs` (paths, after the reuse of a key).
        """
        return self._list("listRequests", query={"limit": limit})

    def clear_requests(self) -> None:
        """Empty the list of requests."""
        self.call("forgetRequests")

    def describe(self) -> str:
        """Return the last payments with their timelines and deposits, the fault rules and the last requests,
        as text without API keys and addresses, for the message of a failure. Raises Refused, and Unreachable
        within some ten seconds.
        """
        return str(self.send("getStory", timeout=_STORY_TIMEOUT).result())

    def reset(self) -> None:
        """Delete payments, idempotency keys, webhook endpoints, overrides, fault rules and requests, and
        reset the clock.

        A frozen sandbox stays frozen.
        """
        frozen = self.clock()["speed"] == 0
        self.call("reset")
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

    def send(
        self,
        operation: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        reply: str | None = None,
        **ids: str,
    ) -> Call[Any]:
        """Send a request of one of ROUTES, without waiting for its reply. `ids` are the values in the path,
        `reply` is the type of the reply if it is not the usual one. Raises Unreachable; TypeError or
        ValueError for what cannot be sent.
        """
        route, segments = ROUTES[operation], {}
        for name, value in ids.items():
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a string, not {type(value).__name__}")
            if not value:
                raise ValueError(f"{name} must not be empty")
            segments[name] = quote(value, safe="", errors="surrogateescape")
        path, decode = route.path.format_map(segments), self._decoder(reply or route.reply)
        return self._client.send(
            route.method, path, decode=decode, query=query, body=body, headers=headers, timeout=timeout
        )

    def call(self, operation: str, **request: Any) -> Json:
        """Send a request as `send` does, and return its reply; an empty one is {}. Raises Refused, too."""
        return self.send(operation, **request).result() or {}

    def _list(self, operation: str, **request: Any) -> list[Json]:
        return [*self.call(operation, **request)["data"]]

    def _decoder(self, reply: str | None) -> Callable[[bytes], Any]:
        """A function that decodes the body of a reply of this type. Raises ValueError for another body."""
        return bytes.decode if reply == "str" else json.loads

    def _results(
        self, operation: str, timeout: float, query: Mapping[str, Any], **ids: str
    ) -> Iterator[Json]:
        """Yield replies for `timeout` real seconds, or until what is awaited can no longer come."""
        deadline = monotonic() + timeout
        while True:
            sent_at = monotonic()
            duration = min(max(0.0, deadline - sent_at), MAX_WAIT)
            waiting = {**query, "timeout": f"{duration:.3f}"}
            result = self.call(operation, query=waiting, timeout=duration + GRACE_PERIOD, **ids)
            yield result
            now = monotonic()
            if now >= deadline or not result.get("possible", True):
                return
            if now < sent_at + duration - _RETRY_PAUSE:
                time.sleep(min(_RETRY_PAUSE, deadline - now))  # the server may be stopping


def payment_page(sandbox: Sandbox, limit: float, **filters: str | None) -> Json:
    """Return one page of the newest `limit` payments that match."""
    data: list[Json] = []
    page: Json = {"next_cursor": None}
    while True:
        query = {**filters, "limit": min(limit - len(data), _MAX_PAGE), "cursor": page["next_cursor"]}
        page = sandbox.call("listPayments", query=query)
        data += page["data"]
        if page["next_cursor"] is None or len(data) >= limit:
            return page | {"data": data}


def payment_request(
    order_id: str, chain: str, asset: str, amount: str, address: str = DEFAULT_PAYOUT_ADDRESS
) -> Json:
    """The body of `POST /v1/payments` with the required fields only; `amount` is in raw units."""
    return {
        "order_id": order_id,
        "receive": {"chain": chain, "asset": asset, "amount": amount, "address": address},
        "settlement": {"mode": "same_chain_merchant_payout"},
        "pay_with": [{"chain": chain, "asset": asset}],
    }


def default_order_id(idempotency_key: str) -> str:
    """An order id derived from the idempotency key, so that a retry sends the same."""
    return f"order-{hashlib.blake2b(idempotency_key.encode(), digest_size=4).hexdigest()}"


def _given(values: Mapping[str, Any]) -> Json:
    return {name: value for name, value in values.items() if value is not None}


def _seconds(name: str, value: float | timedelta) -> float:
    """A duration in seconds. Raises TypeError, ValueError."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds or a timedelta, not {value!r:.80}")
    if not 0 <= value < float("inf"):  # also not a number
        raise ValueError(f"{name} must be a finite number of seconds, at least 0")
    return value


def _checked_name(name: str) -> str:
    if not re.fullmatch(SANDBOX_NAME, name):
        raise ValueError("the name of a sandbox must be 1 to 64 letters, digits, - or _")
    return name
