import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import cast

import pytest

from harness.redis_engine import RedisEngine
from paymock.stores.base import SANDBOX_RECORD, Change, LogEntries, Store
from paymock.stores.redis import client
from paymock.stores.redis.store import RedisStore
from tests.support.redis_store import OUTAGE_SECONDS, eventually, works
from tests.support.virtual_time import within


@pytest.mark.usefixtures("each_loop")
class TestChanges:
    """Changes of one process are published to the others."""

    @asynccontextmanager
    async def subscribed(self, store: Store) -> AsyncIterator[asyncio.Queue[Change]]:
        received: asyncio.Queue[Change] = asyncio.Queue()

        async def listen() -> None:
            async for change in store.changes():
                received.put_nowait(change)

        task = asyncio.create_task(listen())
        try:
            async with within(OUTAGE_SECONDS):
                assert await received.get() == Change(None), "sent on subscription"
            yield received
        finally:
            task.cancel()
            await asyncio.wait([task])
            await store.close()

    async def test_a_change_is_received_immediately(self, engine: RedisEngine) -> None:
        store, other = RedisStore(engine.url), RedisStore(engine.url)
        changes: list[Callable[[str], Awaitable[object]]] = [
            lambda sandbox: store.replace(sandbox, SANDBOX_RECORD, None, b"1", expected_state=None),
            lambda sandbox: store.reset(sandbox, b"2", expected_state=b"1"),
            lambda sandbox: store.add(sandbox, ("key", b"1", "a"), expected_state=b"2", new_state=b"3"),
        ]
        async with self.subscribed(other) as received:
            for sandbox in ("one", "two", "three", "four"):
                for change in changes:
                    async with within(0.5):
                        await change(sandbox)
                        assert await received.get() == Change(sandbox)
            await store.add("one", ("key", b"again", "a"), expected_state=b"3")
            assert not await store.replace("one", SANDBOX_RECORD, None, b"1", expected_state=None)
            await store.add("one", ("other", b"value", "a"), expected_state=b"3")
            await store.append(LogEntries("one", "log", 9, [b"entry"]))
            await store.clear_log("one", "log")
            await store.increment("one", "tries")
            await store.ping()
            await store.replace("one", SANDBOX_RECORD, b"3", b"4", expected_state=b"3")
            minor = [await received.get() for _ in range(3)]
            assert minor == [Change("one", minor=True)] * 3, "an addition, an append and a clear_log"
            assert await received.get() == Change("one")
            assert received.empty()
        await store.close()

    async def test_a_subscription_survives_a_restart(
        self, store: RedisStore, own_engine: RedisEngine
    ) -> None:
        other = RedisStore(own_engine.url)
        async with self.subscribed(other) as received, within(2 * OUTAGE_SECONDS):
            own_engine.kill()
            assert await received.get() == Change(None)
            own_engine.restart()
            assert await received.get() == Change(None)
            await eventually(lambda: works(store, "sandbox"))
            assert await received.get() == Change("sandbox", minor=True)
            await store.replace("sandbox", SANDBOX_RECORD, None, b"1", expected_state=None)
            assert await received.get() == Change("sandbox")

    async def test_an_unresponsive_engine_is_detected(
        self, store: RedisStore, own_engine: RedisEngine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(client, "SILENCE_SECONDS", 0.5)
        other = RedisStore(own_engine.url)
        async with self.subscribed(other) as received, within(3 * OUTAGE_SECONDS):
            assert await store.replace("sandbox", SANDBOX_RECORD, None, b"1", expected_state=None)
            assert await received.get() == Change("sandbox")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(received.get(), 1.2)  # it answers pings, so silence is no failure
            own_engine.pause()
            assert await received.get() == Change(None)
            own_engine.resume()
            assert await received.get() == Change(None)

    async def test_the_connection_ends_with_its_subscription(self, own_engine: RedisEngine) -> None:
        store = RedisStore(own_engine.url)

        async def connections(number: int) -> bool:
            return own_engine.info("connected_clients") == number + 1  # this query is one

        async with self.subscribed(store):
            assert await connections(1)
            assert store.connections == 0, "it tells nothing of the data, which need not be verified"
        await eventually(lambda: connections(0))
        changes = cast(AsyncGenerator[Change, None], store.changes())
        async with aclosing(changes):
            assert await anext(changes) == Change(None)
            assert await connections(1)
        await eventually(lambda: connections(0))
