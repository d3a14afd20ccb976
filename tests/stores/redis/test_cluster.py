"""A Redis Cluster whose slots move, and whose nodes end."""

import asyncio
import socket

import pytest

from paymock.stores.base import STATE
from paymock.stores.redis.store import RedisStore
from tests.stores.contract import add, run
from tests.support.engines import ANSWER_SECONDS, RedisCluster, cluster_node, redis_cluster
from tests.support.redis_store import eventually, reason_of, refused, sandboxes_of, slot_of, warning_of, works
from tests.support.waiting import wait_until


class Move:
    """The slot of a sandbox on its way to another node, by the steps of `redis-cli --cluster reshard`.

    It goes one way, and each test has a sandbox of its own: nodes that hear of there and back disagree.
    """

    def __init__(self, cluster: RedisCluster, sandbox: str) -> None:
        self._nodes = cluster.nodes
        self._slot = slot_of(sandbox)
        self.source = cluster.owner(self._slot)
        self.target = next(node for node in cluster.nodes if node is not self.source)

    def begin(self) -> None:
        source, target = (node.ask("CLUSTER MYID") for node in (self.source, self.target))
        self.target.ask("CLUSTER SETSLOT", self._slot, "IMPORTING", source)
        self.source.ask("CLUSTER SETSLOT", self._slot, "MIGRATING", target)

    def keys(self) -> list[str]:
        """The keys that have not gone yet."""
        keys: list[str] = self.source.ask("CLUSTER GETKEYSINSLOT", self._slot, 100)
        return keys

    def carry(self, keys: list[str]) -> None:
        self.source.ask("MIGRATE", "127.0.0.1", self.target.port, "", 0, 5000, "KEYS", *keys)

    def finish(self) -> None:
        target = self.target.ask("CLUSTER MYID")
        for node in (self.target, self.source, *self._nodes):
            node.ask("CLUSTER SETSLOT", self._slot, "NODE", target)


