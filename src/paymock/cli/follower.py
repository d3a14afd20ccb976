"""Payments on their way, followed without polling.

The server answers a wait at the next change, and a timeline says when it will come: in between, what is shown
follows from the time that passes.
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from paymock.cli.api_client import Client
from paymock.cli.output import change_line, idle, say, say_json
from paymock.client.http import Call
from paymock.client.wait import GRACE
from paymock.rules.times import parse_rfc3339
from paymock.schemas.control import Clock, PaymentDetail, TimelineEntry, WaitResult

REDRAW = 0.1
"""Seconds between two pictures on a terminal."""

_LOOK_AGAIN = {True: 5, False: 30}
"""Live or not: seconds after which a payment is read again if nothing happened. Nothing tells of a change of
speed, which only a picture shows.
"""


class PaymentFollower:
    """A payment on its way: what the server last said of it, and the wait for its next change.

    Raises Refused, Unreachable.
    """

    def __init__(self, client: Client, path: str, *, live: bool) -> None:
        self._client = client
        self._path = path
        self._patience = _LOOK_AGAIN[live]
        self._told = 0
        self._look()

    def _look(self) -> None:
        # The wait goes first: what happens after the payment is read cannot be missed.
        query = {"timeout": self._patience}
        self._wait: Call[WaitResult] = self._client.call(
            WaitResult, "GET", f"{self._path}/wait", query=query, patience=self._patience + GRACE
        )
        self.detail = self._client.get(PaymentDetail, self._path)
        self.speed = self._client.get(Clock, "/_mock/clock").speed
        self._seen_at = time.monotonic()

    def fileno(self) -> int:
        """The socket of the wait, readable when the payment should be read again."""
        return self._wait.fileno()

    def refresh(self) -> None:
        """Reads the payment again, after its wait has been answered. Raises Refused, Unreachable."""
        self._wait.result()
        self._look()

    @property
    def timeline(self) -> list[TimelineEntry]:
        """Every change, past and to come."""
        return self.detail.timeline

    @property
    def ended(self) -> bool:
        """Whether nothing lies ahead."""
        return all(entry.reached for entry in self.timeline)

    @property
    def end(self) -> float:
        """Seconds from creation to the last change."""
        return self.timeline[-1].offset_seconds

    @property
    def elapsed(self) -> float:
        """The payment's age in seconds of its own clock, up to its end; never past a change that has not been
        seen.
        """
        if self.ended:
            return self.end
        detail = self.detail
        age = ((parse_rfc3339(detail.now) or 0) - (parse_rfc3339(detail.payment.created_at) or 0)) / 1000
        reckoned = age + (time.monotonic() - self._seen_at) * self.speed
        return min(reckoned, next(entry.offset_seconds for entry in self.timeline if not entry.reached))

    def news(self) -> list[TimelineEntry]:
        """The changes that have come since this was asked last."""
        reached = [entry for entry in self.timeline if entry.reached]
        new, self._told = reached[self._told :], len(reached)
        return new


def on_a_terminal() -> bool:
    """Whether pictures can be drawn on standard output."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def follow(courses: Sequence[PaymentFollower], every: float | None) -> Iterator[None]:
    """Stops at every change of one of `courses`, and, while one of them moves, `every` so many seconds; ends
    with the last course. Raises Refused, Unreachable.
    """
    yield
    while waiting := [course for course in courses if not course.ended]:
        moving = any(course.speed for course in waiting)
        for course in idle(every if moving else None, waiting):
            course.refresh()
        yield


def tell(courses: Sequence[PaymentFollower], *, as_json: bool, named: bool) -> None:
    """Prints one line for each change of `courses` until all have ended; `named` adds the scenario.

    Raises Refused, Unreachable.
    """
    for _ in follow(courses, None):
        news = [(entry, course.detail) for course in courses for entry in course.news()]
        for entry, detail in sorted(news, key=lambda one: one[0].offset_seconds):
            if as_json:
                say_json(_document(entry, detail))
            else:
                say(f"{detail.scenario:<18}  {change_line(entry)}" if named else change_line(entry))


def _document(entry: TimelineEntry, detail: PaymentDetail) -> dict[str, Any]:
    return {
        "payment_id": detail.payment.id,
        "scenario": detail.scenario,
        "at": entry.at,
        "offset_seconds": entry.offset_seconds,
        "event": entry.event,
        "status": entry.status,
    }
