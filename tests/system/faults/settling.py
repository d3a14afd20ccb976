"""What every run does when its faults are over: it retries, reads, and lists, until all is known."""

import itertools
from collections.abc import Iterable, Sequence
from contextlib import closing

from tests.system.faults.checks import CREATED, violations
from tests.system.faults.clients import Client, spread
from tests.system.faults.history import Event, History, Kind, by_key

CLIENTS = 8
RETRIES = 4
"""How many clients retry each unknown creation, at the same time."""


def replay(urls: Sequence[str], sandbox: str, history: History, keys: Iterable[str]) -> list[str]:
    """Creates again what was acknowledged, and reads it; what was refused though nothing is wrong."""
    turns = itertools.cycle(urls)

    def again(client: Client, key: str) -> list[Event]:
        created = client.create(next(turns), key)
        return [
            created,
            *([client.read(next(turns), created.payment_id)] if created.status == CREATED else []),
        ]

    found = itertools.chain(*spread(CLIENTS, again, keys, sandbox, history))
    return _refused(found)


def retry(urls: Sequence[str], sandbox: str, history: History, keys: Iterable[str]) -> list[str]:
    """Creates what may have been created or not, each several times at once; what was refused though nothing
    is wrong.
    """
    tries = [
        (key, url) for key in keys for url, _ in zip(itertools.cycle(urls), range(RETRIES), strict=False)
    ]
    found = spread(
        2 * RETRIES, lambda client, wanted: client.create(wanted[1], wanted[0]), tries, sandbox, history
    )
    return _refused(found)


def judged(url: str, sandbox: str, history: History) -> list[str]:
    """All that is wrong with a history and with the list of payments after it."""
    with closing(Client(sandbox, History())) as client:
        return violations(history.since(), client.listing(url))


def acknowledged(events: Iterable[Event]) -> list[str]:
    """The keys whose creation was acknowledged."""
    return [
        key for key, tries in by_key(events, Kind.CREATE).items() if any(e.status == CREATED for e in tries)
    ]


def unacknowledged(events: Iterable[Event]) -> list[str]:
    """The keys of which clients do not know whether anything was created."""
    return [
        key
        for key, tries in by_key(events, Kind.CREATE).items()
        if all(event.status != CREATED for event in tries)
    ]


def stored_unseen(events: Iterable[Event]) -> int:
    """How many payments were created by a request whose outcome its client did not learn."""
    return sum(
        any(event.unknown for event in tries)
        and all(event.replayed for event in tries if event.status == CREATED)
        for tries in by_key(events, Kind.CREATE).values()
    )


def _refused(events: Iterable[Event]) -> list[str]:
    return [
        f"{event.kind} {event.key or event.payment}: {event.status} though nothing was wrong"
        for event in events
        if event.unknown
    ]
