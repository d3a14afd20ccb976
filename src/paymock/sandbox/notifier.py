"""Notifies subscribers of changes of a sandbox, whichever process makes them."""

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Set
from contextlib import contextmanager, suppress
from typing import Generic, NamedTuple, TypeVar

from paymock.rules.errors import PaymockError
from paymock.sandbox.clock import Clock
from paymock.stores.base import Store

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

MIN_GAP_SECONDS = 0.25
"""The minimum time between two observations of a follower; changes in between are reported together."""

RESYNC_SECONDS = 20.0
"""How often followers get the time while nothing changes, since the clock of a page drifts."""

CLOCK_CHECK_SECONDS = 0.5
"""How often the clock is checked for jumps, while there are subscribers."""

_TURN = 16
"""How many of those that are due wake in one turn of the event loop: their work takes a few milliseconds."""

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
        self._notifier = notifier
        self._failure: Exception | None = None

    def wake(self, failure: Exception | None = None) -> None:
        """End this sleep, or the next one, in its turn. A `failure` is raised by `next`."""
        self._failure = failure or self._failure
        self._notifier.wake(self)

    async def next(self, deadline: float = math.inf, moment: float = math.inf) -> bool:
        """Sleep until `wake`, which may have been called since the last sleep, or until `moment` or the
        deadline, by the clock of the event loop. Return False at once if the deadline has passed, or the
        server stops.
        """
        loop, end = asyncio.get_running_loop(), min(deadline, moment)
        if self._notifier.stopping or loop.time() >= deadline:
            return False
        timer = loop.call_at(end, self.wake) if end < math.inf else None
        try:
            await self.event.wait()
        finally:
            if timer is not None:
                timer.cancel()
        self.event.clear()  # before the caller looks: a change meanwhile leads to another look
        if self._failure is not None:
            raise self._failure
        return True


class Observation(NamedTuple, Generic[T]):
    """An observed value; a mark that differs when more than the time has changed; and the time of the event
    loop until which the value holds without another request.
    """

    value: T
    mark: object
    until: float


class Notifier:
    """Notifies the subscribers of the sandboxes of a store, and all of them when the clock jumps: they sleep
    by the clock of the event loop, which stands still while the machine is suspended.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.subscriptions: Index[tuple[str, bool], Waiter] = Index()
        """By sandbox, and whether also to additions."""

        self._due: deque[Waiter] = deque()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = asyncio.Event()
        self.waiting = 0
        """How many requests wait, for a change or for the end of a fault."""

        self._waiting_of: Index[str, Callable[[], None]] = Index()  # what ends them, by owner
        self.max_waiting = math.inf
        """How many may, each on a connection; those of one owner, K with all K.NAME, on half of these."""

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
                f"{self.waiting} requests of this process wait already, {own} of them with this API key.",
            )
        self.waiting += 1
        try:
            with self._waiting_of.entry(owner, end):
                yield
        finally:
            self.waiting -= 1

    def end_waiting(self, owners: Set[str]) -> None:
        """End the requests that wait, but not those of these owners."""
        for owner in self._waiting_of.keys() - owners:
            for end in self._waiting_of[owner]:
                end()

    def notify(self, sandbox: str | None, *, addition: bool = False) -> None:
        """Notify the subscribers of this sandbox, or of all sandboxes if None; of an `addition` only those
        that subscribed to additions.
        """
        if sandbox is None:
            changed = [*self.subscriptions]
        else:
            changed = [(sandbox, True)] if addition else [(sandbox, True), (sandbox, False)]
        for key in changed:
            for waiter in self.subscriptions.get(key, ()):
                self.wake(waiter)

    def wake(self, waiter: Waiter) -> None:
        if not waiter.is_due:
            waiter.is_due = True
            self._due.append(waiter)
            if len(self._due) == 1:
                asyncio.get_running_loop().call_soon(self._wake_some)

    def _wake_some(self) -> None:
        """Wake some of those that are due; others when the event loop has served its connections."""
        for _ in range(min(_TURN, len(self._due))):
            waiter = self._due.popleft()
            waiter.is_due = False
            waiter.event.set()
        if self._due:
            asyncio.get_running_loop().call_soon(self._wake_some)

    @property
    def stopping(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        self._stopped.set()
        self.notify(None)

    async def sleep_until(self, moment: float) -> None:
        """Sleep until `moment`, by the clock of the event loop, or until the server stops."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(moment):  # `wait_for` can miss that its caller is cancelled
                await self._stopped.wait()

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

    async def follow(
        self,
        sandbox: str,
        observe: Callable[[], Awaitable[Observation[T]]],
        *,
        additions: bool = False,
        min_gap: float = 0.0,
    ) -> AsyncGenerator[tuple[Observation[T], Observation[T] | None], None]:
        """Yield an observation with the previous one: now, whenever the mark differs, and at least every
        RESYNC_SECONDS, until the server stops. Observations are at least `min_gap` seconds apart. Raises what
        `observe` raises.
        """
        previous: Observation[T] | None = None
        time = asyncio.get_running_loop().time
        resync = 0.0
        with self.subscribe(sandbox, additions=additions) as changes:
            while True:
                current = await observe()
                if previous is None or current.mark != previous.mark or time() >= resync:
                    resync = time() + RESYNC_SECONDS
                    yield current, previous
                previous, next_start = current, time() + min_gap
                if not await changes.next(moment=min(current.until, resync)):
                    return
                if min_gap:
                    await self.sleep_until(next_start)

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
