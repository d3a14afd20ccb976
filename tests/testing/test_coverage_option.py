import re
from collections.abc import Callable

import pytest

Run = Callable[..., pytest.RunResult]

SUITE = """
    import urllib.request

    import pytest

    def read(sandbox, payment):
        url = f"{sandbox.url}/v1/payments/{payment['id']}"
        key = {"Authorization": f"Bearer {sandbox.api_key}"}
        urllib.request.urlopen(urllib.request.Request(url, headers=key)).close()

    def test_expiry(paymock):
        payment = paymock.create("no_payment_expired")
        paymock.advance(60)
        read(paymock, payment)

    def test_reads(paymock_server):
        with paymock_server.sandbox() as sandbox:
            payment = sandbox.create("underpaid_expired", order_id="order-1001")
            sandbox.advance(60)
            for _ in range(6):
                read(sandbox, payment)
                sandbox.advance(1)

    def test_without_paymock():
        pass
"""
TABLE = [
    "*= paymock coverage =*",
    "scenarios        2/8      25%  happy_path, overpaid_review, *",
    "statuses        3/11    27.2%  *",
    "transitions     1/12     8.3%  *",
    "errors           0/4       0%  *",
    "faults           0/6       0%  *",
    "total           6/41    14.6%",
    "",
    "*test_*.py::test_reads",
    "  polls_forever: order order-1001: the payment was read 5 more times *",
]


def test_the_summary_has_a_table_and_warnings(run: Run) -> None:
    result = run(SUITE, "--paymock-coverage")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(TABLE)
    assert result.ret == 0
    assert len(re.findall("::test_", result.stdout.str())) == 1


@pytest.mark.process
def test_workers_of_xdist_are_added_up(run: Run) -> None:
    failing = "\n    def test_fails(paymock):\n        assert False\n"
    result = run(SUITE + failing, "--paymock-fail-under=14.7", "-p", "xdist", "-n", "2", process=True)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*- paymock: payments and last requests -*", *TABLE, "FAIL: *14.6%, *"])


def test_without_the_option_there_is_none(run: Run) -> None:
    result = run(SUITE)
    result.assert_outcomes(passed=3)
    result.stdout.no_fnmatch_line("*coverage*")


@pytest.mark.parametrize(("limit", "status"), [("14.6", 0), ("14.7", 1)])
def test_too_little_fails_the_session(run: Run, limit: str, status: int) -> None:
    result = run(SUITE, f"--paymock-fail-under={limit}")
    result.assert_outcomes(passed=3)
    assert result.ret == status
    failure = "FAIL: the coverage of paymock, 14.6%, is below --paymock-fail-under=14.7"
    assert (failure in result.stdout.str()) == bool(status)


@pytest.mark.parametrize(
    ("test", "status"), [("assert False", 1), ("raise KeyboardInterrupt", 2), ("pytest.exit('x', 7)", 7)]
)
def test_a_session_that_fails_otherwise_keeps_its_status(run: Run, test: str, status: int) -> None:
    result = run(f"import pytest\n\ndef test_it():\n    {test}", "--paymock-fail-under=50")
    assert result.ret == status


def test_a_list_of_tests_does_not_fail(run: Run) -> None:
    assert run(SUITE, "--paymock-fail-under=50", "--collect-only").ret == 0


@pytest.mark.parametrize("limit", ["101", "-1", "much", "nan"])
def test_a_limit_is_a_percentage(run: Run, limit: str) -> None:
    result = run("", f"--paymock-fail-under={limit}")
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*--paymock-fail-under: must be a number from 0 to 100, not '{limit}'"])


def test_a_full_journal_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paymock.schemas.control.JOURNAL_LENGTH", 7)
    result = run(SUITE, "--paymock-coverage")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*::test_reads", "  the journal was full: only the last 7 requests count"])


def test_a_server_that_is_gone_does_not_break_the_summary(run: Run) -> None:
    result = run(
        """
        import pytest
        from paymock.testing import Unreachable, serve

        def test_it():
            with serve() as server:
                block = server.sandbox()
                block.__enter__()
            with pytest.raises(Unreachable):
                block.__exit__(None, None, None)
        """,
        "--paymock-coverage",
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["total           0/41       0%", "*::test_it", "*cannot be read: Unreachable"]
    )
