"""The fixtures and options of pytest, in a test suite that uses them and in one that does not."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from harness.server_process import environment
from paymock.testing import serve

Run = Callable[..., pytest.RunResult]

SANDBOX_EACH = """
    import pytest

    seen = set()

    @pytest.mark.parametrize("number", range(3))
    def test_it_is_fresh(paymock, paymock_server, number):
        assert paymock.url == paymock_server.url
        assert paymock.api_key not in seen
        seen.add(paymock.api_key)
        assert paymock.payments() == paymock.requests() == []
        payment = paymock.create(order_id="the same everywhere")
        before = paymock.now()
        paymock.advance(number + 1)
        assert (paymock.now() - before).total_seconds() == number + 1
        paymock.next("manual_review", times=None)
        assert paymock.payments()[0]["id"] == payment["id"]
"""
SANDBOX_OF_A_KEY = """
    import pytest

    @pytest.mark.parametrize("number", range(8))
    def test_it_is_isolated(paymock, number):
        assert paymock.api_key.startswith("first-key.")
        assert paymock.payments() == []
        for step in range(10):
            paymock.create()
        assert len(paymock.payments()) == 10
"""
CRASH = """
    import os

    import pytest

    @pytest.mark.parametrize("number", range(4))
    def test_it_survives(paymock, number):
        if number == 1 and os.environ["PYTEST_XDIST_WORKER"] == "gw0":
            os._exit(9)
"""
SET_TIMES = """
    from datetime import datetime, timezone
    import pytest

    def test_of_the_project(paymock):
        assert {"now": "2031-02-28T11:00:00.000Z", "speed": 0}.items() <= paymock.clock().items()

    @pytest.mark.paymock(now=datetime(2024, 2, 29, 12, tzinfo=timezone.utc))
    def test_with_a_time_of_its_own(paymock):
        assert {"now": "2024-02-29T12:00:00.000Z", "speed": 0}.items() <= paymock.clock().items()

    @pytest.mark.paymock("2024-02-29T12:00:00Z")
    def test_without_a_name(paymock):
        pass
