"""The in-memory store: dictionaries, lost on exit. Specification: "Limits"."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from itertools import islice
from typing import Any

from paymock.cache import BoundedCache
from paymock.rules.errors import PaymockError
from paymock.stores.base import (
    MAX_COUNTERS,
    MAX_EMPTY,
    SANDBOX_RECORD,
    Addition,
    AddResult,
    Change,
    Check,
    LogEntries,
)


class _Sandbox:
    __slots__ = ("counters", "revision", "values")

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        """Bytes; under `kind:KIND` the keys of a list, under `log:NAME` the entries of a log. One dictionary
        takes far less room than three, and a list of few far less than a deque.
        """
        self.counters: BoundedCache[str, int] | None = None  # few sandboxes have any
        self.revision = 0  # how many changes there have been


def _compact(value: bytes) -> bytes:
    return b"".join((value, b""))  # `bytes` would return the same object


class MemoryStore:
    """A `Store` in this process. No method suspends, so each is atomic on the event loop.

    `limits` caps the number of values of a kind over all sandboxes. A sandbox that was reset takes the room
    of its own record only. One without values is forgotten when MAX_EMPTY others have been used since.
    """

    is_synchronous = True
    propagation_ms = 0
    connections = 0

    def __init__(self, limits: Mapping[str, int | None] | None = None) -> None:
        self._limits = limits or {}
        self._totals: Counter[str] = Counter()
        self._sandboxes: dict[str, _Sandbox] = {}
        self._empty: BoundedCache[str, _Sandbox] = BoundedCache(MAX_EMPTY)
        self._reset_states: dict[str, bytes] = {}
        """The own records of sandboxes without other values."""

    async def initialize(self, check: Check | None = None) -> str | None:
        return None

    async def add(
        self,
        sandbox: str,
        addition: Addition,
        *,
        expected_state: bytes | None,
        new_state: bytes | None = None,
        limit: int | None = None,
    ) -> AddResult:
        key, _, kind = addition
        state, existing = self._values(sandbox, SANDBOX_RECORD, key)
        if existing is None and state == expected_state:
            contents = self._sandboxes.get(sandbox)
            count = len(contents.values.get(f"kind:{kind}", ())) if contents else 0
            total_limit = self._limits.get(kind)
            is_full = total_limit is not None and self._totals[kind] >= total_limit
            if is_full or (limit is not None and count >= limit):
                raise PaymockError("capacity_exceeded")
            contents = contents or self._create(sandbox)
            self._insert(contents, addition)
            contents.revision += 1
            if new_state is not None:
                contents.values[SANDBOX_RECORD] = _compact(new_state)
        return AddResult(state, existing)

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        contents = self._sandboxes.get(sandbox)
        return [*map(contents.values.get, keys)] if contents else self._values(sandbox, *keys)

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
        if self._values(sandbox, SANDBOX_RECORD, key) != [expected_state, old]:
            return False
        if addition is not None and self._values(sandbox, addition[0]) != [None]:
            return False
        contents = self._sandboxes.get(sandbox) or self._create(sandbox)
        if if_empty and any(name.startswith("kind:") for name in contents.values):
            raise PaymockError("sandbox_not_empty")
        contents.values[key] = _compact(new)
        contents.revision += 1
        if addition is not None:
            self._insert(contents, addition)
        return True

    async def page(
        self, sandbox: str, kind: str, *, limit: int, before: int | None = None
    ) -> list[tuple[int, bytes]]:
        contents = self._sandboxes.get(sandbox)
        if contents is None:
            return []
        keys = contents.values.get(f"kind:{kind}", [])
        end = len(keys) if before is None else min(before, len(keys))
        indexes = range(end - 1, max(-1, end - 1 - limit), -1)
        return [(index, contents.values[keys[index]]) for index in indexes]

    async def count(self, sandbox: str, kind: str) -> int:
        contents = self._sandboxes.get(sandbox)
        return len(contents.values.get(f"kind:{kind}", ())) if contents else 0

    async def increment(self, sandbox: str, key: str) -> int:
        contents = self._use(sandbox)
        contents.revision += 1
        counters = contents.counters = contents.counters or BoundedCache(MAX_COUNTERS)
        counters[key] = counters.get(key, 0) + 1
        return counters[key]

    async def append(self, *logs: LogEntries) -> None:
        for sandbox, log, keep, entries in logs:
            contents = self._use(sandbox)
            contents.revision += 1
            retained = contents.values.setdefault(f"log:{log}", [])
            retained += map(_compact, entries)
            if len(retained) > keep + keep // 8:  # not at every addition
                del retained[:-keep]

    async def tail(self, sandbox: str, log: str, limit: int) -> list[bytes]:
        contents = self._sandboxes.get(sandbox) or self._empty.get(sandbox)
        return list(islice(reversed(contents.values.get(f"log:{log}", ())), limit)) if contents else []

    async def clear_log(self, sandbox: str, log: str) -> None:
        contents = self._sandboxes.get(sandbox) or self._empty.get(sandbox)
        if contents is not None:
            contents.revision += 1
            contents.values.pop(f"log:{log}", None)

    async def revision(self, sandbox: str, log: str) -> tuple[bytes | None, bytes]:
        contents = self._sandboxes.get(sandbox) or self._empty.get(sandbox)
        [state] = self._values(sandbox, SANDBOX_RECORD)
        return state, b"%d" % (contents.revision if contents else 0)

    async def reset(self, sandbox: str, new_state: bytes, *, expected_state: bytes | None) -> bool:
        if self._values(sandbox, SANDBOX_RECORD) != [expected_state]:
            return False
        self._empty.pop(sandbox, None)
        old = self._sandboxes.pop(sandbox, None)
        if old is not None:
            for name in [name for name in old.values if name.startswith("kind:")]:
                self._totals[name.removeprefix("kind:")] -= len(old.values.pop(name))
            self._free(old.values)
        self._reset_states[sandbox] = _compact(new_state)
        return True

    async def time(self) -> int | None:
        return None

    async def ping(self) -> None:
        return None

    async def changes(self) -> AsyncIterator[Change]:
        no_changes: tuple[Change, ...] = ()  # no other process shares this store
        for change in no_changes:
            yield change

    async def close(self) -> None:
        return None

    def _values(self, sandbox: str, *keys: str) -> list[bytes | None]:
        contents = self._sandboxes.get(sandbox)
        if contents is not None:
            return [*map(contents.values.get, keys)]
        state = self._reset_states.get(sandbox)
        return [state if key == SANDBOX_RECORD else None for key in keys]

    def _free(self, values: dict[str, Any]) -> None:
        """Free the memory of a large sandbox in parts, since it takes milliseconds."""
        for _ in range(min(10_000, len(values))):
            values.popitem()
        if values:
            asyncio.get_running_loop().call_soon(self._free, values)

    def _insert(self, contents: _Sandbox, addition: Addition) -> None:
        key, value, kind = addition
        self._totals[kind] += 1
        contents.values[key] = _compact(value)
        contents.values.setdefault(f"kind:{kind}", []).append(key)

    def _create(self, sandbox: str) -> _Sandbox:
        """Return a sandbox that will have values."""
        contents = self._empty.pop(sandbox, None) or _Sandbox()
        self._sandboxes[sandbox] = contents
        state = self._reset_states.pop(sandbox, None)
        if state is not None:
            contents.values[SANDBOX_RECORD] = state
        return contents

    def _use(self, sandbox: str) -> _Sandbox:
        """Return a sandbox that may have no values."""
        contents = self._sandboxes.get(sandbox)
        if contents is None:
            contents = self._empty.pop(sandbox, None) or _Sandbox()
            self._empty[sandbox] = contents  # the last one to be forgotten
        return contents
