"""The system clock. No other module reads it for the mock."""

import mmap
import time
from collections.abc import Callable
from typing import Protocol

MAX_DRIFT_MS = 1_000
"""Smaller differences between clocks are drift."""

MAX_DIFFERENCE_MS = 60_000
"""A greater difference between clocks is an error. No process follows another so far."""

_MIN_JUMP_NS = MAX_DRIFT_MS * 1_000_000

_SET_BACK, _BEHIND = range(2)
"""What is logged once."""


class Clock(Protocol):
    """The real time, which never goes back."""

    def __call__(self) -> int:
        """Return the time in milliseconds since the epoch."""

    def catch_up(self, time: int) -> None:
        """Go on from `time`, in milliseconds since the epoch, if it is later than now, but not by more than
        MAX_DIFFERENCE_MS: an earlier run or another process has shown it.
        """

    def warn_behind(self, milliseconds: int | None = None) -> None:
        """Log, once, that the store has times ahead of now, and how far, if that is known."""


class SystemClock:
    """A `Clock` that follows the clocks of the system.

    `wall` and `monotonic` return nanoseconds. The clock counts with the monotonic clock. When the wall clock
    gets ahead of that by a second or more (the machine was suspended, or its time was corrected), the clock
    jumps forward. When the wall clock is set back, it keeps counting, and `warn` is called, once, also if the
    process has forked.
    """

    def __init__(
        self,
        warn: Callable[[str], None],
        wall: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._warn, self._wall, self._monotonic = warn, wall, monotonic
        self._wall_offset = self._offset = wall() - monotonic()
        self._warned = mmap.mmap(-1, 2)

    def __call__(self) -> int:
        count = self._monotonic()
        ahead = self._wall() - count - self._wall_offset
        if ahead >= _MIN_JUMP_NS:
            self._wall_offset += ahead
            self._offset = max(self._offset, self._wall_offset)
        elif ahead <= -_MIN_JUMP_NS:
            self._warn_once(_SET_BACK, f"the system clock was set back by {-ahead / 1e9:g} s")
        return (count + self._offset) // 1_000_000

    def catch_up(self, time: int) -> None:
        ahead = time - self()
        if 0 < ahead <= MAX_DIFFERENCE_MS:
            self._offset += ahead * 1_000_000
        if ahead >= MAX_DRIFT_MS:
            self.warn_behind(ahead)

    def warn_behind(self, milliseconds: int | None = None) -> None:
        distance = "" if milliseconds is None else f"{round(milliseconds / 1000, 3):,} s "
        self._warn_once(_BEHIND, f"the store has times {distance}ahead of the system clock")

    def _warn_once(self, number: int, text: str) -> None:
        if not self._warned[number]:
            self._warned[number] = 1
            self._warn(f"{text}; the virtual clocks do not go back")
