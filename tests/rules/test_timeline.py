"""The state machine: every row of the specification's tables, and invariants of any timeline."""

import gc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.rules.amounts import MAX_RAW
from paymock.rules.scenarios import PAYMENT_WINDOW, SCENARIOS, TERMINAL_STATUSES, PaymentStatus
from paymock.rules.timeline import (
    CREATED,
    State,
    Transfer,
    World,
    scenario_timeline,
    simulate,
    state_at,
    timeline,
)
from tests.support.client import DUE, HALF
from tests.support.courses import COURSES as ANY_SCENARIO
from tests.support.specification import COURSES, DEPOSIT_TRANSITIONS, DEPOSITS, TRANSITIONS


def statuses(states: tuple[State, ...]) -> list[tuple[float, str]]:
    """(second, status) of each status that the payment takes."""
    changes: list[tuple[float, str]] = []
    for state in states:
        if not changes or changes[-1][1] != state.status:
            changes.append((state.at / 1000, state.status.value))
    return changes


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_has_the_statuses_of_the_specification(name: str) -> None:
    assert statuses(simulate(SCENARIOS[name], DUE, "USDC")) == COURSES[name]


@pytest.mark.parametrize("name", SCENARIOS)
@given(due=st.integers(2, MAX_RAW) | st.integers(2, 30), elapsed=st.integers(0, 100_000))
def test_the_timeline_of_a_scenario_is_that_of_each_of_its_payments(
    name: str, due: int, elapsed: int
) -> None:
    states, scripted = simulate(SCENARIOS[name], due, "USDC"), scenario_timeline(name)
    assert scripted.states(due, "USDC") == states
    assert scripted.state(scripted.index_at(elapsed), due, "USDC") == state_at(states, elapsed)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_deposit_of_a_scenario_confirms_at_the_times_of_the_specification(name: str) -> None:
    changes = [
        (state.at / 1000, state.deposits[0].status.value, state.deposits[0].confirmations)
        for before, state in pairwise(simulate(SCENARIOS[name], DUE, "USDC"))
        if state.deposits != before.deposits
    ]
    assert changes == DEPOSITS[name]


@pytest.mark.parametrize(
    ("second", "status"),
    [(-1, "awaiting_payment"), (0, "awaiting_payment"), (4.999, "awaiting_payment"),
     (5, "payment_detected"), (12.999, "payment_detected"),
     (13, "payment_finalized"), (44.999, "settlement_submitted"), (45, "completed"), (10**9, "completed")],
)  # fmt: skip
def test_a_state_holds_from_its_first_millisecond_to_the_next_state(second: float, status: str) -> None:
    assert state_at(simulate(SCENARIOS["happy_path"], DUE, "USDC"), round(second * 1000)).status == status


def test_collections_of_garbage_need_not_look_into_states() -> None:
    """A hundred transfers have 500 states, in each of which are all that have arrived."""
    deposits = simulate(SCENARIOS["happy_path"], DUE, "USDC")[-1].deposits
    gc.collect()
    assert not gc.is_tracked(deposits)


def at(second: float, amount: int = DUE, *, matches: bool = True) -> Transfer:
    return Transfer(round(second * 1000), amount, None if matches else "USDC")


AWAITING = (0, "awaiting_payment")
DETECTED = (5, "payment_detected")
FUNDED = (13, "payment_finalized")


def settled(second: float) -> list[tuple[float, str]]:
    """The statuses of a payment that is funded at this second."""
    statuses = "payment_finalized", "settlement_pending", "settlement_submitted", "completed"
    return [(second + after, status) for after, status in zip((0, 12, 17, 32), statuses, strict=True)]


