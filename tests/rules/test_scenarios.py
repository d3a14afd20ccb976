"""The scenarios, against the tables of the specification."""

import pytest

from paymock.rules.amounts import MAX_RAW
from paymock.rules.scenarios import EXCESS, FULL, HALF, SCENARIOS, PaymentStatus, Share
from tests.support.specification import COURSES, DEPOSITS


def test_the_table_of_scenarios_has_the_eight_rows_of_the_specification() -> None:
    assert list(SCENARIOS) == list(COURSES)


def test_a_payment_has_the_eleven_statuses_of_the_specification() -> None:
    assert len(PaymentStatus) == 11


@pytest.mark.parametrize("name", COURSES)
def test_the_customer_pays_when_the_specification_says(name: str) -> None:
    paid = [transfer.at / 1000 for transfer in SCENARIOS[name].transfers]
    assert paid == [second for second, *_ in DEPOSITS[name][:1]]


@pytest.mark.parametrize(
    ("share", "due", "sent"),
    [
        (FULL, 7, 7),
        (HALF, 7, 3),
        (HALF, 1, 1),
        (EXCESS, 100, 110),
        (EXCESS, 9, 10),
        (EXCESS, MAX_RAW, MAX_RAW + MAX_RAW // 10),
        (Share(2, 3), 100, 66),
        (Share(1, 3, "5"), 100, 38),
        (Share(1, 1, "-7"), 100, 93),
        (Share(1, 1, "-100"), 100, 1),
        (Share(0, 1), 100, 1),
        (Share(0, 1, "12"), 100, 12),
        (Share(999_999_999, 1), MAX_RAW, MAX_RAW),
        (Share(0, 1, str(MAX_RAW)), 100, MAX_RAW),
        (Share(0, 1, str(-MAX_RAW)), 100, 1),
    ],
)
def test_a_share_of_the_amount_due(share: Share, due: int, sent: int) -> None:
    assert share.amount(due) == sent
