"""The pytest fixtures and options of paymock. See docs/testing.md and docs/coverage.md.

pytest imports this module in every run where paymock is installed. Therefore it imports only what pytest has
already imported; the fixtures import the rest when a test uses them.
"""

import argparse
import os
import sys
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import pluggy

    from paymock.analysis.coverage import Coverage
    from paymock.testing import Sandbox, ServerHandle

before_reset: "list[Callable[[Sandbox], None]]" = []
"""What paymock.testing calls with a sandbox at the end of its block."""

_earlier = pytest.StashKey[list["Sandbox"]]()
"""The sandboxes that were open when a test began."""

_closed: dict[int, str] = {}
"""The descriptions of those that an exception has closed since a test began."""


@pytest.fixture(scope="session")
def paymock_server() -> "Iterator[ServerHandle]":
    """A paymock server for the whole run: in a thread, on a free port; or the one at PAYMOCK_URL."""
    from paymock import testing

    if os.environ.get("PAYMOCK_URL"):
        is_open_key = os.environ.get("PAYMOCK_API_KEY", "").startswith("mk_test_")
        is_shared = is_open_key or os.environ.get("PAYMOCK_SANDBOX")
        if is_shared and os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1") != "1":
            pytest.fail(
                "PAYMOCK_SANDBOX or PAYMOCK_API_KEY names one sandbox for all workers: unset it",
                pytrace=False,
            )
        yield testing.remote()
    else:
        with testing.serve() as server:
            yield server


@pytest.fixture
def paymock(request: pytest.FixtureRequest, paymock_server: "ServerHandle") -> "Iterator[Sandbox]":
    """A sandbox of paymock for this test only: empty, with a frozen clock."""
    marker = request.node.get_closest_marker("paymock")
    if marker and (marker.args or [*marker.kwargs] != ["now"]):
        pytest.fail('write @pytest.mark.paymock(now="2024-02-29T12:00:00Z")', pytrace=False)
    now = marker.kwargs["now"] if marker else request.config.getini("paymock_now")
    with paymock_server.sandbox() as sandbox:
        if now:
            sandbox.freeze(at=now)
        yield sandbox


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "paymock_now", "The time at which the sandbox of a test stands, such as 2024-02-29T12:00:00Z."
    )
    group = parser.getgroup("paymock")
    group.addoption(
        "--paymock-coverage",
        action="store_true",
        help="Show which scenarios, statuses, transitions, errors and faults of paymock the application has "
        "seen, and what is wrong with its requests.",
    )
    group.addoption(
        "--paymock-fail-under",
        type=_percent,
        metavar="PERCENT",
        help="Fail if the coverage is below PERCENT. Implies --paymock-coverage.",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "paymock(now): as paymock_now, for a test.")
    if config.option.paymock_coverage or config.option.paymock_fail_under is not None:
        plugin = _CoveragePlugin(config)
        before_reset.append(plugin.collect)
        config.add_cleanup(lambda: before_reset.remove(plugin.collect))
        config.pluginmanager.register(plugin, "paymock-coverage")


class _CoveragePlugin:
    """Collects what the application has seen. Workers of pytest-xdist send it to the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self._fail_under: float | None = config.option.paymock_fail_under
        self._worker_output: dict[str, Any] | None = getattr(config, "workeroutput", None)
        self._test = ""
        self._seen: list[dict[str, list[str]]] = []
        self._messages: list[tuple[str, str]] = []  # each with the id of its test

    def collect(self, sandbox: "Sandbox") -> None:
        from paymock.analysis.coverage import coverage
        from paymock.analysis.lint import lint
        from paymock.cache import JOURNAL_LENGTH

        try:
            requests, payments = sandbox.requests(), sandbox.payments()
        except Exception as error:  # noqa: BLE001 - whatever fails, the report of the test is not lost
            self._messages.append((self._test, f"the sandbox cannot be read: {type(error).__name__}"))
            return
        self._seen.append(coverage(requests, payments).seen)
        self._messages += [(self._test, str(warning)) for warning in lint(requests, payments)]
        if len(requests) == JOURNAL_LENGTH:
            full = f"the journal was full: only the last {JOURNAL_LENGTH:,} requests count"
            self._messages.append((self._test, full))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._test = nodeid

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if not hasattr(node, "workeroutput"):
            self._messages.append((f"worker {node.gateway.id}", "it crashed, and its results are missing"))
            return
        seen, messages = node.workeroutput["paymock_coverage"]
        self._seen += seen
        self._messages += map(tuple, messages)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send the results of a worker; or fail if the application has not seen enough."""
        if self._worker_output is not None:
            self._worker_output["paymock_coverage"] = self._seen, self._messages
        elif self._is_too_low() and session.exitstatus == 0 and not session.config.option.collectonly:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        write = terminalreporter.write_line
        terminalreporter.section("paymock coverage")
        for line in str(self._coverage()).splitlines():
            write(line)
        tests: dict[str, list[str]] = {}
        for test, message in self._messages:
            tests.setdefault(test, []).append(message)
        for test, messages in tests.items():
            write(f"\n{test}")
            for message in messages:
                write(f"  {message}", yellow=True)
        if self._is_too_low():
            write(
                f"\nFAIL: the coverage of paymock, {self._coverage().percent:g}%, is below "
                f"--paymock-fail-under={self._fail_under:g}",
                red=True,
                bold=True,
            )

    def _coverage(self) -> "Coverage":
        from paymock.analysis.coverage import Coverage, merged

        return merged(map(Coverage, self._seen))

    def _is_too_low(self) -> bool:
        return self._fail_under is not None and self._coverage().percent < self._fail_under


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 100, not {text!r}")
    return value


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note which sandboxes are open: they are not of this test."""
    testing = sys.modules.get("paymock.testing")
    item.stash[_earlier] = [*testing.open_sandboxes] if testing else []
    _closed.clear()


@before_reset.append
def _describe_closed(sandbox: "Sandbox") -> None:
    if sys.exc_info()[0] is not None:
        _closed[id(sandbox)] = _description(sandbox)


# Not of the new style: old versions of pluggy know only this one.
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> "Generator[None, pluggy.Result[pytest.TestReport], None]":
    """Add the payments and requests of its sandboxes to the report of a failed test."""
    outcome = yield
    testing = sys.modules.get("paymock.testing")
    # During the teardown the sandboxes may have been reset.
    if testing is None or call.when == "teardown" or outcome.excinfo or not outcome.get_result().failed:
        return
    arguments = (getattr(item, "funcargs", None) or {}).values()
    earlier = item.stash.get(_earlier, [])
    sandboxes = [sandbox for sandbox in testing.open_sandboxes if sandbox not in earlier]
    sandboxes += [value for value in arguments if isinstance(value, testing.Sandbox)]
    descriptions = {id(sandbox): _description(sandbox) for sandbox in dict.fromkeys(sandboxes)}
    for description in filter(None, (_closed | descriptions).values()):
        outcome.get_result().sections.append(("paymock: payments and last requests", description))


def _description(sandbox: "Sandbox") -> str:
    """Describe a sandbox, unless the report of `verify` does."""
    try:
        return "" if sandbox.is_judged else sandbox.describe()
    except Exception as error:  # noqa: BLE001 - whatever fails, the report of the test is not lost
        reason, *_ = f"{type(error).__name__}: {error}".splitlines()
        return f"the sandbox cannot be described: {reason}"
