"""Where scenarios of users are read from, and what a file that cannot be used is refused with."""

from pathlib import Path

import pytest

from paymock.app.scenario_file import load_scenarios
from paymock.resources.scenarios import ScenarioFileError
from paymock.rules.scenarios import SCENARIOS
from paymock.rules.tables import scenario_rows
from tests.support.courses import TWO_HALVES


def test_without_a_file_there_are_the_eight() -> None:
    assert load_scenarios(None) is SCENARIOS


def test_a_file_adds_its_scenarios(tmp_path: Path) -> None:
    path = tmp_path / "scenarios.toml"
    path.write_text(TWO_HALVES)
    scenarios = load_scenarios(path)
    assert list(scenarios) == [*SCENARIOS, "two_halves"]
    [row] = scenario_rows([scenarios["two_halves"]])
    assert (row.final_status, row.after) == ("overpaid_review", "18 s")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"scenario =", "cannot be used: Invalid value"),
        (b"\xff", "cannot be used: 'utf-8' codec"),
        (b"", "cannot be used: scenario is required"),
        (None, "cannot read the scenario file"),
        (b"a = " + b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (TWO_HALVES.encode() + b"plus = 2", "Cannot overwrite a value"),
        (TWO_HALVES.encode() + b"at = " + b"9" * 5_000, "cannot be used"),
        (TWO_HALVES.encode() + b"\n" * 2**20, "it is larger than"),
        (b'[[scenario]]\nname = "x"\n"a\\nb\\u2028" = 1', "scenario x: a b  is not a field"),
        (b"[[scenario]]\nname = 12:00:00", "scenario 1: name must be a string, not a date or a time"),
        (
            TWO_HALVES.replace("1/2", "1/0").encode(),
            "of at most 9 digits each; scenario two_halves: sending[1].share must be a fraction of due",
        ),
    ],
    ids=[
        *("not TOML", "not UTF-8", "empty", "no file", "deep", "twice", "many digits", "too large"),
        *("line ends in a name", "a time", "two problems"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "scenarios.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ScenarioFileError) as refused:
        load_scenarios(path)
    assert len(str(refused.value).splitlines()) == 1
    assert str(path) in str(refused.value)
    assert reason in str(refused.value)
