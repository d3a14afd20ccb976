"""What is shipped: the wheel and the source distribution hold all that belongs there and nothing else, and
come out the same wherever and whenever they are built. The wheel works without the working tree.
"""

import configparser
import email
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterable
from email.message import Message
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from harness.server_process import environment, server_process
from paymock import __version__
from tests.support import markdown
from tests.support.containerfile import borrow

STEM = f"paymock-{__version__}"
INFO = f"{STEM}.dist-info"
LICENSES = (
    "LICENSE",
    "src/paymock/web/pages/static/swagger/LICENSE",
    "src/paymock/web/pages/static/swagger/NOTICE",
)
NOT_IN_THE_SOURCE = (".ci/", ".github/")
"""What only makes sense in the repository."""

MEASURING = ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START")
"""What would have subprocesses measure files that are gone afterwards."""


class Built(NamedTuple):
    """What a build has made."""

    sdist: Path
    wheel: Path


def tracked() -> list[str]:
    """The files of the project: those of the repository, and those that are about to be."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=markdown.ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if (markdown.ROOT / name).exists()]


def copied(names: Iterable[str], folder: Path, *, time: int, umask: int) -> None:
    """Copies files of the project, as somebody else would check them out."""
    for name in names:
        source, target = markdown.ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        executable = source.stat().st_mode & stat.S_IXUSR
        target.chmod((0o777 if executable else 0o666) & ~umask)
        os.utime(target, (time, time))


def build(folder: Path, *, time: int, umask: int, **variables: str) -> Built:
    """Builds the project in a copy of its own: the source distribution, and from it the wheel."""
    source, out = folder / "source", folder / "out"
    copied(tracked(), source, time=time, umask=umask)
    (source / "src" / "paymock" / "__pycache__").mkdir()
    (source / "src" / "paymock" / "__pycache__" / "left.cpython-311.pyc").write_bytes(b"left over")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)],
        env={**os.environ, **variables},
        umask=umask,
        capture_output=True,
        check=True,
    )
    return Built(out / f"{STEM}.tar.gz", out / f"{STEM}-py3-none-any.whl")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("built"), time=1_700_000_000, umask=0o022)


@pytest.mark.nightly
def test_two_builds_give_the_same_bytes(built: Built, tmp_path: Path) -> None:
    there = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "7", "HOME": str(tmp_path)}
    other = build(tmp_path / "quite" / "another" / "folder", time=1_800_000_001, umask=0o077, **there)
    assert other.sdist.read_bytes() == built.sdist.read_bytes()
    assert other.wheel.read_bytes() == built.wheel.read_bytes()


@pytest.mark.nightly
def test_the_times_within_are_those_that_the_builder_asks_for(tmp_path: Path) -> None:
    distributions = build(tmp_path, time=1_700_000_000, umask=0o022, SOURCE_DATE_EPOCH="1234567890")
    with tarfile.open(distributions.sdist) as sdist, zipfile.ZipFile(distributions.wheel) as wheel:
        assert {member.mtime for member in sdist} == {1_234_567_890}
        assert {member.date_time for member in wheel.infolist()} == {(2009, 2, 13, 23, 31, 30)}


@pytest.mark.nightly
def test_the_wheel_holds_the_package_and_nothing_else(built: Built) -> None:
    package = [name.removeprefix("src/") for name in tracked() if name.startswith("src/")]
    described = [
        "METADATA",
        "WHEEL",
        "RECORD",
        "entry_points.txt",
        *(f"licenses/{name}" for name in LICENSES),
    ]
    with zipfile.ZipFile(built.wheel) as wheel:
        names = wheel.namelist()
        for name in package:
            assert wheel.read(name) == (markdown.ROOT / "src" / name).read_bytes(), name
        for name in LICENSES:
            assert wheel.read(f"{INFO}/licenses/{name}") == (markdown.ROOT / name).read_bytes()
    assert sorted(names) == sorted([*package, *(f"{INFO}/{name}" for name in described)])
    kinds = {Path(name).suffix or Path(name).name for name in package}
    code, pages, words = {".py", ".toml", ".typed"}, {".css", ".html", ".js", ".png", ".svg"}, {".txt"}
    assert kinds == {*code, *pages, *words, "LICENSE", "NOTICE", "SHA256SUMS"}


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as opened:
        return email.message_from_bytes(opened.read(f"{INFO}/METADATA"))


@pytest.mark.nightly
def test_the_wheel_says_what_it_is(built: Built) -> None:
    metadata = metadata_of(built.wheel)
    assert (metadata["Name"], metadata["Version"], metadata["License-Expression"]) == (
        "paymock",
        __version__,
        "Apache-2.0",
    )
    assert tuple(metadata.get_all("License-File", [])) == LICENSES
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra", [])) == {"metrics", "redis"}
    with zipfile.ZipFile(built.wheel) as wheel:
        entries = configparser.ConfigParser()
        entries.read_string(wheel.read(f"{INFO}/entry_points.txt").decode())
        assert b"Root-Is-Purelib: true\nTag: py3-none-any" in wheel.read(f"{INFO}/WHEEL")
    assert {name: dict(entries[name]) for name in entries.sections()} == {
        "console_scripts": {"paymock": "paymock.__main__:main"},
        "pytest11": {"paymock": "_paymock_pytest"},
    }


@pytest.mark.nightly
def test_the_source_distribution_holds_the_project_and_nothing_else(built: Built) -> None:
    project = [name for name in tracked() if not name.startswith(NOT_IN_THE_SOURCE)]
    with tarfile.open(built.sdist) as sdist:
        members = {member.name.removeprefix(f"{STEM}/"): member for member in sdist}
        assert sorted(members) == sorted([*project, "PKG-INFO"])
        for name in project:
            file = sdist.extractfile(members[name])
            assert file is not None
            assert file.read() == (markdown.ROOT / name).read_bytes(), name
            assert members[name].mode == (0o755 if os.access(markdown.ROOT / name, os.X_OK) else 0o644), name
            assert (members[name].uid, members[name].uname) == (0, ""), name


@pytest.mark.nightly
def test_the_wheel_serves_without_the_working_tree(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in MEASURING:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "installed"))
    with zipfile.ZipFile(built.wheel) as wheel:
        wheel.extractall(tmp_path / "installed")  # noqa: S202 - made a moment ago
    program = "import paymock; print(paymock.__file__)"
    where = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert where.strip() == str(tmp_path / "installed" / "paymock" / "__init__.py")
    with server_process(tmp_path) as served, httpx.Client(base_url=served.url) as client:
        for path in ("/", "/swagger/", "/swagger/swagger-ui-bundle.js", "/openapi.yaml"):
            assert client.get(path).status_code == 200, path
        assert client.get("/checkout/pay_unknown").text.startswith("<!doctype html>")


# Installed


@pytest.fixture(scope="module")
def tools(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment in which the wheel is installed, and nothing else of ours."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(built.wheel)], check=True)
    borrow(folder)
    return folder / "bin"


def metadata(*command: str | Path, folder: Path | None = None) -> tuple[int, str]:
    """The exit status of a command, and what it writes."""
    variables = environment(PYTEST_ADDOPTS="-p no:cacheprovider")
    for variable in MEASURING:
        variables.pop(variable, None)
    ended = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout


@pytest.mark.nightly
def test_the_command_and_the_module_are_the_same_program(tools: Path) -> None:
    assert metadata(tools / "paymock", "--version") == (0, f"paymock {__version__}\n")
    assert metadata(tools / "python", "-m", "paymock", "--version") == (0, f"paymock {__version__}\n")


USE = """
from paymock.testing import Sandbox


def test_a_payment_is_completed(paymock: Sandbox) -> None:
    payment = paymock.create(amount=5)
    paymock.advance(45)
    assert paymock.payment(payment["id"])["status"] == "completed"
"""


@pytest.mark.nightly
def test_the_fixture_comes_with_the_wheel_and_so_do_the_types(tools: Path, tmp_path: Path) -> None:
    (tmp_path / "test_use.py").write_text(USE)
    (tmp_path / "misuse.py").write_text(USE.replace("advance(45)", 'advance("45")'))
    status, output = metadata(tools / "python", "-m", "pytest", "-q", folder=tmp_path)
    assert (status, "1 passed" in output) == (0, True), output
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", tools / "python")
    assert metadata(*mypy, "test_use.py", folder=tmp_path)[0] == 0
    status, output = metadata(*mypy, "misuse.py", folder=tmp_path)
    assert (status, "has incompatible type" in output) == (1, True), output
