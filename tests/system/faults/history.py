"""Requests and replies of all clients, ordered by one clock."""

import json
import threading
from collections.abc import Iterable
from enum import StrEnum, auto
from typing import Any, NamedTuple

NO_REPLY = 0
"""The status of a request without a reply."""

DONE, CREATED, NOT_FOUND, CONFLICT, UNAVAILABLE = 200, 201, 404, 409, 503


class Kind(StrEnum):
    CREATE = auto()
    READ = auto()
    ADVANCE = auto()
    """Advances one payment."""
    DEPOSIT = auto()
    CLOCK = auto()
    """Advances the sandbox clock, or sets its speed."""
    READY = auto()


class Event(NamedTuple):
    """A request and its reply. Times are seconds of a clock that all threads share.

    `key` is the idempotency key, `payment` the id of the payment that the request names, and `amount` what
    distinguishes requests with the same key.
    """

    kind: Kind
    started: float
    ended: float
    status: int
    body: bytes = b""
    key: str = ""
    payment: str = ""
    amount: str = ""
    replayed: bool = False
    retry_after: str | None = None

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    @property
    def unknown(self) -> bool:
        """Whether the client cannot know if the request was carried out."""
        return self.status in (NO_REPLY, UNAVAILABLE)

    @property
    def content(self) -> Any:
        return json.loads(self.body)

    @property
    def payment_id(self) -> str:
        return self.payment or str(self.content["id"])

    def __str__(self) -> str:
        return f"{self.kind} {self.key or self.payment}".rstrip()


class ListedPayment(NamedTuple):
    payment: str
    order: str


class History:
    def __init__(self) -> None:
        self._events: list[Event] = []
        self._lock = threading.Lock()

    def add(self, event: Event) -> Event:
        with self._lock:
            self._events.append(event)
        return event

    def since(self, number: int = 0) -> list[Event]:
        """The events without the first `number`."""
        with self._lock:
            return self._events[number:]

    def __len__(self) -> int:
        return len(self._events)


def by_key(events: Iterable[Event], kind: Kind) -> dict[str, list[Event]]:
    result: dict[str, list[Event]] = {}
    for event in events:
        if event.kind is kind:
            result.setdefault(event.key, []).append(event)
    return result


def by_payment(events: Iterable[Event], *kinds: Kind) -> dict[str, list[Event]]:
    result: dict[str, list[Event]] = {}
    for event in events:
        if event.kind in kinds and event.status in (DONE, CREATED):
            result.setdefault(event.payment_id, []).append(event)
    return result


def created_since(events: Iterable[Event], since: float) -> list[Event]:
    return [e for e in events if e.kind is Kind.CREATE and e.status == CREATED and e.ended > since]
