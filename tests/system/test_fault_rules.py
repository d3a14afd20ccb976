import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from harness.polling import wait_until
from harness.redis_engine import redis_server
from harness.server_process import server_process, servers_on_one_port
from tests.support.servers import NEEDS_LINUX, connections, create, one_connection_each, server_behind

READERS, CREATORS = 10, 2
READS, SKIPPED, FAILED = 300, 50, 100
FAILED_CREATIONS = 5


@contextmanager
def deployment(name: str, tmp_path: Path) -> Iterator[list[httpx.Client]]:
    """Clients with a connection each: a reader and a creator of every process, and more."""
    servers, _, kind = name.partition(" on ")
    with ExitStack() as stack:
        engine = [stack.enter_context(redis_server()).url] if kind == "Redis" else []
        store = ["--store", *(engine or [f"sqlite://{tmp_path}/store.db"])]
        if servers == "one port":
            [served, _] = stack.enter_context(servers_on_one_port(tmp_path, 2, *store))
            pinned = stack.enter_context(one_connection_each(served))
            more = stack.enter_context(connections(served, READERS + CREATORS - len(pinned)))
            yield [*pinned, *more]
            return
        names, arguments = (["only"], []) if kind == "memory" else (["one", "other"], store)
        groups = []
        for folder in names:
            (tmp_path / folder).mkdir()
            served = stack.enter_context(server_process(tmp_path / folder, *arguments))
            groups.append(stack.enter_context(connections(served, (READERS + CREATORS) // len(names))))
        yield [client for group in zip(*groups, strict=True) for client in group]


@pytest.mark.parametrize(
    "name",
    [
        "a process on memory",
        "processes on SQLite",
        pytest.param("one port on SQLite", marks=[NEEDS_LINUX, pytest.mark.ci]),
        pytest.param("processes on Redis", marks=pytest.mark.redis),
        pytest.param("one port on Redis", marks=[pytest.mark.redis, NEEDS_LINUX]),
    ],
)
def test_concurrent_requests_are_counted_exactly(tmp_path: Path, name: str) -> None:
    done = threading.Event()

    def read(client: httpx.Client) -> list[httpx.Response]:
        return [client.get(path) for _ in range(READS // READERS)]

    def create_some(client: httpx.Client) -> list[httpx.Response]:
        replies: list[httpx.Response] = []
        while not done.is_set() or len(replies) < 2 * FAILED_CREATIONS:
            replies.append(create(client))
        return replies

    with deployment(name, tmp_path) as clients, ThreadPoolExecutor(READERS + CREATORS) as pool:
        path = f"/v1/payments/{create(clients[0]).json()['id']}"
        for rule in (
            {"fault": "status=500", "operation": "getPayment", "skip": SKIPPED, "times": FAILED},
            {"fault": "status=500", "operation": "createPayment", "times": FAILED_CREATIONS},
        ):
            assert clients[0].post("/_mock/faults", json=rule).status_code == 201
        creators = [pool.submit(create_some, client) for client in clients[-CREATORS:]]
        try:
            reads = [reply for replies in pool.map(read, clients[:READERS]) for reply in replies]
        finally:
            done.set()
        creations = [reply for creator in creators for reply in creator.result(60)]
        rules = clients[-1].get("/_mock/faults").json()["data"]

    assert Counter(reply.status_code for reply in reads) == {200: READS - FAILED, 500: FAILED}
    assert Counter(reply.status_code for reply in creations) == {
        201: len(creations) - FAILED_CREATIONS,
        500: FAILED_CREATIONS,
    }
    assert [(rule["seen"], rule["applied"]) for rule in rules] == [
        (READS, FAILED),
        (len(creations), FAILED_CREATIONS),
    ]
    assert len({server_behind(reply) for reply in reads}) == (1 if "memory" in name else 2)


@pytest.mark.parametrize(
    "name", ["processes on SQLite", pytest.param("processes on Redis", marks=pytest.mark.redis)]
)
def test_a_request_that_one_process_holds_goes_on_when_another_one_deletes_the_rule(
    tmp_path: Path, name: str
) -> None:
    with deployment(name, tmp_path) as [one, other, *_], ThreadPoolExecutor(1) as pool:
        assert other.post("/_mock/faults", json={"fault": "hold"}).status_code == 201
        held = pool.submit(one.get, "/v1/chains")
        wait_until(lambda: other.get("/_mock/faults").json()["data"][0]["waiting"])
        assert other.delete("/_mock/faults").status_code == 204
        assert held.result(30).status_code == 200  # it would go on by itself after 60 seconds
