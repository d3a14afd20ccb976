"""Changes that other requests keep overtaking end with an error."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from paymock.payments.records import SandboxRecord, encode
from paymock.rules.errors import PaymockError
from paymock.sandbox.retries import RETRY_SECONDS
from paymock.schemas.control import Advance, AdvancePayment, MakeDeposit
from paymock.stores.base import AddResult
from tests.support.stores import SharedStore
from tests.support.use_cases import SANDBOX, UseCases, keyed

STEP_SECONDS = 0.05


class BusyStore(SharedStore):
    """A store in which another request is always faster, when `busy`. Each step takes STEP_SECONDS."""

    busy = False

    async def _step(self, name: str) -> None:
        await asyncio.sleep(STEP_SECONDS)

    async def replace(self, *args: Any, **options: Any) -> bool:
        await self._step("replace")
        return not self.busy and await super().replace(*args, **options)

    async def reset(self, *args: Any, **options: Any) -> bool:
        await self._step("reset")
        return not self.busy and await super().reset(*args, **options)

    async def add(self, *args: Any, **options: Any) -> AddResult:
        if not self.busy:
            return await super().add(*args, **options)
        await self._step("add")
        states = (None, encode(SandboxRecord()))
        return AddResult(next(state for state in states if state != options["expected_state"]), None)


OPERATIONS: dict[str, Callable[[UseCases, str], Awaitable[object]]] = {
    "a change": lambda app, _: app.control.advance(SANDBOX, Advance(seconds=1)),
    "a move": lambda app, payment_id: app.control.advance_payment(
        SANDBOX, payment_id, AdvancePayment(seconds=1)
    ),
    "a deposit": lambda app, payment_id: app.control.deposit(
        SANDBOX, payment_id, MakeDeposit(amount="1"), request=keyed("the-key-of-a-deposit")
    ),
    "a creation": lambda app, _: app.create("order-1002-payment"),
    "a reset": lambda app, _: app.control.reset(SANDBOX),
}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_what_is_always_overtaken_is_refused(operation: str) -> None:
    store = BusyStore()
    app = UseCases(store)
    payment, _ = await app.create()
    attempt, time = OPERATIONS[operation], asyncio.get_running_loop().time
    store.busy = True
    started = time()
    async with asyncio.timeout(10 * RETRY_SECONDS):
        with pytest.raises(PaymockError) as caught:
            await attempt(app, payment.id)
    assert caught.value.kind.code == "store_unavailable"
    assert RETRY_SECONDS <= time() - started <= RETRY_SECONDS + 5 * STEP_SECONDS
    store.busy = False
    await attempt(app, payment.id)
