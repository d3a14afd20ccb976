import re
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from paymock.app.overrides import take_scenario
from paymock.payments.records import Override, SandboxRecord
from paymock.schemas.control import Advance, ListPayments, SelectNext, SetNext
from paymock.stores.base import SANDBOX_RECORD
from paymock.stores.memory import MemoryStore
from tests.support.use_cases import SANDBOX, UseCases, refusal

STORED_BY_0_3 = {
    b"\x96\x00\xc0\x90\x91\x94\xa4drop\x01\xc0\xc0\x90\x00": [],
    b"\x96\x00\xc0\x93\x94\xaclate_payment\x01\xc0\xc0\x94\xa4mine\x02\x95\xa4mine\xa0\x91\x93\xcd\x13\x88\x94"
    b"\x01\x02\xa10\xc0\xc2\xc3\xc2\xa7order-1\x94\xafoverpaid_review\xc0\xc0\xa7order-2\x94\x94\xb3status=503"
    b"; times=2\x01\xc0\xc0\x94\xa4drop\x02\xc0\xa7order-1\x94\xa4hang\xc0\xc0\xa7order-2\x94\xa5reset"
    b"\xc0\xc0\xc0\x91\x9a\xd9$flt_f5172dd830146915e0bceb1390d45bfa\xaastatus=500\xaagetPayment\xc0\xc0\x00\x01\x00\x00"
    b"\x80\x01": [("late_payment", 1, UNSET), ("mine", 2, "order-1"), ("overpaid_review", None, "order-2")],
}
"""Sandboxes with faults of the next creations, alone and beside scenarios and a rule, and what is pending."""


@pytest.mark.parametrize("stored", STORED_BY_0_3)
async def test_a_sandbox_of_0_3_loses_the_faults_of_its_next_creations_and_nothing_else(
    stored: bytes,
) -> None:
    store = MemoryStore()
    assert await store.replace(SANDBOX, SANDBOX_RECORD, None, stored, expected_state=None)
    app = UseCases(store)
    pending = (await app.control.overrides.pending(SANDBOX)).data
    assert [(one.scenario, one.times, one.order_id) for one in pending] == STORED_BY_0_3[stored]
    rules = (await app.control.fault_rules.list(SANDBOX)).data
    assert [rule.fault for rule in rules] == ["status=500"] * bool(pending)
    await app.create("order-1002-payment", order_id="order-1")
    await app.control.advance(SANDBOX, Advance(seconds=1))
    [created] = (await app.control.payments(SANDBOX, ListPayments())).data
    assert created.scenario == ("mine" if pending else "happy_path")
    [kept] = await store.get(SANDBOX, SANDBOX_RECORD)
    assert kept is not None
    assert not re.search(b"drop|503|hang|reset", kept)


def test_an_order_takes_the_first_of_its_own_before_those_for_all() -> None:
    mine, other = Override("late_payment", 2, order_id="order-1"), Override("failed", 1, order_id="order-2")
    always = Override("happy_path", None)
    record = SandboxRecord(scenarios=(other, always, mine))
    left = SandboxRecord(scenarios=(other, always, replace(mine, times=1)))
    assert take_scenario(record, "order-1") == (left, mine)
    assert take_scenario(record, "order-2") == (SandboxRecord(scenarios=(always, mine)), other)
    assert take_scenario(record, "order-3") == (record, always)


def test_the_closest_conditions_come_first_then_what_has_a_count_then_the_oldest() -> None:
    named = [
        Override("1", None, order_id="cart-A-1"),
        Override("2", 1, order_id_prefix="cart-A-", metadata={"test": "A"}),
        Override("3", 1, order_id_prefix="cart-A-"),
        Override("4", 1, order_id_prefix="cart-"),
        Override("5", 1, metadata={"test": "A", "n": 1}),
        Override("6", 1, metadata={"test": "A"}),
        Override("7", None, metadata={"test": "A"}),
        Override("8", 1),
        Override("9", 1),
    ]
    record, taken = SandboxRecord(scenarios=tuple(named[::-1])), list[str]()
    for _ in range(len(named)):
        _, first = take_scenario(record, "cart-A-1", {"test": "A", "n": 1.0, "more": []})
        assert first is not None
        taken.append(first.value)
        record = SandboxRecord(scenarios=tuple(one for one in record.scenarios if one is not first))
    assert taken == ["1", "2", "3", "4", "5", "6", "7", "9", "8"]


def test_members_of_metadata_are_equal_as_json() -> None:
    record = SandboxRecord(scenarios=(Override("late_payment", 1, metadata={"n": 1}),))
    others: list[Any] = ["1", True, [1], {"a": 1}, None]
    for metadata in ({}, {"m": 1}, *({"n": other} for other in others)):
        assert take_scenario(record, "order-1", metadata) == (record, None)
    assert take_scenario(record, "order-1", {"n": 1.0, "x": None})[1] == record.scenarios[0]


async def test_overrides_of_an_order_are_cleared_alone_and_permanent_ones_stand_before_that_of_all() -> None:
    pending = UseCases(MemoryStore()).control.overrides
    await pending.add(SANDBOX, SetNext(scenario="happy_path", times=None))
    await pending.add(SANDBOX, SetNext(scenario="late_payment", times=None, order_id="order-1"))
    after = await pending.add(SANDBOX, SetNext(scenario="overpaid_review", order_id="order-2"))
    assert [(one.scenario, one.order_id) for one in after.data] == [
        ("overpaid_review", "order-2"),
        ("late_payment", "order-1"),
        ("happy_path", UNSET),
    ]
    await pending.clear(SANDBOX, SelectNext(order_id="order-1"))
    left = (await pending.pending(SANDBOX)).data
    assert [one.order_id for one in left] == ["order-2", UNSET]


async def test_a_full_queue_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paymock.app.overrides.MAX_OVERRIDES", 2)
    pending = UseCases(MemoryStore()).control.overrides
    await pending.add(SANDBOX, SetNext(scenario="happy_path", times=None))
    for _ in range(2):
        await pending.add(SANDBOX, SetNext(scenario="late_payment"))
    before = await pending.add(
        SANDBOX, SetNext(scenario="overpaid_review", times=None)
    )  # which needs no room
    assert [one.scenario for one in before.data] == ["late_payment", "late_payment", "overpaid_review"]
    error = await refusal(pending.add(SANDBOX, SetNext(scenario="late_payment")))
    assert error.kind.code == "capacity_exceeded"
    assert await pending.pending(SANDBOX) == before
