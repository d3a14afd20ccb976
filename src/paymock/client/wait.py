"""The wait for a payment, which may take longer than one request: no polling, and never longer than is asked.

The server answers at the change, or says that it can no longer come.
"""

import json
import time
from datetime import datetime

from paymock.client.http import Client, Json, path_of

LONGEST_WAIT = 60.0
"""The most seconds that one request may wait."""

GRACE = 5.0
"""Seconds after the end of a wait until its reply must have come."""

_EARLY = 0.1
"""An answer that comes more seconds than this before its time is early."""

__tracebackhide__ = True  # a failing test is shown by pytest with its own lines, not with these


class NotReached(Exception):
    """A wait was in vain. `payment` is the payment as it was at the end; `timed_out` is False when what was
    waited for can no longer come.
    """

    def __init__(self, message: str, payment: Json, *, timed_out: bool) -> None:
        super().__init__(message)
        self.payment = payment
        self.timed_out = timed_out


def wait_for_payment(client: Client, payment_id: str, status: str | None, timeout: float) -> Json:
    """The payment as soon as it has reached `status` or, without one, at its next change.

    Raises NotReached after `timeout` real seconds, and at once when it can no longer come; Refused; and
    Unreachable, at most some seconds after the timeout.
    """
    path, before = path_of(payment_id), None
    deadline = time.monotonic() + timeout
    while True:
        asked = time.monotonic()
        length = min(max(0.0, deadline - asked), LONGEST_WAIT)
        query = {"status": status, "timeout": f"{length:.3f}"}
        request = client.send("GET", f"{path}/wait", query=query, patience=length + GRACE, decode=_outcome)
        reached, possible, payment = request.result()
        changed_between_two_requests = status is None and before not in (None, payment)
        if reached or changed_between_two_requests:
            return payment
        before = payment
        if not possible:
            why = f"{status} can no longer come" if status else "nothing changes any more"
            raise NotReached(f"{_standing(payment)}: {why}", payment, timed_out=False)
        now = time.monotonic()
        if now >= deadline:
            shown = client.send("GET", path, decode=json.loads, patience=GRACE).result()
            if shown["payment"] == payment:
                why = _outlook(client, shown["timeline"], shown["now"], status)
                message = f"{_standing(payment)} after {timeout:g} s: {why}"
                raise NotReached(message, payment, timed_out=True)
        elif now < asked + length - _EARLY:
            time.sleep(min(_EARLY, deadline - now))  # the server is stopping: a later request will say so


def _outlook(client: Client, timeline: list[Json], now: str, status: str | None) -> str:
    """Says what lies between the payment and what was waited for."""
    what = status or "the next change"
    wanted = [entry for entry in timeline if not entry["reached"] and status in (None, entry["status"])]
    if not wanted:
        return f"{what} does not come by itself, only when somebody pays"
    speed = client.send("GET", "/_mock/clock", decode=json.loads, patience=GRACE).result()["speed"]
    pace = f"runs at speed {speed:g}" if speed else "stands still until it is advanced"
    left = datetime.fromisoformat(wanted[0]["at"]) - datetime.fromisoformat(now)
    return f"{what} lies {left.total_seconds():g} s ahead on a clock that {pace}"


def _outcome(content: bytes) -> tuple[bool, bool, Json]:
    outcome = json.loads(content)
    return outcome["reached"], outcome["possible"], outcome["payment"]


def _standing(payment: Json) -> str:
    return f"payment {payment['id']} is {payment['status']}"
