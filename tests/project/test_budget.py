import pytest

from tests.support.budget import Budget
from tests.support.groups import Selection


def run(pytester: pytest.Pytester, source: str) -> pytest.RunResult:
    pytester.makepyfile(source)
    return pytester.runpytest_inprocess(plugins=[Selection("quick"), Budget({"quick": {"processes": 0}})])


@pytest.mark.process
def test_a_test_over_its_budget_fails_and_is_told_what_to_do(pytester: pytest.Pytester) -> None:
    source = "import subprocess\ndef test_of_a_process() -> None: subprocess.run(['true'], check=True)"
    result = run(pytester, source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        "*1 processes, where a test of the tier quick may have 0: *mark the test `process`"
    )


def test_the_last_lines_name_what_is_left_out_and_the_command_that_runs_it(pytester: pytest.Pytester) -> None:
    marked = "import pytest\n" + "".join(
        f"@pytest.mark.{name}\ndef test_{name}() -> None: ...\n" for name in ("process", "redis", "nightly")
    )
    result = run(pytester, marked)
    result.assert_outcomes(deselected=3)
    result.stdout.fnmatch_lines("left out: process, redis (scripts/test --ci); nightly (scripts/test --all)")
