"""Engines that end, do not respond, refuse commands or have no memory: steps fail within two seconds, and
succeed again later.
"""

import asyncio

import pytest

from harness.redis_engine import RedisEngine, redis_server
from paymock.rules.errors import PaymockError
from paymock.stores.redis.store import RedisStore
from tests.stores.contract import add
from tests.support.redis_store import eventually, refused, works
from tests.support.virtual_time import within


@pytest.mark.usefixtures("each_loop")
class TestOutages:
    async def test_a_killed_engine_fails_steps(self, store: RedisStore, own_engine: RedisEngine) -> None:
        await add(store, "sandbox", "key", b"value")
        own_engine.kill()
        await refused(store.get("sandbox", "key"))
        await refused(add(store, "sandbox", "other", b"value"))
        await refused(store.ping())
        own_engine.restart()
        assert store.connections == 1
        await eventually(lambda: works(store, "sandbox"))
        assert store.connections == 2
        assert await store.get("sandbox", "key") == [b"value"]
        await store.ping()

    async def test_an_engine_that_became_read_only_is_not_ready_and_its_connection_is_replaced(
        self, store: RedisStore, engine: RedisEngine
    ) -> None:
        """Twice a second, while reads go on."""
        await store.ping()
        assert engine.execute("DBSIZE") == 0
        await add(store, "sandbox", "key", b"value")
        with redis_server() as master:
            engine.execute("REPLICAOF", "127.0.0.1", master.port)
            try:
                for _ in range(100):
                    change = store.add("one", ("key", b"1", "a"), expected_state=None, new_state=b"s")
                    refusal, found = await asyncio.gather(refused(change), store.get("sandbox", "key"))
                    assert "Nothing was stored" in refusal.message
                    assert "read only replica" in refusal.message
                    assert found == [b"value"]
                assert 1 < store.connections < 50
                await refused(store.ping())
                assert await store.get("sandbox", "key") == [b"value"]
            finally:
                engine.execute("REPLICAOF", "NO", "ONE")
        assert await works(store, "one")
        await store.ping()

    async def test_an_unresponsive_engine_times_out(self, store: RedisStore, own_engine: RedisEngine) -> None:
        await add(store, "sandbox", "key", b"value")
        own_engine.pause()
        stuck = asyncio.create_task(refused(add(store, "sandbox", "stuck", b"value")))
        await asyncio.sleep(0)
        behind = [asyncio.create_task(refused(store.get("sandbox", "key"))) for _ in range(3)]
        assert "unknown whether anything was stored" in (await stuck).message
        await asyncio.gather(*behind)
        own_engine.resume()
        await eventually(lambda: works(store, "sandbox"))
        assert await add(store, "sandbox", "stuck", b"retried") in (None, b"value")
        assert len(await store.page("sandbox", "a", limit=9)) == 3

    async def test_closing_the_store_ends_pending_steps(
        self, store: RedisStore, own_engine: RedisEngine
    ) -> None:
        await store.ping()
        own_engine.pause()
        waiting = asyncio.create_task(refused(store.get("sandbox", "key")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # now it has been sent
        behind = asyncio.create_task(refused(store.get("sandbox", "key")))
        await asyncio.sleep(0)
        await store.close()
        async with within(0.5):
            await asyncio.gather(waiting, behind)
        own_engine.resume()
        assert await store.get("sandbox", "key") == [None]

    async def test_an_engine_that_has_lost_its_scripts_gets_them_again(
        self, store: RedisStore, engine: RedisEngine
    ) -> None:
        for key in ("one", "two"):
            engine.execute("SCRIPT FLUSH")
            assert await add(store, "sandbox", key, b"value") is None

    async def test_a_failing_step_fails_alone(self, store: RedisStore, engine: RedisEngine) -> None:
        engine.execute("SET", "paymock:{odd}:values", "not ours")
        one, odd, _, two = await asyncio.gather(
            add(store, "one", "key", b"value"),
            refused(add(store, "odd", "key", b"value")),
            refused(store.get("odd", "key")),
            add(store, "two", "key", b"value"),
        )
        assert (one, two) == (None, None)
        assert "WRONGTYPE" in odd.message

    async def test_an_engine_without_memory_refuses_additions_and_still_reads(
        self, store: RedisStore, engine: RedisEngine
    ) -> None:
        await add(store, "sandbox", "key", b"value")
        engine.execute("CONFIG SET", "maxmemory", 1)
        try:
            with pytest.raises(PaymockError) as caught:
                await add(store, "sandbox", "more", b"value")
            assert caught.value.kind.code == "capacity_exceeded"
            assert "maxmemory" in caught.value.message
            assert await store.get("sandbox", "key", "more") == [b"value", None]
            assert len(await store.page("sandbox", "a", limit=9)) == 1
            assert await add(store, "sandbox", "key", b"value") == b"value"
            with pytest.raises(PaymockError):
                await store.ping()
            assert await store.reset("sandbox", b"", expected_state=None)
        finally:
            engine.execute("CONFIG SET", "maxmemory", 0)
        assert await add(store, "another", "more", b"value") is None
        await store.close()
