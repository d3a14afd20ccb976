"""Snapshots of payments: past, present and future states."""

import pytest

from paymock.app.payment_lookup import PaymentFilter, PaymentSnapshot, find_payment, newest_payments
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import sandbox_of
from paymock.stores.memory import MemoryStore
from tests.support.specification import COURSES
from tests.support.use_cases import SANDBOX, UseCases
from tests.support.virtual_time import run


async def at_second(second: float, scenario: str = "happy_path", speed: float = 0) -> PaymentSnapshot:
    """A payment so many seconds after its creation."""
    app = UseCases(MemoryStore())
    payment, _ = await app.create(scenario=scenario)
    if second:
        await app.control.advance(SANDBOX, {"seconds": second})
    if speed:
        await app.control.set_clock(SANDBOX, {"speed": speed})
    return await find_payment(app.sandboxes, SANDBOX, payment.id)


@pytest.mark.parametrize("scenario", COURSES)
def test_a_payment_has_been_what_lies_behind_it_and_can_reach_what_lies_ahead(scenario: str) -> None:
    for second, status in COURSES[scenario]:
        payment = run(at_second(second, scenario))
        assert payment.state.status == status
        for start, other in COURSES[scenario]:
            assert payment.has_been(other) == (start <= second)
            assert start <= second or payment.can_reach(other)


def test_the_time_to_the_next_state_depends_on_the_speed() -> None:
    for speed, seconds in ((1, 5), (10, 0.5)):
        payment = run(at_second(0, speed=speed))
        assert payment.seconds_to_change == pytest.approx(seconds, abs=0.01)
        assert payment.after(int(seconds * 1000)).state.status == "payment_detected"


@pytest.mark.parametrize(
    ("second", "speed"), [(0, 0), (45, 1)], ids=["the clock stands still", "it is final"]
)
def test_what_does_not_change_by_itself_has_no_next_change(second: float, speed: float) -> None:
    assert run(at_second(second, speed=speed)).seconds_to_change is None


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
def test_a_filter_selects_by_each_of_its_values(payment_filter: PaymentFilter, *, matches: bool) -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create(scenario="late_payment")
        page = await newest_payments(app.sandboxes, SANDBOX, 9, payment_filter=payment_filter)
        assert [found.payment.id for _, found in page.payments] == [payment.id] * matches

    run(check())


def test_a_search_finds_ids_and_orders_by_any_beginning() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create(order_id="pay_заказ")
        other, _ = await app.create("key-number-2", order_id=payment.id)

        async def found(search: str) -> list[str]:
            page = await newest_payments(
                app.sandboxes, SANDBOX, 9, payment_filter=PaymentFilter(search=search)
            )
            return [one.payment.id for _, one in page.payments]

        for length in range(1, len(payment.id) + 1):
            assert await found(payment.id[:length]) == [other.id, payment.id]
        assert await found(other.id) == [other.id]
        assert await found("pay_за") == [payment.id]
        assert await found("заказ") == await found(f"{payment.id}x") == await found("att_") == []

    run(check())


def test_pages_continue_at_a_position() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        created = [(await app.create(f"key-number-{number}"))[0].id for number in range(3)]
        first = (await newest_payments(app.sandboxes, SANDBOX, 2)).payments
        rest = (await newest_payments(app.sandboxes, SANDBOX, 2, before=first[-1][0])).payments
        assert [payment.payment.id for _, payment in [*first, *rest]] == created[::-1]
        ends = [(await newest_payments(app.sandboxes, SANDBOX, limit)).end for limit in (2, 4)]
        assert ends == [first[-1][0], None]

    run(check())


def test_a_payment_of_another_sandbox_is_not_found() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create()
        for sandbox, payment_id in (
            (sandbox_of("mk_test_other"), payment.id),
            (SANDBOX, "pay_unknown"),
            (SANDBOX, ""),
        ):
            with pytest.raises(PaymockError) as caught:
                await find_payment(app.sandboxes, sandbox, payment_id)
            assert caught.value.kind.code == "payment_not_found"

    run(check())
