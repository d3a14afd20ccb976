"""Memory and open files of a server over time."""

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from harness.process_info import ProcessTree
from tests.system.faults.clients import threads

INTERVAL_SECONDS = 1.0


@dataclass
class MemoryUsage:
    """Resident megabytes, with the seconds since the start."""

    seconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)

    @property
    def slope(self) -> float:
        """Megabytes per hour, by least squares."""
        return statistics.linear_regression(self.seconds, self.megabytes).slope * 3600

    @property
    def growth(self) -> float:
        """Megabytes between the medians of the first and the last quarter."""
        quarter = max(1, len(self.megabytes) // 4)
        return statistics.median(self.megabytes[-quarter:]) - statistics.median(self.megabytes[:quarter])


@contextmanager
def measure_memory(server: ProcessTree) -> Iterator[MemoryUsage]:
    usage, started = MemoryUsage(), time.monotonic()

    def measure(stop: threading.Event) -> None:
        while not stop.wait(INTERVAL_SECONDS):
            usage.seconds.append(time.monotonic() - started)
            usage.megabytes.append(server.megabytes)

    with threads(measure):
        yield usage


def min_open_files(server: ProcessTree, seconds: float, target: int = 0) -> int:
    """The lowest number of open files of all processes within so many seconds, or until it is `target`."""
    ends, lowest = time.monotonic() + seconds, server.open_files
    while lowest > target and time.monotonic() < ends:
        time.sleep(0.1)
        lowest = min(lowest, server.open_files)
    return lowest
