"""`coverage`."""

import pytest

from tests.cli.terminal import Terminal
from tests.support.client import Api


def test_the_table_says_what_the_application_has_seen(terminal: Terminal, api: Api) -> None:
    api.created()
    api.get("/v1/payments/pay_x")
    lines = terminal.text("coverage").splitlines()
    assert lines[0] == "Group           Seen  Percent  Missing"
    assert lines[-3:] == [
        "errors           1/4      25%  chain_not_found, validation_failed, injected_fault",
        "faults           0/6       0%  status, delay, drop, reset, hang, truncate",
        "total           2/41     4.8%",
    ]


def test_warnings_follow(terminal: Terminal, api: Api) -> None:
    api.create(key="order-1001-payment")
    api.create({"order_id": "other"}, key="order-1001-payment")
    *_, empty, warning = terminal.text("coverage").splitlines()
    assert empty == ""
    assert warning.startswith(
        "key_conflict: order other: an Idempotency-Key was used again with another body"
    )
    assert terminal.json("coverage")["warnings"][0]["rule"] == "key_conflict"


def test_json_is_one_object(terminal: Terminal, api: Api) -> None:
    api.created()
    found = terminal.json("coverage")
    assert found.keys() == {"percent", "groups", "warnings"}
    assert found["percent"] == 2.4
    assert [group["name"] for group in found["groups"]] == [
        "scenarios", "statuses", "transitions", "errors", "faults",
    ]  # fmt: skip
    assert found["groups"][1]["seen"] == ["awaiting_payment"]
    assert found["warnings"] == []


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_too_little_is_an_error(terminal: Terminal, api: Api, form: list[str]) -> None:
    api.created()
    assert terminal.run("coverage", "--fail-under", "2.4", *form).returncode == 0
    outcome = terminal.run("coverage", "--fail-under", "2.5", *form)
    assert (outcome.returncode, outcome.stderr) == (1, "Error: the coverage, 2.4%, is below 2.5%\n")
    assert "awaiting_payment" in outcome.stdout


def test_a_limit_is_a_percentage(terminal: Terminal) -> None:
    assert "'--fail-under': 101.0 is not in the range 0<=x<=100" in terminal.fails(
        2, "coverage", "--fail-under", "101"
    )


def test_a_full_journal_is_told(terminal: Terminal, api: Api) -> None:
    for _ in range(1000):
        api.get("/v1/chains")
    outcome = terminal.run("coverage")
    assert outcome.returncode == 0
    assert outcome.stderr == "the journal is full: only the last 1,000 requests count\n"
