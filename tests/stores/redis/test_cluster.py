import asyncio
import socket
from collections.abc import Iterator

import pytest

from harness.polling import wait_until
from harness.redis_engine import ENGINE_TIMEOUT_SECONDS, RedisCluster, cluster_node, redis_cluster
from paymock.rules.errors import PaymockError
from paymock.sandbox.clock import SystemClock
from paymock.sandbox.sandboxes import Sandboxes, load_metadata, start_clock
from paymock.stores.base import STATE
from paymock.stores.redis import cluster as cluster_module
from paymock.stores.redis.store import RedisStore
from tests.stores.contract import add
from tests.support.redis_store import (
    describe_failure,
    eventually,
    refused,
    sandboxes_of,
    slot_of,
    warning_of,
    works,
)
from tests.support.virtual_time import within


class Migration:
    """Migration of the slot of a sandbox to another node, by the steps of `redis-cli --cluster reshard`.

    Each test migrates a slot of its own, once: nodes disagree about a slot that migrates there and back.
    """

    def __init__(self, cluster: RedisCluster, sandbox: str) -> None:
        self._nodes = cluster.nodes
        self._slot = slot_of(sandbox)
        self.source = cluster.owner(self._slot)
        self.target = next(node for node in cluster.nodes if node is not self.source)

    def begin(self) -> None:
        source, target = (node.execute("CLUSTER MYID") for node in (self.source, self.target))
        self.target.execute("CLUSTER SETSLOT", self._slot, "IMPORTING", source)
        self.source.execute("CLUSTER SETSLOT", self._slot, "MIGRATING", target)

    def keys(self) -> list[str]:
        keys: list[str] = self.source.execute("CLUSTER GETKEYSINSLOT", self._slot, 100)
        return keys

    def transfer(self, keys: list[str]) -> None:
        self.source.execute("MIGRATE", "127.0.0.1", self.target.port, "", 0, 5000, "KEYS", *keys)

    def finish(self) -> None:
        target = self.target.execute("CLUSTER MYID")
        for node in (self.target, self.source, *self._nodes):
            node.execute("CLUSTER SETSLOT", self._slot, "NODE", target)


