import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from paymock.stores.base import STATE, note_key
from paymock.stores.redis import RedisStore
from tests.stores.contract import StoreContract, add, run
from tests.support.engines import RedisCluster, RedisEngine

DAY = 86_400


class TestRedisStore(StoreContract):
    @pytest.fixture
    def store(self, engine: RedisEngine) -> RedisStore:
        return RedisStore(engine.url)

    def test_of_a_log_nothing_can_be_read_too(self, store: RedisStore) -> None:
        async def check() -> None:
            await store.append("sandbox", "log", b"entry", keep=9)
            assert await store.tail("sandbox", "log", 0) == []

        run(store, check())


class TestRedisStoreWithRetention(StoreContract):
    @pytest.fixture
    def store(self, engine: RedisEngine) -> RedisStore:
        return RedisStore(engine.url, DAY)


class TestRedisCluster(StoreContract):
    @pytest.fixture
    def store(self, cluster: RedisCluster) -> RedisStore:
        return RedisStore(cluster.url)


def test_sandboxes_spread_over_the_cluster(cluster: RedisCluster) -> None:
    store = RedisStore(cluster.url)

    async def check() -> None:
        await asyncio.gather(*(add(store, f"sandbox {at}", "key", b"value") for at in range(30)))
        found = await asyncio.gather(*(store.get(f"sandbox {at}", "key") for at in range(30)))
        assert found == [[b"value"]] * 30
        for node in cluster.nodes:
            assert int(node.ask("DBSIZE")) >= 3

    run(store, check())


class TestRoundTrips:
    """Figures of the engine itself: how often it has read from a connection. Asking for them is one read."""

    @asynccontextmanager
    async def reads(self, engine: RedisEngine) -> AsyncIterator[list[int]]:
        seen: list[int] = []
        alone = [engine.info("total_reads_processed") for _ in range(2)]
        yield seen
        seen.append(engine.info("total_reads_processed") - alone[1] - (alone[1] - alone[0]))

    def test_a_creation_is_one_and_a_read_is_one(self, engine: RedisEngine) -> None:
        store = RedisStore(engine.url)

        async def check() -> None:
            async with self.reads(engine) as created:
                await store.add("sandbox", "key", b"value", kind="a", given=None, then=b"s", limit=9)
            async with self.reads(engine) as replayed:
                await store.add("sandbox", "key", b"value", kind="a", given=b"s", then=b"t", limit=9)
            async with self.reads(engine) as read:
                await store.get("sandbox", STATE, "key", note_key("key"))
            async with self.reads(engine) as paged:
                await store.page("sandbox", "a", limit=9)
            assert (created, replayed, read, paged) == ([1], [1], [1], [1])

        run(store, check())

    def test_what_is_concurrent_shares_one(self, engine: RedisEngine) -> None:
        store = RedisStore(engine.url)

        async def check() -> None:
            async with self.reads(engine) as created:
                await asyncio.gather(*(add(store, "sandbox", f"{at}", b"value") for at in range(100)))
            async with self.reads(engine) as read:
                await asyncio.gather(*(store.get("sandbox", f"{at}") for at in range(100)))
            async with self.reads(engine) as appended:
                await asyncio.gather(*(store.append("sandbox", "log", b"entry", keep=9) for _ in range(100)))
            assert max(*created, *read, *appended) <= 5

        run(store, check())


class TestRetention:
    def age(self, engine: RedisEngine, seconds: int) -> None:
        """Lets time pass since all that was added so far."""
        listed = "paymock:{sandbox}:kind:a"
        for at, entry in enumerate(engine.ask("LRANGE", listed, 0, -1)):
            added, _, key = entry.partition(":")
            engine.ask("LSET", listed, at, f"{int(added) - seconds}:{key}")

    def test_what_is_too_old_goes_when_something_comes(self, engine: RedisEngine) -> None:
        store = RedisStore(engine.url, DAY)

        async def check() -> None:
            for number in range(5):
                await add(store, "sandbox", f"key {number}", b"%d" % number)
                await store.replace("sandbox", note_key(f"key {number}"), None, b"note", given=None)
            self.age(engine, DAY - 60)
            await add(store, "sandbox", "key 5", b"5")
            before = await store.page("sandbox", "a", limit=9)
            assert [value for _, value in before] == [b"5", b"4", b"3", b"2", b"1", b"0"]
            self.age(engine, 120)
            await add(store, "sandbox", "key 6", b"6", limit=5)
            after = await store.page("sandbox", "a", limit=9)
            assert after[1:] == before[:-2]
            assert await store.get("sandbox", "key 0", note_key("key 0")) == [None, None]
            assert await store.get("sandbox", "key 2", note_key("key 2")) == [b"2", b"note"]
            assert await store.page("sandbox", "a", limit=2, before=before[2][0]) == before[3:4]
            assert await add(store, "sandbox", "key 0", b"new") is None

        run(store, check())

    def test_an_idle_sandbox_goes_as_a_whole(self, engine: RedisEngine) -> None:
        store = RedisStore(engine.url, DAY)

        async def lives() -> set[int]:
            return {int(engine.ask("TTL", key)) for key in engine.ask("KEYS", "*")}

        async def check() -> None:
            await store.count("sandbox", "tries")
            await store.append("sandbox", "log", b"entry", keep=9)
            await add(store, "sandbox", "key", b"value")
            await add(store, "sandbox", "key", b"value", "b")
            assert await lives() <= {DAY, DAY - 1}
            for key in engine.ask("KEYS", "*"):
                engine.ask("EXPIRE", key, 60)
            assert await store.replace("sandbox", STATE, None, b"1", given=None)
            assert await lives() <= {DAY, DAY - 1}
            for key in engine.ask("KEYS", "*"):
                engine.ask("EXPIRE", key, 60)
            assert await store.reset("sandbox", b"2", given=b"1")
            assert await lives() <= {DAY, DAY - 1}

        run(store, check())

    def test_what_nothing_was_added_to_stays(self, engine: RedisEngine) -> None:
        store = RedisStore(engine.url, DAY)

        async def check() -> None:
            assert await store.replace("origin", STATE, None, b"1", given=None)
            assert await store.replace("origin", STATE, b"1", b"2", given=b"1")
            assert await store.reset("origin", b"3", given=b"2")
            assert [engine.ask("TTL", key) for key in engine.ask("KEYS", "*")] == [-1]

        run(store, check())

    def test_without_one_nothing_goes(self, engine: RedisEngine) -> None:
        store = RedisStore(engine.url)

        async def check() -> None:
            await store.count("sandbox", "tries")
            await store.append("sandbox", "log", b"entry", keep=9)
            for number in range(3):
                await add(store, "sandbox", f"key {number}", b"value")
                self.age(engine, 365 * DAY)
            assert len(await store.page("sandbox", "a", limit=9)) == 3
            assert {engine.ask("TTL", key) for key in engine.ask("KEYS", "*")} == {-1}

        run(store, check())
