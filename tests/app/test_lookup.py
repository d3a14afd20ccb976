"""Payments that are looked for: by order, by status, and by the beginning of an id or order."""

from paymock.app.lookup import PaymentFilter, newest_payments
from paymock.stores.memory import MemoryStore
from tests.support.use_cases import SANDBOX, UseCases


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
