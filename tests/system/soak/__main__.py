"""Run mixed load with faults for a long time, and check that memory and open files do not grow.

    python -m tests.system.soak [--minutes 30] [--write]

Starts three servers, on memory, SQLite and Redis, with six users each, who call every operation, reset their
sandboxes so that the stored data is bounded, request faults, make mistakes, disconnect, also in the middle of
a request. A proxy cuts the connection of the third server to Redis at intervals.

In the first half of the time users do not pause: caches, which are bounded, fill up, and the allocator finds
its size. Most of it are the timelines of 2,000 payments, 5 MB in each process. Then the resident memory may
not grow by 1 MB per hour. Growth below 1 MB in all, from the first quarter of the rest to the last, does not
count: the allocator causes as much. Runs of less than ten minutes, in which caches may not be full yet, allow
20 MB, which still detects a leak of some kilobytes per request.

After all users have disconnected, no more files may be open than before. No user may get an unexpected reply,
other than 503 during a cut, and no server may log anything.
"""

import argparse
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.docs_figures import write_figure
from harness.process_info import ProcessTree
from tests.system.faults.clients import threads
from tests.system.soak.deployments import STORES, Deployment, deployment
from tests.system.soak.users import UserLog, users

USERS = 6
MIN_MINUTES = 10
"""A shorter run cannot measure growth per hour."""

WARM_UP = 1 / 2
"""Of the time; caches are full after it."""

INTERVAL_SECONDS, SHORT_INTERVAL_SECONDS = 0.1, 0.04
"""Between two actions of a user after the warm-up, in a long run and in a short one."""

MAX_SLOPE, MIN_GROWTH, MAX_GROWTH = 1.0, 1.0, 20.0
"""Megabytes per hour; in all, what does not count; in all, the limit of a short run."""

IDLE_SECONDS, MAX_IDLE_SECONDS = 3.0, 20.0
"""After its users have disconnected, a server closes its connections within this time, usually and at most.
"""

SHOWN = 5


@dataclass
class SoakResult:
    """The result of one server. `memory`: resident megabytes, one a second. `files`: open files before and
    after the users.
    """

    deployment: Deployment
    log: UserLog
    memory: list[float]
    files: tuple[int, int]
    minutes: float
    logged: str

    @property
    def slope(self) -> float:
        """Megabytes per hour, by least squares."""
        return statistics.linear_regression(range(len(self.memory)), self.memory).slope * 3600

    @property
    def growth(self) -> float:
        """Megabytes between the medians of the first and the last quarter."""
        quarter = max(1, len(self.memory) // 4)
        return statistics.median(self.memory[-quarter:]) - statistics.median(self.memory[:quarter])

    @property
    def violations(self) -> Iterator[str]:
        unexpected = [reply.text for reply in self.log.unexpected if not self.deployment.explains(reply)]
        if unexpected:
            yield f"{len(unexpected)} unexpected replies, such as {'; '.join(unexpected[:SHOWN])}"
        if self.files[1] > self.files[0]:
            yield f"{self.files[0]} files open before, {self.files[1]} after"
        if self.logged:
            yield f"the server logged: {self.logged[:500]}"
        if self.minutes >= MIN_MINUTES and self.slope >= MAX_SLOPE and self.growth >= MIN_GROWTH:
            yield f"the memory grows by {self.slope:.1f} MB per hour"
        if self.minutes < MIN_MINUTES and self.growth >= MAX_GROWTH:
            yield f"the memory grew by {self.growth:.1f} MB"

    def __str__(self) -> str:
        return (
            f"{self.deployment.name}: {self.log.requests:,} requests, {len(self.log.unexpected)} of them 503 "
            f"in {len(self.deployment.cuts)} cuts; {self.memory[-1]:.0f} MB, {self.growth:+.2f} MB, "
            f"{self.slope:+.2f} MB per hour; {self.files[0]} files before, {self.files[1]} after"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that processes are ended
    ended = threading.Event()
    with tempfile.TemporaryDirectory(prefix="paymock-soak-") as folder, ExitStack() as stack:
        deployments = [stack.enter_context(deployment(name, Path(folder, name))) for name in STORES]
        with ThreadPoolExecutor(len(deployments)) as pool:
            try:
                results = list(pool.map(partial(soak, minutes=options.minutes, ended=ended), deployments))
            finally:
                ended.set()
    print(*results, sep="\n")
    failures = [f"{result.deployment.name}: {text}" for result in results for text in result.violations]
    if failures:
        sys.exit("\n".join(failures))
    if options.write:
        write_figure("soak", _figure(results, options.minutes))


def soak(target: Deployment, minutes: float, ended: threading.Event) -> SoakResult:
    """Let users call one server for so many minutes, or until `ended` is set."""
    log = UserLog()
    start_users = partial(users, target.server.url, target.name, USERS, log)
    warm_up = minutes * 60 * WARM_UP
    with start_users(0.0):
        ended.wait(warm_up)
    before = min_open_files(target.server.tree, IDLE_SECONDS)
    interval = INTERVAL_SECONDS if minutes >= MIN_MINUTES else SHORT_INTERVAL_SECONDS
    memory: list[float] = []

    def measure(stop: threading.Event) -> None:
        while not stop.wait(1):
            memory.append(target.server.tree.megabytes)

    with start_users(interval), threads(measure):
        ended.wait(minutes * 60 - warm_up)
    after = min_open_files(target.server.tree, MAX_IDLE_SECONDS, target=before)
    return SoakResult(target, log, memory, (before, after), minutes, target.log_output)


def min_open_files(server: ProcessTree, seconds: float, target: int = 0) -> int:
    """The lowest number of open files of all processes within so many seconds, or until it is `target`."""
    ends, lowest = time.monotonic() + seconds, server.open_files
    while lowest > target and time.monotonic() < ends:
        time.sleep(0.1)
        lowest = min(lowest, server.open_files)
    return lowest


def _figure(results: list[SoakResult], minutes: float) -> str:
    requests = sum(result.log.requests for result in results)
    slopes = ", ".join(f"{result.slope:+.2f} ({result.deployment.name})" for result in results)
    cuts = sum(len(result.deployment.cuts) for result in results)
    return (
        f"{minutes:g} minutes, {requests:,} requests, {cuts} cuts, no other error; MB per hour: {slopes}; "
        "no open files left"
    )


if __name__ == "__main__":
    main()
