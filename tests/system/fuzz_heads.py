"""Fuzz request heads.

    python -m tests.system.fuzz_heads [--count N] [--seed SEED] [--first NUMBER] [--write]

Mutates valid requests at random, reproducibly for a seed, and sends them to `paymock serve` on 48
connections; about a minute for 100,000. It fails when a reply is not valid HTTP, a 5xx, or a refusal without
the error envelope, when a valid request is refused, or when the server does not close a connection, logs a
defect, leaks a file, or stops serving. A violation names its number: `--first NUMBER --count 1` repeats it.
`--write` writes the figure into docs/reliability.md.
"""

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from harness.docs_figures import write_figure
from tests.support.heads import proof


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10_000))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = proof(Path(folder), options.count, options.seed, options.first)
    figure = (
        f"{outcome.requests:,} requests, seed {options.seed}: {len(outcome.violations) or 'no'} violations"
    )
    print(f"{figure}; {outcome.silent} unanswered")
    print(*(f"{status}: {number:,}" for status, number in sorted(outcome.replies.items())), sep=", ")
    if options.write:
        write_figure("heads", figure)
    if outcome.violations:
        sys.exit("\n".join([*outcome.violations[:20], figure]))


if __name__ == "__main__":
    main()
