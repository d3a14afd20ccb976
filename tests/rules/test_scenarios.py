"""The scenarios, against the tables of the specification."""

import pytest

from paymock.rules.scenarios import DEFAULT_SCENARIO, SCENARIOS, PaymentStatus, Share
from tests.support.specification import COURSES, DEPOSITS


def test_the_table_of_scenarios_has_the_eight_rows_of_the_specification() -> None:
    assert list(SCENARIOS) == list(COURSES)


def test_a_payment_has_the_eleven_statuses_of_the_specification() -> None:
    assert len(PaymentStatus) == 11


@pytest.mark.parametrize("name", COURSES)
def test_a_scenario_declares_the_final_status_of_the_specification(name: str) -> None:
    assert SCENARIOS[name].final_status == COURSES[name][-1][1]


@pytest.mark.parametrize("name", COURSES)
def test_the_customer_pays_when_the_specification_says(name: str) -> None:
    paid = [transfer.at / 1000 for transfer in SCENARIOS[name].transfers]
    assert paid == [second for second, *_ in DEPOSITS[name][:1]]


def test_a_payment_without_a_scenario_is_completed() -> None:
    assert SCENARIOS[DEFAULT_SCENARIO].final_status == PaymentStatus.COMPLETED


@pytest.mark.parametrize(
    ("share", "due", "sent"),
    [
        (Share.FULL, 7, 7),
        (Share.HALF, 7, 3),
        (Share.HALF, 1, 0),
        (Share.EXCESS, 100, 110),
        (Share.EXCESS, 9, 10),
    ],
)
def test_a_share_of_the_amount_due(share: Share, due: int, sent: int) -> None:
    assert share.amount(due) == sent
