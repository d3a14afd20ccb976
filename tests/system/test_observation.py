"""`until_observed` on real servers, with applications that poll at a pace of their own, every 1 to 200
milliseconds: each sees every status in order.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.server_process import server_process, servers_on_one_port
from tests.support.client import order
from tests.support.raw import request
from tests.support.servers import NEEDS_LINUX
from tests.support.specification import COURSES
from tests.system.faults.concurrent_creations import Connection
from tests.system.faults.restartable_server import new_store

RUNS, PARALLEL, SEED = 100, 20, 16
KEY = "mk_test_observation"
STATUSES = [status for _, status in COURSES["happy_path"]]
SLOWEST_SECONDS, FASTEST_SECONDS = 0.2, 0.001


async def call(connection: Connection, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """Return the body of the reply."""
    content = None if body is None else json.dumps(body).encode()
    headers |= {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    connection.writer.write(request(method, path, headers, content))
    reply = await connection.reply()
    assert reply.status in (200, 201), reply.body
    return json.loads(reply.body)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Connection]:
    connection = Connection(*await asyncio.open_connection("127.0.0.1", port))
    try:
        yield connection
    finally:
        connection.writer.close()
        await connection.writer.wait_closed()


async def poll_while_advanced(port: int, number: int, pause: float) -> None:
    async with connected(port) as control, connected(port) as application:
        key = {"Idempotency-Key": f"observation-{number}"}
        payment = await call(application, "POST", "/v1/payments", order(order_id=f"order-{number}"), **key)
        seen: list[str] = [payment["status"]]

        async def poll() -> None:
            while seen[-1] != STATUSES[-1]:
                await asyncio.sleep(pause)  # the pace of the application
                status = (await call(application, "GET", f"/v1/payments/{payment['id']}"))["status"]
                if status != seen[-1]:
                    seen.append(status)

        polling = asyncio.create_task(poll())
        body = {"to": STATUSES[-1], "until_observed": True, "timeout": 60}
        result = await call(control, "POST", f"/_mock/payments/{payment['id']}/advance", body)
        assert result["observed"], f"every {pause} s: {seen}"
        await polling
        assert seen == STATUSES, f"every {pause} s"


async def run_all(port: int) -> None:
    generator = random.Random(SEED)  # noqa: S311 - not for secrets
    pauses = enumerate([generator.uniform(FASTEST_SECONDS, SLOWEST_SECONDS) for _ in range(RUNS)])

    async def work() -> None:
        for number, pause in pauses:
            await poll_while_advanced(port, number, pause)

    async with connected(port) as control:
        await call(control, "PUT", "/_mock/clock", {"speed": 0})
    await asyncio.gather(*(work() for _ in range(PARALLEL)))


@pytest.mark.parametrize("store", ["memory", "SQLite"])
def test_pollers_see_every_status_in_order(tmp_path: Path, store: str) -> None:
    arguments = () if store == "memory" else ("--store", f"sqlite://{tmp_path}/store.db")
    with server_process(tmp_path, "--no-access-log", *arguments) as server:
        asyncio.run(run_all(server.port))


@NEEDS_LINUX
@pytest.mark.parametrize("store", ["SQLite", "Redis"])
def test_pollers_of_two_servers_see_every_status_in_order(tmp_path: Path, store: str) -> None:
    with (
        new_store(store, tmp_path) as url,
        servers_on_one_port(tmp_path, 2, "--no-access-log", "--store", url) as [server, _],
    ):
        asyncio.run(run_all(server.port))
