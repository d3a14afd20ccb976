"""How long paymock takes to start, and the memory that it holds then.

    python -m benchmarks.start [--rounds N] [--json FILE]

From the start of the process to the end of `paymock --version`; to the ready file of `paymock serve`; to its
first reply; beside an interpreter that does nothing. N rounds (default 15), in which they take turns. From
what the clock says the time is taken off in which the process could have run and other processes had all the
cores. It fails when the median is above a budget.
"""

import argparse
import json
import os
import statistics
import sys
import time
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.load import Running, Watch, authorized

BARE, VERSION, READY, REPLY = "bare interpreter", "paymock --version", "serve: ready", "serve: first reply"
MEMORY = "resident memory"
BUDGETS = {VERSION: 150, READY: 350}
"""Milliseconds."""


def ended(*arguments: str) -> float:
    """Milliseconds that the interpreter takes with these arguments."""
    watch = Watch([sys.executable, *arguments])
    os.waitid(os.P_PID, watch.process.pid, os.WEXITED | os.WNOWAIT)
    milliseconds = watch.milliseconds
    assert watch.process.wait() == 0
    return milliseconds


def served() -> dict[str, float]:
    """Milliseconds until the server is ready, and until its first reply, and its resident memory in MB."""
    with TemporaryDirectory() as folder:
        ready = Path(folder, "ready.json")
        command = [sys.executable, "-m", "paymock", "serve", "--port", "0", "--ready-file", str(ready)]
        watch = Watch(command)
        try:
            while not ready.exists():
                assert watch.process.poll() is None, "it did not start"
                time.sleep(0.002)
            figures = {READY: watch.milliseconds}
            url = json.loads(ready.read_text())["url"]
            urllib.request.urlopen(urllib.request.Request(f"{url}/v1/chains", headers=authorized({}))).close()
            return {**figures, REPLY: watch.milliseconds, MEMORY: Running(url, watch.process.pid).megabytes}
        finally:
            watch.process.terminate()
            watch.process.wait()


def one_round() -> dict[str, float]:
    """One of each."""
    return {BARE: ended("-c", "pass"), VERSION: ended("-m", "paymock", "--version"), **served()}


def main() -> None:
    """Prints the table, and fails above the budgets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    one_round()  # the first start compiles
    rounds = [one_round() for _ in range(options.rounds)]
    figures = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    for name, figure in figures.items():
        budget = f"   the budget is {BUDGETS[name]}" if name in BUDGETS else ""
        print(f"{name:<20} {figure:>5.0f} {'MB' if name == MEMORY else 'ms'}{budget}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    over = [name for name, most in BUDGETS.items() if figures[name] > most]
    sys.exit(f"above the budget: {', '.join(over)}" if over else None)


if __name__ == "__main__":
    main()
