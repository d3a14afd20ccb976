"""The system clock. No other module reads it for the mock."""

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Returns the time in milliseconds since the epoch; never goes back."""

_MIN_JUMP_NS = 1_000_000_000
"""Smaller differences between the clocks are drift."""


def system_clock(
    wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.monotonic_ns
) -> Clock:
    """Return a clock that follows the system's clocks, and never goes back.

    `wall` and `monotonic` return nanoseconds. The clock counts with the monotonic clock. When the wall clock
    gets ahead of that by a second or more (the machine was suspended, or its time was corrected), the clock
    jumps forward. When the wall clock is set back, it keeps counting.
    """
    offset = wall() - monotonic()

    def now() -> int:
        nonlocal offset
        count = monotonic()
        current_offset = wall() - count
        if current_offset - offset >= _MIN_JUMP_NS:
            offset = current_offset
        return (count + offset) // 1_000_000

    return now
