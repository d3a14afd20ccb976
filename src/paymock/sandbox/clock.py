"""The real time of all sandboxes, by the clocks of the system and of the store."""

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from paymock.stores.base import Store, StoreError

MAX_DIFFERENCE_MS = 60_000
"""A greater difference between the clocks of this machine and of the store is an error."""

_MIN_JUMP_NS = 1_000_000_000
"""Smaller differences between clocks are drift."""

monotonic_ns: Callable[[], int] = time.monotonic_ns
if sys.platform != "win32":  # freezegun and time-machine, in the process of a server in a thread, spare this
    monotonic_ns = partial(time.clock_gettime_ns, time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """The real time, which never goes back."""

    def __call__(self) -> int:
        """Return the time in milliseconds since the epoch."""

    def system_time(self) -> int:
        """Return the time by the clock of the system alone, which may go back."""

    def catch_up(self, time: int) -> None:
        """Go on from `time`, in milliseconds since the epoch, if it is later than now."""


class SystemClock:
    """A `Clock` that follows the clocks of the system.

    `wall` and `monotonic` return nanoseconds. The clock counts with the monotonic clock. When the wall clock
    gets ahead of that by a second or more (the machine was suspended, or its time was corrected), the clock
    jumps forward. When the wall clock is set back, it keeps counting, and `warn` is called, once.
    """

    def __init__(
        self,
        warn: Callable[[str], None],
        wall: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._warn, self._wall, self._monotonic = warn, wall, monotonic
        self._wall_offset = self._offset = wall() - monotonic()
        self._warned = False

    def __call__(self) -> int:
        count = self._monotonic()
        ahead = self._wall() - count - self._wall_offset
        if ahead >= _MIN_JUMP_NS:
            self._wall_offset += ahead
            self._offset = max(self._offset, self._wall_offset)
        elif ahead <= -_MIN_JUMP_NS and not self._warned:
            self._warned = True
            self._warn(
                f"the system clock was set back by {-ahead / 1e9:g} s; the virtual clocks do not go back"
            )
        return (count + self._offset) // 1_000_000

    def system_time(self) -> int:
        return self._wall() // 1_000_000

    def catch_up(self, time: int) -> None:
        behind = max(0, time - self())
        self._offset += behind * 1_000_000
        if behind * 1_000_000 >= _MIN_JUMP_NS:
            self._warn(
                f"the system clock is {behind / 1000:g} s behind the store; the virtual clocks follow that"
            )


async def synchronize(clock: Clock, store: Store) -> None:
    """Let `clock` go on from the time of the engine of `store`, if it has one and that is later.

    Raises StoreError if the clock of the system differs by more than MAX_DIFFERENCE_MS, however long the
    reply takes, and PaymockError `store_unavailable`.
    """
    before = clock.system_time()  # not `clock`, which may have caught up with another engine
    time = await store.time()
    if time is None:
        return
    ahead = before - time if time < before else min(0, clock.system_time() - time)
    if abs(ahead) > MAX_DIFFERENCE_MS:
        raise StoreError(
            f"the clock of this machine is {abs(ahead) / 1000:,.0f} s "
            f"{'ahead of' if ahead > 0 else 'behind'} that of the store: synchronize both, for example with "
            "NTP"
        )
    clock.catch_up(time)
