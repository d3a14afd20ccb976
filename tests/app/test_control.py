import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.app.journal import encode_entry
from paymock.app.lookup import PaymentFilter, newest_payments
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import transaction_hash
from paymock.rules.scenarios import SCENARIOS, PaymentStatus
from paymock.sandbox import scheduler
from paymock.sandbox.scheduler import SCHEDULER, FairScheduler, yield_turn
from paymock.schemas.control import Advance, ListPayments, ListRequests, MakeDeposit, ReadPayment, ReadStory
from paymock.stores.memory import MemoryStore
from tests.support.use_cases import SANDBOX, UseCases, line


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


async def test_what_takes_long_is_done_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many requests a key sends: between two turns, others run; and other keys have every second."""
    monkeypatch.setattr(scheduler, "SLICE_NS", 0)
    app, done = UseCases(MemoryStore()), list[str]()
    for number in range(30):
        await app.create(f"key-number-{number}")
        app.control.journal.add(SANDBOX, partial(encode_entry, line()))
    [*listed] = (await app.control.payments(SANDBOX, ListPayments())).data
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: app.control.payments(SANDBOX, ListPayments(limit=30)),
        lambda: app.control.status_counts(SANDBOX, ListPayments()),
        lambda: app.control.payments(SANDBOX, ListPayments(status=PaymentStatus.FAILED)),
        lambda: app.control.journal.newest(SANDBOX, ListRequests(limit=30)),
        lambda: app.control.story(SANDBOX, ReadStory()),
        lambda: app.control.revisions.clock(SANDBOX),
        lambda: app.control.payment(SANDBOX, listed[0].id),
    ]

    async def work(owner: str, call: Callable[[], Awaitable[object]]) -> None:
        SCHEDULER.set((app.sandboxes.notifier.scheduler, owner))
        await call()
        done.append(owner)

    async def small() -> None:
        for _ in range(10):
            await yield_turn()
            done.append("small")

    for call in calls:
        done.clear()
        turns = 0
        large = [asyncio.create_task(work("large", call)) for _ in range(4)]
        other = asyncio.create_task(work("other", small))
        while not other.done():
            await asyncio.sleep(0)
            turns += 1
        # what has less work is done before what has much
        assert [one for one in done if call is not calls[-1] or one != "large"] == [*["small"] * 10, "other"]
        assert turns >= 20
        await asyncio.gather(*large)


async def test_what_takes_a_few_slices_waits_for_no_long_work_of_a_thousand_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduler, "SLICE_NS", 0)
    shared, turns = FairScheduler(), 0

    async def work(owner: str, slices: int) -> None:
        SCHEDULER.set((shared, owner))
        for _ in range(slices):
            await yield_turn()

    long = [asyncio.create_task(work(f"key-{number}", 10_000)) for number in range(1_000)]
    for _ in range(9_000):  # all have had a few slices
        await asyncio.sleep(0)
    short = asyncio.create_task(work("another", 3))
    while not short.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns <= 20
    for task in long:
        task.cancel()


async def test_no_key_waits_for_the_turns_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor for journals, which are encoded for whoever reads one first; nor at its checkout, without a key."""
    monkeypatch.setattr(scheduler, "SLICE_NS", 0)
    app, turns = UseCases(MemoryStore()), 0
    payment, _ = await app.create()
    await app.control.deposit(SANDBOX, payment.id, MakeDeposit(amount="1"))
    for _ in range(20):
        app.control.journal.add(SANDBOX, partial(encode_entry, line()))

    async def busy() -> None:
        nonlocal turns
        while True:
            await yield_turn()
            turns += 1

    async def read(owner: str) -> None:
        SCHEDULER.set((app.sandboxes.notifier.scheduler, owner))
        await app.control.journal.newest(SANDBOX, ListRequests())

    SCHEDULER.set((app.sandboxes.notifier.scheduler, ""))
    tasks = [asyncio.create_task(work) for work in (read(""), *(busy() for _ in range(40)))]
    await asyncio.create_task(read("other"))
    assert turns < 400
    turns = 0
    await asyncio.create_task(app.checkouts.show(payment.id))
    assert turns < 20
    for task in tasks:
        task.cancel()


async def test_a_search_finds_orders_by_any_part_and_ids_by_their_beginning() -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create(order_id="pay_заказ", scenario="late_payment")
    other, _ = await app.create("key-number-2", order_id=payment.id)

    async def found(**wanted: str) -> list[str]:
        page = await newest_payments(app.sandboxes, SANDBOX, 9, None, PaymentFilter(**wanted))
        return [one.payment.id for _, one in page.payments]

    address, token = payment.attempts[0].instructions.invoice_address, payment.id.removeprefix("pay_")
    for text in (address, address.lower(), address.upper(), transaction_hash(token, 0)):
        assert await found(search=text) == [payment.id]
        assert await found(search=text[:-1]) == []
    assert await found(search=transaction_hash(token, 1)) == []
    for length in range(1, len(payment.id) + 1):
        assert await found(search=payment.id[:length]) == [other.id, payment.id]
    assert await found(search=other.id) == [other.id]
    for part in ("pay_за", "заказ", "_зака", "y_з"):
        assert await found(search=part) == [payment.id]
    for nothing in ("Pay_", "PAY_", f"{payment.id}x", "att_", "late"):
        assert await found(search=nothing) == []
    assert await found(order_id="pay_за") == await found(search="pay_", status="expired") == []
    assert await found(order_id="pay_заказ", scenario="late_payment") == [payment.id]


@given(
    scenario=st.sampled_from([*SCENARIOS]),
    deposit=st.none() | st.tuples(st.integers(1, 30_000), st.sampled_from(["1", "1010000000000000000"])),
    ahead=st.sampled_from([1, 5_000, 13_000, 30_000, 45_000]) | st.integers(1, 60_000),
)
def test_a_payment_at_a_moment_is_what_a_read_shows_then(
    scenario: str, deposit: tuple[int, str] | None, ahead: int
) -> None:
    """As things stand: with what has been deposited so far."""

    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create(scenario=scenario)
        first, now = await app.control.payment(SANDBOX, payment.id), 0
        if deposit is not None:
            now, amount = deposit
            await app.control.advance(SANDBOX, Advance(seconds=now / 1000))
            with suppress(PaymockError):
                await app.control.deposit(SANDBOX, payment.id, MakeDeposit(amount=amount))
        at = f"{(now + ahead) / 1000:.3f}"
        told = await app.control.payment(SANDBOX, payment.id, ReadPayment(at=at))
        await app.control.advance(SANDBOX, Advance(seconds=ahead / 1000))
        assert await app.control.payment(SANDBOX, payment.id) == told
        assert (await app.service.payment(SANDBOX, payment.id)).json == msgspec.json.encode(told.payment)
        if deposit is None:
            assert await app.control.payment(SANDBOX, payment.id, ReadPayment(at="0")) == first

    asyncio.run(check())
