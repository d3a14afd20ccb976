"""The queues of overrides."""

import pytest
from msgspec import UNSET

from paymock.app import overrides
from paymock.schemas.control import ClearNext, SetNext
from paymock.stores.memory import MemoryStore
from tests.support.use_cases import SANDBOX, UseCases, refusal


async def test_overrides_of_an_order_are_cleared_alone_and_permanent_ones_stand_before_that_of_all() -> None:
    pending = UseCases(MemoryStore()).control.overrides
    await pending.add(SANDBOX, SetNext(scenario="happy_path", times=None))
    await pending.add(SANDBOX, SetNext(scenario="late_payment", times=None, order_id="order-1"))
    after = await pending.add(SANDBOX, SetNext(fault="drop", order_id="order-2"))
    assert [(one.scenario, one.fault, one.order_id) for one in after.data] == [
        ("late_payment", None, "order-1"),
        ("happy_path", None, UNSET),
        (None, "drop", "order-2"),
    ]
    await pending.clear(SANDBOX, ClearNext(order_id="order-1"))
    left = (await pending.pending(SANDBOX)).data
    assert [one.order_id for one in left] == [UNSET, "order-2"]


async def test_scenarios_and_faults_wait_in_separate_queues_with_the_permanent_one_last() -> None:
    pending = UseCases(MemoryStore()).control.overrides
    await pending.add(SANDBOX, SetNext(scenario="late_payment", times=None))
    await pending.add(SANDBOX, SetNext(fault="drop"))
    await pending.add(SANDBOX, SetNext(scenario="happy_path", times=2))
    after = await pending.add(SANDBOX, SetNext(scenario="manual_review", times=None))
    assert [(one.scenario, one.fault, one.times) for one in after.data] == [
        ("happy_path", None, 2),
        ("manual_review", None, None),
        (None, "drop", 1),
    ]
    assert await pending.pending(SANDBOX) == after
    await pending.clear(SANDBOX, ClearNext())
    assert (await pending.pending(SANDBOX)).data == []


async def test_a_full_queue_takes_no_more_and_neither_queue_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overrides, "MAX_OVERRIDES", 2)
    pending = UseCases(MemoryStore()).control.overrides
    await pending.add(SANDBOX, SetNext(fault="reset", times=None))
    for _ in range(2):
        await pending.add(SANDBOX, SetNext(fault="drop"))
    before = await pending.add(SANDBOX, SetNext(fault="hang", times=None))  # which needs no room
    assert [one.fault for one in before.data] == ["drop", "drop", "hang"]
    error = await refusal(pending.add(SANDBOX, SetNext(scenario="late_payment", fault="drop")))
    assert error.kind.code == "capacity_exceeded"
    assert await pending.pending(SANDBOX) == before
