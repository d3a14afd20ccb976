"""What clients asked and what they were told, in the order of one clock, whatever process answered."""

import json
import threading
from collections.abc import Iterable
from enum import StrEnum, auto
from typing import Any, NamedTuple

NO_REPLY = 0
"""The status of a request on which no reply came."""

REFUSED = 503


class Kind(StrEnum):
    """What was asked."""

    CREATE = auto()
    READ = auto()
    ADVANCE = auto()
    """One payment is moved ahead."""
    DEPOSIT = auto()
    CLOCK = auto()
    """The clock of the sandbox is read, moved ahead, or set to another speed."""
    READY = auto()


class Event(NamedTuple):
    """A request and its reply. Times are seconds of a clock that all threads share.

    `key` is the idempotency key, `payment` the id of an existing payment that is meant, and `wanted` is what
    tells requests with one key apart: the amount.
    """

    kind: Kind
    began: float
    ended: float
    status: int
    body: bytes = b""
    key: str = ""
    payment: str = ""
    wanted: str = ""
    replayed: bool = False
    retry_after: str | None = None

    @property
    def seconds(self) -> float:
        """How long the client waited."""
        return self.ended - self.began

    @property
    def unknown(self) -> bool:
        """Whether the client cannot know what became of its request."""
        return self.status in (NO_REPLY, REFUSED)

    @property
    def content(self) -> Any:
        """The body of the reply."""
        return json.loads(self.body)

    @property
    def payment_id(self) -> str:
        """The payment that the request is about, or has created."""
        return self.payment or str(self.content["id"])


class Listed(NamedTuple):
    """A payment in the list of its sandbox."""

    payment: str
    order: str


class History:
    """The events of many threads."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._lock = threading.Lock()

    def add(self, event: Event) -> Event:
        """Notes an event."""
        with self._lock:
            self._events.append(event)
        return event

    def since(self, number: int = 0) -> list[Event]:
        """The events so far, without the first `number`."""
        with self._lock:
            return self._events[number:]

    def __len__(self) -> int:
        return len(self._events)


def by_key(events: Iterable[Event], kind: Kind) -> dict[str, list[Event]]:
    """The events of a kind, by idempotency key."""
    found: dict[str, list[Event]] = {}
    for event in events:
        if event.kind is kind:
            found.setdefault(event.key, []).append(event)
    return found


def by_payment(events: Iterable[Event], *kinds: Kind) -> dict[str, list[Event]]:
    """The events of these kinds that were answered with a success, by payment."""
    found: dict[str, list[Event]] = {}
    for event in events:
        if event.kind in kinds and event.status in (200, 201):
            found.setdefault(event.payment_id, []).append(event)
    return found
