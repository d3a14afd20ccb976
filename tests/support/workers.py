"""`paymock serve --workers N`, and what can be done to its processes."""

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
    """The supervisor in a session of its own, from its start on."""
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
    """`paymock serve --workers` on a free port until the block ends."""
    with supervisor_process(tmp_path, *arguments, workers=workers) as process:
        ready_file = tmp_path / "ready.json"
        wait_until(lambda: ready_file.exists() or process.poll() is not None)
        assert process.poll() is None
        yield ServerProcess(process, json.loads(ready_file.read_text()))


def processes_of(supervisor: subprocess.Popen[str]) -> set[int]:
    """The running processes of its session, which are itself and its workers."""
    processes = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                state, _, _, session, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(session) == supervisor.pid and state not in "ZX":
                    processes.add(int(folder.name))
    return processes


def workers_of(supervisor: subprocess.Popen[str]) -> set[int]:
    return processes_of(supervisor) - {supervisor.pid}


def wait_for_successor(served: ServerProcess, ended: int) -> None:
    def has_come() -> bool:
        workers = workers_of(served.process)
        return len(workers) == 2 and ended not in workers

    wait_until(has_come)


def worker_behind(response: httpx.Response | raw.RawReply) -> str:
    return response.headers["x-request-id"].rpartition("_")[0]


@contextmanager
def connections(served: ServerProcess, count: int) -> Iterator[list[httpx.Client]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(httpx.Client(base_url=served.url, headers=AUTHORIZED, timeout=60))
            for _ in range(count)
        ]


@contextmanager
def one_connection_each(served: ServerProcess, workers: int = 2) -> Iterator[list[httpx.Client]]:
    """A client for each worker: as many connections are opened as it takes for all of them to accept one."""
    with ExitStack() as stack:
        by_worker: dict[str, httpx.Client] = {}

        def all_workers_accepted_one() -> bool:
            [client] = stack.enter_context(connections(served, 1))
            by_worker.setdefault(worker_behind(client.get("/livez")), client)
            return len(by_worker) == workers

        wait_until(all_workers_accepted_one)
        yield list(by_worker.values())


def create(client: httpx.Client, key: str | None = None) -> httpx.Response:
    return client.post("/v1/payments", json=dict(ORDER), headers={"Idempotency-Key": key or fresh_key()})


def ask(served: ServerProcess, path: str, headers: dict[str, str] | None = None) -> socket.socket:
    """A connection on which a request was sent."""
    connection = socket.create_connection(("127.0.0.1", served.port), 60)
    connection.sendall(raw.request("GET", path, {**AUTHORIZED, **(headers or {})}))
    return connection


def reply_on(connection: socket.socket) -> bytes:
    """All data until the server closes the connection."""
    with connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))


def in_progress(served: ServerProcess, clients: list[httpx.Client], milliseconds: int) -> socket.socket:
    """A request that takes so long. A worker has received it when this returns, if `clients` are of all
    workers.
    """
    fault = {"X-Mock-Fault": f"delay={milliseconds}", "Idempotency-Key": "slow-request"}
    connection = ask(served, "/v1/chains", fault)
    for client in clients * 2:
        assert client.get("/livez").status_code == 200
    return connection


def wait_until_refused(served: ServerProcess) -> None:
    def refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", served.port), 1).close()
        except ConnectionRefusedError:
            return True
        return False

    wait_until(refused)