"""


class TestFixtures:
    def test_each_test_has_a_fresh_sandbox(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        """Variables of the command `paymock serve` mean nothing here."""
        for name, value in (("API_KEY", "first-key"), ("PORT", "1"), ("SPEED", "x"), ("NO_CONTROL", "1")):
            monkeypatch.setenv(f"PAYMOCK_{name}", value)
        run(SANDBOX_EACH).assert_outcomes(passed=3)

    def test_a_marker_or_the_configuration_sets_the_time(self, run: Run) -> None:
        result = run(SET_TIMES, "-o", "paymock_now=2031-02-28T12:00:00+01:00", "--strict-markers")
        result.assert_outcomes(passed=2, errors=1)
        result.stdout.fnmatch_lines(['*write @pytest.mark.paymock(now="2024-02-29T12:00:00Z")'])

    def test_a_key_of_a_remote_server_serves_all_tests(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with serve(api_keys=("first-key",)) as server:
            monkeypatch.setenv("PAYMOCK_URL", server.url)
            result = run(SANDBOX_OF_A_KEY)
            result.assert_outcomes(errors=8)
            result.stdout.fnmatch_lines(["*401 unauthenticated*", "*set PAYMOCK_API_KEY*"])
            monkeypatch.setenv("PAYMOCK_API_KEY", "first-key")
            run(SANDBOX_OF_A_KEY).assert_outcomes(passed=8)

    @pytest.mark.process
    def test_workers_of_xdist_share_a_key(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        with serve(api_keys=("first-key",)) as server:
            monkeypatch.setenv("PAYMOCK_URL", server.url)
            monkeypatch.setenv("PAYMOCK_API_KEY", "first-key")
            run(SANDBOX_OF_A_KEY, "-p", "xdist", "-n", "2", process=True).assert_outcomes(passed=8)

    @pytest.mark.nightly
    def test_the_results_of_a_worker_that_crashed_are_missing(self, run: Run) -> None:
        workers = ("-p", "xdist", "-n", "2", "--dist", "each")
        result = run(CRASH, "--paymock-coverage", *workers, process=True)
        result.assert_outcomes(passed=7, failed=1)
        result.stdout.fnmatch_lines(["worker gw0", "  it crashed, and its results are missing"])

    @pytest.mark.parametrize("variable", ["PAYMOCK_SANDBOX", "PAYMOCK_API_KEY"])
    def test_workers_of_xdist_cannot_share_a_sandbox(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, variable: str
    ) -> None:
        monkeypatch.setenv("PAYMOCK_URL", "http://127.0.0.1:9")
        monkeypatch.setenv(variable, "mk_test_demo")
        monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
        result = run("def test_it(paymock_server): pass")
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["*names one sandbox for all workers: unset it"])

    def test_a_traceback_shows_the_line_of_the_test_only(self, run: Run) -> None:
        lines = [
            "paymock.deposit('pay_x', 1)",
            "paymock.wait('pay_x', timeout=None)",
            "paymock.wait(paymock.create('no_payment_expired')['id'], timeout=0)",
            "type(paymock)('http://127.0.0.1:9', 'k').now()",
            "paymock.payment('')",
        ]
        tests = [f"def test_{number}(paymock):\n    {line}\n" for number, line in enumerate(lines)]
        result = run("\n".join(tests))
        result.assert_outcomes(failed=len(lines))
        assert len(re.findall(r"^\S+\.py:\d+: ", result.stdout.str(), re.MULTILINE)) == len(lines)
        result.stdout.fnmatch_lines([f">   *{line.replace('[', '[[]')}" for line in lines])
        result.stdout.no_fnmatch_line("*paymock*.py*")

    def test_a_project_can_override_the_server(self, run: Run) -> None:
        result = run(
            """
            import pytest
            from paymock.testing import Sandbox, serve

            @pytest.fixture(scope="session")
            def paymock_server():
                with serve(fee_bps=0) as server:
                    yield server

            def test_it_is_used(paymock: Sandbox):
                assert paymock.create(amount="7")["attempts"][0]["instructions"]["amounts"]["fee"] == "1"
            """,
            "--paymock-coverage",
        )
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["total           1/42     2.3%"])


FAILURES = """
    import pytest
    from paymock.testing import Sandbox
    from paymock.verify import verify

    class Shop:
        def __init__(self, paymock):
            self.paymock = paymock
            self.payment = paymock.create("underpaid_expired", order_id="order-1001")

    @pytest.fixture
    def shop(paymock):
        return Shop(paymock)

    @pytest.fixture
    def second_sandbox(paymock_server):
        with paymock_server.sandbox() as sandbox:
            yield sandbox

    @pytest.fixture
    def shop_of_its_own(paymock_server):
        with paymock_server.sandbox() as sandbox:
            yield Shop(sandbox)

    @pytest.fixture
    def server_that_is_gone():
        with Sandbox("http://127.0.0.1:9", "mk_test_demo") as sandbox:
            yield sandbox

    @pytest.fixture
    def broken(shop):
        raise RuntimeError("broken")

    @pytest.fixture
    def broken_later(paymock):
        yield
        raise RuntimeError("broken later")

    def test_passes(paymock):
        paymock.create(order_id="not-shown")

    def test_without_paymock():
        assert False

    @pytest.mark.xfail(reason="an expected failure must not be reported")  # of the inner run
    def test_expected(paymock):
        paymock.create(order_id="not-shown")
        assert False

    def test_teardown(paymock, broken_later):
        paymock.create(order_id="not-shown")

    def test_shown(shop, paymock):
        paymock.advance(31)
        assert paymock.payment(shop.payment["id"])["status"] == "completed"

    def test_shown_of_an_object(shop):
        assert False

    def test_shown_of_a_failing_setup(broken):
        pass

    def test_shown_once_if_the_teardown_fails_too(paymock, broken_later):
        assert False

    def test_shown_of_a_fixture_with_another_name(second_sandbox):
        second_sandbox.create(order_id="order-2002")
        assert False

    def test_shown_of_a_sandbox_that_nobody_passes(shop_of_its_own):
        assert False

    def test_shown_of_a_sandbox_of_the_test(paymock_server):
        with paymock_server.sandbox():
            assert False

    def test_judged(paymock):
        assert verify(paymock, order=str, deliveries=len, budget=0).verdict == "SAFE"

    def test_shown_as_gone(server_that_is_gone):
        assert "this" == "that"
