"""Servers on a core of their own, and wrk on another: what the benchmarks over HTTP have in common."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import process_info

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "wrk" / "requests.lua"
ORDER = json.dumps(
    json.loads((ROOT / "examples" / "order.json").read_text(encoding="utf-8")), separators=(",", ":")
)
"""As most clients write it: without white space."""

API_KEY = "mk_test_benchmark"
CONNECTIONS = 32
CORES = sorted(os.sched_getaffinity(0))
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Of servers: they find their modules compiled, as installed ones do."""


@dataclass(frozen=True)
class Load:
    """What one run of wrk saw: requests a second, latencies in milliseconds, and the server's CPU time for
    each request in microseconds.
    """

    rate: float
    p50: float
    p99: float
    p999: float
    cpu: float


@dataclass(frozen=True)
class Running:
    """A server, and the process whose CPU time and memory count."""

    url: str
    pid: int

    @property
    def port(self) -> int:
        """That of the URL."""
        return int(self.url.rpartition(":")[2])

    @property
    def pids(self) -> tuple[int, ...]:
        """The process and those that it has started."""
        return self.pid, *process_info.child_pids(self.pid)

    @property
    def cpu_seconds(self) -> float:
        """The CPU time of all its processes, so far."""
        return sum(map(process_info.cpu_seconds, self.pids))

    @property
    def cpu_nanoseconds(self) -> int:
        """The CPU time of the one process, exactly."""
        return time.clock_gettime_ns(~self.pid << 3 | 2)  # as clock_getcpuclockid(3) has it

    @property
    def megabytes(self) -> float:
        """The resident memory of all its processes."""
        return sum(map(process_info.resident_bytes, self.pids)) / 1e6

    @property
    def files(self) -> int:
        """How many files all its processes have open."""
        return sum(map(process_info.count_open_files, self.pids))


def need(*tools: str) -> None:
    """Ends with a message when a tool is missing."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        sys.exit(f"this benchmark needs {', '.join(missing)}")


@contextmanager
def paymock(*arguments: str, cores: Sequence[int] = CORES[:1]) -> Iterator[Running]:
    """`paymock serve` on a free port, without a log of requests."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder, "ready.json")
        command = ["taskset", "-c", ",".join(map(str, cores)), sys.executable, "-m", "paymock", "serve"]
        command += ["--port", "0", "--no-access-log", "--ready-file", str(ready), *arguments]
        with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL) as process:
            try:
                while not ready.exists():
                    if process.poll() is not None:
                        sys.exit(f"{' '.join(command)} did not start")
                    time.sleep(0.005)
                yield Running(json.loads(ready.read_text())["url"], process.pid)
            finally:
                process.terminate()


def authorized(more: Mapping[str, str]) -> dict[str, str]:
    """The headers of a request: the API key, JSON, and more, which may change them."""
    return {"Authorization": f"Bearer {API_KEY}", "Content-Type": "application/json", **more}


def created(url: str) -> str:
    """The id of a new payment."""
    headers = authorized({"Idempotency-Key": f"benchmark-{uuid.uuid4()}"})
    request = urllib.request.Request(f"{url}/v1/payments", ORDER.encode(), headers)
    with urllib.request.urlopen(request) as reply:
        return str(json.load(reply)["id"])


def creations(server: Running, seconds: float) -> Load:
    """The load of creations, each with a key of its own."""
    return loaded(server, seconds, "POST", "/v1/payments", {"BODY": ORDER, "UNIQUE": uuid.uuid4().hex})


def replays(server: Running, seconds: float) -> Load:
    """The load of one creation, repeated."""
    return loaded(server, seconds, "POST", "/v1/payments", {"BODY": ORDER})


def reads(server: Running, seconds: float, payment_id: str) -> Load:
    """The load of reading one payment."""
    return loaded(server, seconds, "GET", f"/v1/payments/{payment_id}", {})


def loaded(server: Running, seconds: float, method: str, path: str, more: Mapping[str, str]) -> Load:
    """Lets wrk ask for so many seconds, on the last core. Ends with a message when a request is refused."""
    command = ["taskset", "-c", str(CORES[-1]), "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s"]
    command += ["--timeout", "30s", "-s", str(SCRIPT), server.url]
    environment = {**os.environ, "METHOD": method, "BENCH_PATH": path, "API_KEY": API_KEY, **more}
    before = server.cpu_seconds
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    spent = server.cpu_seconds - before
    seen = json.loads(run.stdout.splitlines()[-1])
    if seen["refused"] or seen["broken"]:
        sys.exit(f"{method} {path}: {seen['refused']} refused, {seen['broken']} broken of {seen['requests']}")
    rate = seen["requests"] / seen["microseconds"] * 1e6
    p50, p99, p999 = (seen[name] / 1000 for name in ("p50", "p99", "p999"))
    return Load(rate, p50, p99, p999, cpu=spent / max(1, seen["requests"]) * 1e6)


def median(loads: list[Load]) -> Load:
    """The median of each figure."""
    rows = [asdict(load) for load in loads]
    return Load(**{name: statistics.median(row[name] for row in rows) for name in rows[0]})


class Watch:
    """Starts a process, as `Popen` does, and a stopwatch."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._started = time.perf_counter()
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            command, **{"env": ENVIRONMENT, **quiet, **options}
        )

    @property
    def milliseconds(self) -> float:
        """For how long it has run, or waited for anything but a core that other processes had."""
        passed = time.perf_counter() - self._started
        waited = int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[1])
        return passed * 1e3 - waited / 1e6
