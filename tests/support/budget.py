"""The budget of a test, in counts that are the same on every machine: what it may start and request, by its
tier. The limits are in pyproject.toml.
"""

import os
import subprocess
from collections import Counter
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from paymock.server.server import Server
from paymock.web.application import Application
from tests.support.groups import TIERS

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


class Budget:
    """A plugin of pytest that fails a test that is over the budget of its tier."""

    def __init__(self, limits: Mapping[str, Mapping[str, int]]) -> None:
        self.limits = limits
        self.before: Counter[str] = Counter()

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
        tier, now = next(tier for tier in TIERS if item.get_closest_marker(tier)), _started - self.before
        for name, limit in self.limits.get(tier, {}).items():
            if now[name] > limit:
                pytest.fail(
                    f"{now[name]} {name}, where a test of the tier {tier} may have {limit}: {ADVICE[name]}"
                )
