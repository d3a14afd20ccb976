"""Groups of tests that need more than Python, or more than a moment. Each is a marker of pytest, which tests
get by the fixtures they use and the folder they are in; a few carry it themselves.

A group whose programs are missing is left out, and so is `slow`, unless `--all` asks for everything. The last
line of the run names what was left out.
"""

import shutil
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest


class Group(NamedTuple):
    """The programs that a group needs, each with its Debian packages, and how to tell its tests."""

    programs: Mapping[str, str]
    fixtures: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()

    def packages(self) -> set[str]:
        """The Debian packages of the programs, and of libraries that the tests use with them."""
        return {package for packages in self.programs.values() for package in packages.split()}

    def missing(self) -> list[str]:
        """The programs that are not on the PATH."""
        return [program for program in self.programs if shutil.which(program) is None]


GROUPS = {
    "browser": Group({"chromium": "chromium"}, frozenset({"browser"})),
    "curl": Group({"curl": "curl"}, frozenset({"demo"})),
    "go": Group({"go": "golang-go golang-gopkg-validator.v2-dev"}),
    "java": Group({"javac": "openjdk-17-jdk-headless"}),
    "nginx": Group({"nginx": "nginx-light"}, frozenset({"deployment"})),
    "node": Group({"node": "nodejs", "tsc": "node-typescript"}),
    "php": Group({"php": "php-cli php-curl php-guzzlehttp-guzzle php-mbstring"}),
    "redis": Group(
        {"redis-server": "redis-server", "openssl": "openssl"},
        frozenset({"deployment", "own_cluster", "own_engine", "shared_cluster", "shared_engine"}),
        ("tests/stores/redis/",),
    ),
    "slow": Group({}, frozenset({"deployment"}), ("tests/system/",)),
    "wrk": Group({"wrk": "wrk"}),
}


class Selection:
    """A plugin of pytest that marks the tests of each group, and leaves out the groups that cannot run."""

    def __init__(self, *, everything: bool) -> None:
        self.everything = everything
        missing = {name: group.missing() for name, group in GROUPS.items()}
        self.reasons = {name: f"no {', '.join(programs)}" for name, programs in missing.items() if programs}
        if everything and self.reasons:
            packages = {GROUPS[name].programs[one] for name, programs in missing.items() for one in programs}
            raise pytest.UsageError(
                f"--all needs more programs: apt-get install {' '.join(sorted(packages))}"
            )
        if not everything:
            self.reasons["slow"] = "run scripts/test --all"
        self.left_out: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Before -m and -k are applied."""
        kept: list[pytest.Item] = []
        left_out: list[pytest.Item] = []
        for item in items:
            names = {name for name, group in GROUPS.items() if _belongs(item, name, group)}
            for name in names:
                item.add_marker(name)
            unavailable = names & self.reasons.keys()
            self.left_out |= unavailable
            (left_out if unavailable else kept).append(item)
        items[:] = kept
        config.hook.pytest_deselected(items=left_out)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """With --all, a test that is skipped has failed."""
        report = yield
        if self.everything and report.skipped:
            report.outcome = "failed"
        return report

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A process of pytest-xdist, which has collected for this one, says what it has left out."""
        self.left_out.update(getattr(node, "workeroutput", {}).get("left_out", ()))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """Prints the closing line, after the summary of pytest."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["left_out"] = sorted(self.left_out)
        yield
        if self.left_out and not hasattr(session.config, "workeroutput"):
            reasons = ", ".join(f"{name} ({self.reasons[name]})" for name in sorted(self.left_out))
            reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
            reporter.write_line(f"left out: {reasons}")


def _belongs(item: pytest.Item, name: str, group: Group) -> bool:
    path = Path(item.path).relative_to(item.config.rootpath).as_posix()
    return (
        item.get_closest_marker(name) is not None
        or not group.fixtures.isdisjoint(getattr(item, "fixturenames", ()))
        or path.startswith(group.folders)
    )
