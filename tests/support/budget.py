"""Budgets of the tests, in counts that are the same on every machine: what a test of each tier may start and
request, and what all tests of a run may in sum. The limits are in pyproject.toml.
"""

import sys
import tomllib
from collections import Counter
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from paymock.server.uvicorn_server import Server
from paymock.web.application import Application
from tests.support.groups import TIERS

COUNTED = ("processes", "servers", "requests")
_PROCESS_EVENTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"}
ADVICE = {
    "processes": "call the command in this process (tests.support.in_process), or mark the test `process`",
    "servers": "use the fixture `server`, which all tests share, or mark the test `ci`",
    "requests": "ask for fewer examples, test a layer below HTTP, or mark the test `ci`",
}


class Budget:
    """A plugin of pytest that fails a test, and a run, that is over its budget."""

    def __init__(self, config: pytest.Config, tier: str) -> None:
        with (config.rootpath / "pyproject.toml").open("rb") as file:
            limits: Mapping[str, Any] = tomllib.load(file)["tool"]["paymock"]["tests"]
        self.per_test: Mapping[str, Mapping[str, int]] = limits["per-test"]
        self.per_run: Mapping[str, int] = limits["per-run"].get(tier, {})
        self.now: Counter[str] = Counter()
        self.total: Counter[str] = Counter()
        self.exceeded: list[str] = []
        self._count_what_is_started()

    def _count_what_is_started(self) -> None:
        def count_process(event: str, _: object) -> None:
            self.now["processes"] += event in _PROCESS_EVENTS

        def counting(name: str, function: Any) -> Any:
            def counted(*args: Any, **kwargs: Any) -> Any:
                self.now[name] += 1
                return function(*args, **kwargs)

            return counted

        sys.addaudithook(count_process)
        patch = pytest.MonkeyPatch()
        patch.setattr(Server, "run", counting("servers", Server.run))
        patch.setattr(Application, "_answer", counting("requests", Application._answer))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """What a run starts once, in each of its processes, counts for no test."""
        before = self.now.copy()
        value = yield
        if fixturedef.scope == "session":
            self.now = before
        return value

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self.now = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Fails a test that passes, but does too much."""
        yield
        tier = next(tier for tier in TIERS if item.get_closest_marker(tier) is not None)
        for name, limit in self.per_test.get(tier, {}).items():
            if self.now[name] > limit:
                pytest.fail(
                    f"{self.now[name]} {name}, where a test of the tier {tier} may have {limit}: "
                    + ADVICE[name]
                )

    def pytest_runtest_teardown(self) -> None:
        self.total += self.now + Counter(tests=1)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A process of pytest-xdist has counted for itself."""
        self.total.update(getattr(node, "workeroutput", {}).get("counts", {}))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """Prints the counts of the run, and fails it if they are over its budget."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["counts"] = dict(self.total)
            return (yield)
        exceeded = [name for name, limit in self.per_run.items() if self.total[name] > limit]
        if exceeded and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        yield
        reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
        reporter.write_line(", ".join(f"{self.total[name]} {name}" for name in ("tests", *COUNTED)))
        for name in exceeded:
            reporter.write_line(
                f"more than the {self.per_run[name]} {name} that pyproject.toml allows a run: "
                "remove some, or raise the number in a commit of its own"
            )
