"""Cost of a read with many payments stored, and memory for each payment, on each store.

    python -m benchmarks.scale [--most N] [--store NAME] [--json FILE]

Compares applications, without sockets, that differ in one thing: 10,000 payments, ten times as many and so on
up to N (default 1,000,000); 10,000 payments in as many sandboxes; 100,000 requests in the journal. They take
turns in reading payments, 32 concurrently, in an order that defeats caches of recent payments. The cost of a
read is CPU time, including that of Redis, and the best of several rounds, which excludes other load. It fails
when the ratio to the first application exceeds LIMITS. It needs redis-server.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import uvloop

from benchmarks.inside import Client, application, fill, key_of_sandbox, token
from harness import process_info
from harness.redis_engine import redis_server
from paymock.payments.records import PaymentRecord
from paymock.rules import identifiers
from paymock.server import process
from paymock.stores.opening import open_store

FEW, REQUESTS = 10_000, 100_000
TASKS, READS, ROUNDS = 32, 500, 40
LIMITS = {"memory": 1.25, "sqlite": 2.0, "redis": 1.25}
"""SQLite uses an index, which grows deeper and fits less into the cache."""


class Case(NamedTuple):
    """The content of an application: payments, sandboxes, and requests in the journal."""

    name: str
    payments: int = FEW
    sandboxes: int = 1
    requests: int = 0


class Engine(NamedTuple):
    """A place for stores: a URL template, the bytes in use, and the CPU seconds used."""

    url: str
    bytes_used: Callable[[], int]
    cpu_seconds: Callable[[], float]


class Subject:
    """An application to read from, and the lowest cost of a read in microseconds."""

    def __init__(self, case: Case, url: str) -> None:
        self.case = case
        self.cost = float("inf")
        self.bytes_per_payment = 0.0
        self._store = open_store(url, limits={PaymentRecord.KIND: case.payments})
        self._clients: list[Client] = []
        self._next: Iterator[int] = iter(())

    async def begin(self, engine: Engine) -> None:
        """Store the content of the case."""
        await self._store.initialize()
        case, before = self.case, engine.bytes_used()
        await fill(self._store, range(case.payments), case.sandboxes)
        self.bytes_per_payment = (engine.bytes_used() - before) / case.payments
        app = application(self._store)
        self._clients = [Client(app, key_of_sandbox(number)) for number in range(case.sandboxes)]
        self._next = cycle(random.sample(range(case.payments), FEW))
        await request_all((self._clients[0], "/v1/chains") for _ in range(case.requests))

    async def read(self, engine: Engine) -> None:
        """Measure a batch of reads."""
        turn = [
            (
                self._clients[number % len(self._clients)],
                f"/v1/payments/{identifiers.PAYMENT_PREFIX}{token(number)}",
            )
            for number in islice(self._next, READS)
        ]
        before = engine.cpu_seconds()
        await request_all(turn)
        self.cost = min(self.cost, (engine.cpu_seconds() - before) / READS * 1e6)

    async def end(self) -> None:
        """Close the store."""
        await self._store.close()


async def request_all(requests: Iterable[tuple[Client, str]]) -> None:
    """Make these requests, TASKS concurrently."""
    pending = iter(requests)

    async def request() -> None:
        for client, path in pending:
            status = await client.get(path)
            assert status == 200, status

    await asyncio.gather(*(request() for _ in range(TASKS)))


async def measure(engine: Engine, cases: list[Case]) -> list[Subject]:
    """The applications after all rounds."""
    subjects = [Subject(case, engine.url.format(number)) for number, case in enumerate(cases)]
    for subject in subjects:
        await subject.begin(engine)
    for _ in range(ROUNDS):
        for subject in subjects:
            await subject.read(engine)
    for subject in subjects:
        await subject.end()
    return subjects


@contextmanager
def engine_of(name: str) -> Iterator[Engine]:
    """A place for stores of this kind."""
    if name == "memory":
        yield Engine("memory://", partial(process_info.resident_bytes, os.getpid()), time.process_time)
    elif name == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite://{folder}/{{}}.db?synchronous=normal"
            yield Engine(url, partial(on_disk, folder), time.process_time)
    else:
        with redis_server() as redis:
            used = partial(cpu_seconds_with, redis.process.pid)
            yield Engine(f"{redis.url}/{{}}", partial(redis.info, "used_memory"), used)


def on_disk(folder: str) -> int:
    """The size of the SQLite files, without their write-ahead logs."""
    return sum(path.stat().st_size for path in Path(folder).glob("*.db"))


def cpu_seconds_with(pid: int) -> float:
    """CPU time of this process and another."""
    return time.process_time() + process_info.cpu_nanoseconds(pid) / 1e9


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
    cases += [Case("10,000 sandboxes", sandboxes=FEW), Case(f"{REQUESTS:,} requests", requests=REQUESTS)]
    process.resume_collections()  # as a server has it
    rows, over = [], []
    print(f"{'':<27} {'µs per read':>11} {'ratio':>6} {'bytes per payment':>17}")
    for name in options.store or LIMITS:
        with engine_of(name) as engine:
            subjects = uvloop.run(measure(engine, cases))
        for case, cost, size in ((one.case.name, one.cost, one.bytes_per_payment) for one in subjects):
            ratio = cost / subjects[0].cost
            print(f"{name:<7} {case:<19} {cost:>11.1f} {ratio:>6.2f} {size:>17.0f}")
            rows.append({"store": name, "case": case, "microseconds": cost, "ratio": ratio, "bytes": size})
            if ratio > LIMITS[name]:
                over.append(f"{name}, {case}: {ratio:.2f} times the cost, the limit is {LIMITS[name]}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    sys.exit("\n".join(over) or None)


if __name__ == "__main__":
    main()
