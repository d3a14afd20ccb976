"""No test reads the settings of a remote server from the environment; and pytest in a subprocess."""

from collections.abc import Callable

import pytest

from harness.server_process import environment


@pytest.fixture(autouse=True)
def no_remote_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAYMOCK_URL", raising=False)
    monkeypatch.delenv("PAYMOCK_API_KEY", raising=False)


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Run pytest in a subprocess, with the named plugins only."""
    for name in environment().keys() ^ environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1").keys():
        monkeypatch.setenv(name, "1")

    def run(test: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(test)
        options = ("-p", "paymock", "-p", "no:cacheprovider", "-W", "error", "-rf")
        return pytester.runpytest_subprocess(*options, *arguments, timeout=60)

    return run
