"""What tests of the Redis store ask of it, and where in a cluster a sandbox is."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.crc import key_slot

from paymock.rules.errors import PaymockError
from paymock.stores.base import Store, StoreError
from paymock.stores.redis.store import RedisStore
from tests.stores.contract import add
from tests.support.engines import RedisCluster, RedisEngine

OUTAGE_SECONDS = 2.4
"""Within so long a step fails when the engine is gone, and works when it is back: two seconds, and something
for a busy machine.
"""


async def refused(step: Awaitable[Any]) -> PaymockError:
    """The refusal of a step, which comes in time."""
    began = time.monotonic()
    with pytest.raises(PaymockError) as caught:
        await step
    assert caught.value.kind.code == "store_unavailable"
    assert time.monotonic() - began < OUTAGE_SECONDS
    return caught.value


async def eventually(check: Callable[[], Awaitable[bool]], seconds: float = OUTAGE_SECONDS) -> None:
    """Returns when the check holds, which it does in time."""
    async with asyncio.timeout(seconds):
        while not await check():
            await asyncio.sleep(0.01)


async def works(store: Store, sandbox: str) -> bool:
    """Whether a value can be added, and is stored then."""
    try:
        await add(store, sandbox, "again", b"value")
    except PaymockError:
        return False
    return await store.get(sandbox, "again") == [b"value"]


def sandboxes_of(cluster: RedisCluster, node: RedisEngine, number: int = 1) -> list[str]:
    """Names of sandboxes that a node has."""
    found = []
    for at in range(1_000):
        if cluster.owner(slot_of(f"sandbox {at}")) is node:
            found.append(f"sandbox {at}")
        if len(found) == number:
            break
    return found


def slot_of(sandbox: str) -> int:
    return key_slot(f"{{{sandbox}}}".encode())


async def warning_of(url: str) -> str | None:
    """What the operator is told at the start."""
    store = RedisStore(url)
    try:
        return await store.initialize()
    finally:
        await store.close()


def reason_of(url: str) -> str:
    """Why a store cannot be used."""
    with pytest.raises(StoreError) as caught:
        asyncio.run(RedisStore(url).initialize())  # it closes what it has opened
    return str(caught.value)
