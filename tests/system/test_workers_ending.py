import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from harness.polling import wait_until
from harness.server_process import ServerProcess
from paymock.server.errors import StartError
from paymock.server.run import serve
from paymock.settings import Settings
from tests.support import raw
from tests.support.workers import (
    NEEDS_PROCESSES,
    ask,
    create,
    in_progress,
    one_connection_each,
    processes_of,
    reply_on,
    server_with_workers,
    supervisor_process,
    wait_until_refused,
    workers_of,
)

pytestmark = [NEEDS_PROCESSES, pytest.mark.ci]

# A stop


@contextmanager
def serving(tmp_path: Path, workers: int = 2) -> Iterator[tuple[ServerProcess, list[httpx.Client]]]:
    with (
        server_with_workers(tmp_path, workers=workers) as served,
        one_connection_each(served, workers) as clients,
    ):
        yield served, clients


@pytest.mark.parametrize(
    ("send", "number"),
    [
        (os.kill, signal.SIGTERM),
        (os.killpg, signal.SIGINT),
        pytest.param(os.kill, signal.SIGINT, marks=pytest.mark.nightly),
        pytest.param(os.killpg, signal.SIGTERM, marks=pytest.mark.nightly),
    ],
)
def test_a_signal_stops_all_processes(tmp_path: Path, number: int, send: Callable[[int, int], None]) -> None:
    """A signal to the supervisor, or to the process group, as by Ctrl-C and systemd."""
    with serving(tmp_path) as (served, clients):
        slow = in_progress(served, clients, 700)
        send(served.process.pid, number)
        assert served.process.wait(60) == 0
        assert processes_of(served.process) == set()
        assert reply_on(slow).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_stop_ends_waits_with_a_reply(tmp_path: Path, workers: int) -> None:
    with serving(tmp_path, workers) as (served, clients):
        payment_id = create(clients[0]).json()["id"]
        started = time.monotonic()
        target = f"/_mock/payments/{payment_id}/wait?status=completed&timeout=60"
        waits = [ask(served, target) for _ in range(8)]
        for client in clients * 2:
            assert client.get("/livez").status_code == 200  # the waits have arrived before
        assert served.stop(signal.SIGTERM)[0] == 0
        for wait in waits:
            reply = raw.next_reply(wait)
            assert json.loads(reply.body)["reached"] is False
            assert reply.headers["x-request-id"]
            wait.close()
        assert time.monotonic() - started < 60  # they would end by themselves


@pytest.mark.parametrize("workers", [1, 2])
def test_slow_requests_get_no_reply_after_the_grace_period(tmp_path: Path, workers: int) -> None:
    with serving(tmp_path, workers) as (served, clients):
        slow = [in_progress(served, clients, 30000) for _ in range(4)]
        assert served.stop(signal.SIGTERM)[0] == 0
        assert processes_of(served.process) == set()
        assert [reply_on(connection) for connection in slow] == [b""] * 4


@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_signal_ends_all_processes_immediately(tmp_path: Path, workers: int) -> None:
    with serving(tmp_path, workers) as (served, clients):
        slow = in_progress(served, clients, 30000)
        served.process.send_signal(signal.SIGTERM)
        wait_until_refused(served)
        assert served.process.poll() is None
        assert served.stop(signal.SIGTERM)[0] == 128 + signal.SIGTERM
        assert processes_of(served.process) == set()
        slow.close()


def test_workers_do_not_outlive_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    with serving(tmp_path) as (served, clients):
        payment_id = create(clients[0]).json()["id"]
        wait = ask(served, f"/_mock/payments/{payment_id}/wait?status=completed&timeout=60")
        for client in clients * 2:
            client.get("/livez")
        served.process.kill()
        wait_until(lambda: processes_of(served.process) == set(), 45)  # before the wait would end
        assert reply_on(wait).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    "milliseconds", [10, *(pytest.param(ms, marks=pytest.mark.nightly) for ms in (0, 80))]
)
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("workers", [8, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_signal_during_the_start(tmp_path: Path, workers: int, number: int, milliseconds: int) -> None:
    with supervisor_process(tmp_path, workers=workers, stderr=subprocess.PIPE) as process:
        wait_until((tmp_path / "store.db").exists)
        time.sleep(milliseconds / 1000)  # at different moments of the start
        os.killpg(process.pid, number)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
        assert processes_of(process) == set()


# A start that fails


@pytest.mark.nightly
def test_a_crash_of_a_worker_ends_the_start(tmp_path: Path) -> None:
    # All workers may answer before one is killed.
    assert any(fails_with_a_worker(tmp_path / str(attempt)) for attempt in range(10))


def fails_with_a_worker(folder: Path) -> bool:
    """Kill a worker during a start, and check how that ends. False if the start was completed before."""
    folder.mkdir()
    ready_file = folder / "ready.json"
    with supervisor_process(folder, workers=16, stderr=subprocess.PIPE) as process:
        wait_until((folder / "store.db").exists)
        while not (first := workers_of(process)):
            assert process.poll() is None
        os.kill(min(first), signal.SIGKILL)
        wait_until(lambda: ready_file.exists() or process.poll() is not None)
        if process.poll() is None:
            return False
        output, errors = process.communicate()
        assert process.returncode == 1
        assert (output, errors) == ("", "Error: a worker ended before all of them were ready (signal 9)\n")
        assert processes_of(process) == set()
    assert not ready_file.exists()
    return True


def test_a_ready_file_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    with supervisor_process(tmp_path, "--ready-file", "/no/ready", stderr=subprocess.PIPE) as process:
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 1
        assert (output, errors) == (
            "",
            "Error: cannot write the ready file /no/ready: No such file or directory\n",
        )
        assert processes_of(process) == set()


def test_workers_need_a_system_with_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    with pytest.raises(StartError, match="--workers requires a system with fork"):
        serve(Settings(port=0, workers=2, store=f"sqlite://{tmp_path}/store.db"), None)