class TestMovingSlots:
    def test_a_sandbox_is_found_where_it_goes(self, cluster: RedisCluster) -> None:
        store, move = RedisStore(cluster.url), Move(cluster, "one that moves")

        async def check() -> None:
            await add(store, "one that moves", "key", b"value")
            await store.append("one that moves", "log", b"entry", keep=9)
            move.begin()
            assert await store.get("one that moves", "key") == [b"value"]
            move.carry(move.keys())
            assert await store.get("one that moves", "key") == [b"value"]
            assert await add(store, "one that moves", "while it moves", b"value") is None
            steps = (store.append("one that moves", "log", b"entry", keep=9) for _ in range(2))
            await asyncio.gather(*steps)
            move.finish()
            assert await store.get("one that moves", "while it moves") == [b"value"]
            assert await add(store, "one that moves", "afterwards", b"value") is None
            assert len(await store.page("one that moves", "a", limit=9)) == 3
            assert len(await store.tail("one that moves", "log", 9)) == 3

        run(store, check())

    def test_what_needs_all_keys_waits_for_the_last_one(
        self, cluster: RedisCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store, move = RedisStore(cluster.url), Move(cluster, "one in parts")

        async def check() -> None:
            await add(store, "one in parts", "key", b"value")
            move.begin()
            first, *others = move.keys()
            move.carry([first])

            with monkeypatch.context() as patch:
                patch.setattr(cluster, "_REDIRECTION_PAUSE", 1)  # then there is time for one look only
                refusal = await refused(add(store, "one in parts", "other", b"value"))
            assert "is moving" in refusal.message
            waiting = asyncio.create_task(add(store, "one in parts", "other", b"value"))
            await asyncio.sleep(0)
            move.carry(others)
            assert await waiting is None
            move.finish()
            assert len(await store.page("one in parts", "a", limit=9)) == 2

        run(store, check())

    def test_the_new_node_is_asked_at_once_from_then_on(self, cluster: RedisCluster) -> None:
        store, move = RedisStore(cluster.url), Move(cluster, "one that has moved")

        async def check() -> None:
            await add(store, "one that has moved", "key", b"value")
            move.begin()
            move.carry(move.keys())
            move.finish()
            await store.get("one that has moved", "key")
            asked = [node.info("total_commands_processed") for node in (move.source, move.target)]
            for _ in range(100):
                await store.get("one that has moved", "key")
            assert move.target.info("total_commands_processed") - asked[1] >= 100
            assert move.source.info("total_commands_processed") - asked[0] < 100

        run(store, check())

    def test_a_node_without_a_name_is_where_the_others_are(self, cluster: RedisCluster) -> None:
        store, move = RedisStore(cluster.url), Move(cluster, "one that has no name")
        for node in cluster.nodes:
            node.ask("CONFIG SET", "cluster-preferred-endpoint-type", "hostname")  # it has none: `?`

        async def check() -> None:
            await add(store, "one that has no name", "key", b"value")
            move.begin()
            move.carry(move.keys())
            assert await store.get("one that has no name", "key") == [b"value"]
            move.finish()
            assert await store.get("one that has no name", "key") == [b"value"]

        try:
            assert {host for *_, [host, *_] in move.source.ask("CLUSTER SLOTS")} == {"?"}
            run(store, check())
        finally:
            for node in cluster.nodes:
                node.ask("CONFIG SET", "cluster-preferred-endpoint-type", "ip")

    def test_a_new_node_that_is_stuck_is_missed_in_time(self, own_cluster: RedisCluster) -> None:
        store, move = RedisStore(own_cluster.url), Move(own_cluster, "sandbox")

        async def check() -> None:
            await add(store, "sandbox", "key", b"value")
            move.begin()
            move.carry(move.keys())
            move.finish()
            move.target.pause()
            refusal = await refused(store.get("sandbox", "key"))
            assert "unknown" in refusal.message or "cannot be reached" in refusal.message
            move.target.resume()
            await eventually(lambda: works(store, "sandbox"))

        run(store, check())


@pytest.mark.usefixtures("each_loop")
class TestNodesThatEnd:
    def test_the_sandboxes_of_the_others_go_on(self, own_cluster: RedisCluster) -> None:
        gone, *others = own_cluster.nodes
        store = RedisStore(own_cluster.url)
        [lost] = sandboxes_of(own_cluster, gone)
        kept = [sandbox for node in others for sandbox in sandboxes_of(own_cluster, node, 5)]

        async def at_once(sandbox: str) -> None:
            async with asyncio.timeout(0.5):
                assert await store.get(sandbox, "key") == [b"value"]
                await store.replace(sandbox, STATE, None, b"1", expected_state=None)

        async def check() -> None:
            await asyncio.gather(*(add(store, sandbox, "key", b"value") for sandbox in (lost, *kept)))
            gone.pause()
            waiting = asyncio.create_task(refused(store.get(lost, "key")))
            while not waiting.done():
                await asyncio.gather(*(at_once(sandbox) for sandbox in kept))
            gone.kill()
            await refused(store.get(lost, "key"))
            await asyncio.gather(*(at_once(sandbox) for sandbox in kept))
            await store.ping()
            warning = await warning_of(own_cluster.url)
            assert warning is not None
            assert f"the store at {gone.address} does not answer" in warning
            gone.restart()
            await eventually(lambda: works(store, lost), 10)  # the nodes take their time to be one again

        run(store, check())

    def test_the_successor_of_a_node_is_found(self) -> None:
        with redis_cluster(3) as cluster, cluster_node() as successor:
            gone = cluster.nodes[0]
            successor.ask("CLUSTER MEET", "127.0.0.1", gone.port)
            wait_until(lambda: len(successor.ask("CLUSTER NODES")) == 4, ANSWER_SECONDS)
            successor.ask("CLUSTER REPLICATE", gone.ask("CLUSTER MYID"))
            wait_until(
                lambda: successor.ask("INFO", "replication")["master_link_status"] == "up", ANSWER_SECONDS
            )
            store = RedisStore(cluster.url)
            [sandbox] = sandboxes_of(cluster, gone)

            async def check() -> None:
                await add(store, sandbox, "key", b"value")
                wait_until(lambda: int(successor.ask("DBSIZE")) == 3, ANSWER_SECONDS)
                gone.kill()
                await refused(store.get(sandbox, "key"))
                successor.ask("CLUSTER FAILOVER", "TAKEOVER")
                await eventually(lambda: works(store, sandbox))
                assert await store.get(sandbox, "key") == [b"value"]

            run(store, check())

    def test_a_slot_without_a_node_is_refused(self, own_cluster: RedisCluster) -> None:
        store = RedisStore(own_cluster.url)
        for node in own_cluster.nodes:
            node.ask("CLUSTER DELSLOTS", slot_of("sandbox"))

        async def check() -> None:
            await refused(store.get("sandbox", "key"))
            assert await works(store, "another")

        run(store, check())

    def test_a_cluster_that_is_gone_is_missed_in_time(self) -> None:
        with (
            socket.create_server(("127.0.0.1", 0)) as silent,
            socket.create_server(("127.0.0.1", 0)) as other,
        ):
            addresses = [f"127.0.0.1:{server.getsockname()[1]}" for server in (silent, other)]
            store = RedisStore(f"redis+cluster://{','.join(addresses)}")

            async def check() -> None:
                await asyncio.gather(*(refused(store.get(f"sandbox {at}", "key")) for at in range(9)))
                await refused(store.ping())
                await store.close()

            asyncio.run(check())
            assert "does not answer" in reason_of(f"redis+cluster://{addresses[0]}")

    def test_one_seed_that_answers_is_enough(self, cluster: RedisCluster) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            store = RedisStore(f"redis+cluster://127.0.0.1:{port},{cluster.nodes[2].address}/")

            async def check() -> None:
                async with asyncio.timeout(0.5):
                    assert await works(store, "sandbox")

            run(store, check())
