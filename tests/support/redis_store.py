"""Helpers for tests of the Redis store: expected failures, and the slots of sandboxes."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Any

import pytest
from redis.crc import key_slot

from harness.redis_engine import RedisCluster, RedisEngine
from paymock.rules.errors import PaymockError
from paymock.stores.base import Store, StoreError
from paymock.stores.redis.store import RedisStore
from tests.stores.contract import add
from tests.support.virtual_time import within

OUTAGE_SECONDS = 2.0
"""How long a step may take to fail when the engine is down, and to succeed when it is back."""


async def refused(step: Awaitable[Any]) -> PaymockError:
    """Return the error of a step, which fails within OUTAGE_SECONDS."""
    with pytest.raises(PaymockError) as caught:
        async with within(OUTAGE_SECONDS):
            await step
    assert caught.value.kind.code == "store_unavailable"
    return caught.value


async def eventually(check: Callable[[], Awaitable[bool]], seconds: float = OUTAGE_SECONDS) -> None:
    """Wait until `check` holds."""
    async with within(seconds):
        while not await check():
            await asyncio.sleep(0.01)


async def works(store: Store, sandbox: str) -> bool:
    """Return whether a value can be added and read."""
    try:
        await add(store, sandbox, "again", b"value")
    except PaymockError:
        return False
    return await store.get(sandbox, "again") == [b"value"]


def sandboxes_of(cluster: RedisCluster, node: RedisEngine, number: int = 1) -> list[str]:
    """Return the names of `number` sandboxes whose slots are on `node`."""
    names = (f"sandbox {index}" for index in range(1_000))
    return [*islice((name for name in names if cluster.owner(slot_of(name)) is node), number)]


def slot_of(sandbox: str) -> int:
    return key_slot(f"{{{sandbox}}}".encode())


async def warning_of(url: str) -> str | None:
    store = RedisStore(url)
    try:
        return await store.initialize()
    finally:
        await store.close()


async def describe_failure(url: str) -> str:
    """Return why a store cannot be used."""
    with pytest.raises(StoreError) as caught:
        await RedisStore(url).initialize()  # it closes what it has opened
    return str(caught.value)
