"""The Redis store, which several machines can share: Redis or Valkey, one engine, or what Sentinels name.

An addition or a read is one round trip; those that arrive during one share the next. See docs/stores.md.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

from redis.exceptions import ResponseError

from paymock.rules.clock import MAX_PROPAGATION_MS
from paymock.rules.errors import PaymockError
from paymock.stores.base import (
    METADATA,
    NO_CLUSTER,
    Addition,
    AddResult,
    Change,
    Check,
    LogEntries,
    RetentionClock,
    StoreError,
    steady_clock,
)
from paymock.stores.batching import Read
from paymock.stores.redis import scripts
from paymock.stores.redis.client import BUDGET_SECONDS, LOST, Client, describe
from paymock.stores.redis.scripts import MINOR, encode

MIN_VERSION = (6, 2)
"""Oldest supported version of Redis. Valkey reports the version of Redis that it is compatible with."""

_MAX_ARGUMENTS = 1_000
"""Most entries of a log that a command of a script gets; Lua takes 8,000 arguments."""

RECONNECT_SECONDS = 0.2
"""How long to wait before subscribing to changes again after the connection was lost."""


class RedisStore:
    """A `Store` in the engine at `url`. After `retention` seconds, by the engine's time and that of `clock`,
    it may delete what was added, and a sandbox without changes. Raises StoreError if the URL is invalid.
    """

    is_synchronous = False
    propagation_ms = MAX_PROPAGATION_MS

    def __init__(self, url: str, retention: int | None = None, clock: RetentionClock | None = None) -> None:
        self._retention, self._clock = retention, clock or steady_clock()
        self._url = url
        self.connections = 0
        self._client = Client(url, self._count_connection)

    async def initialize(self, check: Check | None = None) -> str | None:
        redis = self._client.redis
        try:
            async with asyncio.timeout(BUDGET_SECONDS):
                info = await redis.info()
                if reason := find_defect(info):
                    raise StoreError(reason)
                settings: dict[Any, Any] = {}
                with suppress(ResponseError):  # a user may lack the permission to read them
                    for name in ("appendonly", "maxmemory-policy", "save"):  # Redis 6.2 takes one at a time
                        settings |= await redis.config_get(name)
                return find_warnings(info, settings)
        except (*LOST, StoreError) as error:
            await self.close()
            raise StoreError(f"cannot use the store: {describe(error)}") from None

    async def add(
        self,
        sandbox: str,
        addition: Addition,
        *,
        expected_state: bytes | None,
        new_state: bytes | None = None,
        limit: int | None = None,
    ) -> AddResult:
        key, value, kind = addition
        names = ("values", f"kind:{kind}", "names", "counters")
        conditions = (encode(expected_state), encode(new_state), "" if limit is None else limit)
        arguments = (key, value, *conditions, kind, sandbox, *self._retention_of(sandbox))
        reply = await self._run(scripts.ADD, sandbox, names, *arguments)
        if reply == 1:
            return AddResult(expected_state, None)
        if reply == 0:
            raise PaymockError("capacity_exceeded")
        return AddResult(*reply)

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        values: list[bytes | None] = await self._client.execute(Read(_key(sandbox, "values"), keys))
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
        if_empty: bool = False,
    ) -> bool:
        *_, kind = addition or ("",)
        names = ("values", f"kind:{kind}", "names", "counters")
        arguments = (key, encode(old), new, encode(expected_state), sandbox, *self._retention_of(sandbox))
        reply = await self._run(scripts.REPLACE, sandbox, names, *arguments, int(if_empty), *(addition or ()))
        if reply < 0:
            raise PaymockError("sandbox_not_empty")
        return bool(reply)

    async def page(
        self, sandbox: str, kind: str, *, limit: int, before: int | None = None
    ) -> list[tuple[int, bytes]]:
        names = ("values", f"kind:{kind}", "counters")
        arguments = (kind, limit, "" if before is None else before)
        newest, *values = await self._run(scripts.PAGE, sandbox, names, *arguments)
        return [(newest - index, value) for index, value in enumerate(values) if value is not None]

    async def count(self, sandbox: str, kind: str) -> int:
        return int(await self._client.execute(("LLEN", _key(sandbox, f"kind:{kind}"))))

    async def increment(self, sandbox: str, key: str) -> int:
        return int(await self._run(scripts.INCREMENT, sandbox, ("counters",), key))

    async def append(self, *logs: LogEntries) -> None:
        keys: list[str] = []
        arguments: list[str | bytes | int] = [*self._retention_of("")]
        for sandbox, log, keep, entries in logs:
            last = entries[-keep:]
            for start in range(0, len(last), _MAX_ARGUMENTS):
                part = last[start : start + _MAX_ARGUMENTS]
                keys += (_key(sandbox, f"log:{log}"), _key(sandbox, "names"))
                arguments += (sandbox, keep, len(part), *part)
        await self._client.run(scripts.APPEND, keys, *arguments)

    async def tail(self, sandbox: str, log: str, limit: int) -> list[bytes]:
        if limit <= 0:
            return []
        name = _key(sandbox, f"log:{log}")
        entries: list[bytes] = await self._client.execute(("LRANGE", name, -limit, -1))
        return entries[::-1]

    async def clear_log(self, sandbox: str, log: str) -> None:
        await self._run(scripts.CLEAR_LOG, sandbox, (f"log:{log}",), sandbox)

    async def revision(self, sandbox: str, log: str) -> tuple[bytes | None, bytes]:
        state, changes, newest = await self._run(scripts.REVISION, sandbox, ("values", f"log:{log}"))
        return state, b"%b %b" % (changes or b"", newest or b"")

    async def reset(self, sandbox: str, new_state: bytes, *, expected_state: bytes | None) -> bool:
        arguments = (new_state, encode(expected_state), sandbox, *self._retention_of(sandbox))
        return bool(await self._run(scripts.RESET, sandbox, ("values", "names", "counters"), *arguments))

    async def time(self) -> int | None:
        seconds, microseconds = await self._client.execute(("TIME",))
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def ping(self) -> None:
        # changes nothing, since the key is never there, and is refused where nothing can be written or stored
        await self._client.execute(("SETRANGE", _key(METADATA, "ping"), 0, ""))

    async def changes(self) -> AsyncIterator[Change]:
        while True:
            subscribed = False
            async with aclosing(self._client.messages(scripts.CHANNEL)) as messages:
                async for message in messages:
                    subscribed = True
                    minor = message is not None and message.startswith(MINOR)
                    yield Change(message and message.removeprefix(MINOR), minor)
            if subscribed:
                yield Change(None)
            await asyncio.sleep(RECONNECT_SECONDS)

    async def close(self) -> None:
        client, self._client = self._client, Client(self._url, self._count_connection)
        await client.close()

    def _retention_of(self, sandbox: str) -> tuple[int | str, int | str]:
        """The retention of a sandbox and the time by the clock for it. The metadata are for ever."""
        if self._retention is None or sandbox == METADATA:
            return "", ""
        return self._retention, int(self._clock() or 0)

    def _count_connection(self) -> None:
        self.connections += 1

    async def _run(
        self, script: scripts.Script, sandbox: str, names: Sequence[str], *arguments: str | bytes | int
    ) -> Any:
        return await self._client.run(script, [_key(sandbox, name) for name in names], *arguments)


def find_defect(info: Mapping[str, Any]) -> str | None:
    """Return why an engine with this INFO cannot be used, if it cannot."""
    version = str(info.get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_VERSION:
        return f"it is Redis {version}, and {'.'.join(map(str, MIN_VERSION))} or later is required"
    if info.get("cluster_enabled"):
        return f"it is a node of a Redis Cluster: {NO_CLUSTER}"
    if info.get("role") != "master":
        return f"it does not accept writes: its role is {info.get('role')}"
    return None


def find_warnings(info: Mapping[str, Any], settings: Mapping[str, str]) -> str | None:
    """Return what the operator should change in the settings of an engine with this INFO, if anything."""
    warnings = []
    if settings.get("appendonly") == "no":
        persisted = "only occasional snapshots" if settings.get("save") else "nothing"
        warnings.append(
            f"the store writes {persisted} to disk, so payments are lost when it ends; "
            "set `appendonly yes` there"
        )
    if settings.get("maxmemory-policy", "noeviction") != "noeviction" and info.get("maxmemory"):
        warnings.append(
            "the store evicts payments when its memory is full; set `maxmemory-policy noeviction` there"
        )
    return ". ".join(warnings) or None


def _key(sandbox: str, name: str) -> str:
    return f"paymock:{{{sandbox}}}:{name}"
