"""What paymock stands on: licenses, lock files, and the audit of both for known vulnerabilities."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.dependency_metadata import PERMISSIVE, declared, dependencies, license_of, locked
from tests.support import markdown

CONTROL = "pycrypto"
"""The audit asks about it, too, to see whether the service knows anything."""


def test_everything_shipped_is_under_a_permissive_license() -> None:
    for row in dependencies():
        assert set(re.split(" AND | OR ", row.license)) <= PERMISSIVE, row
    assert not {license_of("hypothesis"), license_of("certifi")} & PERMISSIVE


def test_the_lock_files_have_versions_that_are_asked_for() -> None:
    groups = tomllib.loads(markdown.read("pyproject.toml"))["dependency-groups"]

    def asked(group: str) -> list[Requirement]:
        requirements = [Requirement(text) for text in groups[group] if isinstance(text, str)]
        for included in (item["include-group"] for item in groups[group] if isinstance(item, dict)):
            requirements += asked(included)
        return requirements

    for lock, requirements in {"run": [*declared()], **{group: asked(group) for group in groups}}.items():
        for requirement in requirements:
            version = locked(lock)[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), f"{lock}: {requirement}"
    assert {row.name for row in dependencies()} == set(locked())


def test_the_lowest_lock_file_has_the_lowest_versions_that_are_declared() -> None:
    lowest = locked("lowest")
    specifiers = {requirement.name: str(requirement.specifier) for requirement in declared()}
    assert set(lowest) == {"click", "uvloop"}
    for name, version in lowest.items():
        assert f">={version.removesuffix('.0')}" in specifiers[name].split(",")


@pytest.mark.nightly
def test_the_bill_of_materials_names_what_is_shipped() -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = subprocess.check_output([sys.executable, str(markdown.ROOT / "scripts" / "sbom")], text=True)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert {component["name"] for component in json.loads(text)["components"]} == {
        *locked(),
        "swagger-ui-dist",
    }


def audit(known: Mapping[str, str], *, status: int = 200) -> tuple[int, str]:
    """The exit status and the output of `scripts/audit` with a service that knows these vulnerabilities."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["package"]
            events = [{"introduced": "0"}, {"fixed": "99.1"}]
            affected = [{"package": asked, "ranges": [{"type": "ECOSYSTEM", "events": events}]}]
            found = [{"id": known[asked["name"]], "affected": affected}] if asked["name"] in known else []
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps({"vulns": found} if found else {}).encode())

        def log_message(self, *_: object) -> None:
            """Nothing is said."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as service:
        Thread(target=service.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{service.server_port}/v1/query"
        command = [sys.executable, str(markdown.ROOT / "scripts" / "audit"), "--vulnerability-service", "osv"]
        ended = subprocess.run(
            [*command, "--osv-url", url], capture_output=True, text=True, timeout=120, check=False
        )
        service.shutdown()
    return ended.returncode, ended.stdout


@pytest.mark.nightly
def test_the_audit_fails_on_a_vulnerability_of_what_is_shipped_and_tells_of_others() -> None:
    known = {CONTROL: "GHSA-control", "pytest": "GHSA-tool"}
    status, output = audit({**known, "jinja2": "GHSA-shipped"})
    assert status == 1
    assert f"VULNERABLE   jinja2 {locked()['jinja2']}: GHSA-shipped, fixed in 99.1" in output
    assert f"VULNERABLE   pytest {locked('nightly')['pytest']}: GHSA-tool" in output

    status, output = audit(known)
    assert (status, "NOT AUDITED" in output) == (0, False)
    assert f"audited      {len(locked())} packages, 0 vulnerabilities" in output

    for status, output in (audit({}), audit(known, status=500)):  # which knows nothing, or is broken
        assert (status, "audited      " in output) == (3, False)
        assert f"NOT AUDITED  all {len(locked())} packages" in output
