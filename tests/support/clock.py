"""A clock that stands still until a test moves it."""

from paymock.sandbox.clock import MAX_DIFFERENCE_MS

NOON = 1_896_091_200_000  # 2030-01-31T12:00:00Z


class ManualClock:
    """A `Clock`: call it for the time, `advance` it by seconds."""

    def __init__(self, now: int = NOON) -> None:
        self.now = now
        self.warned = 0

    def __call__(self) -> int:
        return self.now

    def catch_up(self, time: int) -> None:
        if time <= self.now + MAX_DIFFERENCE_MS:
            self.now = max(self.now, time)

    def warn_behind(self, milliseconds: int | None = None) -> None:
        self.warned += 1

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1000)
