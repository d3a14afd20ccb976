"""The use cases without HTTP, on a store that lets others in between."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import msgspec

from paymock.catalog_file import load_catalog
from paymock.checkouts import Checkouts
from paymock.control import Control
from paymock.core.errors import PaymockError
from paymock.core.identity import sandbox_of
from paymock.core.records import OriginRecord
from paymock.core.strict_json import fingerprint
from paymock.core.wire import Payment
from paymock.sandboxes import KeyedRequest, Sandboxes, new_origin
from paymock.service import Service
from paymock.stores.base import Addition, Change
from paymock.stores.memory import MemoryStore
from tests.support.client import order
from tests.support.clock import NOON, ManualClock

SANDBOX = sandbox_of("mk_test_demo")


class SharedStore(MemoryStore):
    """Lets every other task run before each step, as a store across a network does, and counts the steps."""

    at_once = False

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    async def _step(self, name: str) -> None:
        self.steps.append(name)
        await asyncio.sleep(0)

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        await self._step("get")
        return await super().get(sandbox, *keys)

    async def add(self, *args: Any, **options: Any) -> Addition:
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

    at_once = False

    def __init__(self) -> None:
        super().__init__()
        self.holding = False
        self.held, self.let_go = asyncio.Event(), asyncio.Event()

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        found = await super().get(sandbox, *keys)
        if self.holding:
            self.holding = False
            self.held.set()
            await self.let_go.wait()
        return found


class House:
    """The use cases on a store; two houses on one store are two processes."""

    def __init__(self, store: MemoryStore, origin: OriginRecord | None = None) -> None:
        self.clock = ManualClock()
        self.sandboxes = Sandboxes(store, self.clock, origin or new_origin(NOON, 0, "tests"))
        self.service = Service(load_catalog(None), 100, self.sandboxes)
        self.control = Control(load_catalog(None), self.sandboxes)
        self.checkouts = Checkouts(load_catalog(None), self.sandboxes)

    async def create(
        self, key: str = "order-1001-payment", scenario: str | None = None, **changes: Any
    ) -> tuple[Payment, bool]:
        body = order(**changes)
        request = KeyedRequest(SANDBOX, key, fingerprint("POST", "/v1/payments", body), body)
        created = await self.service.create_payment(request, scenario)
        return msgspec.json.decode(created.json, type=Payment), created.replayed


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


async def leave_amid_a_change(
    house: House, told: AsyncGenerator[object, None], *, after: float, turns: int
) -> None:
    """Waits for what is told next. `after` so many seconds comes a change, and so many `turns` of the event
    loop later it gives up; asserts that the wait ends with that.
    """
    leaving = asyncio.create_task(anext(told))
    await asyncio.sleep(after)
    house.sandboxes.wake(SANDBOX)
    for _ in range(turns):
        await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving], timeout=1)
    assert leaving.cancelled()
