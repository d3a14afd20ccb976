"""Notifies subscribers of changes of a sandbox, whichever process makes them."""

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Generic, NamedTuple, TypeVar

from paymock.rules.errors import PaymockError
from paymock.sandbox.clock import Clock
from paymock.stores.base import Store

T = TypeVar("T")

MIN_GAP_SECONDS = 0.25
"""The minimum time between two observations of a follower; changes in between are reported together."""

RESYNC_SECONDS = 20.0
"""How often followers get the time while nothing changes, since the clock of a page drifts."""

CLOCK_CHECK_SECONDS = 0.5
"""How often the clock is checked for jumps, while there are subscribers."""

_MIN_JUMP_MS = 500

_RECONNECT_SECONDS = 0.2
"""The delay before a failed subscription to the changes of the store is repeated."""


class TimedEvent(asyncio.Event):
    """An event with a timed wait."""

    async def until(self, moment: float | None) -> None:
        """Wait until it is set, or until `moment`, if given, by the clock of the event loop."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(moment):  # `wait_for` can miss that its caller is cancelled
                await self.wait()


class Subscription(TimedEvent):
    """Set at each change of a sandbox; with `additions`, also when only a resource or a journal entry is
    added.
    """

    def __init__(self, *, additions: bool) -> None:
        super().__init__()
        self.additions = additions


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
        self.subscriptions: defaultdict[str, set[Subscription]] = defaultdict(set)
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = TimedEvent()
        self.waiting = 0
        """How many requests wait, for a change or for the end of a fault."""

        self._waiting_of: Counter[str] = Counter()
        self.max_waiting = math.inf
        """How many may, each on a connection; those of one owner on half of these."""

    @contextmanager
    def waiting_request(self, owner: str) -> Iterator[None]:
        """Count a request of `owner` that waits within the block. Raises PaymockError `capacity_exceeded`
        beyond `max_waiting`.
        """
        own = self._waiting_of[owner]
        if self.waiting >= self.max_waiting or 2 * own >= self.max_waiting:
            raise PaymockError(
                "capacity_exceeded",
                f"{self.waiting} requests of this process wait already, {own} of them with this API key.",
            )
        self.waiting += 1
        self._waiting_of[owner] += 1
        try:
            yield
        finally:
            self.waiting -= 1
            self._waiting_of[owner] -= 1
            if not self._waiting_of[owner]:
                del self._waiting_of[owner]

    def notify(self, sandbox: str | None, *, addition: bool = False) -> None:
        """Notify the subscribers of this sandbox, or of all sandboxes if None; of an `addition` only those
        that subscribed to additions.
        """
        if not self.subscriptions:
            return
        for changed in [*self.subscriptions] if sandbox is None else [sandbox]:
            for subscription in self.subscriptions.get(changed, ()):
                if subscription.additions or not addition:
                    subscription.set()

    @property
    def subscribers(self) -> int:
        return sum(map(len, self.subscriptions.values()))

    @property
    def stopping(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        self._stopped.set()
        self.notify(None)

    async def sleep_until(self, moment: float) -> None:
        await self._stopped.until(moment)

    @contextmanager
    def subscribe(self, sandbox: str, *, additions: bool = False) -> Iterator[Subscription]:
        subscription = Subscription(additions=additions)
        self.subscriptions[sandbox].add(subscription)
        if not self._tasks:
            self._tasks = [*map(asyncio.create_task, (self._listen(), self._watch_clock(self._lead())))]
        try:
            yield subscription
        finally:
            self.subscriptions[sandbox].discard(subscription)
            if not self.subscriptions[sandbox]:
                del self.subscriptions[sandbox]
            if not self.subscriptions:
                while self._tasks:
                    self._tasks.pop().cancel()

    async def follow(
        self,
        sandbox: str,
        observe: Callable[[], Awaitable[Observation[T]]],
        *,
        owner: str | None = None,
        additions: bool = False,
        min_gap: float = 0.0,
    ) -> AsyncGenerator[tuple[Observation[T], Observation[T] | None], None]:
        """Yield an observation with the previous one: now, whenever the mark differs, and at least every
        RESYNC_SECONDS, until the server stops. Observations are at least `min_gap` seconds apart. Raises what
        `observe` raises, and PaymockError `capacity_exceeded`.
        """
        previous: Observation[T] | None = None
        time = asyncio.get_running_loop().time
        resync = 0.0
        waiting = self.waiting_request(owner or sandbox)
        with waiting, self.subscribe(sandbox, additions=additions) as changed:
            while not self.stopping:
                changed.clear()  # before observing, so that a change meanwhile leads to another observation
                current = await observe()
                if previous is None or current.mark != previous.mark or time() >= resync:
                    resync = time() + RESYNC_SECONDS
                    yield current, previous
                previous, next_start = current, time() + min_gap
                await changed.until(min(current.until, resync))
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

    async def _watch_clock(self, lead: float) -> None:
        while True:
            await asyncio.sleep(CLOCK_CHECK_SECONDS)
            previous, lead = lead, self._lead()
            if lead - previous >= _MIN_JUMP_MS:
                self.notify(None)

    def _lead(self) -> float:
        """Return how many milliseconds the clock is ahead of that of the event loop."""
        return self._clock() - asyncio.get_running_loop().time() * 1000
