"""`demo` in a pipe."""

import json

from paymock.rules.scenarios import SCENARIOS
from paymock.rules.tables import scenario_rows
from tests.support.in_process import run


def test_demo_plays_every_scenario_to_the_end() -> None:
    outcome = run("demo", "--speed", "100")
    assert (outcome.returncode, outcome.stderr) == (0, "")
    last = {line.split()[0]: line.split()[3] for line in outcome.stdout.splitlines()}
    assert last == {row.name: row.final_status for row in scenario_rows()}
    assert "\x1b" not in outcome.stdout


def test_demo_prints_json_lines() -> None:
    outcome = run("demo", "--speed", "100", "--json", PAYMOCK_PORT="1", PAYMOCK_API_KEY="other")
    changes = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert {change["scenario"] for change in changes} == set(SCENARIOS)
    assert len({change["payment_id"] for change in changes}) == len(SCENARIOS)
