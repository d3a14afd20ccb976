"""The virtual clock of a sandbox: pure arithmetic on real time. All times are milliseconds since the epoch.

A setting maps real time to virtual time: at the real time `since_real` the virtual time is `since_virtual`,
and from then on virtual time runs `speed` times as fast as real time. A change makes a new setting that
continues where the old one stands. So only an advance makes virtual time jump, and it never goes back.
"""

from typing import NamedTuple

from paymock.rules.times import LATEST, parse_rfc3339, time_problem

MIN_SPEED = 0.001
"""The lowest speed other than 0: a real second is the least virtual time, a millisecond."""

MAX_SPEED = 10_000
SPEEDS = f"0, or a number from {MIN_SPEED} to {MAX_SPEED}"
MAX_ADVANCE = 31_536_000
"""The longest advance in one call, in seconds: a year."""

MAX_PROPAGATION_MS = 50
"""The time within which every process learns of a change: the longest delay of a change of speed."""

_EARLIEST_NOW, _LATEST_NOW = 946_684_800_000, 4_133_980_799_999
"""The first millisecond of the year 2000 and the last of 2100: to what a clock can be set."""


def now_problem(text: str) -> str | None:
    """The reason why a clock cannot be set to the time `text`, or None when it can."""
    at = parse_rfc3339(text)
    if at is not None and not _EARLIEST_NOW <= at <= _LATEST_NOW:
        return "must be in the years 2000 to 2100"
    return time_problem(text)


def is_speed(number: float) -> bool:
    return number == 0 or MIN_SPEED <= number <= MAX_SPEED


class ClockSetting(NamedTuple):
    """A linear function from real time to virtual time. At speed 0 virtual time stands still.
    `previous_speed` applies until `since_real`, where that was in the future when the speed was changed.
    """

    since_real: int
    since_virtual: int
    speed: float
    previous_speed: float = 0

    def at(self, real: int) -> int:
        """The virtual time at `real`: at most LATEST. It stands still where real time was set back."""
        passed = real - self.since_real
        if passed > 0:
            virtual = self.since_virtual + int(passed * self.speed)
        else:
            virtual = self.since_virtual + int(max(passed, -MAX_PROPAGATION_MS) * self.previous_speed)
        return virtual if virtual < LATEST else LATEST

    def with_speed(self, speed: float, real: int, delay: int = 0) -> "ClockSetting":
        """The setting that runs at `speed` from `delay` milliseconds after the real time `real`, and until
        then as this one does. `delay` is at most MAX_PROPAGATION_MS.
        """
        if speed == self.speed:
            return self
        since = max(real + delay, self.since_real)
        previous_speed = self.speed if since == real + delay else self.previous_speed
        # -0.0 becomes 0.
        return ClockSetting(since, self.at(since), abs(speed), previous_speed if delay else 0)

    def advanced(self, milliseconds: int) -> "ClockSetting":
        return self._replace(since_virtual=self.since_virtual + milliseconds)

    def real_delay(self, virtual: int, real: int) -> float | None:
        """The real milliseconds from `real` until the virtual time is `virtual`: 0 when it is already that
        late, None when it never will be, or only after LATEST.
        """
        if virtual <= self.at(real):
            return 0
        if real < self.since_real and virtual <= self.since_virtual:  # reached by a pending change of speed
            return self.since_real - real
        if not self.speed or virtual > LATEST:
            return None
        reached = self.since_real + (virtual - self.since_virtual) / self.speed
        return max(0, reached - real) if reached <= LATEST else None
