"""The only place that reads the system's clock for the mock."""

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Answers with the time in milliseconds since the epoch; never goes back."""

_JUMP = 1_000_000_000


def system_clock(
    wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.monotonic_ns
) -> Clock:
    """A clock that follows the system's, also across a suspended machine, and never runs backwards.

    `wall` and `monotonic` answer in nanoseconds. It counts on the monotonic clock. When the wall clock is
    ahead of it by a second or more (the machine slept, or the time was corrected forward) it catches up;
    when the wall clock is set back, it goes on counting.
    """
    ahead = wall() - monotonic()

    def now() -> int:
        nonlocal ahead
        counted = monotonic()
        drift = wall() - counted
        if drift - ahead >= _JUMP:
            ahead = drift
        return (counted + ahead) // 1_000_000

    return now
