"""`paymock serve --workers N`: several processes that serve one port, their start and their stop."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from harness.polling import wait_until
from harness.process_info import cpu_seconds
from harness.server_process import ServerProcess
from paymock.server.errors import StartError
from paymock.server.run import serve
from paymock.settings import Settings
from tests.support import raw
from tests.support.client import AUTHORIZED, fresh_key
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
    wait_for_successor,
    wait_until_refused,
    worker_behind,
    workers_of,
)

pytestmark = [NEEDS_PROCESSES, pytest.mark.ci]


def test_the_ready_file_has_the_supervisor_and_comes_once_all_workers_answer(tmp_path: Path) -> None:
    with server_with_workers(tmp_path, workers=3) as served:
        assert served.ready == {
            "url": f"http://127.0.0.1:{served.port}",
            "port": served.port,
            "pid": served.process.pid,
        }
        assert len(workers_of(served.process)) == 3
        with one_connection_each(served, workers=3):
            pass  # all of them answer
        for host in ("127.0.0.1", "[::1]"):
            assert httpx.get(f"http://{host}:{served.port}/readyz").status_code == 200


def smaller_share_of_a_burst(served: ServerProcess) -> int:
    """Of 32 concurrent connections, those of the worker that has fewer."""
    with ExitStack() as stack:
        address = ("127.0.0.1", served.port)
        burst = [stack.enter_context(socket.create_connection(address, 20)) for _ in range(32)]
        for connection in burst:
            connection.sendall(raw.request("GET", "/livez"))
        replies = [raw.next_reply(connection) for connection in burst]
    counts = Counter(map(worker_behind, replies))
    return 32 - max(counts.values())


def test_connections_are_shared_evenly(tmp_path: Path) -> None:
    shares = []
    with server_with_workers(tmp_path, "--no-access-log") as served:
        for _ in range(6):  # the system may not run a worker for a while
            shares.append(sorted(smaller_share_of_a_burst(served) for _ in range(5)))
            if shares[-1][2] >= 8:
                return
    pytest.fail(f"the smaller shares of 32 connections: {shares}")


@pytest.mark.nightly
def test_concurrent_log_lines_are_not_mixed(tmp_path: Path) -> None:
    requests = 1500

    def send_some(served: ServerProcess) -> None:
        with httpx.Client(base_url=served.url, headers=AUTHORIZED) as client:
            for _ in range(requests // 10):
                client.get(f"/v1/payments/{'x' * 100}")

    with server_with_workers(tmp_path, "--log", "json") as served, ThreadPoolExecutor(11) as pool:
        assert served.process.stdout is not None
        reading = pool.submit(served.process.stdout.readlines)
        list(pool.map(send_some, [served] * 10))
        served.process.send_signal(signal.SIGTERM)
        started, *events = map(json.loads, reading.result(60))
    assert (started["event"], started["workers"]) == ("started", 2)
    assert started["store"] == f"sqlite://{tmp_path}/store.db"
    lines = Counter(event["event"] for event in events)
    assert lines["request"] + sum(event.get("count", 0) for event in events) == requests
    assert lines["request"]


def test_a_killed_worker_is_replaced_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    acknowledged: dict[str, bytes] = {}
    stop = threading.Event()

    def customer(served: ServerProcess) -> None:
        with httpx.Client(base_url=served.url, headers=AUTHORIZED, timeout=60) as client:
            while not stop.is_set():
                key = fresh_key()
                while key not in acknowledged:
                    with suppress(httpx.TransportError):  # its worker was killed: retry
                        reply = create(client, key)
                        assert reply.status_code == 201
                        acknowledged[key] = reply.content

    def wait_for_creations() -> None:
        before = len(acknowledged)
        wait_until(lambda: len(acknowledged) > before + 50)

    with server_with_workers(tmp_path, "--no-access-log") as served, ThreadPoolExecutor(4) as pool:
        customers = [pool.submit(customer, served) for _ in range(4)]
        try:
            before = workers_of(served.process)
            for killed in sorted(before):
                wait_for_creations()
                os.kill(killed, signal.SIGKILL)
                wait_for_successor(served, killed)
            wait_for_creations()
        finally:
            stop.set()
        for done in customers:
            done.result(60)
        assert not before & workers_of(served.process)
        with httpx.Client(base_url=served.url, headers=AUTHORIZED) as client:
            for key, content in acknowledged.items():
                assert client.get(f"/v1/payments/{json.loads(content)['id']}").status_code == 200
                replay = create(client, key)
                assert (replay.content, replay.headers["idempotent-replayed"]) == (content, "true")
        status, output = served.stop(signal.SIGTERM)
    assert status == 0
    replaced = re.findall(r"^worker (\d+) ended \(signal 9\); started (\d+)$", output, re.MULTILINE)
    assert {int(old) for old, _ in replaced} == before


@pytest.mark.nightly
def test_workers_that_crash_repeatedly_are_replaced_at_a_limited_rate(tmp_path: Path) -> None:
    with server_with_workers(tmp_path) as served:
        killed: set[int] = set()
        started = time.monotonic()
        while len(killed) < 8:  # two at first, then two per second
            workers = workers_of(served.process)
            assert len(workers) <= 2
            for worker in workers - killed:
                os.kill(worker, signal.SIGKILL)
                killed.add(worker)
        assert time.monotonic() - started > 2
        wait_until(lambda: len(workers_of(served.process) - killed) == 2)
        assert httpx.get(f"{served.url}/readyz", timeout=60).status_code == 200
        assert served.stop(signal.SIGTERM)[0] == 0


def test_a_worker_that_hangs_blocks_neither_the_others_nor_a_stop(tmp_path: Path) -> None:
    with server_with_workers(tmp_path) as served:
        os.kill(min(workers_of(served.process)), signal.SIGSTOP)
        for _ in range(20):
            assert httpx.get(f"{served.url}/readyz", timeout=60).status_code == 200
        assert served.stop(signal.SIGTERM)[0] == 0
        assert processes_of(served.process) == set()


def test_workers_without_free_file_descriptors_close_idle_connections_and_sleep(tmp_path: Path) -> None:
    with server_with_workers(tmp_path) as served:
        workers = workers_of(served.process)
        for worker in workers:
            resource.prlimit(worker, resource.RLIMIT_NOFILE, (30, 30))
        clients = [socket.create_connection(("127.0.0.1", served.port), 60) for _ in range(60)]
        before, started = sum(map(cpu_seconds, workers)), time.monotonic()
        time.sleep(1)  # a busy loop would use all of it
        used = sum(map(cpu_seconds, workers)) - before
        assert used < 0.2 * (time.monotonic() - started)
        assert httpx.get(f"{served.url}/livez", timeout=60).status_code == 200
        for client in clients:
            client.close()
        assert workers_of(served.process) == workers
        assert served.stop(signal.SIGTERM)[0] == 0


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
