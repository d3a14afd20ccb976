"""What processes on one Redis tell each other."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import cast

import pytest

from paymock.stores.base import STATE, Change, Store
from paymock.stores.redis import connection
from paymock.stores.redis.store import RedisStore
from tests.stores.contract import run
from tests.support.engines import RedisCluster, RedisEngine
from tests.support.redis_store import OUTAGE_SECONDS, eventually, sandboxes_of, works


@pytest.mark.usefixtures("each_loop")
class TestChanges:
    """What one process changes, others hear of."""

    @asynccontextmanager
    async def hearing(self, store: Store) -> AsyncIterator[asyncio.Queue[Change]]:
        heard: asyncio.Queue[Change] = asyncio.Queue()

        async def listen() -> None:
            async for change in store.changes():
                heard.put_nowait(change)

        listening = asyncio.create_task(listen())
        try:
            async with asyncio.timeout(OUTAGE_SECONDS):
                assert await heard.get() == Change(None), "it should hear from now on"
            yield heard
        finally:
            listening.cancel()
            await asyncio.wait([listening])
            await store.close()

    @pytest.mark.parametrize("many", [False, True])
    def test_a_change_is_heard_at_once(
        self, engine: RedisEngine, cluster: RedisCluster, *, many: bool
    ) -> None:
        url = cluster.url if many else engine.url
        store, other = RedisStore(url), RedisStore(url)

        async def check() -> None:
            changes: list[Callable[[str], Awaitable[object]]] = [
                lambda sandbox: store.replace(sandbox, STATE, None, b"1", expected_state=None),
                lambda sandbox: store.reset(sandbox, b"2", expected_state=b"1"),
                lambda sandbox: store.add(
                    sandbox, "key", b"value", kind="a", expected_state=b"2", new_state=b"3"
                ),
            ]
            async with self.hearing(other) as heard:
                for sandbox in ("one", "two", "three", "four"):
                    for change in changes:
                        async with asyncio.timeout(0.5):
                            await change(sandbox)
                            assert await heard.get() == Change(sandbox)
                await store.add("one", "key", b"value again", kind="a", expected_state=b"3")
                assert not await store.replace("one", STATE, None, b"1", expected_state=None)
                assert await store.add("one", "other", b"value", kind="a", expected_state=b"3") == (
                    b"3",
                    None,
                )
                await store.append("one", "log", b"entry", keep=9)
                await store.clear_log("one", "log")
                await store.increment("one", "tries")
                await store.ping()
                await store.replace("one", STATE, b"3", b"4", expected_state=b"3")
                minor = [await heard.get() for _ in range(3)]
                assert minor == [Change("one", minor=True)] * 3, "an addition, an entry, an empty log"
                assert await heard.get() == Change("one")
                assert heard.empty()

        run(store, check())

    def test_a_restart_of_the_engine_is_outlived(self, own_engine: RedisEngine) -> None:
        store, other = RedisStore(own_engine.url), RedisStore(own_engine.url)

        async def check() -> None:
            async with self.hearing(other) as heard, asyncio.timeout(2 * OUTAGE_SECONDS):
                own_engine.kill()
                assert await heard.get() == Change(None)
                own_engine.restart()
                assert await heard.get() == Change(None)
                await eventually(lambda: works(store, "sandbox"))
                assert await heard.get() == Change("sandbox", minor=True)
                await store.replace("sandbox", STATE, None, b"1", expected_state=None)
                assert await heard.get() == Change("sandbox")

        run(store, check())

    def test_an_engine_that_is_stuck_is_noticed(
        self, own_engine: RedisEngine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "SILENCE_SECONDS", 0.5)
        store, other = RedisStore(own_engine.url), RedisStore(own_engine.url)

        async def check() -> None:
            async with self.hearing(other) as heard, asyncio.timeout(3 * OUTAGE_SECONDS):
                assert await store.replace("sandbox", STATE, None, b"1", expected_state=None)
                assert await heard.get() == Change("sandbox")
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(heard.get(), 1.2)  # it answers, so silence means nothing
                own_engine.pause()
                assert await heard.get() == Change(None)
                own_engine.resume()
                assert await heard.get() == Change(None)

        run(store, check())

    def test_another_node_of_the_cluster_is_listened_to(self, own_cluster: RedisCluster) -> None:
        store, other = RedisStore(own_cluster.url), RedisStore(own_cluster.url)
        [sandbox] = sandboxes_of(own_cluster, own_cluster.nodes[2])

        async def check() -> None:
            async with self.hearing(other) as heard, asyncio.timeout(2 * OUTAGE_SECONDS):
                own_cluster.nodes[0].kill()
                assert await heard.get() == Change(None)
                assert await heard.get() == Change(None)
                await store.replace(sandbox, STATE, None, b"1", expected_state=None)
                assert await heard.get() == Change(sandbox)

        run(store, check())

    def test_a_listener_that_goes_takes_its_connection_with_it(self, own_engine: RedisEngine) -> None:
        store = RedisStore(own_engine.url)

        async def connections(number: int) -> bool:
            return own_engine.info("connected_clients") == number + 1  # one asks

        async def check() -> None:
            async with self.hearing(store):
                assert await connections(1)
            await eventually(lambda: connections(0))
            changes = cast(AsyncGenerator[Change, None], store.changes())
            async with aclosing(changes):
                assert await anext(changes) == Change(None)
                assert await connections(1)
            await eventually(lambda: connections(0))

        asyncio.run(check())