"""


def test_a_failure_shows_payments_and_requests(run: Run) -> None:
    result = run(FAILURES, "-rA")
    section = "- paymock: payments and last requests -"
    result.stdout.fnmatch_lines(
        [
            "*_ test_shown _*",
            f"*{section}*",
            "*T*Z, frozen",
            "  pay_*  underpaid_expired  underpaid_expired  order order-1001",
            "  *T*Z  201   POST  /v1/payments  new  key 1",
            "*_ test_shown_as_gone _*",
            "E *'this' == 'that'",
            f"*{section}*",
            "the sandbox cannot be described: Unreachable: cannot reach http://127.0.0.1:9: *",
        ]
    )
    output = result.stdout.str()
    assert not re.search("mk_test|0x[0-9a-f]{40}|order not-shown", output)
    shown: Counter[str] = Counter()
    for title, text in re.findall(r"^_+ (.*test_\w+) _+\n((?:(?!_+ .*test_).*\n)*)", output, re.MULTILINE):
        shown[title.rpartition(" ")[2]] += text.count(section)
    assert shown == {name: name.startswith("test_shown") for name in shown}
    assert shown.total() == len(re.findall("def test_shown", FAILURES))


@pytest.mark.process
class TestImports:
    def test_a_run_imports_what_its_fixtures_need_only(self, pytester: pytest.Pytester) -> None:
        pytester.makepyfile("""
            import sys

            def test_without_fixtures():
                assert "_paymock_pytest" in sys.modules
                assert not {"paymock", "uvloop", "msgspec", "http.client"} & set(sys.modules)

            def test_with_a_fixture(paymock):
                assert not {"paymock.verify", "paymock.analysis.coverage"} & set(sys.modules)
        """)
        others = ["anyio", "hypothesispytest", "schemathesis", "xdist", "xdist.looponfail", "pytest_cov"]
        options = [part for name in others for part in ("-p", f"no:{name}")]
        pytester.runpytest_subprocess(*options, timeout=60).assert_outcomes(passed=2)

    def test_a_remote_sandbox_imports_the_standard_library_only(self) -> None:
        script = (
            "import sys; from paymock.testing import remote; s = remote().sandbox(); s.__enter__().create();"
        )
        script += "s.__exit__(None, None, None); roots = {name.partition('.')[0] for name in sys.modules};"
        script += "print(roots & {'uvloop', 'msgspec', 'click', 'Crypto', 'yaml'})"
        with serve() as server:
            command = [sys.executable, "-W", "error", "-c", script]
            variables = environment(PAYMOCK_URL=server.url)
            outcome = subprocess.run(command, capture_output=True, text=True, check=True, env=variables)
        assert outcome.stdout == "set()\n"


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
    "faults           0/7       0%  *",
    "total           6/42    14.2%",
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
    result = run(SUITE + failing, "--paymock-fail-under=14.3", "-p", "xdist", "-n", "2", process=True)
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*- paymock: payments and last requests -*", *TABLE, "FAIL: *14.2%, *"])


def test_without_the_option_there_is_none(run: Run) -> None:
    result = run(SUITE)
    result.assert_outcomes(passed=3)
    result.stdout.no_fnmatch_line("*coverage*")


@pytest.mark.parametrize(("limit", "status"), [("14.2", 0), ("14.3", 1)])
def test_too_little_fails_the_session(run: Run, limit: str, status: int) -> None:
    result = run(SUITE, f"--paymock-fail-under={limit}")
    result.assert_outcomes(passed=3)
    assert result.ret == status
    failure = "FAIL: the coverage of paymock, 14.2%, is below --paymock-fail-under=14.3"
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
    monkeypatch.setattr("paymock.cache.JOURNAL_LENGTH", 7)
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
        ["total           0/42       0%", "*::test_it", "*cannot be read: Unreachable"]
    )
