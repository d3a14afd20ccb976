"""Servers on one CPU core and wrk on another: what the HTTP benchmarks share."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.api_client import API_KEY, ORDER, call
from harness.server_process import ServerProcess, server_process_by_script

SCRIPT = Path(__file__).parent / "wrk" / "requests.lua"
CONNECTIONS = 32
CORES = sorted(os.sched_getaffinity(0))
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


@contextmanager
def paymock(*arguments: str, cores: Sequence[int] = CORES[:1]) -> Iterator[ServerProcess]:
    """`paymock serve` on the given cores, without an access log."""
    script = f'unset PYTHONDONTWRITEBYTECODE; exec taskset -c {",".join(map(str, cores))} "$@"'
    with (
        tempfile.TemporaryDirectory() as folder,
        server_process_by_script(Path(folder), script, "--no-access-log", *arguments) as server,
    ):
        yield server


def create_payment(url: str) -> str:
    """The id of a new payment."""
    key = f"benchmark-{uuid.uuid4()}"
    return str(call(url, API_KEY, "POST", "/v1/payments", json.loads(ORDER), key)["id"])


def measure_creations(server: ServerProcess, seconds: float) -> LoadResult:
    """Creations, each with a new idempotency key."""
    return run_wrk(server, seconds, "POST", "/v1/payments", {"BODY": ORDER, "UNIQUE": uuid.uuid4().hex})


def measure_replays(server: ServerProcess, seconds: float) -> LoadResult:
    """Creations with one idempotency key."""
    return run_wrk(server, seconds, "POST", "/v1/payments", {"BODY": ORDER})


def measure_reads(server: ServerProcess, seconds: float, payment_id: str) -> LoadResult:
    """Reads of one payment."""
    return run_wrk(server, seconds, "GET", f"/v1/payments/{payment_id}", {})


def run_wrk(
    server: ServerProcess, seconds: float, method: str, path: str, variables: Mapping[str, str]
) -> LoadResult:
    """Run wrk on the last core. Exit with a message when a request is refused."""
    command = ["taskset", "-c", str(CORES[-1]), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s"]
    command += ["--timeout", "30s", "-s", str(SCRIPT), server.url]
    environment = {**os.environ, "METHOD": method, "BENCH_PATH": path, "API_KEY": API_KEY, **variables}
    before = server.tree.cpu_seconds
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    spent = server.tree.cpu_seconds - before
    result = json.loads(run.stdout.splitlines()[-1])
    if result["refused"] or result["broken"]:
        sys.exit(
            f"{method} {path}: {result['refused']} refused, {result['broken']} broken of {result['requests']}"
        )
    rate = result["requests"] / result["microseconds"] * 1e6
    p50, p99, p999 = (result[name] / 1000 for name in ("p50", "p99", "p999"))
    return LoadResult(rate, p50, p99, p999, cpu=spent / max(1, result["requests"]) * 1e6)


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
