"""What paymock stands on: licenses, lock files, and the audit of both for known vulnerabilities."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support import markdown
from tests.support.dependencies import PERMISSIVE, declared, dependencies, license_of, locked

CONTROL = "pycrypto"
"""The audit asks about it, too, to see whether the service knows anything."""


# Licenses


@pytest.mark.parametrize("name", [row.name for row in dependencies()])
def test_everything_shipped_is_under_a_permissive_license(name: str) -> None:
    assert set(re.split(" AND | OR ", license_of(name))) <= PERMISSIVE


def test_a_license_that_asks_for_more_or_cannot_be_told_would_be_noticed() -> None:
    assert license_of("hypothesis") == "MPL-2.0"
    assert license_of("certifi") == "unknown"
    assert not {"MPL-2.0", "unknown"} & PERMISSIVE


# Lock files


def test_the_lock_file_of_a_server_names_what_is_asked_for_and_what_that_needs() -> None:
    assert {row.name for row in dependencies()} == set(locked())


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_the_lock_file_of_a_server_has_versions_that_are_asked_for(requirement: Requirement) -> None:
    assert requirement.specifier.contains(locked()[canonicalize_name(requirement.name)])


@pytest.mark.parametrize(
    ("lock", "groups"),
    [("dev", ("build", "docs", "test", "lint")), ("build", ("build",)), ("clients", ("clients",))],
)
def test_the_lock_files_of_developers_have_versions_that_are_asked_for(
    lock: str, groups: tuple[str, ...]
) -> None:
    asked = tomllib.loads(markdown.read("pyproject.toml"))["dependency-groups"]
    for requirement in (Requirement(text) for group in groups for text in asked[group]):
        assert requirement.specifier.contains(locked(lock)[canonicalize_name(requirement.name)]), requirement


def test_the_lowest_lock_file_has_the_lowest_versions_that_are_declared() -> None:
    declared_versions = {
        requirement.name: {item.version for item in requirement.specifier if item.operator == ">="}
        for requirement in declared()
    }
    lowest = locked("lowest")
    assert set(lowest) == {"click", "httptools", "uvicorn"}
    assert {name: {version.removesuffix(".0")} for name, version in lowest.items()} == {
        name: declared_versions[name] for name in lowest
    }


@pytest.mark.parametrize("lock", ["run", "dev", "build", "clients", "lowest"])
def test_nothing_is_installed_without_a_hash(lock: str) -> None:
    entries = re.split(r"\n(?=\S)", markdown.read(f"lock/{lock}.txt"))
    assert len(entries) == len(locked(lock))
    assert all(re.search("--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)


# The audit


@contextmanager
def service(known: Mapping[str, str], *, status: int = 200) -> Iterator[str]:
    """The URL of a vulnerability service, which knows one vulnerability of each package that is `known`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["package"]
            ids = [known[asked["name"]]] if asked["name"] in known else []
            events = [{"introduced": "0"}, {"fixed": "99.1"}]
            affected = [{"package": asked, "ranges": [{"type": "ECOSYSTEM", "events": events}]}]
            answer = {"vulns": [{"id": one, "affected": affected} for one in ids]} if ids else {}
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing is said."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/query"
        finally:
            server.shutdown()
            thread.join()


def audit(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What `scripts/audit` makes of what the service at `url` says."""
    command = [sys.executable, str(markdown.ROOT / "scripts" / "audit"), "--vulnerability-service", "osv"]
    return subprocess.run(
        [*command, "--osv-url", url, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


KNOWN = {CONTROL: "GHSA-control"}


@pytest.mark.nightly
def test_the_audit_passes_when_nothing_is_known_of_what_is_shipped() -> None:
    with service(KNOWN) as url:
        outcome = audit(url)
    assert outcome.returncode == 0, outcome.stderr
    assert f"audited      {len(locked())} packages, 0 vulnerabilities" in outcome.stdout
    assert "NOT AUDITED" not in outcome.stdout


@pytest.mark.nightly
def test_the_audit_fails_on_a_vulnerability_of_what_is_shipped() -> None:
    with service({**KNOWN, "jinja2": "GHSA-shipped", "async-timeout": "GHSA-elsewhere"}) as url:
        outcome = audit(url)
        accepted = audit(url, "--ignore-vuln", "GHSA-shipped", "--ignore-vuln", "GHSA-elsewhere")
    assert outcome.returncode == 1
    assert f"VULNERABLE   jinja2 {locked()['jinja2']}: GHSA-shipped, mended in 99.1" in outcome.stdout
    assert f"VULNERABLE   async-timeout {locked()['async-timeout']}: GHSA-elsewhere" in outcome.stdout
    assert accepted.returncode == 0


@pytest.mark.nightly
def test_the_audit_tells_of_a_vulnerability_of_a_tool_and_passes() -> None:
    with service({**KNOWN, "pytest": "GHSA-tool"}) as url:
        outcome = audit(url)
    assert outcome.returncode == 0
    assert f"VULNERABLE   pytest {locked('dev')['pytest']}: GHSA-tool" in outcome.stdout


UNREACHABLE = "http://127.0.0.1:9/v1/query"


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["unreachable", "broken", "ignorant"])
def test_the_audit_says_so_when_the_service_cannot_be_asked(kind: str) -> None:
    with service({} if kind == "ignorant" else KNOWN, status=500 if kind == "broken" else 200) as url:
        outcome = audit(UNREACHABLE if kind == "unreachable" else url)
    assert outcome.returncode == 3
    assert f"NOT AUDITED  all {len(locked())} packages" in outcome.stdout
    assert "audited      " not in outcome.stdout


@pytest.mark.nightly
def test_an_audit_that_does_not_run_is_no_audit() -> None:
    outcome = audit(UNREACHABLE, "--no-such-option")
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert "unrecognized arguments" in outcome.stderr
