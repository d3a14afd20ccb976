"""The options `--paymock-coverage` and `--paymock-fail-under` of pytest."""

import re
from collections.abc import Callable

import pytest

pytest_plugins = ["pytester"]

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
]
WARNING = [
    "*test_*.py::test_reads",
    "  polls_forever: order order-1001: the payment was read 5 more times *",
]


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["one", "xdist"])
def test_the_summary_has_a_table_and_warnings(run: Run, workers: tuple[str, ...]) -> None:
    result = run(SUITE, "--paymock-coverage", *workers)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(TABLE)
    result.stdout.fnmatch_lines(WARNING)
    assert result.ret == 0
    assert len(re.findall("::test_", result.stdout.str())) == 1


def test_without_the_option_there_is_none(run: Run) -> None:
    check = """
    def test_nothing_is_collected(paymock):
        import sys
        assert not {"paymock.verify", "paymock.verify.coverage"} & set(sys.modules)
    """
    result = run(SUITE + check)
    result.assert_outcomes(passed=4)
    result.stdout.no_fnmatch_line("*coverage*")


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["one", "xdist"])
@pytest.mark.parametrize(("limit", "status"), [("14.6", 0), ("14.7", 1)])
def test_too_little_fails_the_session(run: Run, workers: tuple[str, ...], limit: str, status: int) -> None:
    result = run(SUITE, f"--paymock-fail-under={limit}", *workers)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["total           6/41    14.6%"])
    assert result.ret == status
    failure = "FAIL: the coverage of paymock, 14.6%, is below --paymock-fail-under=14.7"
    assert (failure in result.stdout.str()) == bool(status)


@pytest.mark.parametrize(
    ("test", "status"), [("assert False", 1), ("raise KeyboardInterrupt", 2), ("pytest.exit('x', 7)", 7)]
)
def test_a_session_that_fails_otherwise_keeps_its_status(run: Run, test: str, status: int) -> None:
    result = run(f"import pytest\n\ndef test_it(paymock):\n    {test}", "--paymock-fail-under=50")
    assert result.ret == status


def test_a_list_of_tests_does_not_fail(run: Run) -> None:
    assert run(SUITE, "--paymock-fail-under=50", "--collect-only").ret == 0


@pytest.mark.parametrize("limit", ["101", "-1", "much", "nan"])
def test_a_limit_is_a_percentage(run: Run, limit: str) -> None:
    result = run("", f"--paymock-fail-under={limit}")
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*--paymock-fail-under: must be a number from 0 to 100, not '{limit}'"])


def test_a_project_with_a_server_of_its_own_is_covered(run: Run) -> None:
    own = """
    from paymock.testing import serve

    @pytest.fixture(scope="session")
    def paymock_server():
        with serve(fee_bps=0) as server:
            yield server
    """
    result = run(SUITE + own, "--paymock-coverage")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["total           6/41    14.6%"])


def test_a_full_journal_is_told(run: Run) -> None:
    result = run(
        """
        import http.client

        def test_it(paymock):
            connection = http.client.HTTPConnection(paymock.url.removeprefix("http://"))
            key = {"Authorization": f"Bearer {paymock.api_key}"}
            for _ in range(1000):
                connection.request("GET", "/v1/chains", headers=key)
                connection.getresponse().read()
            connection.close()
        """,
        "--paymock-coverage",
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*::test_it", "  the journal was full: only the last 1,000 requests count"])


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


@pytest.mark.nightly
def test_a_worker_that_crashes_is_told(run: Run) -> None:
    result = run(
        """
        import os

        def test_it(paymock):
            os._exit(9)
        """,
        "--paymock-coverage",
        *("-p", "xdist", "-n", "1"),
    )
    result.stdout.fnmatch_lines(
        ["total           0/41       0%", "worker gw0", "  it crashed, and its results are missing"]
    )
