"""The virtual clock of a sandbox: pure arithmetic on real time. All times are milliseconds since the epoch.

A setting says: at the real moment `since_real` it is the virtual moment `since_virtual`, and from then on
virtual time runs `speed` times as fast as real time. Every change makes a new setting that goes on where the
old one has come to, so only an advance makes virtual time jump, and nothing makes it go back.
"""

from typing import NamedTuple

from paymock.rules.times import LATEST

MAX_SPEED = 10_000
MAX_ADVANCE = 31_536_000
"""The longest advance in one call, in seconds: a year."""

LEAD = 50
"""How many milliseconds ahead a change of speed can lie: every process learns of it within that time."""


class ClockSetting(NamedTuple):
    """How virtual time follows real time. At speed 0 it stands still. `before` is the speed until
    `since_real`, where that still lay ahead.
    """

    since_real: int
    since_virtual: int
    speed: float
    before: float = 0

    def at(self, real: int) -> int:
        """The virtual time at the real time `real`. It stops before the year 10000, and where real time was
        set back it stands still.
        """
        passed = real - self.since_real
        if passed > 0:
            virtual = self.since_virtual + int(passed * self.speed)
        else:
            virtual = self.since_virtual + int(max(passed, -LEAD) * self.before)
        return virtual if virtual < LATEST else LATEST

    def running_at(self, speed: float, real: int, ahead: int = 0) -> "ClockSetting":
        """The setting that goes on at `speed` from `real` on, or from so many milliseconds `ahead`, at most
        LEAD, and until then as this one does.
        """
        if speed == self.speed:
            return self
        since = max(real + ahead, self.since_real)
        before = self.speed if since == real + ahead else self.before
        return ClockSetting(since, self.at(since), speed, before if ahead else 0)

    def advanced(self, milliseconds: int) -> "ClockSetting":
        """The setting that is `milliseconds` further."""
        return self._replace(since_virtual=self.since_virtual + milliseconds)

    def real_delay(self, virtual: int, real: int) -> float | None:
        """How many real milliseconds after `real` the virtual time `virtual` comes; None when it never
        does.
        """
        if virtual <= self.at(real):
            return 0
        if real < self.since_real and virtual <= self.since_virtual:
            return self.since_real - real  # it comes before the change of speed, at the latest with it
        if not self.speed or virtual > LATEST:
            return None
        return max(0, self.since_real + (virtual - self.since_virtual) / self.speed - real)