class TestMigratingSlots:
    @pytest.fixture(params=["ip", "hostname"])
    def endpoint(self, request: pytest.FixtureRequest, cluster: RedisCluster) -> Iterator[str]:
        """By what nodes are named in redirections; they have no hostname, and are named `?`."""
        for node in cluster.nodes:
            node.execute("CONFIG SET", "cluster-preferred-endpoint-type", request.param)
        yield request.param
        for node in cluster.nodes:
            node.execute("CONFIG SET", "cluster-preferred-endpoint-type", "ip")

    async def test_a_migrating_sandbox_is_usable(
        self, store: RedisStore, cluster: RedisCluster, endpoint: str
    ) -> None:
        sandbox = f"migrating by {endpoint}"
        migration = Migration(cluster, sandbox)
        await add(store, sandbox, "key", b"value")
        await store.append(sandbox, "log", b"entry", keep=9)
        migration.begin()
        assert await store.get(sandbox, "key") == [b"value"]
        migration.transfer(migration.keys())
        assert await store.get(sandbox, "key") == [b"value"]
        assert await add(store, sandbox, "during", b"value") is None
        steps = (store.append(sandbox, "log", b"entry", keep=9) for _ in range(2))
        await asyncio.gather(*steps)
        migration.finish()
        assert await store.get(sandbox, "during") == [b"value"]
        commands = migration.source.info("total_commands_processed")
        for _ in range(100):
            await store.get(sandbox, "during")
        assert migration.source.info("total_commands_processed") - commands < 100
        assert await add(store, sandbox, "after", b"value") is None
        assert len(await store.page(sandbox, "a", limit=9)) == 3
        assert len(await store.tail(sandbox, "log", 9)) == 3

    async def test_a_step_that_requires_all_keys_waits_for_the_last_one(
        self, store: RedisStore, cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        migration = Migration(cluster, "split")
        await add(store, "split", "key", b"value")
        migration.begin()
        first, *others = migration.keys()
        migration.transfer([first])

        with monkeypatch.context() as patch:
            patch.setattr(cluster_module, "_REDIRECTION_PAUSE", 1)  # leaves time for one attempt
            refusal = await refused(add(store, "split", "other", b"value"))
        assert "is moving" in refusal.message
        waiting = asyncio.create_task(add(store, "split", "other", b"value"))
        await asyncio.sleep(0)
        migration.transfer(others)
        assert await waiting is None
        migration.finish()
        assert len(await store.page("split", "a", limit=9)) == 2


@pytest.mark.usefixtures("each_loop")
class TestFailingNodes:
    async def test_sandboxes_of_other_nodes_are_unaffected(
        self, store: RedisStore, own_cluster: RedisCluster
    ) -> None:
        failed, *others = own_cluster.nodes
        [unavailable] = sandboxes_of(own_cluster, failed)
        available = [sandbox for node in others for sandbox in sandboxes_of(own_cluster, node, 5)]

        async def use(sandbox: str) -> None:
            async with within(0.5):
                assert await store.get(sandbox, "key") == [b"value"]
                await store.replace(sandbox, STATE, None, b"1", expected_state=None)

        await asyncio.gather(*(add(store, sandbox, "key", b"value") for sandbox in (unavailable, *available)))
        failed.pause()
        waiting = asyncio.create_task(refused(store.get(unavailable, "key")))
        while not waiting.done():
            await asyncio.gather(*(use(sandbox) for sandbox in available))
        failed.kill()
        await refused(store.get(unavailable, "key"))
        await asyncio.gather(*(use(sandbox) for sandbox in available))
        await store.ping()
        warning = await warning_of(own_cluster.url)
        assert warning is not None
        assert f"the store at {failed.address} does not respond" in warning
        failed.restart()
        await eventually(lambda: works(store, unavailable), 10)  # the nodes need time to agree again

    def test_the_metadata_of_the_store_is_spread_over_the_nodes(self, cluster: RedisCluster) -> None:
        names = RedisStore(cluster.url).replicas("origin")
        assert names[0] == "origin"
        for node in cluster.nodes:
            assert sum(cluster.owner(slot_of(name)) is node for name in names) == len(names) / 3

    @pytest.mark.parametrize(
        "failed", [0, *(pytest.param(number, marks=pytest.mark.nightly) for number in (1, 2))]
    )
    async def test_a_server_starts_without_any_one_node(self, own_cluster: RedisCluster, failed: int) -> None:
        node = own_cluster.nodes[failed]
        available = [
            sandbox
            for other in own_cluster.nodes
            if other is not node
            for sandbox in sandboxes_of(own_cluster, other, 3)
        ]

        async def start() -> Sandboxes:
            store = RedisStore(own_cluster.url)
            await store.initialize()
            clock = SystemClock(print)  # the engine has that of the system
            await start_clock(store, clock)
            return Sandboxes(store, clock, await load_metadata(store, clock(), 0, None))

        async def use(sandboxes: Sandboxes) -> list[str]:
            return [
                sandboxes.token(await sandboxes.change(sandbox, lambda snapshot: snapshot.record), "key")
                for sandbox in available
            ]

        async def responds(sandboxes: Sandboxes, sandbox: str) -> bool:
            try:
                await sandboxes.snapshot(sandbox)
            except PaymockError:
                return False
            return True

        node.kill()
        first = await start()
        tokens = await use(first)
        node.restart()
        [lost] = sandboxes_of(own_cluster, node)
        await eventually(lambda: responds(first, lost), 10)
        second = await start()
        assert await use(second) == tokens
        await second.close()
        node.pause()  # the connections of `second` are opened anew, and the metadata verified
        async with within(0.5):
            assert await use(second) == tokens
        third = await start()
        assert await use(third) == tokens
        node.kill()
        fourth = await start()
        assert await use(fourth) == tokens
        for sandboxes in (first, second, third, fourth):
            await sandboxes.close()

    @pytest.mark.nightly
    async def test_the_replica_that_replaces_a_node_is_used(self) -> None:
        with redis_cluster(3) as cluster, cluster_node() as replica:
            failed = cluster.nodes[0]
            replica.execute("CLUSTER MEET", "127.0.0.1", failed.port)
            wait_until(lambda: len(replica.execute("CLUSTER NODES")) == 4, ENGINE_TIMEOUT_SECONDS)
            replica.execute("CLUSTER REPLICATE", failed.execute("CLUSTER MYID"))
            wait_until(
                lambda: replica.execute("INFO", "replication")["master_link_status"] == "up",
                ENGINE_TIMEOUT_SECONDS,
            )
            store = RedisStore(cluster.url)
            [sandbox] = sandboxes_of(cluster, failed)

            await add(store, sandbox, "key", b"value")
            wait_until(lambda: int(replica.execute("DBSIZE")) == 3, ENGINE_TIMEOUT_SECONDS)
            failed.kill()
            await refused(store.get(sandbox, "key"))
            replica.execute("CLUSTER FAILOVER", "TAKEOVER")
            await eventually(lambda: works(store, sandbox))
            assert await store.get(sandbox, "key") == [b"value"]
            await store.close()

    @pytest.mark.nightly
    async def test_an_unresponsive_cluster_times_out(self) -> None:
        with (
            socket.create_server(("127.0.0.1", 0)) as silent,
            socket.create_server(("127.0.0.1", 0)) as other,
        ):
            addresses = [f"127.0.0.1:{server.getsockname()[1]}" for server in (silent, other)]
            store = RedisStore(f"redis+cluster://{','.join(addresses)}")
            await asyncio.gather(*(refused(store.get(f"sandbox {number}", "key")) for number in range(9)))
            await refused(store.ping())
            await store.close()
            assert "does not answer" in await describe_failure(f"redis+cluster://{addresses[0]}")

    async def test_one_seed_that_responds_is_enough(self, cluster: RedisCluster) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            store = RedisStore(f"redis+cluster://127.0.0.1:{port},{cluster.nodes[2].address}/")
            async with within(0.5):
                assert await works(store, "sandbox")
            await store.close()
