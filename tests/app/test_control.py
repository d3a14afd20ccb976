import asyncio

import pytest

from paymock.app.lookup import PaymentFilter, newest_payments
from paymock.rules.scenarios import PaymentStatus
from paymock.schemas.control import ListPayments
from paymock.stores.memory import MemoryStore
from tests.support.use_cases import SANDBOX, UseCases


@pytest.mark.parametrize(("is_reset", "total"), [(False, 2), (True, 1)])
async def test_the_total_is_never_less_than_what_is_listed(*, is_reset: bool, total: int) -> None:
    """Though the list and the total are two steps of the store."""

    class ChangingStore(MemoryStore):
        async def count(self, sandbox: str, kind: str) -> int:
            await (app.control.reset(SANDBOX) if is_reset else app.create("key-number-2"))
            return await super().count(sandbox, kind)

    app = UseCases(ChangingStore())
    await app.create("key-number-1")
    page = await app.control.payments(SANDBOX, ListPayments(limit=9))
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
    assert (
        await app.control.payments(SANDBOX, ListPayments(limit=9, status=PaymentStatus.COMPLETED))
    ).data == []
    running.cancel()
    assert turns == 2


async def test_a_search_finds_ids_and_orders_by_any_beginning() -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create(order_id="pay_заказ", scenario="late_payment")
    other, _ = await app.create("key-number-2", order_id=payment.id)

    async def found(**wanted: str) -> list[str]:
        page = await newest_payments(app.sandboxes, SANDBOX, 9, payment_filter=PaymentFilter(**wanted))
        return [one.payment.id for _, one in page.payments]

    for length in range(1, len(payment.id) + 1):
        assert await found(search=payment.id[:length]) == [other.id, payment.id]
    assert await found(search=other.id) == [other.id]
    assert await found(search="pay_за") == [payment.id]
    for nothing in ("заказ", "PAY_", f"{payment.id}x", "att_", "late"):
        assert await found(search=nothing) == []
    assert await found(order_id="pay_за") == await found(search="pay_", status="expired") == []
    assert await found(order_id="pay_заказ", scenario="late_payment") == [payment.id]
