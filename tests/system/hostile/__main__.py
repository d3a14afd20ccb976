"""Attack a server with slow clients, and stop a busy server.

    python -m tests.system.hostile [--short] [--write]

Opens 5,000 slow connections during regular load, with the system's limit of open files and with a limit of
1,024; sends SIGTERM with 100 requests in progress. This takes about three minutes. `--short` measures regular
load for a shorter time, and stops no server, which tests/system/test_stop.py does.

It fails when a guarantee of docs/reliability.md is violated; `--write` writes the figures there. It needs
Linux, 6,000 open files and redis-server.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from harness.docs_figures import write_figure
from tests.system.hostile.graceful_stop import CASES, stop_busy_server
from tests.system.hostile.regular_clients import Figure
from tests.system.hostile.starvation import FEW_FILES, attack_with_slow_clients

SECONDS, SHORT_SECONDS = 30.0, 15.0
"""The duration of the regular load."""

T = TypeVar("T")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that processes are ended
    failures = []
    for name, text, violations in run(short=options.short):
        print(f"{name}: {text}", flush=True)
        failures += [f"{name}: {violation}" for violation in violations]
        if options.write:
            write_figure(name, text)
    if failures:
        sys.exit("\n".join(failures))


def run(*, short: bool) -> Iterator[Figure]:
    seconds = SHORT_SECONDS if short else SECONDS
    yield _in_folder(partial(attack_with_slow_clients, "slow", seconds, None))
    yield _in_folder(partial(attack_with_slow_clients, "slow-few-files", seconds, FEW_FILES))
    if not short:
        yield _stop_figure()


def _stop_figure() -> Figure:
    results = [_in_folder(partial(stop_busy_server, case)) for case in CASES]
    text = (
        f"{len(results)} stops, {max(result.seconds for result in results):.1f} s at most; all "
        f"{sum(result.before + result.during for result in results)} acknowledged payments kept, "
        f"{sum(result.during for result in results)} of them from the stop itself"
    )
    violations = [
        f"{result.name}: {violation}"
        for result in results
        for violation in (*result.violations, *result.late)
    ]
    return Figure("stop", text, violations)


def _in_folder(test: Callable[[Path], T]) -> T:
    with tempfile.TemporaryDirectory(prefix="paymock-hostile-") as folder:
        return test(Path(folder))


if __name__ == "__main__":
    main()
