"""The dependencies of a server: the packages in its lock file, with their metadata."""

import re
import tomllib
from importlib import metadata
from typing import Any, NamedTuple

from packaging.licenses import canonicalize_license_expression
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support import markdown

PYPROJECT = "pyproject.toml"
PERMISSIVE = {"Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "MIT", "PSF-2.0", "Unlicense"}
"""Licenses that ask for no more than their own text and a mention."""

_ELSEWHERE = {
    "async-timeout": "Apache-2.0",
    "pycryptodome": "BSD-2-Clause AND Unlicense AND MIT",
    "safe-pysha3": "PSF-2.0",
}
"""The licenses of what is only installed on other systems, or with other versions of Python."""

_SAID = {
    "MIT License": "MIT",
    "Apache 2": "Apache-2.0",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": "BSD",
    "License :: OSI Approved :: Python Software Foundation License": "PSF-2.0",
    "License :: CC0 1.0 Universal (CC0 1.0) Public Domain Dedication": "CC0-1.0",
    "PSFL (Keccak: CC0 1.0 Universal)": "PSF-2.0",
}
"""What older metadata says in place of an SPDX identifier."""


class Dependency(NamedTuple):
    """A package that is installed with paymock, or with an extra of it."""

    name: str
    versions: str
    license: str
    extra: str
    reason: str


def locked(name: str = "run") -> dict[str, str]:
    """The versions that a lock file names, by package."""
    text = markdown.read(f"lock/{name}.txt")
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))


def declared() -> dict[Requirement, str]:
    """What pyproject.toml asks for, with the extra that does, or an empty text."""
    project: dict[str, Any] = tomllib.loads(markdown.read(PYPROJECT))["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return {Requirement(text): extra for extra, texts in groups.items() for text in texts}


def dependencies() -> list[Dependency]:
    """All of them: what paymock asks for, and after each what that asks for in turn."""
    rows: list[Dependency] = []
    direct = {canonicalize_name(requirement.name) for requirement in declared()}

    def add(requirement: Requirement, extra: str, reason: str) -> None:
        name = canonicalize_name(requirement.name)
        rows.append(Dependency(name, str(requirement.specifier), license_of(name), extra, reason))
        for needed in _needed_by(requirement):
            if canonicalize_name(needed.name) not in {*direct, *(row.name for row in rows)}:
                add(needed, extra, f"for {name}")

    for requirement, extra in declared().items():
        add(requirement, extra, _reason(requirement))
    return rows


def license_of(name: str) -> str:
    """The license of a package, by its SPDX identifier where its metadata allows to tell."""
    try:
        fields = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return _ELSEWHERE[name]
    expressions: list[str] = fields.get_all("License-Expression", [])
    if expressions:
        return str(canonicalize_license_expression(expressions[0]))
    older: list[str] = [*fields.get_all("License", []), *fields.get_all("Classifier", [])]
    names = [_SAID.get(text, text) for text in older if " :: " not in text or text.startswith("License")]
    return names[0] if names and PERMISSIVE.issuperset(names) else "unknown"


def _needed_by(requirement: Requirement) -> list[Requirement]:
    """What a package asks for, with the extras that are wanted of it, as far as the lock file names it."""
    try:
        needed = [Requirement(text) for text in metadata.requires(requirement.name) or []]
    except metadata.PackageNotFoundError:
        return []
    return [
        one
        for one in needed
        if canonicalize_name(one.name) in locked()
        and (
            "extra" not in str(one.marker)
            or any(f'"{extra}"' in str(one.marker) for extra in requirement.extras)
        )
    ]


def _reason(requirement: Requirement) -> str:
    """The comment beside a requirement in pyproject.toml."""
    line = rf'^ +"{re.escape(requirement.name)}[^a-z-].*",  # (.+)$'
    [reason] = re.findall(line, markdown.read(PYPROJECT).split("[dependency-groups]")[0], re.MULTILINE)
    return str(reason)
