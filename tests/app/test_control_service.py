"""The use cases of the control API, without HTTP."""

import asyncio
from typing import Any

import pytest

from paymock.app.payment_lookup import PaymentFilter
from paymock.stores.memory import MemoryStore
from tests.support.use_cases import SANDBOX, UseCases, refusal


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"to": "end", "timeout": -1}, "timeout"),
        ({"to": "end", "until_observed": 1}, "until_observed"),
        ({"to": "end", "until_observed": True, "timeout": 61}, "timeout"),
        ({"to": "end", "seconds": 1, "until_observed": True}, "seconds"),
        ({"until_observed": True}, "seconds"),
    ],
)
async def test_an_invalid_advance_is_refused(body: dict[str, Any], field: str) -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create()
    error = await refusal(app.control.advance_payment(SANDBOX, payment.id, body))
    assert list(error.details or ()) == [field]


@pytest.mark.parametrize(("is_reset", "total"), [(False, 2), (True, 1)])
async def test_the_total_is_never_less_than_what_is_listed(*, is_reset: bool, total: int) -> None:
    """Though the list and the total are two steps of the store."""

    class ChangingStore(MemoryStore):
        async def count(self, sandbox: str, kind: str) -> int:
            await (app.control.reset(SANDBOX) if is_reset else app.create("key-number-2"))
            return await super().count(sandbox, kind)

    app = UseCases(ChangingStore())
    await app.create("key-number-1")
    page = await app.control.payments(SANDBOX, PaymentFilter(), 9, None)
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
    assert (await app.control.payments(SANDBOX, PaymentFilter(status="completed"), 9, None)).data == []
    running.cancel()
    assert turns == 2
