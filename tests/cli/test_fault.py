"""`scenarios`, `next` and `fault`."""

import json
import re
from pathlib import Path

import pytest

from paymock.rules.scenarios import SCENARIOS
from tests.cli.terminal import Terminal
from tests.support.client import Api
from tests.support.courses import TWO_HALVES
from tests.support.in_process import run

RULE = "flt_[0-9a-f]{32}"


def test_rules_are_added_listed_and_deleted(terminal: Terminal, api: Api) -> None:
    assert terminal.note("fault", "list") == "no fault rules\n"
    first = terminal.text("fault", "add", "drop")
    header, row = first.splitlines()
    assert header.split() == ["TIMES", "FAULT", "SKIP", "SEEN", "APPLIED", "WAITING", "ID"]
    assert re.fullmatch(f"once +drop +0 +0 +0 +0 +{RULE}", row)
    second = terminal.json("fault", "add", "status=503; after", "--operation", "listChains", "--always")
    third = terminal.text("fault", "add", "hang", "--skip", "2", "--times", "3")
    assert re.fullmatch(f"3 times +hang +2 +0 +0 +0 +{RULE}", third.splitlines()[1])
    assert terminal.json("fault", "list") == api.get("/_mock/faults").json()
    assert terminal.json("fault", "delete", first.split()[-1], third.split()[-1]) == {"data": [second]}
    assert api.get("/v1/chains").status_code == 503
    assert re.fullmatch(
        f"always +status=503; after +listChains +0 +1 +1 +0 +{RULE}",
        terminal.text("fault", "list").splitlines()[1],
    )
    assert terminal.note("fault", "clear") == "no fault rules\n"
    assert api.get("/v1/chains").status_code == 200
    assert terminal.json("fault", "clear") == {"data": []}


def test_a_rule_is_about_an_order_or_a_payment(terminal: Terminal, api: Api) -> None:
    payment = api.created()
    for options, words in (
        (["--order", "order-1001"], "order-1001"),
        (["--payment", payment["id"]], payment["id"]),
        (["--payment", "newest"], payment["id"]),
        (["--order", "\u202eorder"], r"\\u202eorder"),
    ):
        shown = terminal.text("fault", "add", "drop", *options)
        assert re.fullmatch(f"once +drop +{words} +0 +0 +0 +0 +{RULE}", shown.splitlines()[1])
    first, *others, _ = terminal.json("fault", "list")["data"]
    assert (first["order_id"], first["payment_id"]) == ("order-1001", None)
    assert {(rule["order_id"], rule["payment_id"]) for rule in others} == {(None, payment["id"])}


@pytest.mark.parametrize("position", [0, 1, 3])
def test_common_options_stand_anywhere(unconnected: Terminal, terminal: Terminal, position: int) -> None:
    words = ["fault", "add", "drop"]
    key = terminal.variables["PAYMOCK_API_KEY"]
    words[position:position] = ["--url", terminal.url, "--key", key, "--json"]
    assert json.loads(unconnected.text(*words))["fault"] == "drop"
    assert len(terminal.json("fault", "list")["data"]) == 1


def test_next_sets_and_clears_overrides(terminal: Terminal, api: Api) -> None:
    assert terminal.note("next") == "nothing is pending\n"
    assert terminal.text("next", "late_payment") == "once        late_payment\n"
    assert terminal.text("next", "no_payment_expired", "--times", "3", "--order", "order-1").splitlines() == [
        "once        late_payment",
        "3 times     no_payment_expired  order order-1",
    ]
    pending = terminal.json("next", "overpaid_review", "--always")
    assert pending == terminal.json("next") == api.get("/_mock/next").json()
    assert terminal.text("next").splitlines()[2] == "always      overpaid_review"
    assert terminal.note("next", "--clear") == "nothing is pending\n"
    assert terminal.json("next", "--clear") == {"data": []}


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
