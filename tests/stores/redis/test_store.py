import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from harness.redis_engine import RedisEngine
from paymock.rules.errors import PaymockError
from paymock.stores.base import SANDBOX_RECORD, LogEntries, companion_key, steady_clock
from paymock.stores.redis.store import RedisStore
from tests.stores.contract import DAY, RetentionContract, StoreContract, add, reads_show_changes_of


@pytest.mark.usefixtures("each_loop")
class TestRedisStore(StoreContract):
    @pytest.fixture
    def store(self, engine: RedisEngine) -> RedisStore:
        return RedisStore(engine.url)


@pytest.mark.usefixtures("each_loop")
class TestRedisStoreWithRetention(RetentionContract):
    @pytest.fixture
    def store(self, engine: RedisEngine) -> RedisStore:
        return RedisStore(engine.url, DAY, time.time)

    @pytest.fixture
    def elapse(self, engine: RedisEngine) -> Callable[[float], None]:
        return partial(age, engine)


async def test_a_read_shows_commits_of_other_processes(store: RedisStore, engine: RedisEngine) -> None:
    await reads_show_changes_of(RedisStore(engine.url), store)


async def test_concurrent_reads_get_their_own_values(store: RedisStore, engine: RedisEngine) -> None:
    names = [f"sandbox {number % 3}" for number in range(9)]
    await asyncio.gather(
        *(store.replace(name, SANDBOX_RECORD, None, name.encode(), expected_state=None) for name in names)
    )
    values = await asyncio.gather(*(store.get(name, SANDBOX_RECORD, "key") for name in names))
    assert values == [[name.encode(), None] for name in names]
    engine.execute("SET", "paymock:{sandbox 1}:values", "of another type")
    refused = await asyncio.gather(
        *(store.get(name, SANDBOX_RECORD, "key") for name in names), return_exceptions=True
    )
    assert [isinstance(outcome, PaymockError) for outcome in refused] == [False, True, False] * 3


class TestRoundTrips:
    """Counted by the engine: how often it has read from a connection. Each query of the count is one read."""

    @asynccontextmanager
    async def reads(self, engine: RedisEngine) -> AsyncIterator[list[int]]:
        reads: list[int] = []
        before = [engine.info("total_reads_processed") for _ in range(2)]
        yield reads
        reads.append(engine.info("total_reads_processed") - before[1] - (before[1] - before[0]))

    async def test_an_addition_or_a_read_is_one_round_trip(
        self, store: RedisStore, engine: RedisEngine
    ) -> None:
        added = partial(store.add, "sandbox", ("key", b"value", "a"), limit=9)
        for step in (
            partial(added, expected_state=None, new_state=b"s"),
            partial(added, expected_state=b"s", new_state=b"t"),
            partial(store.get, "sandbox", SANDBOX_RECORD, "key", companion_key("key")),
            partial(store.page, "sandbox", "a", limit=9),
        ):
            async with self.reads(engine) as reads:
                await step()
            assert reads == [1]

    async def test_concurrent_steps_share_round_trips(self, store: RedisStore, engine: RedisEngine) -> None:
        async with self.reads(engine) as created:
            await asyncio.gather(*(add(store, "sandbox", f"{number}", b"value") for number in range(100)))
        async with self.reads(engine) as read:
            await asyncio.gather(*(store.get("sandbox", f"{number}") for number in range(100)))
        async with self.reads(engine) as appended:
            await asyncio.gather(
                *(store.append(LogEntries("sandbox", "log", 9, [b"entry"])) for _ in range(100))
            )
        assert max(*created, *read, *appended) <= 5


def ttls(engine: RedisEngine) -> set[int]:
    return {int(engine.execute("TTL", key)) for key in engine.execute("KEYS", "*")}


def age(engine: RedisEngine, seconds: float) -> None:
    """Make everything older by `seconds`."""
    for name in engine.execute("KEYS", "*:kind:*"):
        for index, entry in enumerate(engine.execute("LRANGE", name, 0, -1)):
            added, _, key = entry.partition(":")
            engine.execute("LSET", name, index, f"{int(added) - int(seconds)}:{key}")
    for name in engine.execute("ZRANGE", "paymock:changed", 0, -1):
        engine.execute("ZINCRBY", "paymock:changed", -int(seconds), name)
    for name in engine.execute("KEYS", "*"):
        if (left := int(engine.execute("TTL", name))) >= 0:
            engine.execute("EXPIRE", name, max(0, left - int(seconds)))


class TestRetention:
    @pytest.fixture
    def store(self, engine: RedisEngine) -> RedisStore:
        return RedisStore(engine.url, DAY, time.time)

    async def test_a_wrong_clock_of_the_engine_or_of_a_server_deletes_nothing(
        self, store: RedisStore, engine: RedisEngine
    ) -> None:
        for clock, days in (
            (steady_clock(), 2),
            (lambda: time.time() - 2 * DAY, 2),  # that of the engine is ahead
            (lambda: time.time() + 2 * DAY, 0),
        ):
            for sandbox in ("sandbox", "idle"):
                await add(store, sandbox, "key", b"value")
            age(engine, days * DAY)
            other = RedisStore(engine.url, DAY, clock)
            await add(other, "sandbox", "another", b"value")
            assert await store.get("idle", "key") == await store.get("sandbox", "key") == [b"value"]
            assert ttls(engine) == {-1}
            await other.close()
            engine.execute("FLUSHALL")

    async def test_without_retention_nothing_expires(self, store: RedisStore, engine: RedisEngine) -> None:
        endless = RedisStore(engine.url)
        for change in (
            lambda: add(endless, "sandbox", "key 2", b"value"),
            lambda: add(endless, "sandbox", "key 2", b"value", "b"),
            lambda: endless.replace("sandbox", "key", b"value", b"new", expected_state=None),
        ):
            engine.execute("FLUSHALL")
            await store.increment("sandbox", "tries")
            await store.append(LogEntries("sandbox", "log", 9, [b"entry"]))
            await add(store, "sandbox", "key", b"value")
            await change()
            assert ttls(engine) == {-1}
        for number in range(3):
            await add(endless, "sandbox", f"later key {number}", b"value")
            age(engine, 365 * DAY)
        assert len(await endless.page("sandbox", "a", limit=9)) == 4
        await endless.close()


async def test_a_sandbox_without_values_expires_after_a_day(store: RedisStore, engine: RedisEngine) -> None:
    for _ in range(2):
        await store.append(LogEntries("sandbox", "log", 9, [b"entry"]))
        assert await store.increment("sandbox", "key")
        assert ttls(engine) <= {DAY, DAY - 1}
    assert await store.replace("sandbox", SANDBOX_RECORD, None, b"1", expected_state=None)
    await store.append(LogEntries("sandbox", "log", 9, [b"entry"]))
    assert await store.increment("sandbox", "key") == 3
    assert ttls(engine) == {-1}
