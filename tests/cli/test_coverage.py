import pytest

from tests.cli.terminal import Terminal
from tests.support.client import Api


def test_the_table_and_the_warnings_are_printed(terminal: Terminal, api: Api) -> None:
    api.create(key="order-1001-payment")
    api.create({"order_id": "other"}, key="order-1001-payment")
    header, *_, total, empty, warning = terminal.text("coverage").splitlines()
    assert header == "Group           Seen  Percent  Missing"
    assert total.split()[:3] == ["total", "1/42", "2.3%"]
    assert empty == ""
    assert warning.startswith(
        "key_conflict: order other: an Idempotency-Key was used again with another body"
    )
    found = terminal.json("coverage")
    assert (found["percent"], found["groups"][0]["name"]) == (2.3, "scenarios")
    assert found["warnings"][0]["rule"] == "key_conflict"


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_too_little_is_an_error(terminal: Terminal, api: Api, form: list[str]) -> None:
    api.created()
    assert terminal.run("coverage", "--fail-under", "2.3", *form).returncode == 0
    outcome = terminal.run("coverage", "--fail-under", "2.4", *form)
    assert outcome.returncode == 1
    assert "the coverage, 2.3%, is below 2.4%" in outcome.stderr
    assert "awaiting_payment" in outcome.stdout


def test_a_full_journal_is_told(terminal: Terminal, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paymock.cli.coverage.JOURNAL_LENGTH", 1)
    api.created()
    assert terminal.run("coverage").stderr == "the journal is full: only the last 1 requests count\n"
