"""The use cases of the control API, without HTTP."""

import asyncio
from typing import Any

import pytest

from paymock.stores.memory import MemoryStore
from tests.support.use_cases import SANDBOX, UseCases, refusal


@pytest.mark.parametrize("target", [{"to": "end", "seconds": 1}, {}])
async def test_an_advance_has_exactly_one_target(target: dict[str, Any]) -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create()
    error = await refusal(app.control.advance_payment(SANDBOX, payment.id, until_observed=True, **target))
    assert list(error.details or ()) == ["seconds"]


@pytest.mark.parametrize(("is_reset", "total"), [(False, 2), (True, 1)])
async def test_the_total_is_never_less_than_what_is_listed(*, is_reset: bool, total: int) -> None:
    """Though the list and the total are two steps of the store."""

    class ChangingStore(MemoryStore):
        async def count(self, sandbox: str, kind: str) -> int:
            await (app.control.reset(SANDBOX) if is_reset else app.create("key-number-2"))
            return await super().count(sandbox, kind)

    app = UseCases(ChangingStore())
    await app.create("key-number-1")
    page = await app.control.payments(SANDBOX, 9)
    assert (len(page.data), page.total) == (1, total)


async def test_a_search_lets_others_in_after_every_fifty_payments() -> None:
    app = UseCases(MemoryStore())
    for number in range(120):
        await app.create(f"key-number-{number}")
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    assert (await app.control.payments(SANDBOX, 9, status="completed")).data == []
    running.cancel()
    assert turns == 2
