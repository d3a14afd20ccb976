"""A stop in the middle of everything, as `python -m benchmarks.hostile` measures it."""

from pathlib import Path

import pytest
from benchmarks.hostile.stop import CASES, IN_PROGRESS, MOST_SECONDS, Case, stopped


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_stop_in_the_middle_of_everything_is_in_time_and_loses_nothing(case: Case, tmp_path: Path) -> None:
    outcome = stopped(case, tmp_path)
    assert not outcome.violations
    assert outcome.seconds < MOST_SECONDS
    assert outcome.before > IN_PROGRESS
    assert outcome.during >= IN_PROGRESS
