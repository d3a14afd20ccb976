"""`paymock serve --workers N` in processes of its own, and what can be done to them."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.polling import wait_until
from harness.server_process import PAYMOCK, ServerProcess, environment
from tests.support import raw
from tests.support.client import AUTHORIZED, ORDER, fresh_key

NEEDS_PROCESSES = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs fork, and /proc to look at the workers"
)


@contextmanager
def supervisor_process(
    tmp_path: Path, *arguments: str, workers: int = 2, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """The supervisor, from its start on, in a session of its own."""
    store = ("--store", f"sqlite://{tmp_path}/store.db")
    command = [*PAYMOCK, "serve", "--port", "0", "--ready-file", str(tmp_path / "ready.json"), *store]
    with subprocess.Popen(
        [*command, "--workers", str(workers), *arguments],
        env=environment(PYTHONWARNINGS="error::DeprecationWarning"),  # of a fork where there are threads
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def server_with_workers(tmp_path: Path, *arguments: str, workers: int = 2) -> Iterator[ServerProcess]:
    """Workers on a free port, until the block ends."""
    with supervisor_process(tmp_path, *arguments, workers=workers) as process:
        ready_file = tmp_path / "ready.json"
        wait_until(lambda: ready_file.exists() or process.poll() is not None)
        assert process.poll() is None
        yield ServerProcess(process, json.loads(ready_file.read_text()))


def processes_of(supervisor: subprocess.Popen[str]) -> set[int]:
    """All processes that are left of those that it started, and itself."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                state, _, _, session, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(session) == supervisor.pid and state not in "ZX":
                    found.add(int(folder.name))
    return found


def workers_of(supervisor: subprocess.Popen[str]) -> set[int]:
    return processes_of(supervisor) - {supervisor.pid}


def wait_for_successor(served: ServerProcess, ended: int) -> None:
    def has_come() -> bool:
        workers = workers_of(served.process)
        return len(workers) == 2 and ended not in workers

    wait_until(has_come)


def worker_behind(response: httpx.Response | raw.RawReply) -> str:
    """What tells the replies of one worker from those of another."""
    return response.headers["x-request-id"].rpartition("_")[0]


@contextmanager
def connections(served: ServerProcess, count: int) -> Iterator[list[httpx.Client]]:
    """As many clients, each with a connection of its own that it keeps."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(httpx.Client(base_url=served.url, headers=AUTHORIZED, timeout=10))
            for _ in range(count)
        ]


@contextmanager
def one_connection_each(served: ServerProcess) -> Iterator[list[httpx.Client]]:
    """A client for each of two workers."""
    with connections(served, 16) as clients:
        by_worker = {worker_behind(client.get("/livez")): client for client in clients}
        assert len(by_worker) == 2
        yield list(by_worker.values())


def create(client: httpx.Client, key: str | None = None) -> httpx.Response:
    return client.post("/v1/payments", json=dict(ORDER), headers={"Idempotency-Key": key or fresh_key()})


def ask(served: ServerProcess, path: str, headers: dict[str, str] | None = None) -> socket.socket:
    """A connection with a request on its way."""
    connection = socket.create_connection(("127.0.0.1", served.port), 10)
    connection.sendall(raw.request("GET", path, {**AUTHORIZED, **(headers or {})}))
    return connection


def reply_on(connection: socket.socket) -> bytes:
    """All that comes until the connection is closed."""
    with connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))


def in_progress(served: ServerProcess, clients: list[httpx.Client], milliseconds: int) -> socket.socket:
    """A request that takes so long; when this returns, its worker is at it, if each has one of `clients`."""
    fault = {"X-Mock-Fault": f"delay={milliseconds}", "Idempotency-Key": "slow-request"}
    connection = ask(served, "/v1/chains", fault)
    for client in clients * 2:
        assert client.get("/livez").status_code == 200
    return connection


def wait_until_refused(served: ServerProcess) -> None:
    """The sign that a server has taken a signal."""

    def refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", served.port), 1).close()
        except ConnectionRefusedError:
            return True
        return False

    wait_until(refused)
