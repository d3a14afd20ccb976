"""Run all fault tests at length, and print their results.

    python -m tests.system.faults [--rounds N] [--seconds S] [--seed SEED]

N rounds of each kill (default 20), and of the other tests in proportion; S seconds of random requests on each
store (default 60). This takes about a quarter of an hour. It needs Linux and redis-server. It fails when a
check has found a violation, also of a time limit, or when the checks have found nothing where data is lost
for certain. The figures of docs/reliability.md are taken from what it prints.
"""

import argparse
import secrets
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.system.faults import concurrent_creations, random_faults
from tests.system.faults.concurrent_creations import create_concurrently
from tests.system.faults.connection_cuts import CUTS, cut_connections
from tests.system.faults.random_faults import inject_faults
from tests.system.faults.server_kills import CASES, VOLATILE, kill_servers
from tests.system.faults.verification import Result

CUT_SECONDS = 2.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10_000))
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that processes are ended
    print(f"seed {options.seed}", flush=True)
    failures = 0
    rounds, seed = options.rounds, options.seed
    tests: list[Callable[[Path], Result]] = [
        *(partial(kill_servers, case, rounds, seed) for case in CASES),
        *(partial(cut_connections, cut, max(1, rounds // 2), CUT_SECONDS) for cut in CUTS),
        *(partial(create_concurrently, store, rounds * 5 // 2) for store in concurrent_creations.STORES),
        *(partial(inject_faults, store, options.seconds, seed) for store in random_faults.STORES),
    ]
    for test in tests:
        with tempfile.TemporaryDirectory(prefix="paymock-faults-") as folder:
            result = test(Path(folder))
        print(result, flush=True)
        failures += len(result.violations) + len(result.late)
    with tempfile.TemporaryDirectory(prefix="paymock-faults-") as folder:
        if not kill_servers(VOLATILE, 1, options.seed, Path(folder)).violations:
            sys.exit("the checks have not detected that an engine without a file loses data")
    if failures:
        sys.exit(f"{failures} violations, seed {options.seed}")


if __name__ == "__main__":
    main()
