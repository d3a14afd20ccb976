"""What a read costs when many payments are stored, and what a payment takes, on each store.

    python -m benchmarks.scale [--most N]

Fills each store with 1,000 payments, 10,000 and so on up to N (default 1,000,000), and reads payments at
random after each step, through the service and without HTTP, 32 at a time. Needs redis-server.
"""

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import uvloop
from benchmarks.load import ORDER

from paymock.catalog_file import load_catalog
from paymock.core import identity, records
from paymock.core.records import PaymentRecord
from paymock.sandboxes import KeyedRequest, Sandboxes, new_origin
from paymock.service import Service
from paymock.stores.base import Store
from paymock.stores.opening import open_store
from tests.support.engines import RedisEngine, redis_server

TASKS = 32
READS = 5_000
ROUNDS = 5
SANDBOX = identity.sandbox_of("mk_test_benchmark")


async def measured(store: Store, most: int, bytes_used: Callable[[], int]) -> None:
    """Prints a line for each number of payments."""
    await store.begin()
    now = 1_900_000_000_000
    service = Service(load_catalog(None), 100, Sandboxes(store, lambda: now, new_origin(now, 1, "scale")))
    request = KeyedRequest(SANDBOX, "benchmark-key", b"0123456789abcdef", msgspec.json.decode(ORDER))
    payment = await service.create_payment(request, None)
    [stored] = await store.get(SANDBOX, payment.id.removeprefix(identity.PAYMENT))
    record = records.decode(stored or b"")
    assert isinstance(record, PaymentRecord)
    before, filled, size = bytes_used(), 0, 1_000
    while size <= most:
        await fill(store, record, range(filled, size))
        filled = size
        seconds = [await reading(service, filled) for _ in range(ROUNDS)]
        per_payment = (bytes_used() - before) / filled
        cost = statistics.median(seconds) / READS * 1e6
        line = f"{type(store).__name__:<12} {filled:>9,} {cost:>8.1f} µs a read"
        print(f"{line} {per_payment:>7.0f} bytes a payment", flush=True)
        size *= 10
    await store.close()


def token(number: int) -> str:
    """The token of a payment."""
    return identity.token_of(b"scale", SANDBOX, str(number))


async def fill(store: Store, record: PaymentRecord, numbers: range) -> None:
    """Stores a payment for each number."""
    waiting = iter(numbers)

    async def add() -> None:
        for number in waiting:
            own = msgspec.structs.replace(record, token=token(number), fingerprint=os.urandom(16))
            await store.add(SANDBOX, own.token, records.encode(own), kind=PaymentRecord.KIND, given=None)

    await asyncio.gather(*(add() for _ in range(TASKS * 8)))


async def reading(service: Service, filled: int) -> float:
    """Seconds for READS reads."""
    waiting = iter([identity.PAYMENT + token(random.randrange(filled)) for _ in range(READS)])  # noqa: S311

    async def read() -> None:
        for payment_id in waiting:
            await service.payment(SANDBOX, payment_id)

    started = time.perf_counter()
    await asyncio.gather(*(read() for _ in range(TASKS)))
    return time.perf_counter() - started


@contextmanager
def stores() -> Iterator[Iterator[tuple[str, Callable[[], int]]]]:
    """The URL of each store, and what tells how many bytes it uses."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engine = stack.enter_context(redis_server())
        yield iter(
            [
                ("memory://", resident),
                (f"sqlite://{folder}/scale.db?synchronous=normal", lambda: on_disk(folder)),
                (engine.url, lambda: used(engine)),
            ]
        )


def resident() -> int:
    """The memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def on_disk(folder: Path) -> int:
    """The size of the SQLite file, without what is only on its way to it."""
    return sum(path.stat().st_size for path in folder.glob("*.db"))


def used(engine: RedisEngine) -> int:
    """The memory that Redis has in use."""
    return engine.info("used_memory")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1_000_000)
    options = parser.parse_args()
    with stores() as each:
        for url, bytes_used in each:
            uvloop.run(measured(open_store(url, max_payments=options.most + 1), options.most, bytes_used))


if __name__ == "__main__":
    main()
