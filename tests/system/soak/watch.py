"""What a server takes, second by second, and whether it grows."""

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.load import Running

EVERY_SECONDS = 1.0


@dataclass
class Taken:
    """Seconds since the begin, and the megabytes that were resident then."""

    seconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)

    @property
    def slope(self) -> float:
        """Megabytes an hour, by least squares."""
        return statistics.linear_regression(self.seconds, self.megabytes).slope * 3600

    @property
    def growth(self) -> float:
        """Megabytes, from the first quarter of the time to the last, in the median."""
        quarter = max(1, len(self.megabytes) // 4)
        return statistics.median(self.megabytes[-quarter:]) - statistics.median(self.megabytes[:quarter])


@contextmanager
def watching(server: Running) -> Iterator[Taken]:
    """What the server takes until the block ends."""
    taken, enough, began = Taken(), threading.Event(), time.monotonic()

    def watch() -> None:
        while not enough.wait(EVERY_SECONDS):
            taken.seconds.append(time.monotonic() - began)
            taken.megabytes.append(server.megabytes)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield taken
    finally:
        enough.set()
        thread.join()


def least_files(server: Running, seconds: float, enough: int = 0) -> int:
    """The fewest files that all processes of the server have open within so many seconds; it is looked no
    longer than until they are so few.
    """
    ends, least = time.monotonic() + seconds, server.files
    while least > enough and time.monotonic() < ends:
        time.sleep(0.1)
        least = min(least, server.files)
    return least
