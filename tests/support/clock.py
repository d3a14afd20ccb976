"""A clock that stands still until a test moves it."""

NOON = 1_896_091_200_000  # 2030-01-31T12:00:00Z


class ManualClock:
    """A `Clock`: call it for the time, `advance` it by seconds."""

    def __init__(self, now: int = NOON) -> None:
        self.now = now
        self._ahead = 0  # of the clock of the system

    def __call__(self) -> int:
        return self.now

    def system_time(self) -> int:
        return self.now - self._ahead

    def catch_up(self, time: int) -> None:
        behind = max(0, time - self.now)
        self.now += behind
        self._ahead += behind

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1000)
