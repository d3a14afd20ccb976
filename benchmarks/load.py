"""Servers on the first CPU core and wrk on the last: what the HTTP benchmarks share."""

import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.api_client import API_KEY, ORDER, call
from harness.load import CORES, Load, run_wrk
from harness.server_process import ServerProcess, server_process_by_script

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""For server processes: they load compiled modules, as installed ones do."""


@dataclass(frozen=True)
class LoadResult:
    """The result of one wrk run: requests per second, latencies in milliseconds, and the server's CPU time
    per request in microseconds.
    """

    rate: float
    p50: float
    p99: float
    p999: float
    cpu: float


def require_tools(*tools: str) -> None:
    """Exit with a message when a tool is not installed."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        sys.exit(f"this benchmark needs {', '.join(missing)}")


def show_progress(message: str) -> None:
    """Show it in place of the last message, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r{message}\33[K", end="", file=sys.stderr)


@contextmanager
def paymock(
    *arguments: str, cores: Sequence[int] = CORES[:1], checkout: Path | None = None
) -> Iterator[ServerProcess]:
    """`paymock serve` on the given cores, without an access log, of this or another checkout of paymock."""
    script = f'unset PYTHONDONTWRITEBYTECODE; exec taskset -c {",".join(map(str, cores))} "$@"'
    if checkout:
        script = f"export PYTHONPATH={shlex.quote(str(checkout.resolve() / 'src'))}; {script}"
    with (
        tempfile.TemporaryDirectory() as folder,
        server_process_by_script(Path(folder), script, "--no-access-log", *arguments) as server,
    ):
        yield server


def create_payment(url: str) -> str:
    """The id of a new payment."""
    key = f"benchmark-{uuid.uuid4()}"
    return str(call(url, API_KEY, "POST", "/v1/payments", json.loads(ORDER), key)["id"])


def measure_load(server: ServerProcess, seconds: int, load: Load, *others: ServerProcess) -> LoadResult:
    """Put a load on the server, and on `others` at its port. Exit with a message if a request is refused."""
    before = sum(one.tree.cpu_seconds for one in (server, *others))
    report = run_wrk(server.url, seconds, load)
    spent = sum(one.tree.cpu_seconds for one in (server, *others)) - before
    if report.refused or report.broken:
        counts = f"{report.refused} refused, {report.broken} broken of {report.requests}"
        sys.exit(f"{load.method} {load.path}: {counts}")
    rate, cpu = report.requests / report.seconds, spent / max(1, report.requests) * 1e6
    return LoadResult(rate, report.p50, report.p99, report.p999, cpu)


def median(results: list[LoadResult]) -> LoadResult:
    """The median of each figure."""
    rows = [asdict(result) for result in results]
    return LoadResult(**{name: statistics.median(row[name] for row in rows) for name in rows[0]})


class TimedProcess:
    """A process, started as by `Popen`, and the time since its start."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "text": True}
        self._started = time.perf_counter()
        self.process: subprocess.Popen[str] = subprocess.Popen(
            command, **{"env": ENVIRONMENT, **quiet, **options}
        )

    @property
    def milliseconds(self) -> float:
        """Time since the start, without the time in which the process was ready to run and had no core."""
        elapsed = time.perf_counter() - self._started
        waited = int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[1])
        return elapsed * 1e3 - waited / 1e6
