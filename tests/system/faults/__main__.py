"""Run all fault tests at length, and report the results.

    python -m tests.system.faults [--rounds N] [--seconds S] [--seed SEED] [--write]

N rounds of each kill (default 20), and of the other tests in proportion; S seconds of random requests on each
store (default 60). This takes about a quarter of an hour. `--write` writes docs/fault-tests.md, and the
figures of docs/reliability.md. It needs Linux and redis-server. It fails when a check has found a violation,
also of a time limit, or when the checks have found nothing where data is lost for certain.
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

from harness import docs_figures
from tests.system.faults import concurrent_creations, random_faults
from tests.system.faults.concurrent_creations import create_concurrently
from tests.system.faults.connection_cuts import CUTS, cut_connections
from tests.system.faults.late_commits import delay_clock_changes, delay_deposits
from tests.system.faults.node_failures import kill_nodes
from tests.system.faults.random_faults import inject_faults
from tests.system.faults.report import Results, report
from tests.system.faults.server_kills import CASES, VOLATILE, kill_servers
from tests.system.faults.summary import summary

PAGE = docs_figures.PAGE.with_name("fault-tests.md")
CUT_SECONDS = 2.5
NODE_SECONDS = 4.0
SHOWN = 20
"""So many violations are printed."""

T = TypeVar("T")


def main() -> None:
    """Run all tests, print or write the report, and fail when there were violations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10_000))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that processes are ended
    command = f"python -m tests.system.faults --rounds {options.rounds} --seconds {options.seconds:g}"
    results = run(options.rounds, options.seconds, options.seed, f"{command} --seed {options.seed}")
    page = report(results)
    if options.write:
        PAGE.write_text(page, encoding="utf-8")
        for name, figure in summary(results):
            docs_figures.write_figure(name, figure)
    else:
        print(page)
    for violation in results.violations[:SHOWN]:
        print(violation, file=sys.stderr)
    if results.violations:
        sys.exit(f"{len(results.violations)} violations, seed {options.seed}")
    if not all(result.violations for result in results.volatile):
        sys.exit("the checks have not detected that an engine without a file loses data")


def run(rounds: int, seconds: float, seed: int, command: str) -> Results:
    """Run all tests, one after another."""
    fewer, more = max(1, rounds // 2), rounds * 5 // 2
    results = Results(command)
    for case in CASES:
        results.kills.append(_in_folder(case.name, partial(kill_servers, case, rounds, seed)))
    results.volatile.append(_in_folder(VOLATILE.name, partial(kill_servers, VOLATILE, 1, seed)))
    for cut in CUTS:
        results.cuts.append(_in_folder(cut, partial(cut_connections, cut, fewer, CUT_SECONDS, seed)))
    results.nodes.append(_in_folder("nodes", partial(kill_nodes, max(1, rounds // 3), NODE_SECONDS)))
    for store in concurrent_creations.STORES:
        test = partial(create_concurrently, store, more)
        results.concurrency.append(_in_folder(f"identical creations on {store}", test))
    for store in random_faults.STORES:
        test_random = partial(inject_faults, store, seconds, seed)
        results.random.append(_in_folder(f"random requests on {store}", test_random))
    for delay in (delay_deposits, delay_clock_changes):
        results.late_commits.append(_in_folder(delay.__name__, partial(delay, fewer)))
    return results


def _in_folder(name: str, test: Callable[[Path], T]) -> T:
    print(name, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="paymock-faults-") as folder:
        return test(Path(folder))


if __name__ == "__main__":
    main()
