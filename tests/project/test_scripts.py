import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.server_process import environment
from tests.support import markdown
from tests.support.groups import GROUPS

pytestmark = pytest.mark.process

SCRIPTS = sorted(
    path.name for path in (markdown.ROOT / "scripts").iterdir() if path.is_file() and os.access(path, os.X_OK)
)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with the scripts only, without an environment."""
    return Path(shutil.copytree(markdown.ROOT / "scripts", tmp_path / "clone" / "scripts")).parent


def call(*command: str | Path, folder: Path, **variables: str) -> tuple[int, str, str]:
    ended = subprocess.run(
        command,
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_prints_its_help_through_a_symlink_and_does_nothing_else(clone: Path, name: str) -> None:
    link = clone.parent / "link"
    link.symlink_to(clone / "scripts" / name)
    status, help_text, messages = call("./link", "--help", folder=clone.parent, PYTHONDONTWRITEBYTECODE="1")
    assert (status, messages) == (0, "")
    assert f"  scripts/{name}" in help_text
    assert [path.name for path in clone.iterdir()] == ["scripts"]


@pytest.mark.parametrize(
    ("version", "message"), [("3.9", "3.11 or later is needed, but "), ("3.13", "ERROR: No")]
)
def test_what_is_missing_is_named_in_one_line(
    clone: Path, tmp_path: Path, version: str, message: str
) -> None:
    (clone / "lock").mkdir()
    for name in ("pyproject.toml", "lock/run.txt", "lock/build.txt"):
        (clone / name).touch()
    python = tmp_path / "python"  # which creates an environment of itself and installs nothing
    python.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        f'    *version_info*) echo {version}; [ "{version}" != 3.9 ] ;;\n'
        f'    --version) echo "Python {version}.1" ;;\n'
        "    *ensurepip*) ;;\n"
        '    *pip*) echo "WARNING: Retrying" >&2; echo "ERROR: No matching" >&2; exit 1 ;;\n'
        '    *venv*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;\n'
        "esac\n"
    )
    python.chmod(0o755)
    status, output, messages = call(clone / "scripts" / "run", folder=clone, PYTHON=str(python))
    assert (status, output, messages.count("\n")) == (1, "", 1)
    assert messages.startswith("paymock: ")
    assert message in messages


def test_the_debian_packages_are_the_same_in_all_files() -> None:
    needed = set().union(*(group.packages() for group in GROUPS.values()))
    [documented] = re.findall("^apt-get install (.+)$", markdown.read("CONTRIBUTING.md"), re.MULTILINE)
    installed = " ".join(re.findall(r"^ *packages ((?:\\\n|.)+)", markdown.read(".ci/run"), re.MULTILINE))
    assert set(documented.split()) == set(installed.replace("\\\n", " ").split()) == needed


def test_a_count_above_its_limit_is_named(clone: Path) -> None:
    for folder in ("src/verify", "tests", "docs"):
        (clone / folder).mkdir(parents=True)
    (clone / "src" / "one.py").write_text("def one(): return _two()\ndef _two(): ...\ndef __three(): ...\n")
    (clone / "src" / "verify" / "two.py").write_text("def one(): return _two()\ndef _two(): ...\n")
    (clone / "docs" / "page.md").write_text("three words here")
    for page in ("README.md", "CONTRIBUTING.md"):
        (clone / page).write_text("one")
    limits = "src = 5\nmodules = 2\ndocuments = 4\ncalled-once = 33.3\ncalled-once-in-verify = 49\n"
    (clone / "pyproject.toml").write_text(f"[tool.paymock.weight]\n{limits}")
    status, output, _ = call(clone / "scripts" / "weight", folder=clone)
    assert (status, output.count("above")) == (1, 2)
    assert "5 words of documents: above 4, the limit\n" in output
    assert "33.3 % of functions without verify are private and called once (1 of 3)\n" in output
    assert "of functions of verify are private and called once (1 of 2): above 49, the limit\n" in output
