"""The copies of a store's metadata: any majority is enough, and all processes have the same secret."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from paymock.payments import records
from paymock.payments.records import StoreMetadata
from paymock.rules.errors import PaymockError
from paymock.sandbox.sandboxes import load_metadata, new_metadata
from paymock.stores.base import METADATA, STATE
from tests.support.clock import NOON
from tests.support.stores import SharedStore
from tests.support.use_cases import SANDBOX, UseCases

NODES = 3
COPIES = 5 * NODES
SILENT_SECONDS = 1.8
"""How long a step of a silent node takes to fail."""


class ClusterStore(SharedStore):
    """Copies on three nodes, which can be `dead`, and refuse, or `silent`, and time out."""

    def __init__(self) -> None:
        super().__init__()
        self.dead: set[int] = set()
        self.silent: set[int] = set()
        self.shuffle: random.Random | None = None

    def replicas(self, sandbox: str) -> Sequence[str]:
        return [sandbox, *(f"{sandbox}.{number}" for number in range(1, COPIES))]

    def node(self, sandbox: str) -> int:
        return int(sandbox.partition(".")[2] or 0) * NODES // COPIES

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        await self._reach(sandbox)
        return await super().get(sandbox, *keys)

    async def replace(self, sandbox: str, *args: Any, **options: Any) -> bool:
        await self._reach(sandbox)
        return await super().replace(sandbox, *args, **options)

    def lose(self, node: int) -> None:
        """Lose what a node has, as one that keeps nothing on disk."""
        for name in self.replicas(METADATA):
            if self.node(name) == node:
                self._sandboxes.pop(name, None)
        self.connections += 1

    def stored(self) -> list[StoreMetadata | None]:
        """Return the copies, in order."""
        values = (self._values(name, STATE)[0] for name in self.replicas(METADATA))
        return [None if value is None else records.decode_as(StoreMetadata, value) for value in values]

    async def _reach(self, sandbox: str) -> None:
        if not sandbox.startswith(METADATA):
            return
        if self.shuffle:
            await asyncio.sleep(self.shuffle.random())
        if self.node(sandbox) in self.silent:
            await asyncio.sleep(SILENT_SECONDS)
        if self.node(sandbox) in self.silent | self.dead:
            raise PaymockError("store_unavailable")


async def load(store: ClusterStore, now: int = NOON, speed: float = 1) -> StoreMetadata:
    return await load_metadata(store, now, speed, None)


@pytest.mark.parametrize("failed", range(NODES))
@pytest.mark.parametrize("fault", ["dead", "silent"])
class TestOneFailedNode:
    async def test_a_new_store_keeps_its_secret_and_speed(self, failed: int, fault: str) -> None:
        store = ClusterStore()
        nodes: set[int] = getattr(store, fault)
        nodes.add(failed)
        first = await load(store)
        faster = await load(store, NOON + 1000, speed=60)
        assert (faster.secret, faster.clock.speed) == (first.secret, 60)
        for other in range(NODES):
            nodes.clear()
            nodes.add(other)
            assert await load(store, NOON + 2000, speed=60) == faster
        nodes.clear()
        assert await load(store, NOON + 2000, speed=60) == faster
        assert store.stored() == [faster] * COPIES
        slower = await load(store, NOON - 5000, speed=1)
        assert slower.clock.speed == 1
        assert await load(store, NOON + 2000) == slower

    async def test_requests_after_a_reconnection_do_not_wait_for_it(self, failed: int, fault: str) -> None:
        store = ClusterStore()
        app = UseCases(store, await load(store))
        getattr(store, fault).add(failed)
        store.connections += 1
        async with asyncio.timeout(SILENT_SECONDS / 2):
            await asyncio.gather(*(app.sandboxes.snapshot(SANDBOX) for _ in range(3)))


class TestWithoutMajority:
    @pytest.mark.parametrize("fault", ["dead", "silent"])
    async def test_a_start_is_refused_and_writes_nothing(self, fault: str) -> None:
        store = ClusterStore()
        getattr(store, fault).update({0, 1})
        with pytest.raises(PaymockError):
            await load(store)
        assert store.stored() == [None] * COPIES
        getattr(store, fault).clear()
        first = await load(store)
        getattr(store, fault).update({0, 2})
        with pytest.raises(PaymockError):
            await load(store)
        getattr(store, fault).clear()
        assert await load(store) == first

    async def test_copies_that_disagree_are_decided_for_the_first(self) -> None:
        store = ClusterStore()
        candidates = [new_metadata(NOON, 1, f"{number}") for number in range(NODES)]
        for name in store.replicas(METADATA):
            value = records.encode(candidates[store.node(name)])
            await store.replace(name, STATE, None, value, expected_state=None)
        store.dead.add(2)
        with pytest.raises(PaymockError):
            await load(store)
        store.dead.clear()
        assert await load(store) == candidates[0]
        assert store.stored() == [candidates[0]] * COPIES


async def test_nodes_that_lost_their_data_get_it_back() -> None:
    store = ClusterStore()
    first = await load(store)
    for lost in ({0, 1}, {1, 2}, {0, 2}, {0}):
        for node in lost:
            store.lose(node)
        assert await load(store) == first
        assert store.stored() == [first] * COPIES


@pytest.mark.parametrize(
    "seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(5, 60))]
)
async def test_processes_that_start_at_once_while_nodes_fail_have_one_secret(seed: int) -> None:
    """Each reply takes a random time, and nodes fail and return meanwhile."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    store = ClusterStore()
    store.shuffle = chance
    secrets: set[bytes] = set()

    async def start(number: int) -> None:
        await asyncio.sleep(2 * chance.random())
        for _ in range(5):
            try:
                secrets.add((await load(store, NOON + number, chance.choice((1, 60)))).secret)
            except PaymockError:
                await asyncio.sleep(chance.random())

    async def disturb() -> None:
        for _ in range(30):
            await asyncio.sleep(chance.random() / 2)
            store.dead = set(chance.sample(range(NODES), chance.choice((0, 1, 1, 2))))
        store.dead = set()

    await asyncio.gather(disturb(), *(start(number) for number in range(4)))
    secrets.add((await load(store)).secret)
    assert len(secrets) == 1


async def test_a_store_that_cannot_be_written_to_is_refused() -> None:
    class ReadOnlyStore(SharedStore):
        async def replace(self, *args: Any, **options: Any) -> bool:
            raise PaymockError("store_unavailable", "it is read-only")

    with pytest.raises(PaymockError, match="read-only"):
        await load_metadata(ReadOnlyStore(), NOON, 1, None)
