"""Effect of thousands of slow clients on regular ones."""

import os
from collections.abc import Iterator
from pathlib import Path

from harness.docs_figures import Name
from harness.polling import wait_until
from harness.server_process import server_process, server_process_by_script
from tests.system.hostile.regular_clients import Figure, LoadResult, percentile_ms, run_regular_clients
from tests.system.hostile.slow_clients import slow_clients

COUNT = 5_000
MAX_P99 = 50.0
"""Milliseconds, of CPU time where other processes keep the processors busy."""

ATTEMPTS = 3
"""The load is repeated at most so many times while the p99 exceeds its limit: other load may be the reason.
"""

RAMP_UP_SECONDS = 60.0
BASELINE_SECONDS = 3.0
FEW_FILES = 1_024


def attack_with_slow_clients(name: Name, seconds: float, files: int | None, folder: Path) -> Figure:
    """Run regular load for so many seconds with COUNT slow clients, on a server that may open so many files
    (None: as many as the system allows).
    """
    process = server_process(folder, "--no-access-log")
    if files is not None:
        process = server_process_by_script(folder, f'ulimit -n {files} && exec "$@"', "--no-access-log")
    with process as server:
        baseline = run_regular_clients(server, BASELINE_SECONDS)
        with slow_clients(server.port, COUNT) as slow:
            wait_until(lambda: COUNT in slow.connected or slow.disconnected > COUNT, RAMP_UP_SECONDS)
            for _ in range(ATTEMPTS):
                first = len(slow.connected)
                load = run_regular_clients(server, seconds)
                text = (
                    f"{len(load.errors)} errors in {len(load.seconds):,} requests, "
                    f"p99 {percentile_ms(99, load.seconds):.0f} ms "
                    f"({percentile_ms(99, baseline.seconds):.0f} without slow clients); "
                    f"{min(slow.connected[first:]):,} of {COUNT:,} connected; "
                    f"{server.tree.megabytes:.0f} MB"
                )
                found = [*violations(load)]
                if not found or load.errors:
                    break
    return Figure(name, text, found)


def violations(load: LoadResult) -> Iterator[str]:
    """Errors, and a p99 latency above the limit."""
    if load.errors:
        yield f"{len(load.errors)} errors, such as {load.errors[0]}"
    busy = os.getloadavg()[0] > len(os.sched_getaffinity(0))
    p99 = percentile_ms(99, load.cpu_seconds if busy else load.seconds)
    if p99 >= MAX_P99:
        yield f"p99 {p99:.0f} ms{' of CPU time' if busy else ''}, not below {MAX_P99:.0f}"
