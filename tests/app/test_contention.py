"""Changes that other requests keep overtaking end, with an error."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from paymock.app.contention import CONTENTION_SECONDS
from paymock.rules.errors import PaymockError
from paymock.stores.base import AddResult
from tests.support.stores import SharedStore
from tests.support.use_cases import SANDBOX, UseCases
from tests.support.virtual_time import run

STEP_SECONDS = 0.05


class BusyStore(SharedStore):
    """A store in which another request is always faster, when `busy`. Each step takes STEP_SECONDS."""

    busy = False

    async def _step(self, name: str) -> None:
        await asyncio.sleep(STEP_SECONDS)

    async def replace(self, *args: Any, **options: Any) -> bool:
        return await super().replace(*args, **options) if not self.busy else await self._overtake()

    async def reset(self, *args: Any, **options: Any) -> bool:
        return await super().reset(*args, **options) if not self.busy else await self._overtake()

    async def _overtake(self) -> bool:
        await self._step("overtake")
        return False


@pytest.mark.parametrize("operation", ["change", "move", "reset"])
def test_a_change_that_is_always_overtaken_is_refused(operation: str) -> None:
    async def check() -> None:
        store = BusyStore()
        app = UseCases(store)
        payment, _ = await app.create()

        def attempt() -> Awaitable[object]:
            match operation:
                case "change":
                    return app.control.advance(SANDBOX, {"seconds": 1})
                case "move":
                    return app.control.advance_payment(SANDBOX, payment.id, {"seconds": 1})
                case _:
                    return app.control.reset(SANDBOX)

        store.busy = True
        started = asyncio.get_running_loop().time()
        async with asyncio.timeout(10 * CONTENTION_SECONDS):
            with pytest.raises(PaymockError) as caught:
                await attempt()
        assert caught.value.kind.code == "store_unavailable"
        taken = asyncio.get_running_loop().time() - started
        assert CONTENTION_SECONDS <= taken <= CONTENTION_SECONDS + 5 * STEP_SECONDS
        store.busy = False
        await attempt()

    run(check())


def test_a_creation_that_is_always_overtaken_is_refused() -> None:
    states: list[bytes | None] = []

    class ChangingStore(BusyStore):
        async def add(self, *args: Any, **options: Any) -> AddResult:
            if not self.busy:
                return await super().add(*args, **options)
            await self._overtake()
            return AddResult(next(state for state in states if state != options["expected_state"]), None)

    async def check() -> None:
        store = ChangingStore()
        app = UseCases(store)
        for _ in range(2):
            await app.control.advance(SANDBOX, {"seconds": 1})
            states.append((await app.sandboxes.snapshot(SANDBOX)).state)
        store.busy = True
        async with asyncio.timeout(10 * CONTENTION_SECONDS):
            with pytest.raises(PaymockError) as caught:
                await app.create()
        assert caught.value.kind.code == "store_unavailable"
        store.busy = False
        await app.create()

    run(check())
