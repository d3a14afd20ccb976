"""`until_observed` on two servers, with applications that poll at a pace of their own, every 1 to 200
milliseconds: each sees every status in order.
"""

import asyncio
import random
from functools import partial
from pathlib import Path

import httpx
import pytest

from harness.server_process import servers_on_one_port
from tests.support.client import AUTHORIZED, order
from tests.support.servers import NEEDS_LINUX
from tests.support.specification import COURSES
from tests.system.faults.restartable_server import new_store

RUNS, PARALLEL, SEED = 100, 20, 16
STATUSES = [status for _, status in COURSES["happy_path"]]
SLOWEST_SECONDS, FASTEST_SECONDS = 0.2, 0.001


async def poll_while_advanced(url: str, number: int, pause: float) -> None:
    client = partial(httpx.AsyncClient, base_url=url, headers=AUTHORIZED, timeout=60)
    async with client() as control, client() as application:
        key = {"Idempotency-Key": f"observation-{number}"}
        body = order(order_id=f"order-{number}")
        payment = (await application.post("/v1/payments", json=body, headers=key)).json()
        path, seen = f"/v1/payments/{payment['id']}", [payment["status"]]

        async def poll() -> None:
            while seen[-1] != STATUSES[-1]:
                await asyncio.sleep(pause)  # the pace of the application
                status = (await application.get(path)).json()["status"]
                if status != seen[-1]:
                    seen.append(status)

        polling = asyncio.create_task(poll())
        step = {"to": STATUSES[-1], "until_observed": True, "timeout": 60}
        result = (await control.post(f"/_mock/payments/{payment['id']}/advance", json=step)).json()
        assert result["observed"], f"every {pause} s: {seen}"
        await polling
        assert seen == STATUSES, f"every {pause} s"


async def run_all(url: str) -> None:
    generator = random.Random(SEED)  # noqa: S311 - not for secrets
    pauses = enumerate([generator.uniform(FASTEST_SECONDS, SLOWEST_SECONDS) for _ in range(RUNS)])

    async def work() -> None:
        for number, pause in pauses:
            await poll_while_advanced(url, number, pause)

    await asyncio.gather(*(work() for _ in range(PARALLEL)))


@NEEDS_LINUX
@pytest.mark.parametrize("store", ["SQLite", "Redis"])
def test_pollers_of_two_servers_see_every_status_in_order(tmp_path: Path, store: str) -> None:
    with (
        new_store(store, tmp_path) as stored,
        servers_on_one_port(tmp_path, 2, "--no-access-log", "--store", stored) as [server, _],
    ):
        httpx.put(f"{server.url}/_mock/clock", json={"speed": 0}, headers=AUTHORIZED).raise_for_status()
        asyncio.run(run_all(server.url))
