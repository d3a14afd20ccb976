"""The scenarios and the printed tables, against those of the specification."""

import pytest

from paymock.rules.amounts import MAX_RAW
from paymock.rules.scenarios import SCENARIOS, Sending
from paymock.rules.timeline import summarize
from tests.support.specification import COURSES

[EXCESS] = SCENARIOS["overpaid_review"].sending


def test_the_table_of_scenarios_has_the_eight_rows_of_the_specification() -> None:
    assert list(SCENARIOS) == list(COURSES)


@pytest.mark.parametrize(
    ("sending", "due", "sent"),
    [
        (Sending(5), 7, 7),
        (Sending(5, "1/2"), 7, 3),
        (Sending(5, "1/2"), 1, 1),
        (EXCESS, 100, 110),
        (EXCESS, 9, 10),
        (EXCESS, 10**18, 11 * 10**17),
        (EXCESS, MAX_RAW, MAX_RAW + MAX_RAW // 10),
        (Sending(5, "1/2", 7, 5), 100, 105),
        (Sending(5, "2/1", "7", "-5"), 100, 207),
        (Sending(5, "2/3"), 100, 66),
        (Sending(5, "1/3", "5"), 100, 38),
        (Sending(5, plus="-7"), 100, 93),
        (Sending(5, plus="-100"), 100, 1),
        (Sending(5, "0/1"), 100, 1),
        (Sending(5, "0/1", 12), 100, 12),
        (Sending(5, "999999999/1"), MAX_RAW, MAX_RAW),
        (Sending(5, "0/1", MAX_RAW), 100, MAX_RAW),
        (Sending(5, "0/1", str(-MAX_RAW)), 100, 1),
    ],
)
def test_a_share_of_the_amount_due(sending: Sending, due: int, sent: int) -> None:
    assert sending.amount(due) == sent


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_summary_has_the_final_status_and_its_second(name: str) -> None:
    row, (second, status) = summarize(SCENARIOS[name]), COURSES[name][-1]
    assert (row.final_status, row.after_seconds, row.after) == (status, second, f"{second} s")
    assert row.description.endswith(".")
