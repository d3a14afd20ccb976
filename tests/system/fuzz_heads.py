"""Mutated requests: what a server makes of nearly HTTP.

    python -m tests.system.fuzz_heads [--count N] [--seed SEED] [--first NUMBER] [--write]

Good requests are mutated by chance, the same for the same seed, and sent to `paymock serve` on 48 connections
at once; about a minute for 100,000. It fails when a reply is no HTTP, a 5xx, or a refusal without the
envelope, when a good request gets no success, when the server does not let go of a connection, has a defect,
keeps a file open, or does not serve on. A violation names its number: `--first NUMBER --count 1` repeats it.
`--write` writes the figure into docs/reliability.md.
"""

import argparse
import secrets
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import figures
from tests.support.heads import proof

SHOWN = 20
"""So many violations are named."""


def main() -> None:
    """Prints what was answered, and ends with a message when something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10_000))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        outcome = proof(Path(folder), options.count, options.seed, options.first)
    seconds = time.monotonic() - started
    print(f"{outcome.requests:,} requests, seed {options.seed}, {seconds:.0f} s, {outcome.silent} unanswered")
    print(*(f"{status}: {number:,}" for status, number in sorted(outcome.replies.items())), sep=", ")
    if options.write:
        found = f"{len(outcome.violations) or 'no'} violations"
        figures.write("heads", f"{outcome.requests:,} requests, seed {options.seed}: {found}")
    for violation in outcome.violations[:SHOWN]:
        print(violation, file=sys.stderr)
    if outcome.violations:
        sys.exit(f"{len(outcome.violations)} violations, seed {options.seed}")


if __name__ == "__main__":
    main()
