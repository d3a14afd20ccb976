"""The pytest fixtures, as a test suite uses them, and what they cost one that does not."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from paymock.testing import serve
from tests.support.process import environment, serving

pytest_plugins = ["pytester"]


Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest in a process of its own, with the plugins that are named and no others."""
    for name in environment().keys() ^ environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1").keys():
        monkeypatch.setenv(name, "1")

    def run(test: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(test)
        options = ("-p", "paymock", "-p", "no:cacheprovider", "-W", "error", "-rf")
        return pytester.runpytest_subprocess(*options, *arguments, timeout=60)

    return run


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
    def test_it_lives(paymock, number):
        assert paymock.payments() == []
        if number == 1 and os.environ["PYTEST_XDIST_WORKER"] == "gw0":
            os._exit(9)
"""
KEY_OF_ITS_OWN = """
    import pytest

    @pytest.mark.parametrize("number", range(8))
    def test_nobody_disturbs(paymock, number):
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

    def test_workers_of_xdist_have_a_server_each(self, run: Run) -> None:
        result = run(SANDBOX_EACH, "-p", "xdist", "-n", "3")
        result.assert_outcomes(passed=12)
        result.stdout.fnmatch_lines(["*3 workers*"])

    def test_workers_can_share_a_server(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        with serve() as server:
            monkeypatch.setenv("PAYMOCK_URL", server.url)
            check = f"\n    def test_it_is_the_one(paymock):\n        assert paymock.url == {server.url!r}\n"
            run(SANDBOX_EACH + check, "-p", "xdist", "-n", "3").assert_outcomes(passed=13)

    @pytest.mark.parametrize("workers", ["0", "2"])
    def test_workers_share_out_the_keys(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, workers: str
    ) -> None:
        with serve(api_keys=("first-key", "second-key")) as server:
            monkeypatch.setenv("PAYMOCK_URL", server.url)
            monkeypatch.setenv("PAYMOCK_API_KEY", "first-key,second-key")
            run(KEY_OF_ITS_OWN, "-p", "xdist", "-n", workers).assert_outcomes(passed=8)

    def test_fewer_keys_than_workers_is_an_error_that_explains(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PAYMOCK_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("PAYMOCK_API_KEY", "first-key")
        test = (
            "import pytest\n\n@pytest.mark.parametrize('x', range(8))\ndef test_it(x, paymock_server): pass"
        )
        result = run(test, "-p", "xdist", "-n", "2", "--dist", "load")
        assert result.ret == 1
        result.stdout.fnmatch_lines(["2 workers need as many API keys, and PAYMOCK_API_KEY has 1: *"])

    def test_a_worker_that_replaces_another_takes_no_key_that_is_in_use(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keys = ("first-key", "second-key", "third-key")
        with serve(api_keys=keys) as server:
            monkeypatch.setenv("PAYMOCK_URL", server.url)
            monkeypatch.setenv("PAYMOCK_API_KEY", ",".join(keys))
            result = run(CRASH, "-p", "xdist", "-n", "2", "--dist", "each")
        result.assert_outcomes(passed=5, failed=1, errors=2)
        result.stdout.fnmatch_lines(["the API keys *for the workers gw0, gw1; *, gw2, replaces one*"])

    def test_workers_with_names_of_their_own_are_explained(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PAYMOCK_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("PAYMOCK_API_KEY", "first-key,second-key")
        workers = ("--tx", "popen//id=alpha", "--dist", "each")
        result = run("def test_it(paymock_server): pass", "-p", "xdist", *workers)
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["*for the workers gw0; this worker, alpha, *or was given a name"])

    def test_a_key_that_is_given_twice_is_for_one_worker(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
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
    def test_a_failure_is_shown_with_the_line_of_the_test_alone(self, run: Run, line: str) -> None:
        result = run(f"def test_it(paymock):\n    {line}")
        result.assert_outcomes(failed=1)
        assert len(re.findall(r"^\S+\.py:\d+: ", result.stdout.str(), re.MULTILINE)) == 1
        result.stdout.fnmatch_lines([f">   *{line.replace('[', '[[]')}", "test_*.py:2: *"])
        result.stdout.no_fnmatch_line("*paymock*.py*")

    def test_a_server_that_wants_a_key_is_explained(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        with serve(api_keys=("first-key",)) as server:
            monkeypatch.setenv("PAYMOCK_URL", server.url)
            result = run("def test_it(paymock): pass")
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["*401 unauthenticated*", "*keys in PAYMOCK_API_KEY*"])

    def test_a_project_can_have_a_server_of_its_own(self, run: Run) -> None:
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

    def test_other_variables_have_no_say(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in (("API_KEY", "first-key"), ("PORT", "1"), ("SPEED", "x"), ("NO_CONTROL", "1")):
            monkeypatch.setenv(f"PAYMOCK_{name}", value)
        run(SANDBOX_EACH).assert_outcomes(passed=12)

    def test_they_are_documented(self, run: Run) -> None:
        result = run("", "--fixtures")
        result.stdout.fnmatch_lines(
            ["paymock_server [[]session scope[]]*", "*A paymock server*", "paymock -- *", "*A sandbox of*"]
        )


class TestNothingToPayFor:
    def test_a_run_that_does_not_use_it_imports_nothing_of_it(self, pytester: pytest.Pytester) -> None:
        pytester.makepyfile("""
            import sys

            def test_it():
                assert "_paymock_pytest" in sys.modules
                assert not {"paymock", "uvicorn", "msgspec", "http.client"} & set(sys.modules)
        """)
        others = ["anyio", "hypothesispytest", "schemathesis", "xdist", "xdist.looponfail", "pytest_cov"]
        options = [part for name in others for part in ("-p", f"no:{name}")]
        pytester.runpytest_subprocess(*options, timeout=60).assert_outcomes(passed=1)

    def test_the_plugin_imports_nothing_that_pytest_does_not(self) -> None:
        script = "import pytest, sys; before = set(sys.modules); import _paymock_pytest; "
        script += "print(set(sys.modules) - before)"
        found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert found.stdout == "{'_paymock_pytest'}\n"

    def test_a_sandbox_elsewhere_needs_the_standard_library_alone(self, tmp_path: Path) -> None:
        script = (
            "import sys; from paymock.testing import remote; s = remote().sandbox(); s.__enter__().create();"
        )
        script += "s.__exit__(None, None, None); roots = {name.partition('.')[0] for name in sys.modules};"
        script += "print(roots & {'uvicorn', 'msgspec', 'click', 'httptools', 'Crypto', 'yaml'})"
        with serving(tmp_path) as served:
            command = [sys.executable, "-W", "error", "-c", script]
            variables = environment(PAYMOCK_URL=served.url)
            found = subprocess.run(command, capture_output=True, text=True, check=True, env=variables)
        assert found.stdout == "set()\n"
