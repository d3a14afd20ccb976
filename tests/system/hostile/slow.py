"""Thousands of slow clients, and what the healthy ones notice of them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.load import CORES, Running
from harness.polling import wait_until
from harness.server_process import server_process, server_process_by_script
from tests.system.hostile.crowd import crowd
from tests.system.hostile.healthy import Seen, milliseconds, used_by_healthy_clients

COUNT = 5_000
MOST_P99 = 50.0
"""Milliseconds. Where others keep the processors busy, those count for which the server worked."""

ATTEMPTS = 3
"""How often the times are measured, at most, until they are good: a busy machine spoils some."""

COMING_SECONDS = 60.0
CALM_SECONDS = 3.0
FEW_FILES = 1_024


@dataclass
class Slow:
    """What was seen. `connected` is the least number of slow clients."""

    connected: int
    refused: int
    cut: int
    calm: Seen
    beset: Seen
    megabytes: float = 0.0
    violations: list[str] = field(default_factory=list)


def beset(seconds: float, files: int | None, folder: Path) -> Slow:
    """Healthy clients for so many seconds, while COUNT slow ones are there, of a server that may have so many
    files open; None: as many as the system allows.
    """
    with _server(files, folder) as server:
        calm = used_by_healthy_clients(server, CALM_SECONDS)
        with crowd(server.port, COUNT) as slow:
            wait_until(lambda: COUNT in slow.connected or slow.cut > COUNT, COMING_SECONDS)
            for _ in range(ATTEMPTS):
                first = len(slow.connected)
                seen = used_by_healthy_clients(server, seconds)
                outcome = Slow(min(slow.connected[first:]), slow.refused, slow.cut, calm, seen)
                outcome.megabytes = server.megabytes
                outcome.violations += wrong(seen)
                if not outcome.violations or seen.errors:
                    break
    return outcome


def wrong(seen: Seen) -> Iterator[str]:
    """What must not be."""
    if seen.errors:
        yield f"{len(seen.errors)} errors, such as {seen.errors[0]}"
    busy = os.getloadavg()[0] > len(CORES)
    p99 = milliseconds(99, seen.worked if busy else seen.took)
    if p99 >= MOST_P99:
        yield f"p99 {p99:.0f} ms{' of work' if busy else ''}, not below {MOST_P99:.0f}"


@contextmanager
def _server(files: int | None, folder: Path) -> Iterator[Running]:
    serve = server_process(folder, "--no-access-log")
    if files is not None:
        serve = server_process_by_script(folder, f'ulimit -n {files} && exec "$@"', "--no-access-log")
    with serve as served:
        yield Running(served.url, served.process.pid)
