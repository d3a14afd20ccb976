"""`paymock serve --workers N`: several processes that answer as one, whatever happens to them."""

import asyncio
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from paymock.server import StartError, serve
from paymock.settings import Settings
from tests.support import raw
from tests.support.client import ORDER, fresh_key
from tests.support.process import PAYMOCK, Served, environment, run
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs fork, and /proc to look at the workers"
)

AUTHORIZED = {"Authorization": "Bearer mk_test_demo"}


@contextmanager
def starting(
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
def serving(tmp_path: Path, *arguments: str, workers: int = 2) -> Iterator[Served]:
    """Workers on a free port, until the block ends."""
    with starting(tmp_path, *arguments, workers=workers) as process:
        ready_file = tmp_path / "ready.json"
        wait_until(lambda: ready_file.exists() or process.poll() is not None)
        assert process.poll() is None
        yield Served(process, json.loads(ready_file.read_text()))


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


def wait_for_successor(served: Served, ended: int) -> None:
    def has_come() -> bool:
        workers = workers_of(served.process)
        return len(workers) == 2 and ended not in workers

    wait_until(has_come)


def worker_behind(response: httpx.Response) -> str:
    """What tells the replies of one worker from those of another."""
    return response.headers["x-request-id"].rpartition("_")[0]


@contextmanager
def connections(served: Served, count: int) -> Iterator[list[httpx.Client]]:
    """As many clients, each with a connection of its own that it keeps."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(httpx.Client(base_url=served.url, headers=AUTHORIZED, timeout=10))
            for _ in range(count)
        ]


@contextmanager
def one_connection_each(served: Served) -> Iterator[list[httpx.Client]]:
    """A client for each of two workers."""
    with connections(served, 16) as clients:
        by_worker = {worker_behind(client.get("/livez")): client for client in clients}
        assert len(by_worker) == 2
        yield list(by_worker.values())


def create(client: httpx.Client, key: str | None = None) -> httpx.Response:
    return client.post("/v1/payments", json=dict(ORDER), headers={"Idempotency-Key": key or fresh_key()})


def ask(served: Served, path: str, headers: dict[str, str] | None = None) -> socket.socket:
    """A connection with a request on its way."""
    connection = socket.create_connection(("127.0.0.1", served.port), 10)
    connection.sendall(raw.request("GET", path, {**AUTHORIZED, **(headers or {})}))
    return connection


def reply_on(connection: socket.socket) -> bytes:
    """All that comes until the connection is closed."""
    with connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))


def in_progress(served: Served, clients: list[httpx.Client], milliseconds: int) -> socket.socket:
    """A request that takes so long; when this returns, its worker is at it, if each has one of `clients`."""
    fault = {"X-Mock-Fault": f"delay={milliseconds}", "Idempotency-Key": "slow-request"}
    connection = ask(served, "/v1/chains", fault)
    for client in clients * 2:
        assert client.get("/livez").status_code == 200
    return connection


def wait_until_refused(served: Served) -> None:
    """The sign that a server has taken a signal."""

    def refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", served.port), 1).close()
        except ConnectionRefusedError:
            return True
        return False

    wait_until(refused)


# Serving as one


def test_the_ready_file_has_the_supervisor_and_comes_once_all_workers_answer(tmp_path: Path) -> None:
    with serving(tmp_path, workers=3) as served:
        assert served.ready == {
            "url": f"http://127.0.0.1:{served.port}",
            "port": served.port,
            "pid": served.process.pid,
        }
        assert len(workers_of(served.process)) == 3
        with connections(served, 12) as clients:
            assert len({worker_behind(client.get("/livez")) for client in clients}) == 3
        for host in ("127.0.0.1", "[::1]"):
            assert httpx.get(f"http://{host}:{served.port}/readyz").status_code == 200


def test_the_banner_comes_once_and_names_workers_and_store(tmp_path: Path) -> None:
    with serving(tmp_path, "--store", f"sqlite://{tmp_path}/other.db?synchronous=normal") as served:
        status, output = served.stop(signal.SIGTERM)
    assert status == 0
    assert output.count("MOCK: no real funds") == 1
    assert re.search(r"^  Workers   2$", output, re.MULTILINE)
    assert re.search(rf"^  Store     sqlite://{tmp_path}/other\.db$", output, re.MULTILINE)


def test_connections_that_are_kept_spread_over_the_workers(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-access-log") as served:
        fewest = []
        for _ in range(5):
            with ExitStack() as stack:
                address = ("127.0.0.1", served.port)
                burst = [stack.enter_context(socket.create_connection(address, 5)) for _ in range(32)]
                for connection in burst:
                    connection.sendall(raw.request("GET", "/livez"))
                replies = b"".join(connection.recv(4096) for connection in burst)
            counts = Counter(re.findall(rb"x-request-id: (\w+)_", replies))
            fewest.append(32 - max(counts.values()))
        assert sorted(fewest)[2] >= 8, fewest  # a busy machine may keep a worker from taking its share


def test_concurrent_identical_creations_give_one_payment(tmp_path: Path) -> None:
    async def creations(url: str) -> list[httpx.Response]:
        headers = {**AUTHORIZED, "Idempotency-Key": "order-1001-payment"}
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=20) as client:
            return await asyncio.gather(*(client.post("/v1/payments", json=dict(ORDER)) for _ in range(200)))

    with serving(tmp_path, "--no-access-log") as served:
        replies = asyncio.run(creations(served.url))
        listed = httpx.get(f"{served.url}/_mock/payments", headers=AUTHORIZED).json()["data"]
    assert {reply.status_code for reply in replies} == {201}
    assert len({reply.content for reply in replies}) == 1
    assert len({worker_behind(reply) for reply in replies}) == 2
    assert sum("idempotent-replayed" not in reply.headers for reply in replies) == 1
    assert [payment["id"] for payment in listed] == [replies[0].json()["id"]]


def test_an_advance_shows_at_once_on_every_other_connection(tmp_path: Path) -> None:
    with serving(tmp_path) as served, connections(served, 16) as clients:
        assert clients[0].put("/_mock/clock", json={"speed": 0}).status_code == 200
        payment = create(clients[0]).json()
        for seconds, client in enumerate(clients, start=1):
            now = client.post("/_mock/clock/advance", json={"seconds": seconds}).json()["now"]
            assert {other.get("/_mock/clock").json()["now"] for other in clients} == {now}
        seen = {client.get(f"/v1/payments/{payment['id']}").content for client in clients}
        assert len(seen) == 1
        assert json.loads(seen.pop())["status"] == "completed"


def test_an_advance_wakes_who_waits_at_another_worker(tmp_path: Path) -> None:
    with (
        serving(tmp_path) as served,
        one_connection_each(served) as (waiting, advancing),
        ThreadPoolExecutor(1) as pool,
    ):
        advancing.put("/_mock/clock", json={"speed": 0})
        payment_id = create(advancing).json()["id"]
        for status in ("payment_detected", "payment_finalized", "completed"):
            target = f"/_mock/payments/{payment_id}/wait?status={status}&timeout=20"
            reply = pool.submit(waiting.get, target)
            with pytest.raises(TimeoutError):
                reply.result(0.3)  # it waits
            advanced = advancing.post(f"/_mock/payments/{payment_id}/advance", json={"to": status})
            assert advanced.status_code == 200
            started = time.monotonic()
            assert reply.result(5).json()["reached"] is True
            assert time.monotonic() - started < 0.5
            assert worker_behind(reply.result()) != worker_behind(advanced)


def test_what_one_worker_does_is_told_by_another(tmp_path: Path) -> None:
    with serving(tmp_path) as served, one_connection_each(served) as (following, doing):
        doing.put("/_mock/clock", json={"speed": 0})
        payment_id = create(doing).json()["id"]
        with following.stream("GET", f"/checkout/{payment_id}/events") as reply:
            events = (json.loads(line[6:]) for line in reply.iter_lines() if line.startswith("data: "))
            assert next(events)["view"] == "pay"
            for seconds, view in ((5, "detected"), (8, "received"), (32, "complete")):
                advanced = doing.post("/_mock/clock/advance", json={"seconds": seconds})
                assert next(events)["view"] == view
                assert worker_behind(reply) != worker_behind(advanced)


def test_lines_of_the_log_are_whole(tmp_path: Path) -> None:
    requests = 1500

    def some(served: Served) -> None:
        with httpx.Client(base_url=served.url, headers=AUTHORIZED) as client:
            for _ in range(requests // 10):
                client.get(f"/v1/payments/{'x' * 100}")

    with serving(tmp_path, "--log", "json") as served, ThreadPoolExecutor(11) as pool:
        assert served.process.stdout is not None
        reading = pool.submit(served.process.stdout.readlines)
        list(pool.map(some, [served] * 10))
        served.process.send_signal(signal.SIGTERM)
        started, *events = map(json.loads, reading.result(10))
    assert (started["event"], started["workers"]) == ("started", 2)
    assert started["store"] == f"sqlite://{tmp_path}/store.db"
    lines = Counter(event["event"] for event in events)
    assert lines["request"] + sum(event.get("count", 0) for event in events) == requests
    assert lines["request"] > requests / 2


# A worker that ends


def test_a_killed_worker_is_replaced_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    acknowledged: dict[str, bytes] = {}
    enough = threading.Event()

    def customer(served: Served) -> None:
        with httpx.Client(base_url=served.url, headers=AUTHORIZED, timeout=10) as client:
            while not enough.is_set():
                key = fresh_key()
                while key not in acknowledged:
                    with suppress(httpx.TransportError):  # its worker was killed: the same again
                        reply = create(client, key)
                        assert reply.status_code == 201
                        acknowledged[key] = reply.content

    def wait_for_creations() -> None:
        before = len(acknowledged)
        wait_until(lambda: len(acknowledged) > before + 50)

    with serving(tmp_path, "--no-access-log") as served, ThreadPoolExecutor(4) as pool:
        customers = [pool.submit(customer, served) for _ in range(4)]
        try:
            before = workers_of(served.process)
            for killed in sorted(before):
                wait_for_creations()
                os.kill(killed, signal.SIGKILL)
                wait_for_successor(served, killed)
            wait_for_creations()
        finally:
            enough.set()
        for done in customers:
            done.result(10)
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


def test_a_replacement_is_an_event_of_the_json_log(tmp_path: Path) -> None:
    with serving(tmp_path, "--log", "json") as served:
        assert served.process.stdout is not None
        killed, asked = sorted(workers_of(served.process))
        os.kill(killed, signal.SIGKILL)
        wait_for_successor(served, killed)
        os.kill(asked, signal.SIGTERM)
        wait_for_successor(served, asked)
        now = workers_of(served.process)
        _, output = served.stop(signal.SIGTERM)
    events = [json.loads(line) for line in output.splitlines()][1:]
    assert {event.pop("started") for event in events} == now
    for event in events:
        del event["time"]
    assert events == [
        {"event": "worker_replaced", "ended": killed, "signal": 9},
        {"event": "worker_replaced", "ended": asked, "status": 0},
    ]


def test_workers_that_end_at_once_are_not_replaced_in_a_storm(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        killed: set[int] = set()
        end = time.monotonic() + 3.5
        while time.monotonic() < end:
            now = workers_of(served.process)
            assert len(now) <= 2
            for worker in now - killed:
                os.kill(worker, signal.SIGKILL)
                killed.add(worker)
        assert 4 <= len(killed) <= 10  # two at first, then two a second
        wait_until(lambda: len(workers_of(served.process) - killed) == 2)
        assert httpx.get(f"{served.url}/readyz").status_code == 200
        assert served.stop(signal.SIGTERM)[0] == 0


def test_a_worker_that_hangs_stops_neither_the_others_nor_a_stop(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        os.kill(min(workers_of(served.process)), signal.SIGSTOP)
        for _ in range(20):
            assert httpx.get(f"{served.url}/readyz", timeout=2).status_code == 200
        started = time.monotonic()
        assert served.stop(signal.SIGTERM)[0] == 0
        assert time.monotonic() - started < 5
        assert processes_of(served.process) == set()


def test_workers_without_room_for_connections_end_idle_ones_and_rest(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        workers = workers_of(served.process)
        for worker in workers:
            resource.prlimit(worker, resource.RLIMIT_NOFILE, (30, 30))
        clients = [socket.create_connection(("127.0.0.1", served.port), 5) for _ in range(60)]
        before = processor_seconds(workers)
        time.sleep(1)  # the time is the point
        assert processor_seconds(workers) - before < 0.2
        assert httpx.get(f"{served.url}/livez", timeout=5).status_code == 200
        for client in clients:
            client.close()
        assert workers_of(served.process) == workers
        assert served.stop(signal.SIGTERM)[0] == 0


def processor_seconds(processes: set[int]) -> float:
    ticks = 0
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


# A stop


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("to", [os.kill, os.killpg])
def test_a_signal_stops_all_processes(tmp_path: Path, number: int, to: Callable[[int, int], None]) -> None:
    """To the supervisor, or to all at once, as Ctrl-C and systemd have it."""
    with serving(tmp_path) as served, one_connection_each(served) as clients:
        slow = in_progress(served, clients, 700)
        started = time.monotonic()
        to(served.process.pid, number)
        assert served.process.wait(5) == 0
        assert processes_of(served.process) == set()
        assert time.monotonic() - started < 3
        assert reply_on(slow).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_stop_ends_waits_with_a_reply(tmp_path: Path) -> None:
    with serving(tmp_path) as served, one_connection_each(served) as clients:
        payment_id = create(clients[0]).json()["id"]
        target = f"/_mock/payments/{payment_id}/wait?status=completed&timeout=30"
        with ThreadPoolExecutor(2) as pool:
            waits = [pool.submit(client.get, target) for client in clients]
            with pytest.raises(TimeoutError):
                waits[0].result(0.3)
            started = time.monotonic()
            assert served.stop(signal.SIGTERM)[0] == 0
            assert time.monotonic() - started < 1
            for wait in waits:
                assert wait.result(1).json()["reached"] is False
                assert wait.result().headers["x-request-id"]


def test_what_takes_too_long_is_cut_off_without_a_reply(tmp_path: Path) -> None:
    with serving(tmp_path) as served, one_connection_each(served) as clients:
        slow = [in_progress(served, clients, 30000) for _ in range(4)]
        started = time.monotonic()
        assert served.stop(signal.SIGTERM)[0] == 0
        assert time.monotonic() - started < 5
        assert processes_of(served.process) == set()
        assert [reply_on(connection) for connection in slow] == [b""] * 4


def test_a_second_signal_ends_everything_at_once(tmp_path: Path) -> None:
    with serving(tmp_path) as served, one_connection_each(served) as clients:
        slow = in_progress(served, clients, 30000)
        served.process.send_signal(signal.SIGTERM)
        wait_until_refused(served)
        assert served.process.poll() is None
        started = time.monotonic()
        assert served.stop(signal.SIGTERM)[0] == 128 + signal.SIGTERM
        assert time.monotonic() - started < 1
        assert processes_of(served.process) == set()
        slow.close()


def test_workers_do_not_outlive_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    with serving(tmp_path) as served, one_connection_each(served) as clients:
        payment_id = create(clients[0]).json()["id"]
        waiting = ask(served, f"/_mock/payments/{payment_id}/wait?status=completed&timeout=30")
        for client in clients * 2:
            client.get("/livez")
        served.process.kill()
        wait_until(lambda: processes_of(served.process) == set(), 2)
        assert reply_on(waiting).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("milliseconds", [0, 2, 10, 40, 80])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("workers", [1, 8])
def test_a_signal_during_the_start_leaves_nothing_behind(
    tmp_path: Path, workers: int, number: int, milliseconds: int
) -> None:
    with starting(tmp_path, workers=workers, stderr=subprocess.PIPE) as process:
        wait_until((tmp_path / "store.db").exists)
        time.sleep(milliseconds / 1000)  # the moment is the point
        os.killpg(process.pid, number)
        _, errors = process.communicate(timeout=5)
        assert (process.returncode, errors) == (0, "")
        assert processes_of(process) == set()


# A start that fails


def test_a_worker_that_ends_during_the_start_ends_the_start(tmp_path: Path) -> None:
    with starting(tmp_path, workers=16, stderr=subprocess.PIPE) as process:
        wait_until((tmp_path / "store.db").exists)
        while not (first := workers_of(process)):
            assert process.poll() is None
        os.kill(min(first), signal.SIGKILL)
        output, errors = process.communicate(timeout=5)
        assert process.returncode == 1
        assert (output, errors) == ("", "Error: a worker ended before all of them answered (signal 9)\n")
        assert processes_of(process) == set()
    assert not (tmp_path / "ready.json").exists()


def test_a_ready_file_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    with starting(tmp_path, "--ready-file", "/no/ready", stderr=subprocess.PIPE) as process:
        output, errors = process.communicate(timeout=5)
        assert process.returncode == 1
        assert (output, errors) == (
            "",
            "Error: cannot write the ready file /no/ready: No such file or directory\n",
        )
        assert processes_of(process) == set()


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        store = f"sqlite://{tmp_path}/store.db"
        outcome = run("serve", "--workers", "2", "--store", store, "--port", str(served.port))
    assert outcome.returncode == 1
    assert outcome.stderr.startswith(f"Error: port {served.port} is in use")


def test_workers_need_a_system_with_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    with pytest.raises(StartError, match="--workers needs a system with fork"):
        serve(Settings(port=0, workers=2, store=f"sqlite://{tmp_path}/store.db"), None)


SUPERVISED = """
import errno, os, signal, sys, time
from paymock.sharing import Loads
from paymock.starting import StartError
from paymock.supervisor import Supervisor

starts = []
fork = os.fork

def work(post):
    {work}

def ready():
    print("ready", flush=True)

def note(event, text, **fields):
    print(event, text, sorted(fields), flush=True)
    {note}

def counted():
    starts.append(time.monotonic())
    {fork}
    return fork()

os.fork = counted
try:
    Supervisor(2, work, [], Loads(2), ready, note).run()
except StartError as error:
    print("StartError:", error)
print(len(starts), "starts")
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("none left")
"""


def supervised(work: str, note: str = "pass", fork: str = "pass") -> list[str]:
    """What comes of a supervisor of such workers: all that is printed."""
    script = SUPERVISED.format(work=work, note=note, fork=fork)
    outcome = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=10, check=True
    )
    return outcome.stdout.splitlines()


def test_the_reason_why_a_worker_cannot_start_is_told() -> None:
    assert supervised("raise OSError(errno.EMFILE, 'Too many open files')") == [
        (
            "StartError: a worker ended before all of them answered "
            "(status 1, reason [Errno 24] Too many open files)"
        ),
        "2 starts",
        "none left",
    ]


def test_a_fork_that_fails_at_first_fails_the_start() -> None:
    fork = "if len(starts) == 2: raise OSError(errno.EAGAIN, 'Try again')"
    assert supervised("post.ready(); time.sleep(60)", fork=fork) == [
        "StartError: cannot start the workers: Try again",
        "2 starts",
        "none left",
    ]


def test_a_fork_that_fails_later_is_tried_again() -> None:
    lines = supervised(
        "post.ready(); (time.sleep(60) if post.number else time.sleep(0.2))",
        note="if event == 'worker_replaced': os.kill(os.getpid(), signal.SIGTERM)",
        fork="if len(starts) == 3: raise OSError(errno.EAGAIN, 'Try again')",
    )
    assert lines[:2] == ["ready", "worker_missing cannot start a worker: Try again ['reason']"]
    assert re.fullmatch(
        r"worker_replaced worker \d+ ended \(status 0\); started \d+ \['ended', 'started', 'status'\]",
        lines[2],
    )
    assert lines[3:] == ["4 starts", "none left"]
