"""Stores in memory that let others in between, as a store across a network does, or answer late, or fail; and
what is in a store.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from paymock.rules.errors import PaymockError
from paymock.stores.base import AddResult, Change
from paymock.stores.memory import MemoryStore


class SharedStore(MemoryStore):
    """Lets every other task run before each step, as a store across a network does, and counts the steps."""

    is_synchronous = False

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    async def _step(self, name: str) -> None:
        self.steps.append(name)
        await asyncio.sleep(0)

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        await self._step("get")
        return await super().get(sandbox, *keys)

    async def add(self, *args: Any, **options: Any) -> AddResult:
        await self._step("add")
        return await super().add(*args, **options)

    async def replace(self, *args: Any, **options: Any) -> bool:
        await self._step("replace")
        return await super().replace(*args, **options)

    async def reset(self, *args: Any, **options: Any) -> bool:
        await self._step("reset")
        return await super().reset(*args, **options)


class LateStore(MemoryStore):
    """Gives the next answer late, when it is told to: `held` is set when it has looked, `let_go` lets go."""

    is_synchronous = False

    def __init__(self) -> None:
        super().__init__()
        self.holding = False
        self.held, self.let_go = asyncio.Event(), asyncio.Event()

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        values = await super().get(sandbox, *keys)
        if self.holding:
            self.holding = False
            self.held.set()
            await self.let_go.wait()
        return values


class TellingStore(SharedStore):
    """Tells of changes of other processes, after it has failed once."""

    def __init__(self) -> None:
        super().__init__()
        self.told: asyncio.Queue[Change] = asyncio.Queue()
        self.failures = 1

    async def changes(self) -> AsyncIterator[Change]:
        if self.failures:
            self.failures -= 1
            raise PaymockError("store_unavailable")
        while True:
            yield await self.told.get()


def everything_in(store: object) -> object:
    if isinstance(store, Mapping):
        return [(key, everything_in(value)) for key, value in store.items()]
    if isinstance(store, str | bytes | int | float | None):
        return store
    if hasattr(store, "__dict__"):
        return everything_in(vars(store))
    if hasattr(store, "__slots__"):
        return [(name, everything_in(getattr(store, name))) for name in store.__slots__]
    return [*map(everything_in, store)] if isinstance(store, Iterable) else [repr(store)]
