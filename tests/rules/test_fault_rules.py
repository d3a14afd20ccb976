"""What a request gets of the fault rules of its sandbox."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.rules.fault_rules import Decision, NeedsAttemptNumber, Rules, decide
from paymock.rules.faults import FaultRule, FaultTarget, parse_fault

CREATION = FaultTarget("createPayment", "order-1", "pay_1")

FAULTS = st.sampled_from(
    [
        "drop",
        "drop; before",
        "status=503",
        "delay=5; after",
        "hold; before",
        "status=503; times=2",
        "drop; times=2",
    ]
)
ORDERS = st.sampled_from([None, "order-1", "order-2"])
RULES = st.lists(
    st.builds(
        FaultRule,
        id=st.uuids().map(str),
        fault=FAULTS,
        operation=st.sampled_from([None, "createPayment", "getPayment"]),
        order_id=ORDERS,
        skip=st.integers(0, 2),
        times=st.none() | st.integers(1, 3),
        seen=st.integers(0, 3),
        applied=st.integers(0, 3),
    ),
    max_size=3,
).map(tuple)
TARGETS = st.builds(FaultTarget, st.sampled_from(["createPayment", "getPayment"]), ORDERS)


def decided(rules: Rules, target: FaultTarget = CREATION, attempt: int = 1) -> Decision:
    """The decision about an attempt that has the same number with every fault."""
    attempts: dict[str, int] = {}
    while isinstance(decision := decide(rules, target, attempts), NeedsAttemptNumber):
        assert decision.key not in attempts
        attempts[decision.key] = attempt
    return decision


@given(RULES, TARGETS, st.integers(1, 3))
def test_each_rule_counts_what_it_selects_and_at_most_the_first_due_applies(
    rules: Rules, target: FaultTarget, attempt: int
) -> None:
    after = decided(rules, target, attempt)
    pairs = list(zip(rules, after.rules, strict=True))
    assert [new.seen - old.seen for old, new in pairs] == [old.selects(target) for old, _ in pairs]
    applied = [old for old, new in pairs if new.applied > old.applied]
    assert len(applied) <= 1
    for rule in applied:
        assert rule.selects(target)
        assert rule.is_due
        assert (after.fault, after.rule_id) == (parse_fault(rule.fault), rule.id)
        earlier = [
            parse_fault(one.fault) for one in rules[: rules.index(rule)] if one.is_due and one.selects(target)
        ]
        assert all(fault and fault.times and attempt > fault.times for fault in earlier)


@given(st.integers(0, 3), st.integers(1, 3))
def test_a_rule_applies_so_many_times_after_those_it_skips(skip: int, times: int) -> None:
    rules: Rules = (FaultRule("r", "drop", skip=skip, times=times),)
    faults = []
    for _ in range(skip + times + 2):
        _, rules, fault, _ = decided(rules)
        faults.append(fault and fault.text)
    assert faults == [None] * skip + ["drop"] * times + [None] * 2
    assert (rules[0].seen, rules[0].applied) == (skip + times + 2, times)


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
    assert (decided((rule,)).rules != (rule,)) is selected
