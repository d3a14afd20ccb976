import asyncio
import functools
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from hypothesis import HealthCheck, settings

from tests.support.budget import Budget, count_what_is_started, limits_in
from tests.support.client import Api
from tests.support.clock import NOON
from tests.support.contract import Contract
from tests.support.groups import GROUPS, Selection
from tests.support.markdown import ROOT
from tests.support.server import RunningServer, running_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest_plugins = ["pytester"]

# No test uses the server that a developer has running.
for variable in ("PAYMOCK_URL", "PAYMOCK_API_KEY", "PAYMOCK_SANDBOX"):
    os.environ.pop(variable, None)

# A shell lets what it starts in the background ignore SIGINT, and what tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Each client would read the certificates of all authorities anew, which takes most of its time.
_create_ssl_context = functools.cache(httpx.create_ssl_context)
pytest.MonkeyPatch().setattr("httpx._transports.default.create_ssl_context", _create_ssl_context)

# How long an example takes says something of the machine, and nothing of the rules.
settings.register_profile("full", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("full"), max_examples=25)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--ci", action="store_true", help="run the tests of CI, too: processes, a browser, Redis"
    )
    parser.addoption("--all", action="store_true", help="run all tests")


def pytest_configure(config: pytest.Config) -> None:
    tier = "nightly" if config.getoption("--all") else "ci" if config.getoption("--ci") else "quick"
    settings.load_profile("full" if tier == "nightly" else "quick")
    for name in (*GROUPS, "quick"):
        config.addinivalue_line("markers", f"{name}: see tests/support/groups.py")
    config.pluginmanager.register(Selection(tier))
    count_what_is_started()
    config.pluginmanager.register(Budget(limits_in(config.rootpath / "pyproject.toml"), tier))


@pytest.fixture(scope="session")
def shared_browser() -> Iterator["tuple[Browser, asyncio.AbstractEventLoop]"]:
    from tests.support.browser import chromium, running_loop  # where there is no browser, none is imported

    with chromium() as browser:
        loop = asyncio.get_running_loop()
        with running_loop(None):
            yield browser, loop


@pytest.fixture
def browser(shared_browser: "tuple[Browser, asyncio.AbstractEventLoop]") -> Iterator["Browser"]:
    from tests.support.browser import running_loop

    browser, loop = shared_browser
    with running_loop(loop):
        yield browser


@pytest.fixture(scope="session")
def shared_server() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def npm_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like `dist`, with the npm packages of a script in the place of the executable."""
    folder = tmp_path_factory.mktemp("dist")
    executable = folder / "folder" / f"paymock-{platform.system()}-{platform.machine()}".lower() / "paymock"
    executable.parent.mkdir(parents=True)
    executable.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m paymock "$@"\n')
    executable.chmod(0o755)
    subprocess.run([ROOT / "scripts" / "npm", folder], check=True)
    return folder


@pytest.fixture(scope="session")
def contract(shared_server: RunningServer) -> Contract:
    return Contract.of(shared_server.url, "/openapi.yaml", "/_mock/openapi.yaml")


@pytest.fixture
def server(shared_server: RunningServer) -> RunningServer:
    """The shared server at noon. Each test has its own sandbox; only the clock is shared."""
    shared_server.clock.now = NOON
    return shared_server


@pytest.fixture
def api(server: RunningServer, contract: Contract) -> Iterator[Api]:
    """A client with a sandbox of its own."""
    with Api(server.url, contract) as client:
        yield client


@pytest.fixture(scope="session")
def maven(tmp_path_factory: pytest.TempPathFactory) -> str:
    """`MAVEN_OPTS` for the plugins and JUnit of Debian, and the extension that scripts/maven builds."""
    clone = tmp_path_factory.mktemp("clone")
    for name in ("clients/java", "scripts"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("target"))
    subprocess.run([clone / "scripts" / "maven"], check=True, timeout=300)
    settings = (clone / "clients" / "java" / "settings-debian.xml").read_text()
    mirror = (
        f"<mirror><id>built</id><mirrorOf>paymock</mirrorOf><url>file://{clone}/dist/maven</url></mirror>"
    )
    (clone / ".m2").mkdir()
    (clone / ".m2" / "settings.xml").write_text(
        settings.replace("<settings>", f"<settings><mirrors>{mirror}</mirrors>")
    )
    return f"-Duser.home={clone}"
