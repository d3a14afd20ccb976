"""Groups and tiers of tests.

A group is a marker of pytest. Tests get it by their fixtures or their folder, and some carry it themselves.
The groups of a test decide its tier: *quick* without any, *ci*, or *nightly*. The last line of a run names
the groups that were left out.
"""

import shutil
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

TIERS = ("quick", "ci", "nightly")
OPTIONS = {"ci": "--ci", "nightly": "--all"}
"""The option of scripts/test that runs a tier, and those before it."""


class Group(NamedTuple):
    """The tier that a group belongs to, what it needs, and how to tell its tests."""

    tier: str
    needs: str
    programs: Mapping[str, str] = {}
    """Each with its Debian packages."""
    fixtures: frozenset[str] = frozenset()
    folder: str | None = None

    def packages(self) -> set[str]:
        """The Debian packages of the programs, and of libraries that the tests use with them."""
        return {package for packages in self.programs.values() for package in packages.split()}


GROUPS = {
    "binary": Group(
        "nightly", "gcc, readelf", {"gcc": "gcc", "readelf": "binutils"}, frozenset({"built_executable"})
    ),
    "browser": Group(
        "ci", "chromium", {"chromium": "chromium"}, frozenset({"browser"}), "tests/web/pages/browser/"
    ),
    "ci": Group("ci", "seconds"),
    "curl": Group("nightly", "curl", {"curl": "curl"}, frozenset({"demo"})),
    "go": Group("nightly", "go", {"go": "golang-go golang-gopkg-validator.v2-dev"}),
    "java": Group(
        "nightly",
        "javac, mvn",
        {
            "javac": "openjdk-17-jdk-headless",
            "mvn": "maven junit5 libmaven-compiler-plugin-java libmaven-install-plugin-java "
            "libmaven-jar-plugin-java libmaven-resources-plugin-java libsurefire-java",
        },
        frozenset({"maven"}),
    ),
    "nginx": Group(
        "nightly",
        "nginx, haproxy, caddy",
        {"nginx": "nginx-light", "caddy": "caddy", "haproxy": "haproxy", "sqlite3": "sqlite3"},
        frozenset({"deployment"}),
    ),
    "nightly": Group("nightly", "a few minutes", {}, frozenset({"deployment"}), "tests/system/"),
    "node": Group("nightly", "node", {"node": "nodejs"}),
    "npm": Group("ci", "node, npm", {"node": "nodejs"}, frozenset({"npm_packages"})),
    "php": Group(
        "nightly",
        "php, phpunit",
        {"php": "php-cli php-curl php-guzzlehttp-guzzle php-mbstring", "phpunit": "phpunit"},
    ),
    "process": Group("ci", "processes"),
    "redis": Group(
        "ci",
        "redis-server, openssl",
        {"redis-server": "redis-server", "openssl": "openssl"},
        frozenset({"deployment", "own_engine", "shared_engine"}),
        "tests/stores/redis/",
    ),
    "ruby": Group("nightly", "ruby", {"ruby": "ruby"}),
}


class Selection:
    """A plugin of pytest that marks each test with its groups and tier, and leaves out the later tiers."""

    def __init__(self, tier: str) -> None:
        self.tiers = TIERS[: TIERS.index(tier) + 1]
        self.left_out: set[str] = set()
        missing = {
            program: packages
            for group in GROUPS.values()
            if group.tier in self.tiers
            for program, packages in group.programs.items()
            if shutil.which(program) is None
        }
        if missing:
            raise pytest.UsageError(
                f"{OPTIONS[tier]} needs {', '.join(missing)}: apt-get install {' '.join(missing.values())}"
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        """In the quick tier, a folder of another one is not even imported: what it needs may be missing."""
        collectors = yield
        path = file_path.relative_to(parent.config.rootpath).as_posix()
        names = {name for name, group in GROUPS.items() if group.folder and path.startswith(group.folder)}
        if names and self.tiers == ("quick",):
            self.left_out |= names
            return []
        return collectors

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Before -m and -k are applied."""
        kept: list[pytest.Item] = []
        left_out: list[pytest.Item] = []
        for item in items:
            groups = groups_of(item)
            tier = tier_of(item, groups)
            for name in groups | {tier}:
                item.add_marker(name)
            if tier in self.tiers:
                kept.append(item)
            else:
                left_out.append(item)
                self.left_out |= {name for name in groups if GROUPS[name].tier not in self.tiers}
        items[:] = kept
        config.hook.pytest_deselected(items=left_out)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """A test that is skipped beyond the quick tier has failed."""
        report = yield
        if report.skipped and self.tiers != ("quick",):
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
            parts = []
            for tier, option in OPTIONS.items():
                names = sorted(name for name in self.left_out if GROUPS[name].tier == tier)
                if names:
                    parts.append(f"{', '.join(names)} (scripts/test {option})")
            reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
            reporter.write_line(f"left out: {'; '.join(parts)}")


def groups_of(item: pytest.Item) -> set[str]:
    marks = {mark.name for mark in item.iter_markers()}
    fixtures = set(getattr(item, "fixturenames", ()))
    return {
        name
        for name, group in GROUPS.items()
        if name in marks
        or group.fixtures & fixtures
        or (group.folder is not None and item.nodeid.startswith(group.folder))
    }


def tier_of(item: pytest.Item, groups: set[str]) -> str:
    for tier in ("nightly", "ci"):
        if item.get_closest_marker(tier) is not None:
            return tier
    return max((GROUPS[name].tier for name in groups), key=TIERS.index, default="quick")
