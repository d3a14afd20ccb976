from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.payments import creation as creations
from paymock.payments import views
from paymock.payments.files import load_catalog
from paymock.payments.records import DepositRecord, PaymentRecord, SimulationRecord
from paymock.payments.views import NO_SIMULATION
from paymock.rules.scenarios import SCENARIOS, Scenario
from paymock.rules.timeline import state_at, visible
from tests.support.client import order
from tests.support.clock import NOON
from tests.support.courses import COURSES

CATALOG = load_catalog(None)
TOKEN = "aabbccddeeffgghhiijjkkllmmnnooppqqrrsstt"


def create(body: Any, scenario: str | Scenario) -> PaymentRecord:
    scenario = SCENARIOS[scenario] if isinstance(scenario, str) else scenario
    creation = creations.CreationContext(TOKEN, b"fingerprint", scenario, NOON)
    return creations.create_record(body, creation, CATALOG, 100)


@pytest.mark.parametrize(
    ("age", "status", "reachable"),
    [
        (0, "completed", True),
        (0, "manual_review", True),
        (44_999, "failed", False),
        (44_999, None, True),
        (45_000, "completed", True),
        (45_001, "expired", False),
        (45_001, None, False),
    ],
)
def test_a_status_is_reachable_or_not(age: int, status: str | None, *, reachable: bool) -> None:
    assert is_reachable(create(order(), "happy_path"), NO_SIMULATION, age, status) == reachable


def test_a_status_that_lasts_no_millisecond_is_not_reachable() -> None:
    """The first deposit is `due`, the second makes it an excess, and both become final at once."""
    record = create(order(receive__amount="1"), "no_payment_expired")
    deposits = tuple(DepositRecord(amount, b"", TOKEN, 0, amount, None) for amount in ("2", "1"))
    simulation = SimulationRecord(deposits=deposits)
    for age in (0, 7_999, 8_000):
        assert not is_reachable(record, simulation, age, "payment_finalized")
    assert is_reachable(record, simulation, 0, "overpaid_review")


CHANGES = (0, 4_000, 5_000, 6_000, 13_000, 18_000, 29_999, 30_000, 35_000)
AGES = st.sampled_from(CHANGES) | st.integers(0, 60_000)


@given(st.sampled_from([*SCENARIOS.values()]) | COURSES, AGES, st.data())
def test_what_deposits_bring_about_was_possible(scenario: Scenario, age: int, data: st.DataObject) -> None:
    record = create(order(receive__amount="1000"), scenario)
    due = int(record.due)
    sent = [one.amount(due) for one in scenario.sending if not one.other_asset and one.amount(due) < due]
    amounts = st.sampled_from([1, due // 2, due - 1, due, due + 1, *(due - one for one in sent)])
    times = st.integers(age, age + 60_000) | st.just(age)
    others = st.sampled_from([None, None, record.other_asset])
    deposit = st.builds(
        lambda amount, at, other: DepositRecord("", b"", TOKEN, at, str(amount), other),
        amounts,
        times,
        others,
    )
    deposits = data.draw(st.lists(deposit, min_size=1, max_size=3))
    simulation = SimulationRecord(deposits=tuple(sorted(deposits, key=lambda one: one.at)))
    for state in visible(views.states(record, simulation)):
        if state.at >= age:
            assert is_reachable(record, NO_SIMULATION, age, state.status), state


def is_reachable(record: PaymentRecord, simulation: SimulationRecord, age: int, status: str | None) -> bool:
    current = state_at(views.states(record, simulation), age)
    return any(views.reachability(record, simulation, current, age, status))
