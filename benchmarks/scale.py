"""Cost of requests with many payments stored, and memory for each payment, on each store.

    python -m benchmarks.scale [--most N] [--store NAME] [--json FILE]

Compares applications, without sockets, that differ in one thing: 10,000 payments, ten times as many and so on
up to N (default 1,000,000); 10,000 payments in as many sandboxes; 100,000 requests in the journal. They take
turns in reading payments, 32 concurrently, in an order that defeats caches of recent ones, and in creating
some. The cost is CPU time, with that of the journal, and the best of several rounds, which excludes other
load. It fails when a ratio to the first application exceeds LIMITS. It needs redis-server.
"""

import argparse
import asyncio
import json
import os
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from benchmarks.inside import Client, application, fill, key_of_sandbox, token
from harness import process_info
from harness.api_client import ORDER
from harness.redis_engine import redis_server
from paymock.payments.records import PaymentRecord
from paymock.rules import identifiers
from paymock.server import process
from paymock.stores.opening import open_store

FEW, JOURNAL = 10_000, 100_000
TASKS, REQUESTS, ROUNDS = 32, 500, 20
JOURNALS_WRITTEN_SECONDS = 0.1
LIMITS = {"memory": 1.4, "sqlite": 2.0, "redis": 1.6}
"""With many sandboxes, Redis and SQLite write many journals. SQLite uses an index, which grows deeper."""


class Case(NamedTuple):
    """The content of an application: payments, sandboxes, and requests in the journal."""

    name: str
    payments: int = FEW
    sandboxes: int = 1
    requests: int = 0


class Engine(NamedTuple):
    """A place for stores: a URL template, the bytes in use, and the process if it is not this one."""

    url: str
    bytes_used: Callable[[], int]
    pid: int | None = None

    def cpu_microseconds(self) -> tuple[float, float]:
        """CPU time of this process and of that of the engine."""
        engine = process_info.cpu_nanoseconds(self.pid) if self.pid else 0
        return time.process_time_ns() / 1e3, engine / 1e3


class Subject:
    """An application, and the lowest costs of a request by its kind: microseconds of server and engine."""

    def __init__(self, case: Case, url: str) -> None:
        self.case = case
        self.costs: dict[str, tuple[float, float]] = {}
        self.bytes_per_payment = 0.0
        self._store = open_store(url, limits={PaymentRecord.KIND: case.payments + ROUNDS * REQUESTS})

    async def begin(self, engine: Engine) -> None:
        """Store the content of the case."""
        await self._store.initialize()
        case, before = self.case, engine.bytes_used()
        await fill(self._store, range(case.payments), case.sandboxes)
        self.bytes_per_payment = (engine.bytes_used() - before) / case.payments
        app = application(self._store)
        self._clients = [Client(app, key_of_sandbox(number)) for number in range(case.sandboxes)]
        self._next = cycle(random.sample(range(case.payments), FEW))
        await send_all(self._clients[0].get("/v1/chains") for _ in range(case.requests))

    async def request(self, engine: Engine) -> None:
        """Measure a batch of reads, and one of creations."""
        numbers = [*islice(self._next, REQUESTS)]
        clients = [self._clients[number % len(self._clients)] for number in numbers]
        paths = [f"/v1/payments/{identifiers.PAYMENT_PREFIX}{token(number)}" for number in numbers]
        keys = [secrets.token_hex(16) for _ in numbers]
        orders = [ORDER.replace("order-1001", f"order-{key}").encode() for key in keys]
        reads = map(Client.get, clients, paths)
        creations = map(Client.post, clients, ["/v1/payments"] * REQUESTS, orders, keys)
        for kind, requests in {"read": reads, "creation": creations}.items():
            before = engine.cpu_microseconds()
            await send_all(requests)
            await asyncio.sleep(JOURNALS_WRITTEN_SECONDS)
            spent = zip(engine.cpu_microseconds(), before, strict=True)
            server, store = ((after - earlier) / REQUESTS for after, earlier in spent)
            self.costs[kind] = min(self.costs.get(kind, (server, store)), (server, store), key=sum)

    async def end(self) -> None:
        """Close the store."""
        await self._store.close()


async def send_all(requests: Iterable[Coroutine[Any, Any, int]]) -> None:
    """Make these requests, TASKS concurrently."""
    pending = iter(requests)

    async def send() -> None:
        for request in pending:
            status = await request
            assert status in (200, 201), status

    await asyncio.gather(*(send() for _ in range(TASKS)))


async def measure(engine: Engine, cases: list[Case]) -> list[Subject]:
    """The applications after all rounds."""
    subjects = [Subject(case, engine.url.format(number)) for number, case in enumerate(cases)]
    for subject in subjects:
        await subject.begin(engine)
    for _ in range(ROUNDS):
        for subject in subjects:
            await subject.request(engine)
    for subject in subjects:
        await subject.end()
    return subjects


@contextmanager
def engine_of(name: str) -> Iterator[Engine]:
    """A place for stores of this kind."""
    if name == "memory":
        yield Engine("memory://", partial(process_info.resident_bytes, os.getpid()))
    elif name == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite://{folder}/{{}}.db?synchronous=normal"
            yield Engine(url, partial(on_disk, folder))
    else:
        with redis_server() as redis:
            yield Engine(f"{redis.url}/{{}}", partial(redis.info, "used_memory"), redis.process.pid)


def on_disk(folder: str) -> int:
    """The size of the SQLite files, without their write-ahead logs."""
    return sum(path.stat().st_size for path in Path(folder).glob("*.db"))


def main() -> None:
    """Print the table, and fail above the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--store", choices=LIMITS, action="append", help="only this one; repeatable")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    cases, payments = [Case("10,000 payments")], 10 * FEW
    while payments <= options.most:
        cases.append(Case(f"{payments:,} payments", payments=payments))
        payments *= 10
    cases += [Case("10,000 sandboxes", sandboxes=FEW), Case(f"{JOURNAL:,} requests", requests=JOURNAL)]
    process.resume_collections()  # as a server has it
    rows, over = [], []
    print(f"{'':<27} {'request':<9} {'server µs':>9} {'engine µs':>9} {'ratio':>6} {'bytes per payment':>17}")
    for name in options.store or LIMITS:
        with engine_of(name) as engine:
            subjects = uvloop.run(measure(engine, cases))
        for subject, (kind, costs) in ((one, cost) for one in subjects for cost in one.costs.items()):
            case, size = subject.case.name, subject.bytes_per_payment
            ratio = sum(costs) / sum(subjects[0].costs[kind])
            figures = f"{costs[0]:>9.1f} {costs[1]:>9.1f} {ratio:>6.2f} {size:>17.0f}"
            print(f"{name:<7} {case:<19} {kind:<9} {figures}")
            row = {"store": name, "case": case, "request": kind, "server": costs[0], "engine": costs[1]}
            rows.append({**row, "ratio": ratio, "bytes": size})
            if ratio > LIMITS[name]:
                over.append(f"{name}, {case}: {ratio:.2f} times a {kind}, the limit is {LIMITS[name]}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    sys.exit("\n".join(over) or None)


if __name__ == "__main__":
    main()
