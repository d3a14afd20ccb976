from collections.abc import Callable

import pytest

import _paymock_pytest


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Run pytest with no plugin but that of paymock: in this process, or with `process` in one of its own."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(test: str, *arguments: str, process: bool = False) -> pytest.RunResult:
        pytester.makepyfile(test)
        options = ("-p", "no:cacheprovider", "-W", "error", "-rf", *arguments)
        if process:
            return pytester.runpytest_subprocess("-p", "paymock", *options, timeout=60)
        return pytester.runpytest_inprocess(*options, plugins=[_paymock_pytest], no_reraise_ctrlc=True)

    return run
