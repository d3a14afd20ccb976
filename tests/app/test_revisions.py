"""What pages poll: whether anything in a sandbox is new, and when something changes by itself."""

from collections.abc import Awaitable, Callable

import pytest

from paymock.app import revisions
from paymock.rules.scenarios import SCENARIOS
from paymock.schemas.control import (
    AddFault,
    Advance,
    AdvancePayment,
    MakeDeposit,
    PolledClock,
    SelectNext,
    SetClock,
    SetNext,
)
from paymock.stores.base import Store
from paymock.stores.memory import MemoryStore
from tests.support.stores import SharedStore
from tests.support.use_cases import SANDBOX, UseCases, encoded, line


async def polled(app: UseCases) -> PolledClock:
    return await app.control.revisions.clock(SANDBOX)


@pytest.mark.parametrize("store", [MemoryStore, SharedStore])
async def test_the_revision_is_another_one_after_each_change_by_any_process(store: type[Store]) -> None:
    shared = store()
    app, other = UseCases(shared), UseCases(shared)
    seen = {(await polled(app)).revision}
    payment, _ = await app.create()
    control = other.control if store is SharedStore else app.control
    steps: list[Callable[[], Awaitable[object]]] = [
        lambda: app.create("order-1002-payment"),
        lambda: control.set_clock(SANDBOX, SetClock(speed=0)),
        lambda: control.advance(SANDBOX, Advance(seconds=1)),
        lambda: control.advance_payment(SANDBOX, payment.id, AdvancePayment(seconds=1)),
        lambda: control.deposit(SANDBOX, payment.id, MakeDeposit(amount="1")),
        lambda: control.overrides.add(SANDBOX, SetNext(scenario="manual_review")),
        lambda: control.overrides.clear(SANDBOX, SelectNext()),
        lambda: control.fault_rules.add(SANDBOX, AddFault(fault="drop")),
        lambda: control.fault_rules.clear(SANDBOX),
        lambda: control.reset(SANDBOX),
        app.create,
    ]
    for number, step in enumerate(steps, 2):
        await step()
        seen.add((await polled(app)).revision)
        assert len(seen) == number
        assert (await polled(app)).revision in seen


async def test_each_request_has_a_revision_and_the_time_has_none() -> None:
    app = UseCases(MemoryStore())
    await app.create()
    seen = []
    for _ in range(1_300):  # more than the journal keeps
        app.control.journal.add(SANDBOX, encoded(line()))
        seen.append((await polled(app)).revision)
    await app.control.journal.clear(SANDBOX)
    seen.append((await polled(app)).revision)
    assert len({*seen}) == 1_301
    app.clock.advance(60)
    assert (await polled(app)).revision == seen[-1]


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_the_next_change_is_that_which_comes_first(scenario: str) -> None:
    app = UseCases(MemoryStore())
    assert (await polled(app)).next_change_at is None
    await app.control.advance(SANDBOX, Advance(seconds=3600))
    payment, _ = await app.create(scenario=scenario)
    begun, *timeline = (await app.control.payment(SANDBOX, payment.id)).timeline
    now = begun.offset_seconds
    for entry in timeline:
        assert (await polled(app)).next_change_at == entry.at
        await app.control.advance(SANDBOX, Advance(seconds=entry.offset_seconds - now))
        now = entry.offset_seconds
    assert (await polled(app)).next_change_at is None


async def test_a_payment_that_is_ahead_of_its_sandbox_changes_earlier() -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create()
    await app.control.advance_payment(SANDBOX, payment.id, AdvancePayment(seconds=2))
    assert (await polled(app)).next_change_at == "2030-01-31T12:00:03.000Z"


async def test_of_more_payments_than_are_looked_at_the_newest_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions, "NEWEST", 9)
    app = UseCases(MemoryStore())
    await app.create("the-first-one")
    await app.control.advance(SANDBOX, Advance(seconds=1))
    for number in range(9):
        await app.create(f"key-number-{number}")
    assert (await polled(app)).next_change_at == "2030-01-31T12:00:06.000Z"


async def test_a_busy_sandbox_of_many_payments_is_looked_at_now_and_then() -> None:
    """Until then, its next change may be now: a page draws anew."""
    store = SharedStore()
    app = UseCases(store)
    for number in range(101):
        await app.create(f"key-number-{number}")
    found = await polled(app)
    assert found.next_change_at == "2030-01-31T12:00:05.000Z"
    store.steps.clear()
    for number in range(20):
        await app.create(f"more-{number}")
        found = await polled(app)
        assert found.next_change_at == found.now
    assert store.steps.count("get") < 100