COMPOSED: dict[str, tuple[list[Transfer], list[tuple[float, str]]]] = {
    "two halves fund a payment at the finality of the second": (
        [at(5, HALF), at(10, HALF)],
        [DETECTED, *settled(18)],
    ),
    "a top-up before the window closes funds an underpaid payment": (
        [at(5, HALF), at(29.999, HALF)],
        [DETECTED, *settled(37.999)],
    ),
    "a top-up that is too small delays the end of an underpaid payment": (
        [at(5, HALF), at(29, 1)],
        [DETECTED, (37, "underpaid_expired")],
    ),
    "a payment that is final just as the window closes was in time": (
        [at(22)],
        [(22, "payment_detected"), *settled(30)],
    ),
    "too little that is final just as the window closes is underpaid": (
        [at(22, HALF)],
        [(22, "payment_detected"), (30, "underpaid_expired")],
    ),
    "a transfer that is observed just as the window closes is late": (
        [at(30)],
        [(30, "expired"), (30, "manual_review")],
    ),
    "a late top-up sends an underpaid payment to review": (
        [at(25, HALF), at(31, HALF)],
        [(25, "payment_detected"), (31, "manual_review")],
    ),
    "a late transfer sends a funded payment to review before its settlement begins": (
        [at(22), at(31, 1)],
        [(22, "payment_detected"), (30, "payment_finalized"), (31, "manual_review")],
    ),
    "two transfers that exceed due together go to review": (
        [at(5, HALF), at(6, DUE)],
        [DETECTED, (14, "overpaid_review")],
    ),
    "an excess that is final before the settlement begins stops it": (
        [at(5), at(10, 1)],
        [DETECTED, FUNDED, (18, "overpaid_review")],
    ),
    "an excess that is final just as the settlement begins stops it": (
        [at(5), at(17, 1)],
        [DETECTED, FUNDED, (25, "overpaid_review")],
    ),
    "a settlement that has begun is not stopped by an excess": ([at(5), at(20, 1)], [DETECTED, *settled(13)]),
    "a wrong asset before the settlement begins sends the payment to review": (
        [at(5), at(15, matches=False)],
        [DETECTED, FUNDED, (17, "manual_review")],
    ),
    "a wrong asset that is rejected just as the settlement begins sends the payment to review": (
        [at(5), at(23, matches=False)],
        [DETECTED, FUNDED, (25, "manual_review")],
    ),
    "an unsettled deposit in another asset delays the end of the payment": (
        [at(29, matches=False)],
        [(29, "payment_detected"), (31, "manual_review")],
    ),
    "a deposit in another asset that is rejected exactly at the close is reviewed": (
        [at(28, matches=False)],
        [(28, "payment_detected"), (30, "manual_review")],
    ),
    "a final status does not change": ([at(5), at(50), at(60, matches=False)], [DETECTED, *settled(13)]),
}


@pytest.mark.parametrize("case", COMPOSED)
def test_transfers_compose(case: str) -> None:
    listed, expected = COMPOSED[case]
    # With both of two statuses at one time.
    assert statuses(timeline(DUE, World(tuple(listed)))) == [AWAITING, *expected]


transfers = st.builds(
    Transfer,
    at=st.integers(0, 70).map(lambda second: second * 1000),
    amount=st.sampled_from([1, HALF, DUE - HALF, DUE, DUE + 1]),
    other_asset=st.sampled_from([None, None, None, "USDC"]),
)
worlds = st.builds(
    World,
    transfers=st.lists(transfers, max_size=5).map(tuple),
    payout_succeeds=st.booleans(),
    review_hold=st.booleans(),
)


timelines = st.builds(timeline, st.just(DUE), worlds) | ANY_SCENARIO.map(
    lambda scenario: simulate(scenario, DUE, "USDC")
)
"""Of a few transfers that matter together, and of whatever a file of scenarios can say."""


@given(timelines)
def test_only_transitions_of_the_specification_occur(states: tuple[State, ...]) -> None:
    for before, after in pairwise(states):
        if before.status is not after.status:
            assert (before.status.value, after.status.value) in TRANSITIONS
        for old, new in zip(before.deposits, after.deposits, strict=False):
            if old.status is not new.status:
                assert (old.status.value, new.status.value) in DEPOSIT_TRANSITIONS


@given(timelines)
def test_time_and_confirmations_never_go_back(states: tuple[State, ...]) -> None:
    assert states[0] is CREATED
    for before, after in pairwise(states):
        assert before.at <= after.at
        for old, new in zip(before.deposits, after.deposits, strict=False):
            assert old.transfer is new.transfer
            assert old.confirmations <= new.confirmations


@given(timelines)
def test_pending_and_finalized_funds_add_up_to_the_counted_deposits(states: tuple[State, ...]) -> None:
    for state in states:
        counted = sum(one.transfer.amount for one in state.deposits if one.transfer.matches)
        assert state.received_pending + state.received_finalized == counted


@given(timelines)
def test_only_a_funded_payment_is_settled(states: tuple[State, ...]) -> None:
    for state in states:
        if state.status is PaymentStatus.PAYMENT_FINALIZED:
            assert state.received_finalized == DUE
        if state.status is PaymentStatus.UNDERPAID_EXPIRED:
            assert state.at >= PAYMENT_WINDOW


@given(timelines)
def test_a_timeline_ends_in_a_terminal_status_or_expired_and_leaves_none(states: tuple[State, ...]) -> None:
    assert states[-1].status in TERMINAL_STATUSES | {PaymentStatus.EXPIRED}
    for before, after in pairwise(states):
        assert before.status not in TERMINAL_STATUSES or after.status is before.status
    assert not any(deposit.unsettled for deposit in states[-1].deposits)


@given(worlds, st.permutations(range(5)))
def test_the_order_in_which_transfers_are_listed_does_not_matter(world: World, order: list[int]) -> None:
    distinct = {transfer.at: transfer for transfer in world.transfers}
    listed = tuple(distinct.values())
    shuffled = tuple(listed[index] for index in order if index < len(listed))
    first, second = (timeline(DUE, world._replace(transfers=one)) for one in (listed, shuffled))
    assert first == second
