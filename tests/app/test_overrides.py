"""The queues of overrides."""

import asyncio

import pytest
from msgspec import UNSET

from paymock.app import overrides
from paymock.app.overrides import first_for, without
from paymock.payments.records import Override
from paymock.stores.memory import MemoryStore
from tests.support.stores import SharedStore
from tests.support.use_cases import SANDBOX, UseCases, refusal

ONCE, TWICE, ALWAYS = Override("drop", 1), Override("drop", 2), Override("delay=1", None)


def test_an_order_takes_the_first_that_is_for_it_or_for_all() -> None:
    mine, other = Override("drop", 1, order_id="order-1"), Override("reset", 1, order_id="order-2")
    queue = (other, mine, ALWAYS)
    assert first_for(queue, "order-1") == mine
    assert first_for(queue, "order-3") == first_for(queue, None) == ALWAYS
    assert without(queue, mine) == (other, ALWAYS)
    assert first_for((other,), "order-1") is None


async def test_overrides_of_an_order_are_cleared_alone_and_permanent_ones_stand_before_that_of_all() -> None:
    pending = UseCases(MemoryStore()).control.overrides
    await pending.add(SANDBOX, scenario="happy_path", times=None)
    await pending.add(SANDBOX, scenario="late_payment", times=None, order_id="order-1")
    after = await pending.add(SANDBOX, fault="drop", order_id="order-2")
    assert [(one.scenario, one.fault, one.order_id) for one in after.data] == [
        ("late_payment", None, "order-1"),
        ("happy_path", None, UNSET),
        (None, "drop", "order-2"),
    ]
    await pending.clear(SANDBOX, "order-1")
    left = (await pending.pending(SANDBOX)).data
    assert [one.order_id for one in left] == [UNSET, "order-2"]


async def test_scenarios_and_faults_wait_in_separate_queues_with_the_permanent_one_last() -> None:
    pending = UseCases(MemoryStore()).control.overrides
    await pending.add(SANDBOX, scenario="late_payment", times=None)
    await pending.add(SANDBOX, fault="drop")
    await pending.add(SANDBOX, scenario="happy_path", times=2)
    after = await pending.add(SANDBOX, scenario="manual_review", times=None)
    assert [(one.scenario, one.fault, one.times) for one in after.data] == [
        ("happy_path", None, 2),
        ("manual_review", None, None),
        (None, "drop", 1),
    ]
    assert await pending.pending(SANDBOX) == after
    await pending.clear(SANDBOX)
    assert (await pending.pending(SANDBOX)).data == []


async def test_a_full_queue_takes_no_more_and_neither_queue_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overrides, "MAX_OVERRIDES", 2)
    pending = UseCases(MemoryStore()).control.overrides
    await pending.add(SANDBOX, fault="reset", times=None)
    for _ in range(2):
        await pending.add(SANDBOX, fault="drop")
    before = await pending.add(SANDBOX, fault="hang", times=None)  # which needs no room
    assert [one.fault for one in before.data] == ["drop", "drop", "hang"]
    error = await refusal(pending.add(SANDBOX, scenario="late_payment", fault="drop"))
    assert error.kind.code == "capacity_exceeded"
    assert await pending.pending(SANDBOX) == before


async def test_of_concurrent_creations_one_takes_a_fault() -> None:
    pending = UseCases(SharedStore()).control.overrides
    await pending.add(SANDBOX, fault="drop")
    taken = await asyncio.gather(*(pending.take(SANDBOX, ONCE) for _ in range(8)))
    assert taken.count(True) == 1
    assert (await pending.pending(SANDBOX)).data == []
