"""The printed tables, against those of the specification."""

import pytest

from paymock.rules.tables import (
    ScenarioRow,
    markdown,
    scenario_rows,
    scenario_table,
    timing_rows,
    timing_table,
)
from tests.support.specification import COURSES, DEPOSITS


@pytest.mark.parametrize("row", scenario_rows(), ids=lambda row: row.name)
def test_a_row_shows_the_final_status_and_its_second(row: ScenarioRow) -> None:
    second, status = COURSES[row.name][-1]
    assert (row.final_status, row.after_seconds, row.after) == (status, second, f"{second} s")
    assert row.description.endswith(".")


def test_the_timing_table_has_every_change_of_the_happy_path_and_the_end_of_the_window() -> None:
    seconds = {second for second, _ in COURSES["happy_path"]} | {
        second for second, *_ in DEPOSITS["happy_path"]
    }
    *steps, window = timing_rows()
    assert [step.after for step in steps] == [f"{second} s" for second in sorted(seconds)]
    assert window == ("Expiry scenarios expire", "30 s")
    for second, status in COURSES["happy_path"]:
        assert any(f"`{status}`" in step.step for step in steps if step.after == f"{second} s")


def test_the_tables_are_markdown() -> None:
    assert markdown(("A", "B"), [("1", "2")]) == "| A | B |\n| --- | --- |\n| 1 | 2 |"
    assert "| `no_payment_expired` | `expired` | 30 s | No deposit before expiry. |" in scenario_table()
    assert timing_table().startswith(
        "| Step | After creation |\n| --- | --- |\n| Created: `awaiting_payment` | 0 s |"
    )
