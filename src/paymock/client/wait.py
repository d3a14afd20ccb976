"""Waiting for payments, orders and requests, without polling: the server answers at the change."""

import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from paymock.client.http import Client, Json, payment_path

MAX_WAIT = 60.0
"""The most seconds that one request may wait; a longer wait is made of several requests."""

GRACE_PERIOD = 5.0
"""Seconds after the end of a wait until its reply must arrive."""

_FROZEN = "stands still until it is advanced"

_RETRY_PAUSE = 0.1
"""Seconds between two requests when the server ends a wait early, by at least as much."""

__tracebackhide__ = True  # pytest shows a failing test with its own lines, not with these


class NotReached(Exception):
    """A wait ended without what was expected.

    `payment` is the payment at the end, if there is one; `timed_out` is False when the change can no longer
    come.
    """

    def __init__(self, message: str, payment: Json | None, *, timed_out: bool) -> None:
        super().__init__(message)
        self.payment = payment
        self.timed_out = timed_out


def wait_for_payment(client: Client, payment_id: str, status: str | None, timeout: float) -> Json:
    """Wait until the payment reaches `status` or, without one, until its next change; return the payment.

    Raises NotReached after `timeout` real seconds, or at once when the change can no longer come; Refused;
    and Unreachable, at most some seconds after the timeout.
    """
    path, previous = payment_path(payment_id), None
    for result in _results(client, "WaitResult", f"{path}/wait", {"status": status}, timeout):
        payment: Json = result["payment"]
        changed_between_requests = status is None and previous not in (None, payment)
        if result["reached"] or changed_between_requests:
            return payment
        previous = payment
        if not result["possible"]:
            reason = f"{status} can no longer come" if status else "no change is left"
            raise NotReached(f"{_summary(payment)}: {reason}", payment, timed_out=False)
    decode = client.decoder("PaymentDetail")
    detail = client.send("GET", path, decode=decode, timeout=GRACE_PERIOD).result()
    changed: Json = detail["payment"]
    if changed != payment:  # since the last reply
        return changed if status is None else wait_for_payment(client, payment_id, status, 0.0)
    reason = _time_left(client, detail["timeline"], detail["now"], status, frozen="clock" in result)
    message = f"{_summary(payment)} after {timeout:g} s: {reason}"
    raise NotReached(message, payment, timed_out=True)


def wait_for_order(client: Client, order_id: str, status: str | None, timeout: float) -> Json:
    """Wait until the newest payment of the order reaches `status` or, without one, exists; return it.

    Raises NotReached after `timeout` real seconds, or at once when the change can no longer come; Refused;
    and Unreachable, at most some seconds after the timeout.
    """
    query = {"order_id": order_id, "status": status}
    for result in _results(client, "OrderWaitResult", "/_mock/wait", query, timeout):
        payment: Json | None = result["payment"]
        if payment is not None and result["reached"]:
            return payment
        if payment is not None and not result["possible"]:
            reason = f"{_summary(payment)}: {status} can no longer come"
            raise NotReached(f"order {order_id}: {reason}", payment, timed_out=False)
    state = _summary(payment) if payment else "it has no payment"
    reason = f": the clock {_FROZEN}" if "clock" in result else ""
    raise NotReached(f"order {order_id}: {state} after {timeout:g} s{reason}", payment, timed_out=True)


def wait_for_requests(client: Client, query: Mapping[str, Any], count: int, timeout: float) -> list[Json]:
    """Wait until the journal has `count` requests that match the `query`; return them, newest first.

    Raises NotReached after `timeout` real seconds; Refused; and Unreachable, at most some seconds after the
    timeout.
    """
    path, wanted = "/_mock/requests/wait", {**query, "count": count}
    for result in _results(client, "RequestWaitResult", path, wanted, timeout):
        requests: list[Json] = result["data"]
        if result["reached"]:
            return requests
    conditions = ", ".join(f"{name}={value}" for name, value in query.items() if value is not None)
    found = f"{len(requests)} of {count} requests{f' with {conditions}' if conditions else ''}"
    raise NotReached(f"{found} after {timeout:g} s", None, timed_out=True)


def advance_until_observed(client: Client, payment_id: str, target: Json, timeout: float) -> Json:
    """Advance a payment to its `target` from change to change, each once the application has read the one
    before, and return it.

    Raises ValueError if the timeout exceeds MAX_WAIT; NotReached if it has not read a change when `timeout`
    real seconds have passed; Refused; and Unreachable, at most some seconds after the timeout.
    """
    if timeout > MAX_WAIT:
        raise ValueError(f"timeout must be at most {MAX_WAIT:g} with until_observed, not {timeout:g}")
    result = client.send(
        "POST",
        payment_path(payment_id, "advance"),
        body={**target, "until_observed": True, "timeout": timeout},
        timeout=timeout + GRACE_PERIOD,
        decode=client.decoder("ObservedPayment"),
    ).result()
    payment: Json = result["payment"]
    if not result["observed"]:
        message = f"{_summary(payment)}, and the application has not read that after {timeout:g} s"
        raise NotReached(message, payment, timed_out=True)
    return payment


def _results(
    client: Client, schema: str, path: str, query: Mapping[str, Any], timeout: float
) -> Iterator[Json]:
    """Yield the replies of requests that wait, until `timeout` real seconds have passed."""
    deadline = time.monotonic() + timeout
    while True:
        sent_at = time.monotonic()
        duration = min(max(0.0, deadline - sent_at), MAX_WAIT)
        yield client.send(
            "GET",
            path,
            query={**query, "timeout": f"{duration:.3f}"},
            timeout=duration + GRACE_PERIOD,
            decode=client.decoder(schema),
        ).result()
        now = time.monotonic()
        if now >= deadline:
            return
        if now < sent_at + duration - _RETRY_PAUSE:
            time.sleep(min(_RETRY_PAUSE, deadline - now))  # the server may be stopping


def _time_left(client: Client, timeline: list[Json], now: str, status: str | None, *, frozen: bool) -> str:
    """Describe when the expected change is due, and at which speed the clock runs unless it is `frozen`."""
    target = status or "the next change"
    upcoming = [entry for entry in timeline if not entry["reached"] and status in (None, entry["status"])]
    if not upcoming:
        return (
            f"{target} is not scheduled; it needs a deposit{f', and the clock {_FROZEN}' if frozen else ''}"
        )
    left = datetime.fromisoformat(upcoming[0]["at"]) - datetime.fromisoformat(now)
    clock = _FROZEN
    if not frozen:
        decode = client.decoder("VirtualClock")
        speed = client.send("GET", "/_mock/clock", decode=decode, timeout=GRACE_PERIOD).result()["speed"]
        clock = f"runs at speed {speed:g}"
    return f"{target} lies {left.total_seconds():g} s ahead on a clock that {clock}"


def _summary(payment: Json) -> str:
    return f"payment {payment['id']} is {payment['status']}"
