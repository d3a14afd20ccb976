"""Waiting for a status of a payment, without polling: the server answers at the change."""

import json
import time
from datetime import datetime

from paymock.client.http import Client, Json, payment_path

MAX_WAIT = 60.0
"""The most seconds that one request may wait; a longer wait is made of several requests."""

GRACE_PERIOD = 5.0
"""Seconds after the end of a wait until its reply must arrive."""

_RETRY_PAUSE = 0.1
"""Seconds between two requests when the server ends a wait early, by at least as much."""

__tracebackhide__ = True  # pytest shows a failing test with its own lines, not with these


class NotReached(Exception):
    """A wait ended without the expected change.

    `payment` is the payment at the end; `timed_out` is False when the change can no longer come.
    """

    def __init__(self, message: str, payment: Json, *, timed_out: bool) -> None:
        super().__init__(message)
        self.payment = payment
        self.timed_out = timed_out


def wait_for_payment(client: Client, payment_id: str, status: str | None, timeout: float) -> Json:
    """Wait until the payment reaches `status` or, without one, until its next change; return the payment.

    Raises NotReached after `timeout` real seconds, or at once when the change can no longer come; Refused;
    and Unreachable, at most some seconds after the timeout.
    """
    path, previous = payment_path(payment_id), None
    deadline = time.monotonic() + timeout
    while True:
        sent_at = time.monotonic()
        duration = min(max(0.0, deadline - sent_at), MAX_WAIT)
        query = {"status": status, "timeout": f"{duration:.3f}"}
        call = client.send(
            "GET", f"{path}/wait", query=query, timeout=duration + GRACE_PERIOD, decode=_wait_result
        )
        reached, possible, payment = call.result()
        changed_between_requests = status is None and previous not in (None, payment)
        if reached or changed_between_requests:
            return payment
        previous = payment
        if not possible:
            reason = f"{status} can no longer come" if status else "no change is left"
            raise NotReached(f"{_summary(payment)}: {reason}", payment, timed_out=False)
        now = time.monotonic()
        if now >= deadline:
            detail = client.send("GET", path, decode=json.loads, timeout=GRACE_PERIOD).result()
            if detail["payment"] == payment:
                reason = _time_left(client, detail["timeline"], detail["now"], status)
                message = f"{_summary(payment)} after {timeout:g} s: {reason}"
                raise NotReached(message, payment, timed_out=True)
        elif now < sent_at + duration - _RETRY_PAUSE:
            time.sleep(min(_RETRY_PAUSE, deadline - now))  # the server may be stopping


def _time_left(client: Client, timeline: list[Json], now: str, status: str | None) -> str:
    """Describe when the expected change is due, and at which speed the clock runs."""
    target = status or "the next change"
    upcoming = [entry for entry in timeline if not entry["reached"] and status in (None, entry["status"])]
    if not upcoming:
        return f"{target} is not scheduled; it needs a deposit"
    speed = client.send("GET", "/_mock/clock", decode=json.loads, timeout=GRACE_PERIOD).result()["speed"]
    clock = f"runs at speed {speed:g}" if speed else "stands still until it is advanced"
    left = datetime.fromisoformat(upcoming[0]["at"]) - datetime.fromisoformat(now)
    return f"{target} lies {left.total_seconds():g} s ahead on a clock that {clock}"


def _wait_result(content: bytes) -> tuple[bool, bool, Json]:
    result = json.loads(content)
    return result["reached"], result["possible"], result["payment"]


def _summary(payment: Json) -> str:
    return f"payment {payment['id']} is {payment['status']}"
