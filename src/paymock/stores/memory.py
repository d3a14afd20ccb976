"""The in-memory store: dictionaries, lost on exit. Specification: "Limits"."""

import math
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Mapping, Sequence
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
    """A `Store` in this process. No method suspends, so each is atomic on the event loop.

    `limits` caps the number of values of a kind over all sandboxes.
    """

    never_waits = True
    propagation_ms = 0
    connections = 0

    def __init__(self, limits: Mapping[str, int] | None = None) -> None:
        self._limits = limits or {}
        self._totals: Counter[str] = Counter()
        self._sandboxes: defaultdict[str, _Sandbox] = defaultdict(_Sandbox)

    def copies(self, sandbox: str) -> Sequence[str]:
        return [sandbox]

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
        contents = self._sandboxes[sandbox]
        values, keys = contents.values, contents.kinds[kind]
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
        contents = self._sandboxes.get(sandbox)
        return [*map(contents.values.get, keys)] if contents else [None] * len(keys)

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
        contents = self._sandboxes.get(sandbox)
        if contents is None:
            return []
        keys = contents.kinds.get(kind, [])
        end = len(keys) if before is None else min(before, len(keys))
        positions = range(end - 1, max(-1, end - 1 - limit), -1)
        return [(position, contents.values[keys[position]]) for position in positions]

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
        contents = self._sandboxes.get(sandbox)
        return list(islice(reversed(contents.logs.get(log, deque())), limit)) if contents else []

    async def clear_log(self, sandbox: str, log: str) -> None:
        self._sandboxes[sandbox].logs.pop(log, None)

    async def reset(self, sandbox: str, new_state: bytes, *, expected_state: bytes | None) -> bool:
        old, new = self._sandboxes[sandbox], _Sandbox()
        if old.values.get(STATE) != expected_state:
            return False
        self._totals.subtract({kind: len(keys) for kind, keys in old.kinds.items()})
        new.values[STATE] = new_state
        self._sandboxes[sandbox] = new
        return True

    async def ping(self) -> None:
        return None

    async def changes(self) -> AsyncIterator[Change]:
        no_changes: tuple[Change, ...] = ()  # no other process shares this store
        for change in no_changes:
            yield change

    async def close(self) -> None:
        return None
