"""The scenarios, against the tables of the specification."""

import pytest

from paymock.rules.amounts import MAX_RAW
from paymock.rules.scenarios import EXCESS, FULL, HALF, SCENARIOS, Share
from tests.support.specification import COURSES


def test_the_table_of_scenarios_has_the_eight_rows_of_the_specification() -> None:
    assert list(SCENARIOS) == list(COURSES)


@pytest.mark.parametrize(
    ("share", "due", "sent"),
    [
        (FULL, 7, 7),
        (HALF, 7, 3),
        (HALF, 1, 1),
        (EXCESS, 100, 110),
        (EXCESS, 9, 10),
        (EXCESS, 10**18, 11 * 10**17),
        (EXCESS, MAX_RAW, MAX_RAW + MAX_RAW // 10),
        (Share(1, 2, "7", "5"), 100, 105),
        (Share(2, 1, "7", "-5"), 100, 207),
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
