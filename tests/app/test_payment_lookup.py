"""Payments that are looked for: by filter, by the beginning of an id or order, and by id."""

import pytest

from paymock.app.payment_lookup import PaymentFilter, find_payment, newest_payments
from paymock.rules.identifiers import sandbox_of
from paymock.stores.memory import MemoryStore
from tests.support.use_cases import SANDBOX, UseCases, refusal


@pytest.mark.parametrize(
    ("payment_filter", "matches"),
    [
        (PaymentFilter(), True),
        (PaymentFilter("awaiting_payment", "late_payment", "order-1001"), True),
        (PaymentFilter(status="expired"), False),
        (PaymentFilter(scenario="happy_path"), False),
        (PaymentFilter(order_id="order-1002"), False),
        (PaymentFilter(order_id="order-1"), False),
        (PaymentFilter(search="order-1"), True),
        (PaymentFilter(search="order-1001"), True),
        (PaymentFilter(search="order-10011"), False),
        (PaymentFilter(search="rder-1001"), False),
        (PaymentFilter(search="ORDER-1001"), False),
        (PaymentFilter(search="late"), False),
        (PaymentFilter("expired", search="order-1"), False),
    ],
)
async def test_a_filter_selects_by_each_of_its_values(
    payment_filter: PaymentFilter, *, matches: bool
) -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create(scenario="late_payment")
    page = await newest_payments(app.sandboxes, SANDBOX, 9, payment_filter=payment_filter)
    assert [found.payment.id for _, found in page.payments] == [payment.id] * matches


async def test_a_search_finds_ids_and_orders_by_any_beginning() -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create(order_id="pay_заказ")
    other, _ = await app.create("key-number-2", order_id=payment.id)

    async def found(search: str) -> list[str]:
        page = await newest_payments(app.sandboxes, SANDBOX, 9, payment_filter=PaymentFilter(search=search))
        return [one.payment.id for _, one in page.payments]

    for length in range(1, len(payment.id) + 1):
        assert await found(payment.id[:length]) == [other.id, payment.id]
    assert await found(other.id) == [other.id]
    assert await found("pay_за") == [payment.id]
    assert await found("заказ") == await found(f"{payment.id}x") == await found("att_") == []


async def test_a_payment_of_another_sandbox_is_not_found() -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create()
    for sandbox, payment_id in (
        (sandbox_of("mk_test_other"), payment.id),
        (SANDBOX, "pay_unknown"),
        (SANDBOX, ""),
    ):
        assert (
            await refusal(find_payment(app.sandboxes, sandbox, payment_id))
        ).kind.code == "payment_not_found"
