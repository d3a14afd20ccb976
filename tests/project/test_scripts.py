"""The scripts of the project in a fresh clone."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.polling import wait_until
from harness.server_process import environment
from tests.support import markdown
from tests.support.generated import SCRIPTS
from tests.support.groups import GROUPS


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with the scripts only, without an environment."""
    return Path(shutil.copytree(markdown.ROOT / "scripts", tmp_path / "clone" / "scripts")).parent


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_prints_its_help_and_does_nothing_else(clone: Path, name: str, flag: str) -> None:
    variables = environment(PYTHONDONTWRITEBYTECODE="1")
    outcome = subprocess.run(
        [f"scripts/{name}", flag],
        cwd=clone,
        env=variables,
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert f"  scripts/{name}" in outcome.stdout
    assert [path.name for path in clone.iterdir()] == ["scripts"]


@pytest.mark.parametrize(
    ("name", "program"), [("lock", "uv"), ("update-swagger-ui", "npm"), ("run", "Python")]
)
def test_a_script_names_a_missing_program(clone: Path, tmp_path: Path, name: str, program: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for tool in ("dirname", "basename", "readlink", "sh"):
        (programs / tool).symlink_to(str(shutil.which(tool)))
    variables = {"PATH": str(programs), "HOME": str(tmp_path)}
    outcome = subprocess.run(
        [f"scripts/{name}"], cwd=clone, env=variables, capture_output=True, text=True, timeout=10, check=False
    )
    assert outcome.returncode == 1
    assert f"paymock: {program}" in outcome.stderr


def fake_python(folder: Path, version: str) -> str:
    """A program that prints this version, creates an environment of itself and installs nothing."""
    path = folder / f"python{version}"
    path.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        f'    *version_info*) echo {version}; [ "{version}" != 3.9 ] ;;\n'
        f'    --version) echo "Python {version}.1" ;;\n'
        "    *ensurepip*) ;;\n"
        '    *venv*) mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;\n'
        '    *pip*) seq 8 | sed "s/^/WARNING: Retrying /" >&2; echo "ERROR: No matching" >&2; exit 1 ;;\n'
        "esac\n"
    )
    path.chmod(0o755)
    return str(path)


def run_server(clone: Path, python: str) -> str:
    """Run scripts/run, which must fail; return its message."""
    (clone / "lock").mkdir()
    for name in ("pyproject.toml", "lock/run.txt", "lock/build.txt"):
        (clone / name).touch()
    outcome = subprocess.run(
        [clone / "scripts" / "run"],
        env=environment(PYTHON=python),
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    assert (outcome.returncode, outcome.stdout) == (1, "")
    return outcome.stderr


def test_an_old_python_is_named(clone: Path, tmp_path: Path) -> None:
    python = fake_python(tmp_path, "3.9")
    assert f"3.11 or later is needed, but {python} is Python 3.9" in run_server(clone, python)


def test_a_failing_installation_is_one_line_and_a_log(clone: Path, tmp_path: Path) -> None:
    message = run_server(clone, fake_python(tmp_path, "3.13"))
    log = clone / ".venv" / "install.log"
    assert message == (
        f"paymock: the installation failed, see {log}; it needs a connection to a package index "
        "(ERROR: No matching)\n"
    )
    assert log.read_text().count("Retrying") == 8


def test_a_folder_that_cannot_be_written_is_named(clone: Path, tmp_path: Path) -> None:
    (clone / ".venv").touch()  # even root cannot create a folder here
    message = run_server(clone, fake_python(tmp_path, "3.13"))
    assert message.startswith(f"paymock: cannot write to {clone}/.venv: is the folder read-only")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_can_be_called_through_a_symlink(clone: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "other").symlink_to(clone / "scripts" / name)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    link = folder / "link"
    link.symlink_to("../other")
    for command in ([str(link)], ["./link"]):
        outcome = subprocess.run(
            [*command, "--help"], cwd=folder, capture_output=True, text=True, timeout=10, check=False
        )
        assert (outcome.returncode, outcome.stderr) == (0, "")
        assert f"  scripts/{name}" in outcome.stdout


def test_a_script_in_python_prepares_the_environment(clone: Path) -> None:
    (clone / "scripts" / "environment").write_text('prepare() { echo "prepared with $1"; exit 1; }\n')
    base = Path(sys.base_prefix) / "bin" / "python3"
    outcome = subprocess.run(
        [base, "scripts/update-docs"], cwd=clone, capture_output=True, text=True, timeout=10, check=False
    )
    assert (outcome.returncode, outcome.stdout) == (2, "prepared with lock/dev.txt\n")


def test_an_interrupted_preparation_is_130(clone: Path, tmp_path: Path) -> None:
    started = tmp_path / "started"
    (clone / "scripts" / "environment").write_text(f'prepare() {{ touch "{started}"; exec sleep 60; }}\n')
    base = Path(sys.base_prefix) / "bin" / "python3"
    with subprocess.Popen(
        [base, "scripts/update-docs"],
        cwd=clone,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # as a terminal interrupts: the whole group of processes
    ) as process:
        wait_until(started.exists, 10)
        os.killpg(process.pid, signal.SIGINT)
        _, message = process.communicate(timeout=10)
    assert (process.returncode, message) == (130, "")


def test_the_debian_packages_are_the_same_in_all_files() -> None:
    needed = set().union(*(group.packages() for group in GROUPS.values()))
    [documented] = re.findall("^apt-get install (.+)$", markdown.read("CONTRIBUTING.md"), re.MULTILINE)
    [installed] = re.findall(r'^packages="(.+)"$', markdown.read(".ci/run"), re.MULTILINE)
    assert set(documented.split()) == needed
    assert set(installed.split()) == needed
