"""The pytest fixtures, in a test suite that uses them and in one that does not."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.server_process import environment, server_process
from paymock.testing import serve

pytest_plugins = ["pytester"]


Run = Callable[..., pytest.RunResult]

SANDBOX_EACH = """
    import pytest

    seen = set()

    @pytest.mark.parametrize("number", range(12))
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
CRASH = """
    import os

    import pytest

    @pytest.mark.parametrize("number", range(4))
    def test_it_survives(paymock, number):
        assert paymock.payments() == []
        if number == 1 and os.environ["PYTEST_XDIST_WORKER"] == "gw0":
            os._exit(9)
"""
KEY_OF_ITS_OWN = """
    import pytest

    @pytest.mark.parametrize("number", range(8))
    def test_it_is_isolated(paymock, number):
        assert paymock.api_key in ("first-key", "second-key")
        assert paymock.payments() == []
        before = paymock.now()
        for step in range(20):
            paymock.create()
            paymock.advance(1)
        assert len(paymock.payments()) == 20
        assert (paymock.now() - before).total_seconds() == 20
"""


class TestFixtures:
    def test_each_test_has_a_fresh_sandbox(self, run: Run) -> None:
        run(SANDBOX_EACH).assert_outcomes(passed=12)

    def test_each_worker_of_xdist_has_a_server(self, run: Run) -> None:
        result = run(SANDBOX_EACH, "-p", "xdist", "-n", "3")
        result.assert_outcomes(passed=12)
        result.stdout.fnmatch_lines(["*3 workers*"])

    @pytest.mark.nightly
    def test_workers_can_share_a_remote_server(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        with serve() as server:
            monkeypatch.setenv("PAYMOCK_URL", server.url)
            check = f"\n    def test_it_is_the_one(paymock):\n        assert paymock.url == {server.url!r}\n"
            run(SANDBOX_EACH + check, "-p", "xdist", "-n", "3").assert_outcomes(passed=13)

    @pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.nightly)])
    def test_the_keys_are_divided_among_the_workers(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, workers: str
    ) -> None:
        with serve(api_keys=("first-key", "second-key")) as server:
            monkeypatch.setenv("PAYMOCK_URL", server.url)
            monkeypatch.setenv("PAYMOCK_API_KEY", "first-key,second-key")
            run(KEY_OF_ITS_OWN, "-p", "xdist", "-n", workers).assert_outcomes(passed=8)

    def test_fewer_keys_than_workers_is_an_error(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PAYMOCK_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("PAYMOCK_API_KEY", "first-key")
        test = (
            "import pytest\n\n@pytest.mark.parametrize('x', range(8))\ndef test_it(x, paymock_server): pass"
        )
        result = run(test, "-p", "xdist", "-n", "2", "--dist", "load")
        assert result.ret == 1
        result.stdout.fnmatch_lines(["2 workers need 2 API keys, and PAYMOCK_API_KEY has 1: *"])

    @pytest.mark.nightly
    def test_a_replacement_worker_has_no_key(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        keys = ("first-key", "second-key", "third-key")
        with serve(api_keys=keys) as server:
            monkeypatch.setenv("PAYMOCK_URL", server.url)
            monkeypatch.setenv("PAYMOCK_API_KEY", ",".join(keys))
            result = run(CRASH, "-p", "xdist", "-n", "2", "--dist", "each")
        result.assert_outcomes(passed=5, failed=1, errors=2)
        result.stdout.fnmatch_lines(
            ["the API keys *to the workers gw0, gw1; *, gw2, has none: it replaces one*"]
        )

    def test_a_worker_with_a_custom_name_has_no_key(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PAYMOCK_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("PAYMOCK_API_KEY", "first-key,second-key")
        workers = ("--tx", "popen//id=alpha", "--dist", "each")
        result = run("def test_it(paymock_server): pass", "-p", "xdist", *workers)
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["*to the workers gw0; this worker, alpha, *or has a name of its own"])

    @pytest.mark.nightly
    def test_a_duplicate_key_serves_one_worker(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PAYMOCK_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("PAYMOCK_API_KEY", "first-key,first-key")
        result = run("def test_it(paymock_server): pass", "-p", "xdist", "-n", "2", "--dist", "each")
        result.assert_outcomes(passed=1, errors=1)

    @pytest.mark.parametrize(
        "line",
        [
            "paymock.deposit('pay_x', 1)",
            "paymock.wait('pay_x', timeout=None)",
            "paymock.wait(paymock.create('no_payment_expired')['id'], timeout=0)",
            "type(paymock)('http://127.0.0.1:9', 'k').now()",
            "paymock.payment('')",
        ],
    )
    def test_a_traceback_shows_the_line_of_the_test_only(self, run: Run, line: str) -> None:
        result = run(f"def test_it(paymock):\n    {line}")
        result.assert_outcomes(failed=1)
        assert len(re.findall(r"^\S+\.py:\d+: ", result.stdout.str(), re.MULTILINE)) == 1
        result.stdout.fnmatch_lines([f">   *{line.replace('[', '[[]')}", "test_*.py:2: *"])
        result.stdout.no_fnmatch_line("*paymock*.py*")

    def test_a_missing_api_key_is_explained(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        with serve(api_keys=("first-key",)) as server:
            monkeypatch.setenv("PAYMOCK_URL", server.url)
            result = run("def test_it(paymock): pass")
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["*401 unauthenticated*", "*set PAYMOCK_API_KEY*"])

    def test_a_project_can_override_the_server(self, run: Run) -> None:
        result = run("""
            import pytest
            from paymock.testing import Sandbox, serve

            @pytest.fixture(scope="session")
            def paymock_server():
                with serve(fee_bps=0) as server:
                    yield server

            def test_it_is_used(paymock: Sandbox):
                assert paymock.create(amount="7")["attempts"][0]["instructions"]["amounts"]["fee"] == "1"
        """)
        result.assert_outcomes(passed=1)

    def test_other_variables_are_ignored(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in (("API_KEY", "first-key"), ("PORT", "1"), ("SPEED", "x"), ("NO_CONTROL", "1")):
            monkeypatch.setenv(f"PAYMOCK_{name}", value)
        run(SANDBOX_EACH).assert_outcomes(passed=12)

    def test_the_fixtures_are_documented(self, run: Run) -> None:
        result = run("", "--fixtures")
        result.stdout.fnmatch_lines(
            ["paymock_server [[]session scope[]]*", "*A paymock server*", "paymock -- *", "*A sandbox of*"]
        )


FAILURES = """
    import asyncio

    import pytest

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
    def broken(shop):
        raise RuntimeError("broken")

    @pytest.fixture
    def broken_later(paymock):
        yield
        raise RuntimeError("broken later")

    def test_fails(shop, paymock):
        paymock.advance(31)
        assert paymock.payment(shop.payment["id"])["status"] == "completed"

    def test_passes(paymock):
        paymock.create(order_id="not-shown")

    def test_without_paymock():
        assert False

    @pytest.mark.xfail(reason="an expected failure must not be reported")
    def test_expected(paymock):
        paymock.create(order_id="not-shown")
        assert False

    def test_indirect(shop):
        assert False

    def test_dynamic(request):
        request.getfixturevalue("shop")
        assert False

    def test_setup(broken):
        pass

    def test_teardown(paymock, broken_later):
        paymock.create(order_id="not-shown")

    def test_call_and_teardown(paymock, broken_later):
        assert False

    def test_another_name(second_sandbox):
        second_sandbox.create(order_id="order-2002")
        assert False

    def test_async(paymock):
        async def fail():
            await asyncio.to_thread(paymock.create)
            assert False
        asyncio.run(fail())
"""
SECTION = "*- paymock: payments and last requests -*"


def sections(result: pytest.RunResult) -> int:
    """The number of descriptions of sandboxes in the output."""
    return len(re.findall("- paymock: payments and last requests -", result.stdout.str()))


class TestReports:
    def test_a_failure_shows_payments_and_requests(self, run: Run) -> None:
        result = run(FAILURES, "-k", "test_fails")
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(
            [
                SECTION,
                "*T*Z, frozen",
                "payments:",
                "  pay_*  underpaid_expired  underpaid_expired  order order-1001",
                "    x      0 s  awaiting_payment      Created",
                "    x      5 s  payment_detected      Deposit observed, confirmations 0/16, pending",
                "    x     30 s  underpaid_expired",
                "    due      1010000000000000000 USDT",
                "    deposit  505000000000000000 USDT, finalized 16/16",
                "requests:",
                "  *T*Z  201   POST  /v1/payments  new",
            ]
        )
        result.stdout.no_re_match_line("mk_test|0x[0-9a-f]{40}")

    @pytest.mark.parametrize(
        "test", ["indirect", "dynamic", "setup", "call_and_teardown", "another_name", "async"]
    )
    def test_each_failure_has_one_section(self, run: Run, test: str) -> None:
        result = run(FAILURES, "-k", f"test_{test}")
        assert result.ret == 1
        assert sections(result) == 1

    @pytest.mark.parametrize("test", ["passes", "without_paymock", "expected", "teardown and not call"])
    def test_other_tests_have_none(self, run: Run, test: str) -> None:
        result = run(FAILURES, "-k", f"test_{test}", "-rA")
        result.stdout.no_fnmatch_line("*paymock: payments*")
        result.stdout.no_fnmatch_line("*order not-shown*")

    def test_workers_of_xdist_report_it(self, run: Run) -> None:
        result = run(FAILURES, "-p", "xdist", "-n", "2", "-k", "fails or indirect")
        assert sections(result) == 2

    def test_a_server_that_is_gone_does_not_hide_the_failure(self, run: Run) -> None:
        result = run(
            """
            import pytest
            from paymock.testing import Sandbox, serve

            @pytest.fixture
            def sandbox():
                with serve() as server, Sandbox(server.url, "mk_test_demo") as sandbox:
                    sandbox.now()
                return sandbox

            def test_it(sandbox):
                assert "this" == "that"
            """
        )
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(
            ["E *'this' == 'that'", SECTION, "the sandbox cannot be described: Unreachable"]
        )


class TestImports:
    def test_a_run_without_the_fixtures_imports_nothing(self, pytester: pytest.Pytester) -> None:
        pytester.makepyfile("""
            import sys

            def test_it():
                assert "_paymock_pytest" in sys.modules
                assert not {"paymock", "uvicorn", "msgspec", "http.client"} & set(sys.modules)
        """)
        others = ["anyio", "hypothesispytest", "schemathesis", "xdist", "xdist.looponfail", "pytest_cov"]
        options = [part for name in others for part in ("-p", f"no:{name}")]
        pytester.runpytest_subprocess(*options, timeout=60).assert_outcomes(passed=1)

    def test_the_plugin_imports_only_what_pytest_does(self) -> None:
        script = "import pytest, sys; before = set(sys.modules); import _paymock_pytest; "
        script += "print(set(sys.modules) - before)"
        outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert outcome.stdout == "{'_paymock_pytest'}\n"

    def test_a_remote_sandbox_imports_the_standard_library_only(self, tmp_path: Path) -> None:
        script = (
            "import sys; from paymock.testing import remote; s = remote().sandbox(); s.__enter__().create();"
        )
        script += "s.__exit__(None, None, None); roots = {name.partition('.')[0] for name in sys.modules};"
        script += "print(roots & {'uvicorn', 'msgspec', 'click', 'httptools', 'Crypto', 'yaml'})"
        with server_process(tmp_path) as served:
            command = [sys.executable, "-W", "error", "-c", script]
            variables = environment(PAYMOCK_URL=served.url)
            outcome = subprocess.run(command, capture_output=True, text=True, check=True, env=variables)
        assert outcome.stdout == "set()\n"
