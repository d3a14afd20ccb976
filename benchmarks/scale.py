"""What a read costs when much is stored, and what a payment takes, on each store.

    python -m benchmarks.scale [--most N] [--store NAME] [--json FILE]

Compares applications, without sockets, that differ in one thing: one with 10,000 payments, one with ten times
as many and so on up to N (default 1,000,000); one with 10,000 payments in as many sandboxes; one that has
answered 100,000 requests, which its journal has seen. All take turns in reading payments, 32 at a time, each
again only after 10,000 others, so that nothing helps that is kept of the last ones. The cost of a read is CPU
time, that of Redis included; the figures are the best of the rounds, since what else the machine does makes
the others worse. It fails when a read costs more than LIMITS allow, as a ratio to the first. It needs
redis-server.
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
from paymock.resources.records import PaymentRecord
from paymock.rules import identifiers
from paymock.server import garbage_collection
from paymock.stores.opening import open_store

FEW, REQUESTS = 10_000, 100_000
TASKS, READS, ROUNDS = 32, 500, 40
LIMITS = {"memory": 1.25, "sqlite": 2.0, "redis": 1.25}
"""SQLite finds a payment through an index: the more there are, the deeper it is, the less of it cached."""


class Case(NamedTuple):
    """What an application has: payments, in how many sandboxes, and requests that it has answered."""

    name: str
    payments: int = FEW
    sandboxes: int = 1
    requests: int = 0


class Engine(NamedTuple):
    """Where stores are: the URL of each by its number, the bytes in use, the seconds of CPU time spent."""

    url: str
    bytes_used: Callable[[], int]
    spent: Callable[[], float]


class Subject:
    """An application to read from, and the least microseconds that a read has cost."""

    def __init__(self, case: Case, url: str) -> None:
        self.case = case
        self.cost = float("inf")
        self.bytes_a_payment = 0.0
        self._store = open_store(url, limits={PaymentRecord.KIND: case.payments})
        self._clients: list[Client] = []
        self._ahead: Iterator[int] = iter(())

    async def begin(self, engine: Engine) -> None:
        """Stores what the case says."""
        await self._store.initialize()
        case, before = self.case, engine.bytes_used()
        await fill(self._store, range(case.payments), case.sandboxes)
        self.bytes_a_payment = (engine.bytes_used() - before) / case.payments
        app = application(self._store)
        self._clients = [Client(app, key_of_sandbox(number)) for number in range(case.sandboxes)]
        self._ahead = cycle(random.sample(range(case.payments), FEW))
        await asked((self._clients[0], "/v1/chains") for _ in range(case.requests))

    async def read(self, engine: Engine) -> None:
        """Takes a turn."""
        turn = [
            (
                self._clients[number % len(self._clients)],
                f"/v1/payments/{identifiers.PAYMENT_PREFIX}{token(number)}",
            )
            for number in islice(self._ahead, READS)
        ]
        before = engine.spent()
        await asked(turn)
        self.cost = min(self.cost, (engine.spent() - before) / READS * 1e6)

    async def end(self) -> None:
        """Closes the store."""
        await self._store.close()


async def asked(requests: Iterable[tuple[Client, str]]) -> None:
    """Makes these requests, TASKS at a time."""
    waiting = iter(requests)

    async def ask() -> None:
        for client, path in waiting:
            status = await client.get(path)
            assert status == 200, status

    await asyncio.gather(*(ask() for _ in range(TASKS)))


async def measured(engine: Engine, cases: list[Case]) -> list[Subject]:
    """The applications, after their turns."""
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
    """Where the stores of this name are."""
    if name == "memory":
        yield Engine("memory://", partial(process_info.resident_bytes, os.getpid()), time.process_time)
    elif name == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite://{folder}/{{}}.db?synchronous=normal"
            yield Engine(url, partial(on_disk, folder), time.process_time)
    else:
        with redis_server() as redis:
            spent = partial(spent_with, redis.process.pid)
            yield Engine(f"{redis.url}/{{}}", partial(redis.info, "used_memory"), spent)


def on_disk(folder: str) -> int:
    """The size of the SQLite files, without what is only on its way to them."""
    return sum(path.stat().st_size for path in Path(folder).glob("*.db"))


def spent_with(pid: int) -> float:
    """The seconds of CPU time that this process and the other have had."""
    return time.process_time() + int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def main() -> None:
    """Prints the table, and fails above the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--store", choices=LIMITS, action="append", help="only this one; repeatable")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    cases, size = [Case("10,000 payments")], 10 * FEW
    while size <= options.most:
        cases.append(Case(f"{size:,} payments", payments=size))
        size *= 10
    cases += [Case("10,000 sandboxes", sandboxes=FEW), Case(f"{REQUESTS:,} requests", requests=REQUESTS)]
    garbage_collection.resume()  # as a server has it
    rows, over = [], []
    print(f"{'':<27} {'µs a read':>9} {'ratio':>6} {'bytes a payment':>16}")
    for name in options.store or LIMITS:
        with engine_of(name) as engine:
            subjects = uvloop.run(measured(engine, cases))
        for case, cost, held in ((one.case.name, one.cost, one.bytes_a_payment) for one in subjects):
            ratio = cost / subjects[0].cost
            print(f"{name:<7} {case:<19} {cost:>9.1f} {ratio:>6.2f} {held:>16.0f}")
            rows.append({"store": name, "case": case, "microseconds": cost, "ratio": ratio, "bytes": held})
            if ratio > LIMITS[name]:
                over.append(f"{name}, {case}: {ratio:.2f} times the cost, the limit is {LIMITS[name]}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    sys.exit("\n".join(over) or None)


if __name__ == "__main__":
    main()
