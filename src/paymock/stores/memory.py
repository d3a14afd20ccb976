"""The embedded store: dictionaries, lost on exit, as the specification says of the mock ("Limits")."""

import math
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Mapping
from itertools import islice

from paymock.rules.errors import PaymockError
from paymock.stores.base import STATE, AddResult, Change


class _Sandbox:
    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.kinds: defaultdict[str, list[str]] = defaultdict(list)
        self.logs: dict[str, deque[bytes]] = {}
        self.counters: Counter[str] = Counter()


class MemoryStore:
    """A `Store` in this process. Each method runs without a pause, so each is atomic on the event loop.

    `limits` says how many values of a kind it has room for, in all sandboxes together.
    """

    never_suspends = True
    propagation_ms = 0
    connections = 0

    def __init__(self, limits: Mapping[str, int] | None = None) -> None:
        self._limits = limits or {}
        self._totals: Counter[str] = Counter()
        self._sandboxes: defaultdict[str, _Sandbox] = defaultdict(_Sandbox)

    async def initialize(self) -> str | None:
        return None

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
        of = self._sandboxes[sandbox]
        values, keys = of.values, of.kinds[kind]
        state, existing = values.get(STATE), values.get(key)
        if existing is None and state == expected_state:
            total = self._totals[kind]
            if (limit is not None and len(keys) >= limit) or total >= self._limits.get(kind, math.inf):
                raise PaymockError("capacity_exceeded")
            self._totals[kind] = total + 1
            values[key] = value
            keys.append(key)
            if new_state is not None:
                values[STATE] = new_state
        return AddResult(state, existing)

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        of = self._sandboxes.get(sandbox)
        return [*map(of.values.get, keys)] if of else [None] * len(keys)

    async def replace(
        self, sandbox: str, key: str, old: bytes | None, new: bytes, *, expected_state: bytes | None
    ) -> bool:
        values = self._sandboxes[sandbox].values
        if values.get(STATE) != expected_state or values.get(key) != old:
            return False
        values[key] = new
        return True

    async def page(
        self, sandbox: str, kind: str, *, limit: int, before: int | None = None
    ) -> list[tuple[int, bytes]]:
        of = self._sandboxes.get(sandbox)
        keys = of.kinds.get(kind) if of else None
        if of is None or keys is None:
            return []
        end = len(keys) if before is None else min(before, len(keys))
        return [(at, of.values[keys[at]]) for at in range(end - 1, max(-1, end - 1 - limit), -1)]

    async def increment(self, sandbox: str, key: str) -> int:
        counters = self._sandboxes[sandbox].counters
        counters[key] += 1
        return counters[key]

    async def append(self, sandbox: str, log: str, entry: bytes, *, keep: int) -> None:
        logs = self._sandboxes[sandbox].logs
        if log not in logs:
            logs[log] = deque(maxlen=keep)
        logs[log].append(entry)

    async def tail(self, sandbox: str, log: str, limit: int) -> list[bytes]:
        of = self._sandboxes.get(sandbox)
        return list(islice(reversed(of.logs.get(log, deque())), limit)) if of else []

    async def clear_log(self, sandbox: str, log: str) -> None:
        self._sandboxes[sandbox].logs.pop(log, None)

    async def reset(self, sandbox: str, new_state: bytes, *, expected_state: bytes | None) -> bool:
        forgotten, fresh = self._sandboxes[sandbox], _Sandbox()
        if forgotten.values.get(STATE) != expected_state:
            return False
        self._totals.subtract({kind: len(keys) for kind, keys in forgotten.kinds.items()})
        fresh.values[STATE] = new_state
        self._sandboxes[sandbox] = fresh
        return True

    async def ping(self) -> None:
        return None

    async def changes(self) -> AsyncIterator[Change]:
        others: tuple[Change, ...] = ()  # no other process sees this store
        for change in others:
            yield change

    async def close(self) -> None:
        return None
