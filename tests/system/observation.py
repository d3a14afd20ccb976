"""Advance orders until their pollers have seen every status.

    python -m tests.system.observation [--runs N] [--parallel N] [--seed SEED] [--write]

Each run is a payment in one sandbox of `paymock serve`, and an application that polls it every 1 to 200
milliseconds, at a pace of its own. The payment is advanced to `completed` with `until_observed`. Fails when
a poller has not seen every status in order; 10,000 runs take some minutes.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harness.docs_figures import write_figure
from harness.server_process import server_process
from tests.support.client import order
from tests.support.raw import request
from tests.support.specification import COURSES
from tests.system.faults.concurrent_creations import Connection

KEY = "mk_test_observation"
STATUSES = [status for _, status in COURSES["happy_path"]]
SLOWEST_SECONDS, FASTEST_SECONDS = 0.2, 0.001


async def call(connection: Connection, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """Return the body of the reply. Raises RuntimeError for a refusal."""
    content = None if body is None else json.dumps(body).encode()
    headers |= {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    connection.writer.write(request(method, path, headers, content))
    reply = await connection.reply()
    if reply.status not in (200, 201):
        raise RuntimeError(f"{reply.status} {reply.body.decode()}")
    return json.loads(reply.body)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Connection]:
    connection = Connection(*await asyncio.open_connection("127.0.0.1", port))
    try:
        yield connection
    finally:
        connection.writer.close()
        await connection.writer.wait_closed()


async def run_once(port: int, number: int, pause: float) -> str | None:
    """Advance one payment, and return what its poller has missed, or None."""
    seen: list[str] = []
    async with connected(port) as control, connected(port) as application:
        key = {"Idempotency-Key": f"observation-{number}"}
        payment = await call(application, "POST", "/v1/payments", order(order_id=f"order-{number}"), **key)
        seen.append(payment["status"])
        path = f"/v1/payments/{payment['id']}"

        async def poll() -> None:
            while seen[-1] != STATUSES[-1]:
                await asyncio.sleep(pause)  # the pace of the application
                status = (await call(application, "GET", path))["status"]
                if status != seen[-1]:
                    seen.append(status)

        polling = asyncio.create_task(poll())
        body = {"to": STATUSES[-1], "until_observed": True, "timeout": 60}
        result = await call(control, "POST", f"/_mock/payments/{payment['id']}/advance", body)
        if not result["observed"]:
            polling.cancel()
        await asyncio.wait([polling])
    complete = result["observed"] and seen == STATUSES
    return None if complete else f"order-{number}, every {pause * 1000:.0f} ms: {result['observed']}, {seen}"


async def run_all(port: int, runs: int, parallel: int, seed: int) -> list[str]:
    """Return what was missed in all runs, of which so many go on at a time."""
    generator = random.Random(seed)  # noqa: S311 - not for secrets
    pauses = [generator.uniform(FASTEST_SECONDS, SLOWEST_SECONDS) for _ in range(runs)]
    numbers = iter(range(runs))
    missed: list[str] = []

    async def work() -> None:
        for number in numbers:
            missed.extend(filter(None, [await run_once(port, number, pauses[number])]))

    async with connected(port) as control:
        await call(control, "PUT", "/_mock/clock", {"speed": 0})
    await asyncio.gather(*(work() for _ in range(parallel)))
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--parallel", type=int, default=50)
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--write", action="store_true", help="write the figure into docs/reliability.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, server_process(Path(folder), "--no-access-log") as server:
        missed = asyncio.run(run_all(server.port, options.runs, options.parallel, options.seed))
    figure = f"{options.runs:,} runs, {len(missed)} in which a status was missed"
    print(figure)
    if options.write:
        write_figure("observation", figure)
    if missed:
        sys.exit("\n".join(missed))


if __name__ == "__main__":
    main()
