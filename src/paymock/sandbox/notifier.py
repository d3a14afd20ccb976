"""Notifies subscribers of changes of a sandbox, whichever process makes them."""

import asyncio
import math
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from typing import TypeVar

from paymock.rules.errors import PaymockError
from paymock.sandbox.clock import Clock
from paymock.sandbox.scheduler import SCHEDULER, FairScheduler
from paymock.stores.base import Store

K = TypeVar("K")
V = TypeVar("V")

CLOCK_CHECK_SECONDS = 0.5
"""How often the clock is checked for jumps, while there are subscribers."""

_MIN_JUMP_MS = 500

_RECONNECT_SECONDS = 0.2
"""The delay before a failed subscription to the changes of the store is repeated."""


class Index(dict[K, set[V]]):
    """Sets of values by key, none of them empty."""

    @contextmanager
    def entry(self, key: K, value: V) -> Iterator[None]:
        values = self.setdefault(key, set())
        values.add(value)
        try:
            yield
        finally:
            values.discard(value)
            if not values:
                del self[key]


class Waiter:
    """One that sleeps until something wakes it: a change that it subscribes to, or another task.

    ::

        with notifier.subscribe(sandbox) as changes:
            while not await is_reached() and await changes.next(deadline):
                pass
    """

    def __init__(self, notifier: "Notifier") -> None:
        self.is_due = False
        self.event = asyncio.Event()
        self._owner = SCHEDULER.get()[1]
        self._notifier = notifier
        self._failure: Exception | None = None

    def wake(self, failure: Exception | None = None) -> None:
        """End this sleep, or the next one, in its turn. A `failure` is raised by `next`."""
        self._failure = failure or self._failure
        if not self.is_due:
            self.is_due = True
            self._notifier.scheduler.add(self._owner, self.event.set)

    async def next(self, deadline: float = math.inf, moment: float = math.inf) -> bool:
        """Sleep until `wake`, which may have been called since the last sleep, or, by the event loop's clock,
        until `moment` or the deadline. Return False at once if the deadline has passed, or the server stops.
        """
        loop, end = asyncio.get_running_loop(), min(deadline, moment)
        if self._notifier.stopped.is_set() or loop.time() >= deadline:
            return False
        timer = loop.call_at(end, self.wake) if end < math.inf else None
        try:
            await self.event.wait()
        finally:
            if timer is not None:
                timer.cancel()
        self.event.clear()  # before the caller looks: a change meanwhile leads to another look
        self.is_due = False
        if self._failure is not None:
            raise self._failure
        return True


class Notifier:
    """Notifies the subscribers of the sandboxes of a store, and all of them when the clock jumps: they sleep
    by the clock of the event loop, which stands still while the machine is suspended.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.subscriptions: Index[tuple[str, bool], Waiter] = Index()
        """By sandbox, and whether also to additions."""

        self.scheduler = FairScheduler()
        self._tasks: list[asyncio.Task[None]] = []
        self.stopped = asyncio.Event()
        self._waiting_of: Index[str, Callable[[], None]] = Index()  # what ends them, by owner
        self.max_waiting = math.inf
        """How many may, each on a connection; those of one owner, K with all K.NAME, on half of these."""

    @property
    def waiting(self) -> int:
        """How many requests wait, for a change or for the end of a fault."""
        return sum(map(len, self._waiting_of.values()))

    @contextmanager
    def waiting_request(self, owner: str, end: Callable[[], None]) -> Iterator[None]:
        """Count a request of `owner` that waits within the block; `end` ends it and its connection. Beyond
        `max_waiting`, calls that, since idle connections of others would be closed for this one, and raises
        PaymockError `capacity_exceeded`.
        """
        own = len(self._waiting_of.get(owner, ()))
        if self.waiting >= self.max_waiting or 2 * own >= self.max_waiting:
            end()
            raise PaymockError(
                "capacity_exceeded",
                f"{self.waiting} requests of this process are waiting, {own} of them with this API key.",
            )
        with self._waiting_of.entry(owner, end):
            yield

    def end_waiting(self, owners: Set[str]) -> None:
        """End the requests that wait, but not those of these owners."""
        for owner in self._waiting_of.keys() - owners:
            for end in self._waiting_of[owner]:
                end()

    def notify(self, sandbox: str | None, *, addition: bool = False) -> None:
        """Notify the subscribers of a sandbox, or of all if None; of an `addition`, those to additions."""
        if sandbox is None:
            changed = [*self.subscriptions]
        else:
            changed = [(sandbox, True)] if addition else [(sandbox, True), (sandbox, False)]
        for key in changed:
            for waiter in self.subscriptions.get(key, ()):
                waiter.wake()

    def stop(self) -> None:
        self.stopped.set()
        self.notify(None)

    async def sleep_until(self, moment: float) -> None:
        """Sleep until `moment`, by the clock of the event loop, or until the server stops."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(moment):  # `wait_for` can miss that its caller is cancelled
                await self.stopped.wait()

    @contextmanager
    def subscribe(
        self, sandbox: str, waiter: Waiter | None = None, *, additions: bool = False
    ) -> Iterator[Waiter]:
        """Wake the waiter, a new one if None, at each change of a sandbox within the block; with `additions`,
        also when only a resource or a journal entry is added.
        """
        waiter = waiter or Waiter(self)
        try:
            with self.subscriptions.entry((sandbox, additions), waiter):
                if not self._tasks:
                    self._tasks = [*map(asyncio.create_task, (self._listen(), self._watch_clock()))]
                yield waiter
        finally:
            if not self.subscriptions:
                while self._tasks:
                    self._tasks.pop().cancel()

    async def _listen(self) -> None:
        while True:
            with suppress(PaymockError):
                async for change in self._store.changes():
                    self.notify(change.sandbox, addition=change.minor)
                return  # no other process changes the store
            self.notify(None)
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _watch_clock(self) -> None:
        previous = math.inf
        while True:
            lead = self._clock() - asyncio.get_running_loop().time() * 1000  # of the clock, in milliseconds
            if lead - previous >= _MIN_JUMP_MS:
                self.notify(None)
            previous = lead
            await asyncio.sleep(CLOCK_CHECK_SECONDS)
