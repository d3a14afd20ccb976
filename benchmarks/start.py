"""Start-up time, and memory after the start.

    python -m benchmarks.start [--rounds N] [--json FILE]

Measures the time to the end of `paymock --version`, to the ready file of `paymock serve` and to its first
reply, and that of an interpreter that does nothing, in N rounds (default 15). Time in which the process was
ready to run, and other processes had all cores, does not count. It fails when a median exceeds its budget.
Ratios are to the interpreter that does nothing.
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

from benchmarks.load import TimedProcess
from harness.api_client import request_headers
from harness.process_info import ProcessTree

BARE, VERSION, READY, REPLY = "bare interpreter", "paymock --version", "serve: ready", "serve: first reply"
MEMORY = "resident memory"
BUDGETS = {VERSION: 150, READY: 350, REPLY: 350}
"""Milliseconds."""


def run_interpreter(*arguments: str) -> float:
    """Milliseconds until the interpreter ends."""
    timed = TimedProcess([sys.executable, *arguments])
    os.waitid(os.P_PID, timed.process.pid, os.WEXITED | os.WNOWAIT)
    milliseconds = timed.milliseconds
    assert timed.process.wait() == 0
    return milliseconds


def start_server() -> dict[str, float]:
    """Milliseconds until the server is ready, and until its first reply, and its resident memory in MB."""
    with TemporaryDirectory() as folder:
        ready = Path(folder, "ready.json")
        command = [sys.executable, "-m", "paymock", "serve", "--port", "0", "--ready-file", str(ready)]
        timed = TimedProcess(command)
        try:
            while not ready.exists():
                assert timed.process.poll() is None, "the server did not start"
                time.sleep(0.002)
            figures = {READY: timed.milliseconds}
            url = json.loads(ready.read_text())["url"]
            urllib.request.urlopen(
                urllib.request.Request(f"{url}/v1/chains", headers=request_headers())
            ).close()
            return {**figures, REPLY: timed.milliseconds, MEMORY: ProcessTree(timed.process.pid).megabytes}
        finally:
            timed.process.terminate()
            timed.process.wait()


def one_round() -> dict[str, float]:
    """One measurement of each."""
    return {
        BARE: run_interpreter("-c", "pass"),
        VERSION: run_interpreter("-m", "paymock", "--version"),
        **start_server(),
    }


def main() -> None:
    """Print the table, and fail above the budgets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    one_round()  # the first start compiles
    rounds = [one_round() for _ in range(options.rounds)]
    figures = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    for name, figure in figures.items():
        budget = f"   the budget is {BUDGETS[name]}" if name in BUDGETS else ""
        ratio = "" if name == MEMORY else f" {figure / figures[BARE]:>6.1f}"
        print(f"{name:<20} {figure:>5.0f} {'MB' if name == MEMORY else 'ms'}{ratio}{budget}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    over = [name for name, most in BUDGETS.items() if figures[name] > most]
    sys.exit(f"above the budget: {', '.join(over)}" if over else None)


if __name__ == "__main__":
    main()
