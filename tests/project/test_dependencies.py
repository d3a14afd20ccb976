"""What paymock stands on: licenses, lock files, and the audit of both for known vulnerabilities."""

import json
import re
import subprocess
import sys
import tomllib

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
