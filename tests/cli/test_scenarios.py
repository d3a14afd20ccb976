"""`scenarios`."""

import json
import re

import pytest

from harness.server_process import run
from paymock.rules.scenarios import SCENARIOS
from paymock.rules.tables import scenario_rows
from tests.cli.terminal import run_on_terminal


def test_the_scenarios_are_listed_below_a_header() -> None:
    header, *lines = run("scenarios").stdout.splitlines()
    assert re.split("  +", header) == ["SCENARIO", "FINAL STATUS", "AFTER", "SIMULATES"]
    assert [line.split()[0] for line in lines] == list(SCENARIOS)
    assert re.fullmatch(r"late_payment\s+manual_review\s+35 s\s+The payment expires first; .*", lines[5])


def test_the_scenarios_are_printed_as_json() -> None:
    for arguments in (["scenarios", "--json"], ["--json", "scenarios"]):
        rows = json.loads(run(*arguments).stdout)["data"]
        assert [row["name"] for row in rows] == list(SCENARIOS)
        assert rows[5] == {
            "name": "late_payment",
            "final_status": "manual_review",
            "after_seconds": 35,
            "description": SCENARIOS["late_payment"].description,
        }


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_descriptions_are_wrapped_on_a_terminal(columns: int) -> None:
    status, written = run_on_terminal("scenarios", COLUMNS=str(columns))
    assert status == 0
    assert max(map(len, written.splitlines())) <= columns
    words = " ".join(written.split())
    for row in scenario_rows():
        assert all(word in words for word in row.description.split())
