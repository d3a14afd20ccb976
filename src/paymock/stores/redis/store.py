"""The Redis store, which several machines can share: Redis or Valkey, one engine or a cluster.

An addition or a read is one round trip; those that arrive during a round trip share the next one. Everything
of a sandbox is on one node, and sandboxes are distributed over the nodes. See docs/stores.md.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from paymock.rules.clock import MAX_PROPAGATION_MS
from paymock.rules.errors import PaymockError
from paymock.stores.base import METADATA, Addition, AddResult, Change, Check, StoreError
from paymock.stores.batching import Read
from paymock.stores.redis import scripts
from paymock.stores.redis.access import Access
from paymock.stores.redis.checks import check_nodes
from paymock.stores.redis.cluster import Cluster, Single
from paymock.stores.redis.connection import Node, describe_failure, listen
from paymock.stores.redis.scripts import encode, pack

RECONNECT_SECONDS = 0.2
"""How long to wait before subscribing to changes again after the connection was lost."""


class RedisStore:
    """A `Store` in the engine or cluster at `url`. After `retention` seconds it may delete what was added,
    and it deletes a sandbox that has not changed for so long. Raises StoreError if the URL is invalid.
    """

    never_waits = False
    propagation_ms = MAX_PROPAGATION_MS

    def __init__(self, url: str, retention: int | None = None) -> None:
        self._retention: int | str = "" if retention is None else retention
        self._counters = () if retention is None else ("counters",)  # what only a retention requires
        self._is_cluster = url.partition("://")[0].endswith("+cluster")
        self._access = Access(url)
        self.connections = 0
        self._nodes = self._create_nodes()

    def replicas(self, sandbox: str) -> Sequence[str]:
        return self._nodes.replicas(sandbox)

    async def initialize(self, check: Check | None = None) -> str | None:
        try:
            return await check_nodes(await self._nodes.masters(), cluster=self._is_cluster)
        except PaymockError as failure:
            await self.close()
            raise StoreError(
                f"cannot use the store at {self._access.seeds[0]}: {describe_failure(failure)}"
            ) from None
        except StoreError:
            await self.close()
            raise

    async def add(
        self,
        sandbox: str,
        key: str,
        value: bytes,
        *,
        kind: str,
        expected_state: bytes | None,
        new_state: bytes | None = None,
        limit: int | None = None,
    ) -> AddResult:
        names = ("values", f"kind:{kind}", "names", *self._counters)
        conditions = (encode(expected_state), encode(new_state), "" if limit is None else limit)
        arguments = (key, value, *conditions, kind, sandbox, self._retention)
        reply = await self._call(scripts.ADD, sandbox, names, *arguments)
        if reply == 1:
            return AddResult(expected_state, None)
        if reply == 0:
            raise PaymockError("capacity_exceeded")
        return AddResult(*reply)

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        values: list[bytes | None] = await self._nodes.execute(sandbox, Read(_key(sandbox, "values"), keys))
        return values

    async def replace(
        self,
        sandbox: str,
        key: str,
        old: bytes | None,
        new: bytes,
        *,
        expected_state: bytes | None,
        addition: Addition | None = None,
    ) -> bool:
        names = ["values"]
        if addition is not None:
            *_, kind = addition
            names += [f"kind:{kind}", "names"]
        elif self._counters:
            names.append("names")
        arguments = (key, encode(old), new, encode(expected_state), sandbox, self._retention_of(sandbox))
        names += self._counters
        return bool(await self._call(scripts.REPLACE, sandbox, names, *arguments, *(addition or ())))

    async def page(
        self, sandbox: str, kind: str, *, limit: int, before: int | None = None
    ) -> list[tuple[int, bytes]]:
        names = ("values", f"kind:{kind}", *self._counters)
        arguments = (kind, limit, "" if before is None else before)
        newest, *values = await self._call(scripts.PAGE, sandbox, names, *arguments)
        return [(newest - index, value) for index, value in enumerate(values) if value is not None]

    async def count(self, sandbox: str, kind: str) -> int:
        return int(await self._nodes.execute(sandbox, pack("LLEN", _key(sandbox, f"kind:{kind}"))))

    async def increment(self, sandbox: str, key: str) -> int:
        return int(await self._call(scripts.INCREMENT, sandbox, ("counters",), key, self._retention))

    async def append(self, sandbox: str, log: str, *entries: bytes, keep: int) -> None:
        arguments = (keep, sandbox, self._retention, *entries[-keep:])
        await self._call(scripts.APPEND, sandbox, (f"log:{log}", "names"), *arguments)

    async def tail(self, sandbox: str, log: str, limit: int) -> list[bytes]:
        if limit <= 0:
            return []
        entries: list[bytes] = await self._nodes.execute(
            sandbox, pack("LRANGE", _key(sandbox, f"log:{log}"), -limit, -1)
        )
        return entries[::-1]

    async def clear_log(self, sandbox: str, log: str) -> None:
        await self._call(scripts.CLEAR_LOG, sandbox, (f"log:{log}",), sandbox)

    async def reset(self, sandbox: str, new_state: bytes, *, expected_state: bytes | None) -> bool:
        arguments = (new_state, encode(expected_state), sandbox, self._retention_of(sandbox))
        return bool(await self._call(scripts.RESET, sandbox, ("values", "names", "counters"), *arguments))

    async def time(self) -> int | None:
        seconds, microseconds = await self._nodes.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def ping(self) -> None:
        await self._nodes.ping()

    async def changes(self) -> AsyncIterator[Change]:
        while True:
            for address in self._nodes.reachable():
                subscribed = False
                async with aclosing(listen(self._access, address, scripts.CHANNEL)) as messages:
                    async for message in messages:
                        subscribed = True
                        yield scripts.decode_change(message)
                if subscribed:
                    yield Change(None)
                    break
            await asyncio.sleep(RECONNECT_SECONDS)

    async def close(self) -> None:
        nodes, self._nodes = self._nodes, self._create_nodes()
        await nodes.close()

    def _retention_of(self, sandbox: str) -> int | str:
        """The retention of a sandbox that may have only its own record: the metadata are for ever."""
        return "" if sandbox.partition(".")[0] == METADATA else self._retention

    def _create_nodes(self) -> Single | Cluster:
        preamble = [script.load for script in scripts.SCRIPTS]
        node = partial(Node, self._access, preamble, self._count_connection)
        return (Cluster if self._is_cluster else Single)(self._access.seeds, node)

    def _count_connection(self) -> None:
        self.connections += 1

    async def _call(
        self, script: scripts.Script, sandbox: str, names: Sequence[str], *arguments: str | bytes | int
    ) -> Any:
        """Run a script on the keys of a sandbox with these names."""
        keys = [_key(sandbox, name) for name in names]
        return await self._nodes.execute(sandbox, script.call(keys, *arguments))


def _key(sandbox: str, name: str) -> str:
    return f"paymock:{{{sandbox}}}:{name}"
