"""`paymock serve --workers N`: several processes that answer as one, whatever happens to them."""

import asyncio
import json
import os
import re
import resource
import signal
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from harness.polling import wait_until
from harness.server_process import ServerProcess
from tests.support import raw
from tests.support.client import AUTHORIZED, ORDER, fresh_key
from tests.support.workers import (
    NEEDS_PROCESSES,
    connections,
    create,
    one_connection_each,
    processes_of,
    server_with_workers,
    wait_for_successor,
    worker_behind,
    workers_of,
)

pytestmark = NEEDS_PROCESSES


# Serving as one


def test_the_ready_file_has_the_supervisor_and_comes_once_all_workers_answer(tmp_path: Path) -> None:
    with server_with_workers(tmp_path, workers=3) as served:
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
    with server_with_workers(
        tmp_path, "--store", f"sqlite://{tmp_path}/other.db?synchronous=normal"
    ) as served:
        status, output = served.stop(signal.SIGTERM)
    assert status == 0
    assert output.count("MOCK: no real funds") == 1
    assert re.search(r"^  Workers   2$", output, re.MULTILINE)
    assert re.search(rf"^  Store     sqlite://{tmp_path}/other\.db$", output, re.MULTILINE)


def fewest_of_a_burst(served: ServerProcess) -> int:
    """How many of 32 connections that come at once the worker has that has the fewer."""
    with ExitStack() as stack:
        address = ("127.0.0.1", served.port)
        burst = [stack.enter_context(socket.create_connection(address, 20)) for _ in range(32)]
        for connection in burst:
            connection.sendall(raw.request("GET", "/livez"))
        replies = [raw.next_reply(connection) for connection in burst]
    counts = Counter(map(worker_behind, replies))
    return 32 - max(counts.values())


def test_connections_that_are_kept_spread_over_the_workers(tmp_path: Path) -> None:
    seen = []
    with server_with_workers(tmp_path, "--no-access-log") as served:
        for _ in range(6):  # a busy machine may keep a worker from its share for a while
            seen.append(sorted(fewest_of_a_burst(served) for _ in range(5)))
            if seen[-1][2] >= 8:
                return
    pytest.fail(f"the fewest connections of a worker, of 32, by rounds: {seen}")


def test_concurrent_identical_creations_give_one_payment(tmp_path: Path) -> None:
    async def creations(url: str) -> list[httpx.Response]:
        headers = {**AUTHORIZED, "Idempotency-Key": "order-1001-payment"}
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=20) as client:
            return await asyncio.gather(*(client.post("/v1/payments", json=dict(ORDER)) for _ in range(200)))

    with server_with_workers(tmp_path, "--no-access-log") as served:
        replies = asyncio.run(creations(served.url))
        listed = httpx.get(f"{served.url}/_mock/payments", headers=AUTHORIZED).json()["data"]
    assert {reply.status_code for reply in replies} == {201}
    assert len({reply.content for reply in replies}) == 1
    assert len({worker_behind(reply) for reply in replies}) == 2
    assert sum("idempotent-replayed" not in reply.headers for reply in replies) == 1
    assert [payment["id"] for payment in listed] == [replies[0].json()["id"]]


def test_an_advance_shows_at_once_on_every_other_connection(tmp_path: Path) -> None:
    with server_with_workers(tmp_path) as served, connections(served, 16) as clients:
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
        server_with_workers(tmp_path) as served,
        one_connection_each(served) as (waiting, advancing),
        ThreadPoolExecutor(1) as pool,
    ):
        advancing.put("/_mock/clock", json={"speed": 0})
        payment_id = create(advancing).json()["id"]
        took = []
        for status in ("payment_detected", "payment_finalized", "completed"):
            target = f"/_mock/payments/{payment_id}/wait?status={status}&timeout=20"
            reply = pool.submit(waiting.get, target)
            with pytest.raises(TimeoutError):
                reply.result(0.3)  # it waits
            advanced = advancing.post(f"/_mock/payments/{payment_id}/advance", json={"to": status})
            assert advanced.status_code == 200
            started = time.monotonic()
            assert reply.result(5).json()["reached"] is True
            took.append(time.monotonic() - started)
            assert worker_behind(reply.result()) != worker_behind(advanced)
        assert sorted(took)[1] < 0.5, took  # a busy machine may be late once


def test_what_one_worker_does_is_told_by_another(tmp_path: Path) -> None:
    with server_with_workers(tmp_path) as served, one_connection_each(served) as (following, doing):
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

    def some(served: ServerProcess) -> None:
        with httpx.Client(base_url=served.url, headers=AUTHORIZED) as client:
            for _ in range(requests // 10):
                client.get(f"/v1/payments/{'x' * 100}")

    with server_with_workers(tmp_path, "--log", "json") as served, ThreadPoolExecutor(11) as pool:
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

    def customer(served: ServerProcess) -> None:
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
    with server_with_workers(tmp_path, "--log", "json") as served:
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
    with server_with_workers(tmp_path) as served:
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
    with server_with_workers(tmp_path) as served:
        os.kill(min(workers_of(served.process)), signal.SIGSTOP)
        for _ in range(20):
            assert httpx.get(f"{served.url}/readyz", timeout=2).status_code == 200
        started = time.monotonic()
        assert served.stop(signal.SIGTERM)[0] == 0
        assert time.monotonic() - started < 5
        assert processes_of(served.process) == set()


def test_workers_without_room_for_connections_end_idle_ones_and_rest(tmp_path: Path) -> None:
    with server_with_workers(tmp_path) as served:
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
