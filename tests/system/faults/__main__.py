"""The fault proofs at length, and the report of what was seen.

    python -m tests.system.faults [--rounds N] [--seconds S] [--seed SEED] [--write]

N rounds of each kill (default 20), and of the other proofs in proportion; S seconds of random requests on
each store (default 60). About a quarter of an hour. `--write` writes docs/fault-tests.md, and the figures of
docs/reliability.md. It needs redis-server and /proc, and it fails when a check has found something, or when
they have found nothing where something is lost for certain.
"""

import argparse
import secrets
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks import figures
from tests.system.faults.crowds import STORES as CROWDED
from tests.system.faults.crowds import crowded
from tests.system.faults.cuts import CUTS, severed
from tests.system.faults.kills import CASES, FORGETFUL, killed
from tests.system.faults.lateness import late_clocks, late_deposits
from tests.system.faults.mixture import STORES as MIXED
from tests.system.faults.mixture import mixed
from tests.system.faults.nodes import bereaved
from tests.system.faults.report import Results, report
from tests.system.faults.summary import summary

PAGE = figures.PAGE.with_name("fault-tests.md")
CUT_SECONDS = 2.5
NODE_SECONDS = 4.0
SHOWN = 20
"""So many violations are named."""

T = TypeVar("T")


def main() -> None:
    """Runs everything, prints or writes the report, and ends with a message when something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10_000))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # which ends what was started
    command = f"python -m tests.system.faults --rounds {options.rounds} --seconds {options.seconds:g}"
    results = run(options.rounds, options.seconds, options.seed, f"{command} --seed {options.seed}")
    page = report(results)
    if options.write:
        PAGE.write_text(page, encoding="utf-8")
        for name, figure in summary(results):
            figures.write(name, figure)
    else:
        print(page)
    for violation in results.violations[:SHOWN]:
        print(violation, file=sys.stderr)
    if results.violations:
        sys.exit(f"{len(results.violations)} violations, seed {options.seed}")
    if not all(run.violations for run in results.forgetful):
        sys.exit("the checks have not noticed that an engine without a file forgets")


def run(rounds: int, seconds: float, seed: int, command: str) -> Results:
    """All proofs, one after another."""
    some, many = max(1, rounds // 2), rounds * 5 // 2
    results = Results(command)
    for case in CASES:
        results.killed.append(_told(case.name, partial(killed, case, rounds, seed)))
    results.forgetful.append(_told(FORGETFUL.name, partial(killed, FORGETFUL, 1, seed)))
    for cut in CUTS:
        results.severed.append(_told(cut, partial(severed, cut, some, CUT_SECONDS, seed)))
    results.bereaved = _told("a dead node", partial(bereaved, max(1, rounds // 3), NODE_SECONDS))
    for store in CROWDED:
        results.crowded.append(_told(f"a crowd on {store}", partial(crowded, store, many)))
    for store in MIXED:
        results.mixed.append(_told(f"anything on {store}", partial(mixed, store, seconds, seed)))
    for late in (late_deposits, late_clocks):
        results.late.append(_told(late.__name__, partial(late, some)))
    return results


def _told(what: str, proof: Callable[[Path], T]) -> T:
    print(what, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="paymock-faults-") as folder:
        return proof(Path(folder))


if __name__ == "__main__":
    main()
