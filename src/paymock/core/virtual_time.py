"""The virtual clock of a sandbox: pure arithmetic on real time. All times are milliseconds since the epoch.

A setting says: from the real moment `since_real` on, which is the virtual moment `since_virtual`, virtual
time runs `speed` times as fast as real time. Every change makes a new setting that begins where the old
one has come to, so virtual time never jumps but by an advance, and never back.
"""

from typing import NamedTuple

MAX_SPEED = 10_000
MAX_ADVANCE = 31_536_000
"""The longest advance in one call, in seconds: a year."""


class ClockSetting(NamedTuple):
    """How virtual time follows real time. Speed 0 stands still."""

    since_real: int
    since_virtual: int
    speed: float

    def at(self, real: int) -> int:
        """The virtual time at the real time `real`; the clock never runs backwards, whatever real time
        does.
        """
        return self.since_virtual + max(0, int((real - self.since_real) * self.speed))

    def running_at(self, speed: float, real: int) -> "ClockSetting":
        """The setting that goes on from `real` at `speed` times real time."""
        return ClockSetting(max(real, self.since_real), self.at(real), speed)

    def advanced(self, milliseconds: int, real: int) -> "ClockSetting":
        """The setting that is `milliseconds` further from `real` on."""
        return ClockSetting(max(real, self.since_real), self.at(real) + milliseconds, self.speed)

    def real_delay(self, virtual: int, real: int) -> float | None:
        """How many real milliseconds after `real` the virtual time `virtual` comes; None when it never
        does.
        """
        remaining = virtual - self.at(real)
        if remaining <= 0:
            return 0
        return remaining / self.speed if self.speed else None
