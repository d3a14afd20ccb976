"""Slow and hostile clients, and a stop in the middle of everything.

    python -m tests.system.hostile [--short] [--write]

5,000 slow connections while others do what clients should do, once with the limit of open files that the
system has and once with 1,024; 50 bodies of 10 MB at once; a body in 3,000 pieces; SIGTERM with 100 requests
in progress. About three minutes. With `--short` healthy clients are watched for a shorter time, and nothing
is stopped, since tests/system/test_stop.py does that.

It fails when a promise of docs/reliability.md is broken; `--write` writes the figures there. It needs Linux,
6,000 open files and redis-server.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from benchmarks import figures
from tests.system.hostile.bodies import LARGE, SENDERS, SMALL, large, pieces
from tests.system.hostile.healthy import milliseconds
from tests.system.hostile.slow import COUNT, FEW_FILES, Slow, beset
from tests.system.hostile.stop import CASES, stopped

SECONDS, SHORT_SECONDS = 30.0, 15.0
"""How long healthy clients are watched."""

T = TypeVar("T")


class Figure(NamedTuple):
    """What a page shows under a name, and what was wrong."""

    name: figures.Name
    text: str
    violations: Sequence[str]


def main() -> None:
    """Prints what was seen, and ends with a message when something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # which ends what was started
    wrong = []
    for name, text, violations in run(short=options.short):
        print(f"{name}: {text}", flush=True)
        wrong += [f"{name}: {violation}" for violation in violations]
        if options.write:
            figures.write(name, text)
    if wrong:
        sys.exit("\n".join(wrong))


def run(*, short: bool) -> Iterator[Figure]:
    """One figure after another."""
    seconds = SHORT_SECONDS if short else SECONDS
    yield _slow("slow", _in_folder(partial(beset, seconds, None)))
    yield _slow("slow-few-files", _in_folder(partial(beset, seconds, FEW_FILES)))
    big = _in_folder(large)
    replies = "; ".join(f"{kind} {len(found)} times" for kind, found in big.replies.items())
    text = f"{SENDERS} bodies of {LARGE // 2**20} MB at once: {replies}; memory + {big.megabytes:.1f} MB"
    yield Figure("bodies", text, big.violations)
    cut = _in_folder(pieces)
    text = (
        f"{SMALL:,} chunks of a byte cost {cut.chunks / cut.whole:.1f} times the body in one piece, and "
        f"{cut.chunks_one_by_one / cut.bytes_one_by_one:.1f} times where all comes in as many packets"
    )
    yield Figure("pieces", text, cut.violations)
    if not short:
        yield _stops()


def _slow(name: figures.Name, seen: Slow) -> Figure:
    p99, calm = milliseconds(99, seen.beset.took), milliseconds(99, seen.calm.took)
    text = (
        f"{len(seen.beset.errors)} errors in {len(seen.beset.took):,} requests, p99 {p99:.0f} ms "
        f"({calm:.0f} without slow clients); {seen.connected:,} of {COUNT:,} slow clients or more connected, "
        f"{seen.refused:,} times one was refused, {seen.cut:,} times cut off; {seen.megabytes:.0f} MB"
    )
    return Figure(name, text, seen.violations)


def _stops() -> Figure:
    seen = [_in_folder(partial(stopped, case)) for case in CASES]
    text = (
        f"{len(seen)} stops, {max(stop.seconds for stop in seen):.1f} s at most; all of "
        f"{sum(stop.before + stop.during for stop in seen)} acknowledged payments kept, "
        f"{sum(stop.during for stop in seen)} of them acknowledged during the stop"
    )
    return Figure(
        "stop", text, [f"{stop.name}: {violation}" for stop in seen for violation in stop.violations]
    )


def _in_folder(program: Callable[[Path], T]) -> T:
    with tempfile.TemporaryDirectory(prefix="paymock-hostile-") as folder:
        return program(Path(folder))


if __name__ == "__main__":
    main()
