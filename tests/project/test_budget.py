import pytest

from tests.support.budget import Budget
from tests.support.groups import Selection

FORK = "import subprocess\ndef test_of_a_process() -> None: subprocess.run(['true'], check=True)"


def run(
    pytester: pytest.Pytester, source: str, limits: dict[str, dict[str, dict[str, int]]]
) -> pytest.RunResult:
    pytester.makepyfile(source)
    return pytester.runpytest_inprocess(plugins=[Selection("quick"), Budget(limits, "quick")])


@pytest.mark.process
def test_a_test_over_its_budget_fails_and_is_told_what_to_do(pytester: pytest.Pytester) -> None:
    result = run(pytester, FORK, {"per-test": {"quick": {"processes": 0}}, "per-run": {}})
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        "*1 processes, where a test of the tier quick may have 0: *mark the test `process`"
    )


@pytest.mark.process
def test_a_run_over_its_budget_fails(pytester: pytest.Pytester) -> None:
    result = run(pytester, FORK, {"per-test": {}, "per-run": {"quick": {"processes": 0, "tests": 1}}})
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines("more than the 0 processes that pyproject.toml allows a run: *")


def test_the_last_lines_name_what_is_left_out_and_the_command_that_runs_it(pytester: pytest.Pytester) -> None:
    marked = "import pytest\n" + "".join(
        f"@pytest.mark.{name}\ndef test_{name}() -> None: ...\n" for name in ("process", "redis", "nightly")
    )
    result = run(pytester, marked, {"per-test": {}, "per-run": {}})
    result.assert_outcomes(deselected=3)
    result.stdout.fnmatch_lines("left out: process, redis (scripts/test --ci); nightly (scripts/test --all)")
