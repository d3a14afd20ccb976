import json
import re
from pathlib import Path

import pytest

from paymock.rules.scenarios import SCENARIOS
from tests.cli.terminal import Terminal
from tests.support.courses import TWO_HALVES
from tests.support.in_process import run, run_on_terminal


def test_the_scenarios_are_listed_below_a_header() -> None:
    header, *lines = run("scenarios").stdout.splitlines()
    assert re.split("  +", header) == ["SCENARIO", "FINAL STATUS", "AFTER", "SIMULATES"]
    assert [line.split()[0] for line in lines] == list(SCENARIOS)
    assert re.fullmatch(r"late_payment\s+manual_review\s+35 s\s+The payment expires first; .*", lines[5])


@pytest.mark.parametrize("arguments", [["scenarios", "--json"], ["--json", "scenarios"]])
def test_the_scenarios_are_printed_as_json(arguments: list[str]) -> None:
    rows = json.loads(run(*arguments).stdout)["data"]
    assert [row["name"] for row in rows] == list(SCENARIOS)
    late = {"name": "late_payment", "final_status": "manual_review", "after_seconds": 35}
    assert rows[5] == {**late, "description": SCENARIOS["late_payment"].simulates}


@pytest.mark.parametrize("columns", [60, 140])
def test_descriptions_are_wrapped_on_a_terminal(columns: int) -> None:
    written = run_on_terminal("scenarios", COLUMNS=str(columns)).stdout
    assert max(map(len, written.splitlines())) <= columns
    for scenario in SCENARIOS.values():
        assert set(scenario.simulates.split()) <= set(written.split())


@pytest.fixture
def halves(tmp_path: Path) -> str:
    path = tmp_path / "scenarios.toml"
    path.write_text(TWO_HALVES)
    return str(path)


def test_check_prints_what_the_scenarios_of_a_file_lead_to(halves: str) -> None:
    first, second, *timeline = run("scenarios", "check", halves).stdout.splitlines()
    assert (first, second) == ("two_halves  overpaid_review", "  The customer pays in two halves.")
    assert timeline[0].split() == ["0", "s", "awaiting_payment", "Created"]
    assert timeline[-1].split() == ["18", "s", "overpaid_review", "Confirmations", "16/16,", "finalized"]
    for arguments in (["scenarios", "check", halves, "--json"], ["--json", "scenarios", "check", halves]):
        [listed] = json.loads(run(*arguments).stdout)["data"]
        assert (listed["name"], listed["final_status"]) == ("two_halves", "overpaid_review")
        assert len(listed["timeline"]) == 11


def test_check_and_serve_refuse_a_bad_file_with_the_same_line(halves: str) -> None:
    Path(halves).write_text(TWO_HALVES.replace("1/2", "half"))
    checked, served = run("scenarios", "check", halves), run("serve", "--port", "0", PAYMOCK_SCENARIOS=halves)
    assert (checked.returncode, checked.stdout) == (served.returncode, served.stdout) == (1, "")
    assert checked.stderr == served.stderr
    assert re.fullmatch(
        f"Error: the scenario file {halves} cannot be used: scenario two_halves: .*share must be.*\n",
        checked.stderr,
    )


def test_a_file_of_one_scenario_is_the_course_of_the_next_payment(terminal: Terminal, halves: str) -> None:
    assert terminal.text("next", "--course", halves, "--times", "2") == "2 times     two_halves\n"
    created = terminal.json("create")
    assert terminal.text("payment", created["id"]).splitlines()[0].endswith("awaiting_payment  two_halves")
    assert created["id"] in terminal.text("payments", "--scenario", "two_halves")
    with Path(halves).open("a") as file:
        file.write('[[scenario]]\nname = "other"\n')
    assert "needs a file of one scenario" in terminal.fails(1, "next", "--course", halves)
    assert "cannot read the scenario file" in terminal.fails(1, "next", "--course", "missing.toml")
