"""What the rules of one sandbox count, on two servers on one port."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from harness.server_process import servers_on_one_port
from tests.support.servers import NEEDS_LINUX, connections, create, one_connection_each, server_behind
from tests.system.faults.restartable_server import new_store

READERS, CREATORS = 10, 2
READS, SKIPPED, FAILED = 300, 50, 100
FAILED_CREATIONS = 5


@NEEDS_LINUX
@pytest.mark.parametrize(
    "store", [pytest.param("SQLite", marks=pytest.mark.ci), pytest.param("Redis", marks=pytest.mark.redis)]
)
def test_concurrent_requests_are_counted_exactly(tmp_path: Path, store: str) -> None:
    done = threading.Event()

    def read(client: httpx.Client) -> list[httpx.Response]:
        return [client.get(path) for _ in range(READS // READERS)]

    def create_some(client: httpx.Client) -> list[httpx.Response]:
        replies: list[httpx.Response] = []
        while not done.is_set() or len(replies) < 2 * FAILED_CREATIONS:
            replies.append(create(client))
        return replies

    with (
        new_store(store, tmp_path) as url,
        servers_on_one_port(tmp_path, 2, "--store", url) as [served, _],
        one_connection_each(served) as pinned,
        connections(served, READERS + CREATORS - len(pinned)) as more,
        ThreadPoolExecutor(READERS + CREATORS) as pool,
    ):
        clients = [*pinned, *more]
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
    assert len({server_behind(reply) for reply in reads}) == 2
