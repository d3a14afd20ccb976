"""The node that holds a sandbox: the only one, or the node of a cluster that has the sandbox's slot.

The slot table comes from whichever node answers first. It is read again when a step is redirected or fails,
in a task of its own, so that the steps for other nodes go on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache, lru_cache, partial
from itertools import chain, count
from typing import Any

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from paymock.rules.errors import PaymockError
from paymock.stores.redis.access import Address
from paymock.stores.redis.connection import Node, Redirected, Step, unavailable, unknown
from paymock.stores.redis.scripts import PING, pack

PAUSE_SECONDS = 0.2
"""The least time between two reads of the slot table."""

COPIES = 15
"""How many replicas there are of what no node may be indispensable for, one in each such part of the slots:
while fewer than half of the slots are down, a quorum of them can be reached.
"""

_REDIRECTION_SECONDS = 0.9
_REDIRECTIONS = 12
_REDIRECTION_PAUSE = 0.01  # longer by so much each time, 0.66 seconds in all

_TIME = pack("TIME")


class Single:
    """One node, for the length of one event loop."""

    def __init__(self, seeds: Iterable[Address], node: Callable[[Address], Node]) -> None:
        [address] = seeds
        self._node = node(address)

    async def execute(self, sandbox: str, step: Step) -> Any:
        """Send a step of a sandbox and return the reply. Raises PaymockError `store_unavailable`,
        `capacity_exceeded`.
        """

        async def attempt(redirection: Redirected) -> Any:
            if redirection.address is not None:
                raise unavailable("The store is a cluster, and was not opened as one.")
            return await self._node.execute(step)

        try:
            return await self._node.execute(step)
        except Redirected as redirection:
            return await _follow(redirection, attempt)

    def replicas(self, sandbox: str) -> Sequence[str]:
        return [sandbox]

    async def ping(self) -> None:
        await self.execute("", PING.call(("paymock:ping",)))

    async def time(self) -> tuple[bytes, bytes]:
        """Return the seconds and microseconds by the clock of any node."""
        seconds, microseconds = await self.execute("", _TIME)
        return seconds, microseconds

    async def masters(self) -> list[Node]:
        """Return every node that holds values."""
        return [self._node]

    def reachable(self) -> list[Address]:
        """Return the addresses to subscribe to changes at, the best first."""
        return [self._node.address]

    async def close(self) -> None:
        await self._node.close()


class Cluster:
    """The masters of a Redis Cluster. `seeds` are the first nodes to ask for the slot table."""

    def __init__(self, seeds: Iterable[Address], node: Callable[[Address], Node]) -> None:
        self._new = node
        self._seeds = [*seeds]
        self._nodes: dict[Address, Node] = {}
        self._masters: list[Address] = []
        self._slots: list[Node | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        self._refreshing: asyncio.Task[PaymockError | None] | None = None
        self._refreshed_at = -PAUSE_SECONDS

    async def execute(self, sandbox: str, step: Step) -> Any:
        slot = _slot_of(sandbox)
        try:
            return await (self._slots[slot] or await self._find(slot)).execute(step)
        except Redirected as redirection:
            return await _follow(redirection, partial(self._attempt, slot, step))
        except PaymockError as error:
            if error.kind.code == "store_unavailable":
                self._schedule_refresh()
            raise

    def replicas(self, sandbox: str) -> Sequence[str]:
        return _spread(sandbox)

    async def ping(self) -> None:
        await self._first_reply(pack("CLUSTER", "INFO"), lambda reply: b"cluster_state:ok" in reply)

    async def time(self) -> tuple[bytes, bytes]:
        _, (seconds, microseconds) = await self._first_reply(_TIME, bool)
        return seconds, microseconds

    async def masters(self) -> list[Node]:
        if not self._masters and (failure := await self._refresh_slots()):
            raise failure
        return [self._node(address) for address in self._masters]

    def reachable(self) -> list[Address]:
        return list(dict.fromkeys([*self._masters, *self._seeds]))

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
        await asyncio.gather(*(node.close() for node in self._nodes.values()))

    def _node(self, address: Address) -> Node:
        if address not in self._nodes:
            self._nodes[address] = self._new(address)
        return self._nodes[address]

    async def _find(self, slot: int) -> Node:
        """Read the slot table, and return the node of a slot that was missing in it."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh_slots())
        failure = await asyncio.shield(self._refreshing)
        node = self._slots[slot]
        if node is None:
            raise failure or unavailable("No node of the store has this sandbox.")
        return node

    def _schedule_refresh(self) -> None:
        now = asyncio.get_running_loop().time()
        if (self._refreshing is None or self._refreshing.done()) and now > self._refreshed_at + PAUSE_SECONDS:
            self._refreshed_at = now
            self._refreshing = asyncio.create_task(self._refresh_slots())

    async def _refresh_slots(self) -> PaymockError | None:
        """Read the slot table. Return the error if it cannot be read."""
        try:
            source, ranges = await self._first_reply(pack("CLUSTER", "SLOTS"), bool)
        except PaymockError as failure:
            return failure
        slots: list[Node | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        masters = {}
        for first, last, (host, port, *_), *_ in ranges:
            address = source.address.resolve((host or b"").decode(), port)
            slots[first : last + 1] = [self._node(address)] * (last + 1 - first)
            masters[address] = True
        self._slots, self._masters = slots, [*masters]
        return None

    async def _first_reply(self, command: bytes, accepts: Callable[[Any], bool]) -> tuple[Node, Any]:
        """Ask all nodes; return the first reply that `accepts` takes, with its node. Raises PaymockError."""

        async def ask(node: Node) -> tuple[Node, Any]:
            try:
                return node, await node.execute(command)
            except PaymockError as error:
                return node, error

        failure = unavailable("No node of the store can serve.")
        tasks = [asyncio.create_task(ask(self._node(address))) for address in self.reachable()]
        try:
            for completed in asyncio.as_completed(tasks):
                node, reply = await completed
                if isinstance(reply, PaymockError):
                    failure = reply
                elif accepts(reply):
                    return node, reply
        finally:
            for task in tasks:
                task.cancel()
        raise failure

    async def _attempt(self, slot: int, step: Step, redirection: Redirected) -> Any:
        """Carry out a step where the redirection says."""
        node = self._slots[slot] if redirection.address is None else self._node(redirection.address)
        if node is None:
            raise unavailable(redirection.reason)
        if redirection.address is not None and not redirection.asking:
            self._slots[slot] = node
            self._schedule_refresh()
        return await (node.execute_asking(step) if redirection.asking else node.execute(step))


async def _follow(redirection: Redirected, attempt: Callable[[Redirected], Awaitable[Any]]) -> Any:
    """Attempt a step again until no redirection comes back, and return the reply. Raises PaymockError
    `store_unavailable` after _REDIRECTION_SECONDS.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _REDIRECTION_SECONDS
    for number in range(_REDIRECTIONS):
        await asyncio.sleep(number * _REDIRECTION_PAUSE)
        if loop.time() > deadline:
            break
        try:
            async with asyncio.timeout_at(deadline):
                return await attempt(redirection)
        except Redirected as next_redirection:
            redirection = next_redirection
        except TimeoutError as error:
            raise unknown(error) from None
    raise unavailable(redirection.reason)


@cache
def _spread(sandbox: str) -> Sequence[str]:
    """Return `sandbox` and others, one in each of COPIES equal parts of the slots."""
    names: dict[int, str] = {}
    for name in chain([sandbox], (f"{sandbox}.{number}" for number in count(1))):
        names.setdefault(_slot_of(name) * COPIES // REDIS_CLUSTER_HASH_SLOTS, name)
        if len(names) == COPIES:
            break
    return [*names.values()]


@lru_cache(10_000)
def _slot_of(sandbox: str) -> int:
    return key_slot(f"{{{sandbox}}}".encode())
