"""Budgets of the tests, in counts that are the same on every machine: what a test of each tier may start and
request, and what all tests of a run may in sum. The limits are in pyproject.toml.
"""

import os
import subprocess
import tomllib
from collections import Counter
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from paymock.server.server import Server
from paymock.web.application import Application
from tests.support.groups import TIERS

COUNTED = ("processes", "servers", "requests")
_WAYS_TO_FORK = ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system")
ADVICE = {
    "processes": "call the command in this process (tests.support.in_process), or mark the test `process`",
    "servers": "use the fixture `server`, which all tests share, or mark the test `ci`",
    "requests": "ask for fewer examples, test a layer below HTTP, or mark the test `ci`",
}


_started: Counter[str] = Counter()
"""What was counted in this process so far."""


def count_what_is_started() -> None:
    """Counts processes, servers in this process, and the requests that these answer, from now on.

    Functions are replaced: a thread can lose the GIL in an audit hook, and CPython 3.11 then refuses the
    trace function that coverage installs in another one.
    """

    def counting(name: str, function: Any) -> Any:
        def counted(*args: Any, **kwargs: Any) -> Any:
            _started[name] += 1
            return function(*args, **kwargs)

        return counted

    patch = pytest.MonkeyPatch()
    patch.setattr(subprocess.Popen, "__init__", counting("processes", subprocess.Popen.__init__))
    for name in _WAYS_TO_FORK:
        patch.setattr(os, name, counting("processes", getattr(os, name)))
    patch.setattr(Server, "run", counting("servers", Server.run))
    patch.setattr(Application, "_record", counting("requests", Application._record))


def limits_in(pyproject: Path) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
    """The limits `per-test` and `per-run` of each tier."""
    limits: Any = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["paymock"]["tests"]
    return {"per-test": limits["per-test"], "per-run": limits["per-run"]}


class Budget:
    """A plugin of pytest that fails a test, and a run, that is over its budget."""

    def __init__(self, limits: Mapping[str, Mapping[str, Mapping[str, int]]], tier: str) -> None:
        self.per_test = limits["per-test"]
        self.per_run = limits["per-run"].get(tier, {})
        self.before: Counter[str] = Counter()
        self.total: Counter[str] = Counter()

    @property
    def now(self) -> Counter[str]:
        return _started - self.before

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """What a run starts once, in each of its processes, counts for no test."""
        before = _started.copy()
        value = yield
        if fixturedef.scope == "session":
            self.before += _started - before
        return value

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self.before = _started.copy()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Fails a test that passes, but does too much."""
        yield
        tier, now = next(tier for tier in TIERS if item.get_closest_marker(tier) is not None), self.now
        for name, limit in self.per_test.get(tier, {}).items():
            if now[name] > limit:
                pytest.fail(
                    f"{now[name]} {name}, where a test of the tier {tier} may have {limit}: " + ADVICE[name]
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
