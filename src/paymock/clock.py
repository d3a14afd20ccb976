"""The only place that reads the system's clock."""

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Answers with the time in milliseconds since the epoch; never goes back."""

_JUMP = 1_000_000_000


def system_clock() -> Clock:
    """A clock that follows the system's, also across a suspended machine, and never runs backwards.

    It counts on the monotonic clock. When the wall clock is ahead of it by a second or more (the machine
    slept, or the time was corrected forward) it catches up; when the wall clock is set back, it goes on
    counting.
    """
    ahead = time.time_ns() - time.monotonic_ns()

    def now() -> int:
        nonlocal ahead
        monotonic = time.monotonic_ns()
        drift = time.time_ns() - monotonic
        if drift - ahead >= _JUMP:
            ahead = drift
        return (monotonic + ahead) // 1_000_000

    return now
