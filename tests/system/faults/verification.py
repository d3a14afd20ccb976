"""What every run does after its faults: retry, read and list until all outcomes are known, then check."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from tests.system.faults.checks import check_timelines, violations
from tests.system.faults.clients import Client, map_with_clients, until_known
from tests.system.faults.history import CREATED, UNAVAILABLE, Event, History, Kind, by_key

CLIENTS = 8
RETRIES = 4
"""So many clients retry each unknown creation concurrently."""

PENDING_CHANGE_SECONDS = 0.05
"""From a deposit, or from a change of the clock's speed, to its effect."""


@dataclass
class Result:
    """The outcome of a run. `late` has violations of promises about time, which a machine under other load
    can cause: the report judges them, the tests do not.
    """

    name: str
    counts: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    """The seconds that the slowest refusal, or of a crowd the slowest reply, took."""
    recoveries: list[float] = field(default_factory=list)
    """After so many seconds each fault was over."""
    violations: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    def judge_times(self, refusal: float, recovery: float) -> None:
        if self.slowest > refusal:
            self.late.append(f"refused after {self.slowest:.2f} s")
        if max(self.recoveries, default=0) > recovery:
            self.late.append(f"no new payment within {max(self.recoveries):.2f} s after a fault")


def replay(result: Result, urls: Sequence[str], api_key: str, history: History, keys: Iterable[str]) -> None:
    turns = itertools.cycle(urls)

    def repeat(client: Client, key: str) -> list[Event]:
        created = until_known(partial(client.create, next(turns), key))
        if created.status != CREATED:
            return [created]
        return [created, until_known(partial(client.read, next(turns), created.payment_id))]

    start = len(history)
    events = itertools.chain(*map_with_clients(CLIENTS, repeat, keys, api_key, history))
    judge_recovery(result, events, history.since(start))


def retry(result: Result, urls: Sequence[str], api_key: str, history: History, keys: Iterable[str]) -> None:
    """Retry unknown creations, each several times concurrently."""
    attempts = [
        (key, url) for key in keys for url, _ in zip(itertools.cycle(urls), range(RETRIES), strict=False)
    ]

    def create(client: Client, attempt: tuple[str, str]) -> Event:
        key, url = attempt
        return until_known(partial(client.create, url, key))

    start = len(history)
    events = map_with_clients(2 * RETRIES, create, attempts, api_key, history)
    judge_recovery(result, events, history.since(start))


def judge_recovery(result: Result, events: Iterable[Event], attempts: Iterable[Event]) -> None:
    """After all faults, every request must succeed at last, and should at its first attempt."""
    result.violations += [f"{event}: {event.status} after all retries" for event in events if event.unknown]
    result.late += [f"{event}: {event.status} without a fault" for event in attempts if event.unknown]


def verify(result: Result, url: str, api_key: str, history: History) -> None:
    """Check a history, and the list of payments after it.

    A deposit takes effect PENDING_CHANGE_SECONDS after its request. Where its commit takes longer, other
    clients may have seen what would have happened without it (docs/decisions.md, "Time and control"). The
    timelines of such payments are judged as promises about time.
    """
    with closing(Client(api_key, History())) as client:
        listing = client.listing(url)
    events = history.since()
    slow = {event.payment for event in events if event.kind is Kind.DEPOSIT and is_late(event)}
    late = {text for text in check_timelines(events) if text.removeprefix("payment ").split(":")[0] in slow}
    for text in violations(events, listing):
        (result.late if text in late else result.violations).append(text)


def is_late(event: Event) -> bool:
    """Whether the commit of a change may have taken longer than a pending change leaves time for."""
    return event.unknown or event.seconds > PENDING_CHANGE_SECONDS


def slowest_refusal(events: Iterable[Event]) -> float:
    return max((event.seconds for event in events if event.status == UNAVAILABLE), default=0.0)


def acknowledged(events: Iterable[Event]) -> list[str]:
    return [
        key
        for key, attempts in by_key(events, Kind.CREATE).items()
        if any(event.status == CREATED for event in attempts)
    ]


def unacknowledged(events: Iterable[Event]) -> list[str]:
    return [
        key
        for key, attempts in by_key(events, Kind.CREATE).items()
        if all(event.status != CREATED for event in attempts)
    ]


def stored_unseen(events: Iterable[Event]) -> int:
    """The number of payments created by a request with an unknown outcome."""
    return sum(
        any(event.unknown for event in attempts)
        and all(event.replayed for event in attempts if event.status == CREATED)
        for attempts in by_key(events, Kind.CREATE).values()
    )
