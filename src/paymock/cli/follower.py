"""Following payments without polling.

The server answers a wait at the next change, and the timeline says when that is due. Between two replies, the
age of a payment is computed from the time that passes here.
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from paymock.cli.api_client import ApiClient, typed
from paymock.cli.output import echo, echo_json, timeline_line, wait_readable
from paymock.client.sandbox import GRACE_PERIOD
from paymock.rules.times import parse_rfc3339
from paymock.schemas.control import PaymentDetail, TimelineEntry

_WAIT_SECONDS = {True: 5, False: 30}
"""Live or not: seconds after which a payment is read again without a change. The server does not report a
change of speed, which only a live display shows.
"""


class PaymentFollower:
    """A payment as last read from the server, and a pending wait for its next change.

    Raises Refused, Unreachable.
    """

    def __init__(self, client: ApiClient, payment_id: str, *, live: bool) -> None:
        self._client = client
        self._payment_id = payment_id
        self._wait_seconds = _WAIT_SECONDS[live]
        self._reported = 0
        self._read()

    def _read(self) -> None:
        # The wait is sent first, so that a change after the read of the payment is not missed.
        self._wait = self._client.send(
            "waitForPayment",
            payment_id=self._payment_id,
            query={"timeout": self._wait_seconds},
            timeout=self._wait_seconds + GRACE_PERIOD,
        )
        self.detail = typed(self._client.detail(self._payment_id), PaymentDetail)
        self.speed: float = self._client.clock()["speed"]
        self._read_at = time.monotonic()

    def fileno(self) -> int:
        """The socket of the wait, which is readable when the payment should be read again."""
        return self._wait.fileno()

    def refresh(self) -> None:
        """Read the payment again, after the wait has been answered. Raises Refused, Unreachable."""
        self._wait.result()
        self._read()

    @property
    def timeline(self) -> list[TimelineEntry]:
        return self.detail.timeline

    @property
    def ended(self) -> bool:
        return all(entry.reached for entry in self.timeline)

    @property
    def end(self) -> float:
        return self.timeline[-1].offset_seconds

    @property
    def elapsed(self) -> float:
        """The age of the payment in seconds of its own clock, at most that of the next change."""
        if self.ended:
            return self.end
        detail = self.detail
        age = ((parse_rfc3339(detail.now) or 0) - (parse_rfc3339(detail.payment.created_at) or 0)) / 1000
        estimate = age + (time.monotonic() - self._read_at) * self.speed
        return min(estimate, next(entry.offset_seconds for entry in self.timeline if not entry.reached))

    def new_entries(self) -> list[TimelineEntry]:
        """The changes since the last call."""
        reached = [entry for entry in self.timeline if entry.reached]
        new, self._reported = reached[self._reported :], len(reached)
        return new


def is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def follow(followers: Sequence[PaymentFollower], redraw_seconds: float | None) -> Iterator[None]:
    """Yield at every change of a payment until all have ended, and every `redraw_seconds` while a clock runs.

    Raises Refused, Unreachable.
    """
    yield
    while active := [follower for follower in followers if not follower.ended]:
        running = any(follower.speed for follower in active)
        for follower in wait_readable(redraw_seconds if running else None, active):
            follower.refresh()
        yield


def print_changes(followers: Sequence[PaymentFollower], *, as_json: bool, with_scenario: bool) -> None:
    """Print one line for each change until all payments have ended. Raises Refused, Unreachable."""
    for _ in follow(followers, None):
        changes = [(entry, follower.detail) for follower in followers for entry in follower.new_entries()]
        for entry, detail in sorted(changes, key=lambda change: change[0].offset_seconds):
            if as_json:
                echo_json(_document(entry, detail))
            else:
                line = timeline_line(entry)
                echo(f"{detail.scenario:<18}  {line}" if with_scenario else line)


def _document(entry: TimelineEntry, detail: PaymentDetail) -> dict[str, Any]:
    return {
        "payment_id": detail.payment.id,
        "scenario": detail.scenario,
        "at": entry.at,
        "offset_seconds": entry.offset_seconds,
        "event": entry.event,
        "status": entry.status,
    }
