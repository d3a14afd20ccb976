"""Mixed load with faults for a long time: what a server takes must not grow.

    python -m tests.system.soak [--minutes 30] [--write]

Three servers, on memory, SQLite and Redis, and six users on each, who do everything that the service knows:
they create, replay, read, advance, pay, wait, follow live pages, look at pages, and reset their sandboxes, so
that what is stored stays bounded; they ask for faults, make mistakes, send garbage, leave in the middle, and
do not end what they began. Meanwhile a proxy cuts the third server off from Redis.

In the first half of the time, users do not pause: they fill what is kept to be quick, which is bounded, and
let the allocator find its size. Most of it are the courses of 2,000 payments, 5 MB in each process. Then the
resident memory may not grow by 1 MB an hour. Where that comes to less than 1 MB in all, from the first
quarter of what is left to the last, it is not told from what the allocator takes from the system and gives
back. In less than ten minutes even that cannot be told: what is kept may not be full yet. There it may grow
by 20 MB, which finds a leak of some kilobytes a request.

When all users have left, no more files may be open than before. No user may get a reply that was not to be
expected, but 503 where the server was cut off, and no server may complain of anything.
"""

import argparse
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import figures
from tests.system.soak.houses import STORES, House, house
from tests.system.soak.users import Diary, users
from tests.system.soak.watch import Taken, least_files, watching

USERS = 6
LEAST_MINUTES = 10
"""A shorter run cannot tell what an hour will bring."""

FIRST = 1 / 2
"""Of the time, after which what is kept is full."""

EACH_SECONDS, SHORT_EACH_SECONDS = 0.1, 0.04
"""Between two actions of a user, once what is kept is full: in a long run, and in a short one."""

MOST_SLOPE, LEAST_GROWTH, MOST_GROWTH = 1.0, 1.0, 20.0
"""Megabytes an hour; and in all: what is too little to tell, and what is too much for a short run."""

CALM_SECONDS, MOST_CALM_SECONDS = 3.0, 20.0
"""How long after its users a server has let go of what they had begun: when all is well, and at most."""

SHOWN = 5


@dataclass
class Soaked:
    """What came of one server."""

    house: House
    diary: Diary
    taken: Taken
    files: tuple[int, int]
    minutes: float
    said: str

    @property
    def violations(self) -> Iterator[str]:
        """What must not be."""
        surprises = [one.what for one in self.diary.surprises if not self.house.explains(one)]
        if surprises:
            yield f"{len(surprises)} surprises, such as {'; '.join(surprises[:SHOWN])}"
        if self.files[1] > self.files[0]:
            yield f"{self.files[0]} files open before, {self.files[1]} after"
        if self.said:
            yield f"the server complained: {self.said[:500]}"
        slope, growth = self.taken.slope, self.taken.growth
        if self.minutes >= LEAST_MINUTES and slope >= MOST_SLOPE and growth >= LEAST_GROWTH:
            yield f"the memory grows by {slope:.1f} MB an hour"
        if self.minutes < LEAST_MINUTES and growth >= MOST_GROWTH:
            yield f"the memory grew by {growth:.1f} MB"

    def __str__(self) -> str:
        refused = len(self.diary.surprises)
        return (
            f"{self.house.name}: {self.diary.asked.total():,} requests, {refused} of them 503 in "
            f"{len(self.house.cuts)} cuts; {self.taken.megabytes[-1]:.0f} MB, {self.taken.growth:+.2f} MB, "
            f"{self.taken.slope:+.2f} MB an hour; {self.files[0]} files before, {self.files[1]} after"
        )


def main() -> None:
    """Prints what was seen, and ends with a message when something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # which ends what was started
    ended = threading.Event()
    with tempfile.TemporaryDirectory(prefix="paymock-soak-") as folder, ExitStack() as stack:
        houses = [stack.enter_context(house(name, Path(folder, name))) for name in STORES]
        with ThreadPoolExecutor(len(houses)) as pool:
            try:
                results = list(pool.map(partial(soaked, minutes=options.minutes, ended=ended), houses))
            finally:
                ended.set()
    print(*results, sep="\n")
    wrong = [f"{result.house.name}: {found}" for result in results for found in result.violations]
    if wrong:
        sys.exit("\n".join(wrong))
    if options.write:
        figures.write("soak", _figure(results, options.minutes))


def soaked(house: House, minutes: float, ended: threading.Event) -> Soaked:
    """Users of one server for so many minutes, or until it is `ended`."""
    diary = Diary()
    crew = partial(users, house.server.url, house.name, USERS, diary)
    warming = minutes * 60 * FIRST
    with crew(0.0):
        ended.wait(warming)
    before = least_files(house.server, CALM_SECONDS)
    each = EACH_SECONDS if minutes >= LEAST_MINUTES else SHORT_EACH_SECONDS
    with crew(each), watching(house.server) as taken:
        ended.wait(minutes * 60 - warming)
    after = least_files(house.server, MOST_CALM_SECONDS, enough=before)
    return Soaked(house, diary, taken, (before, after), minutes, house.said)


def _figure(results: list[Soaked], minutes: float) -> str:
    asked = sum(result.diary.asked.total() for result in results)
    taken = [(result.house.name, result.taken) for result in results]
    slopes = ", ".join(f"{one.slope:+.2f} ({name})" for name, one in taken)
    grown = ", ".join(f"{one.growth:+.2f}" for _, one in taken)
    files = ", ".join(f"{before} and {after}" for before, after in (result.files for result in results))
    cuts = sum(len(result.house.cuts) for result in results)
    return (
        f"{minutes:g} minutes, {asked:,} requests, {cuts} cuts, no other error; MB an hour: {slopes}; "
        f"MB from the first quarter of the time to the last: {grown}; files before and after: {files}"
    )


if __name__ == "__main__":
    main()
