"""Which engine has a sandbox: the only one, or the node of a cluster that has the sandbox's slot.

The table of slots comes from whichever node answers first. It is asked for again when a step is sent
elsewhere or fails: aside, so that the steps for the other nodes go on.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from typing import Any, Protocol

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from paymock.rules.errors import PaymockError
from paymock.stores.redis.access import Address
from paymock.stores.redis.connection import Node, NotHere, Step, unavailable, unknown
from paymock.stores.redis.scripts import pack

PAUSE_SECONDS = 0.2
"""How long after one look at the table of slots the next one comes, at the earliest."""

_REDIRECTION_SECONDS = 0.9
_REDIRECTIONS = 12
_REDIRECTION_PAUSE = 0.01  # longer by so much each time, 0.66 seconds in all


class Nodes(Protocol):
    """The engines of a store, for the length of one event loop."""

    async def do(self, sandbox: str, step: Step) -> Any:
        """The reply to a step of a sandbox. Raises PaymockError `store_unavailable`, `capacity_exceeded`."""

    async def ping(self) -> None:
        """Returns when the store can be used."""

    async def masters(self) -> list[Node]:
        """Every engine that keeps values."""

    def reachable(self) -> list[Address]:
        """Where to hear of changes, the best first."""

    async def close(self) -> None:
        """Ends all connections."""


class Single:
    """One engine."""

    def __init__(self, seeds: Iterable[Address], node: Callable[[Address], Node]) -> None:
        [address] = seeds
        self._node = node(address)

    async def do(self, sandbox: str, step: Step) -> Any:
        try:
            return await self._node.do(step)
        except NotHere as elsewhere:
            if elsewhere.address is None:
                with suppress(NotHere):
                    return await self._node.do(step)
        raise unavailable("The store is a cluster, and was not opened as one.")

    async def ping(self) -> None:
        await self._node.do(pack("PING"))

    async def masters(self) -> list[Node]:
        return [self._node]

    def reachable(self) -> list[Address]:
        return [self._node.address]

    async def close(self) -> None:
        await self._node.close()


class Cluster:
    """The masters of a Redis Cluster. `seeds` are asked for them first."""

    def __init__(self, seeds: Iterable[Address], node: Callable[[Address], Node]) -> None:
        self._new = node
        self._seeds = [*seeds]
        self._nodes: dict[Address, Node] = {}
        self._masters: list[Address] = []
        self._slots: list[Node | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        self._looking: asyncio.Task[PaymockError | None] | None = None
        self._looked = -PAUSE_SECONDS

    async def do(self, sandbox: str, step: Step) -> Any:
        slot = _slot_of(sandbox)
        try:
            return await (self._slots[slot] or await self._found(slot)).do(step)
        except NotHere as elsewhere:
            return await self._follow(slot, step, elsewhere)
        except PaymockError as error:
            if error.kind.code == "store_unavailable":
                self._look_soon()
            raise

    async def ping(self) -> None:
        def serves(reply: Any) -> bool:
            return b"cluster_state:ok" in reply

        await self._first_answer(pack("CLUSTER", "INFO"), serves)

    async def masters(self) -> list[Node]:
        if not self._masters and (failure := await self._look()):
            raise failure
        return [self._node(address) for address in self._masters]

    def reachable(self) -> list[Address]:
        return list(dict.fromkeys([*self._masters, *self._seeds]))

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        await asyncio.gather(*(node.close() for node in self._nodes.values()))

    def _node(self, address: Address) -> Node:
        if address not in self._nodes:
            self._nodes[address] = self._new(address)
        return self._nodes[address]

    async def _found(self, slot: int) -> Node:
        """The node of a slot that the table does not have, or not yet."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        failure = await asyncio.shield(self._looking)
        node = self._slots[slot]
        if node is None:
            raise failure or unavailable("No node of the store has this sandbox.")
        return node

    def _look_soon(self) -> None:
        now = asyncio.get_running_loop().time()
        if (self._looking is None or self._looking.done()) and now > self._looked + PAUSE_SECONDS:
            self._looked = now
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> PaymockError | None:
        """Reads the table of slots, or says why it cannot."""
        try:
            asked, ranges = await self._first_answer(pack("CLUSTER", "SLOTS"), bool)
        except PaymockError as failure:
            return failure
        slots: list[Node | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        masters = {}
        for first, last, (host, port, *_), *_ in ranges:
            address = asked.address.told((host or b"").decode(), port)
            slots[first : last + 1] = [self._node(address)] * (last + 1 - first)
            masters[address] = True
        self._slots, self._masters = slots, [*masters]
        return None

    async def _first_answer(self, command: bytes, suits: Callable[[Any], bool]) -> tuple[Node, Any]:
        """The first reply that suits, of all nodes, and the node that gave it. Raises PaymockError."""

        async def answer(node: Node) -> tuple[Node, Any]:
            try:
                return node, await node.do(command)
            except PaymockError as error:
                return node, error

        failure = unavailable("No node of the store can serve.")
        asked = [asyncio.create_task(answer(self._node(address))) for address in self.reachable()]
        try:
            for answered in asyncio.as_completed(asked):
                node, reply = await answered
                if isinstance(reply, PaymockError):
                    failure = reply
                elif suits(reply):
                    return node, reply
        finally:
            for task in asked:
                task.cancel()
        raise failure

    async def _follow(self, slot: int, step: Step, elsewhere: NotHere) -> Any:
        """The reply to a step that a node has not carried out, from where it belongs."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _REDIRECTION_SECONDS
        for attempt in range(_REDIRECTIONS):
            await asyncio.sleep(attempt * _REDIRECTION_PAUSE)
            if loop.time() > deadline:
                break
            node = self._slots[slot] if elsewhere.address is None else self._node(elsewhere.address)
            if node is None:
                break
            if elsewhere.address is not None and not elsewhere.asking:
                self._slots[slot] = node
                self._look_soon()
            try:
                async with asyncio.timeout_at(deadline):
                    return await (node.do_asked(step) if elsewhere.asking else node.do(step))
            except NotHere as further:
                elsewhere = further
            except TimeoutError as error:
                raise unknown(error) from None
        raise unavailable("The store is moving this sandbox to another node.")


@lru_cache(10_000)
def _slot_of(sandbox: str) -> int:
    return key_slot(f"{{{sandbox}}}".encode())
