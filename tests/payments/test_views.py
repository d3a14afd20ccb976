from typing import Any

import pytest

from paymock.payments import creation as creations
from paymock.payments import views
from paymock.payments.files import load_catalog
from paymock.payments.records import DepositRecord, PaymentRecord, SimulationRecord
from paymock.payments.views import NO_SIMULATION
from paymock.rules.scenarios import SCENARIOS
from paymock.rules.timeline import state_at
from tests.support.client import order
from tests.support.clock import NOON

CATALOG = load_catalog(None)
TOKEN = "aabbccddeeffgghhiijjkkllmmnnooppqqrrsstt"


def create(body: Any, scenario: str) -> PaymentRecord:
    creation = creations.CreationContext(TOKEN, b"fingerprint", SCENARIOS[scenario], NOON)
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


def is_reachable(record: PaymentRecord, simulation: SimulationRecord, age: int, status: str | None) -> bool:
    current = state_at(views.states(record, simulation), age)
    return any(views.reachability(record, simulation, current, age, status))
