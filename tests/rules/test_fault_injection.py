"""What a request gets of the fault rules and overrides of its sandbox."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from paymock.rules.fault_injection import (
    Decision,
    NeedsAttemptNumber,
    Override,
    SandboxRecord,
    decide,
    first_for,
    take_scenario,
    without,
)
from paymock.rules.faults import FaultRule, FaultTarget, parse_fault

CREATION = FaultTarget("createPayment", "order-1", "pay_1")

FAULTS = st.sampled_from(
    ["drop", "drop; before", "status=503", "status=500; after", "delay=5", "delay=5; after", "hold; before"]
)
LIMITED = FAULTS | st.sampled_from(["status=503; times=2", "drop; times=2"])
ORDERS = st.sampled_from([None, "order-1", "order-2"])
TIMES = st.none() | st.integers(1, 3)
RULES = st.lists(
    st.builds(
        FaultRule,
        id=st.uuids().map(str),
        fault=LIMITED,
        operation=st.sampled_from([None, "createPayment", "getPayment"]),
        order_id=ORDERS,
        skip=st.integers(0, 2),
        times=TIMES,
        seen=st.integers(0, 3),
        applied=st.integers(0, 3),
    ),
    max_size=3,
).map(tuple)
RECORDS = st.builds(
    SandboxRecord,
    scenarios=st.lists(st.builds(Override, st.just("late_payment"), TIMES, order_id=ORDERS), max_size=3).map(
        tuple
    ),
    faults=st.lists(st.builds(Override, LIMITED, TIMES, order_id=ORDERS), max_size=3).map(tuple),
    rules=RULES,
)
TARGETS = st.builds(FaultTarget, st.sampled_from(["createPayment", "getPayment"]), ORDERS)


def decided(
    record: SandboxRecord, target: FaultTarget = CREATION, attempt: int = 1, *, takes_override: bool = True
) -> Decision:
    """The decision about an attempt that has the same number with every fault."""
    attempts: dict[str, int] = {}
    while isinstance(
        decision := decide(record, target, attempts, takes_override=takes_override), NeedsAttemptNumber
    ):
        assert decision.key not in attempts
        attempts[decision.key] = attempt
    return decision


@given(RECORDS, TARGETS, st.integers(1, 3))
def test_each_rule_counts_what_it_selects_and_at_most_the_first_due_applies(
    record: SandboxRecord, target: FaultTarget, attempt: int
) -> None:
    after = decided(record, target, attempt)
    pairs = list(zip(record.rules, after.after.rules, strict=True))
    assert [new.seen - old.seen for old, new in pairs] == [old.selects(target) for old, _ in pairs]
    applied = [old for old, new in pairs if new.applied > old.applied]
    assert len(applied) <= 1
    for rule in applied:
        assert rule.selects(target)
        assert rule.is_due
        assert (after.fault, after.rule_id) == (parse_fault(rule.fault), rule.id)
        earlier = [
            parse_fault(one.fault)
            for one in record.rules[: record.rules.index(rule)]
            if one.is_due and one.selects(target)
        ]
        assert all(fault and fault.times and attempt > fault.times for fault in earlier)


@given(RECORDS, TARGETS, st.integers(1, 3))
def test_what_is_not_an_accepted_creation_takes_no_fault_and_no_fault_takes_a_scenario(
    record: SandboxRecord, target: FaultTarget, attempt: int
) -> None:
    assert decided(record, target, attempt, takes_override=False).after.faults == record.faults
    assert decided(record, target, attempt).after.scenarios == record.scenarios


@given(st.integers(0, 3), st.integers(1, 3))
def test_a_rule_applies_so_many_times_after_those_it_skips(skip: int, times: int) -> None:
    record, faults = SandboxRecord(rules=(FaultRule("r", "drop", skip=skip, times=times),)), []
    for _ in range(skip + times + 2):
        _, _, record, fault, *_ = decided(record)
        faults.append(fault and fault.text)
    assert faults == [None] * skip + ["drop"] * times + [None] * 2
    assert (record.rules[0].seen, record.rules[0].applied) == (skip + times + 2, times)


@pytest.mark.parametrize(
    ("rule", "selected"),
    [
        (FaultRule("r", "drop"), True),
        (FaultRule("r", "drop", operation="createPayment"), True),
        (FaultRule("r", "drop", operation="getPayment"), False),
        (FaultRule("r", "drop", order_id="order-1"), True),
        (FaultRule("r", "drop", order_id="order-2"), False),
        (FaultRule("r", "drop", payment_id="pay_1"), True),
        (FaultRule("r", "drop", payment_id="pay_2"), False),
        (FaultRule("r", "drop", "createPayment", "order-1", "pay_1"), True),
    ],
)
def test_a_rule_selects_by_operation_order_and_payment(rule: FaultRule, *, selected: bool) -> None:
    assert rule.selects(CREATION) is selected
    record = SandboxRecord(rules=(rule,))
    assert (decided(record).after is not record) is selected


def faults_of(record: SandboxRecord, attempts: int) -> list[str | None]:
    """The faults of the attempts of one operation, and the queue that they leave."""
    faults: list[str | None] = []
    for attempt in range(1, attempts + 1):
        _, _, record, fault, *_ = decided(record, attempt=attempt)
        faults.append(fault and fault.text)
    return [*faults, *(override.value for override in record.faults)]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("status=503", ["status=503", None, None]),
        ("status=503; times=2", ["status=503; times=2"] * 2 + [None]),
        ("drop; times=2", ["drop; times=2", None, None]),  # carried out: the retry repeats it
        ("drop; before; times=3", ["drop; before; times=3"] * 3),
    ],
)
def test_a_fault_of_the_queue_is_taken_by_the_last_attempt_that_it_prevents(
    fault: str, expected: list[str | None]
) -> None:
    assert faults_of(SandboxRecord(faults=(Override(fault, 1),)), 3) == expected


def test_an_attempt_beyond_the_limit_leaves_the_fault_to_others() -> None:
    record = SandboxRecord(faults=(Override("status=503; times=1", None),))
    assert decided(record, attempt=2) == Decision(CREATION, record, record)


@pytest.mark.parametrize("fault", ["extra; times=1", "status=500; after; times=1", "drop; times=1"])
def test_a_fault_that_prevents_nothing_is_taken_by_a_later_attempt(fault: str) -> None:
    """An earlier one that took nothing may have been counted, at another server or with a header."""
    record = SandboxRecord(faults=(Override(fault, 1),))
    _, _, after, taken, *_ = decided(record, attempt=2)
    assert (taken and taken.text, after.faults) == (fault, ())


def test_an_order_takes_the_first_of_its_own_before_those_for_all() -> None:
    mine, other = Override("drop", 1, order_id="order-1"), Override("reset", 1, order_id="order-2")
    always = Override("delay=1", None)
    queue = (other, always, mine)
    assert first_for(queue, "order-1") == mine
    assert first_for(queue, "order-3") == first_for(queue, None) == always
    assert without(queue, mine) == (other, always)
    record = SandboxRecord(scenarios=(other,))
    assert take_scenario(record, "order-1") == (record, None)
    assert take_scenario(record, "order-2") == (SandboxRecord(), other)
    assert without((replace(mine, times=2), other), replace(mine, times=2)) == (mine, other)
