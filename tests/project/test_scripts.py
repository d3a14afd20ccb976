"""The scripts of the project, for somebody who has just cloned it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import markdown
from tests.support.generated import SCRIPTS
from tests.support.process import environment


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with nothing in it but the scripts, and no environment."""
    return Path(shutil.copytree(markdown.ROOT / "scripts", tmp_path / "clone" / "scripts")).parent


@pytest.mark.parametrize("asked", ["--help", "-h"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_explains_itself_and_does_nothing_else(clone: Path, name: str, asked: str) -> None:
    variables = environment(PYTHONDONTWRITEBYTECODE="1")
    said = subprocess.run(
        [f"scripts/{name}", asked],
        cwd=clone,
        env=variables,
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    assert (said.returncode, said.stderr) == (0, "")
    assert f"  scripts/{name}" in said.stdout
    assert [path.name for path in clone.iterdir()] == ["scripts"]


@pytest.mark.parametrize(
    ("name", "program"), [("lock", "uv"), ("update-swagger-ui", "npm"), ("run", "Python")]
)
def test_a_script_says_what_it_lacks(clone: Path, tmp_path: Path, name: str, program: str) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    for tool in ("dirname", "basename", "sh"):
        (bare / tool).symlink_to(str(shutil.which(tool)))
    variables = {"PATH": str(bare), "HOME": str(tmp_path)}
    said = subprocess.run(
        [f"scripts/{name}"], cwd=clone, env=variables, capture_output=True, text=True, timeout=10, check=False
    )
    assert said.returncode == 1
    assert f"paymock: {program}" in said.stderr


def test_a_script_in_python_asks_for_the_environment_whatever_python_starts_it(clone: Path) -> None:
    (clone / "scripts" / "environment").write_text('prepare() { echo "prepared with $1"; exit 1; }\n')
    base = Path(sys.base_prefix) / "bin" / "python3"
    said = subprocess.run(
        [base, "scripts/update-docs"], cwd=clone, capture_output=True, text=True, timeout=10, check=False
    )
    assert (said.returncode, said.stdout) == (2, "prepared with lock/dev.txt\n")


def test_the_packages_of_debian_are_the_same_wherever_they_are_named() -> None:
    """CI needs one more, for the benchmarks."""
    [asked] = re.findall("^packages=(.+)$", markdown.read("scripts/test"), re.MULTILINE)
    [told] = re.findall("^apt-get install (.+)$", markdown.read("CONTRIBUTING.md"), re.MULTILINE)
    missing = re.findall(r"missing\+=\((.+)\)$", markdown.read(".ci/run"), re.MULTILINE)
    assert asked.strip('"') == told
    assert sorted(missing) == sorted([*told.split(), "wrk"])
