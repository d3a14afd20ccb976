"""What is shipped: the wheel and the source distribution hold all that belongs there and nothing else, and
come out the same wherever and whenever they are built. scripts/release builds and tries them with the rest.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.server_process import environment
from paymock import __version__
from tests.support import markdown

pytestmark = pytest.mark.nightly

STEM = f"paymock-{__version__}"
INFO = f"{STEM}.dist-info"
LICENSES = (
    "LICENSE",
    "src/paymock/web/pages/static/swagger/LICENSE",
    "src/paymock/web/pages/static/swagger/NOTICE",
)
NODE_MACHINES = {"x86_64": "x64", "aarch64": "arm64"}


class Built(NamedTuple):
    """What a build has made."""

    sdist: Path
    wheel: Path


def tracked() -> list[str]:
    """The files of the project: those of the repository, and those that are about to be."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=markdown.ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if (markdown.ROOT / name).exists()]


def checkout(folder: Path, *, time: int = 1_700_000_000, umask: int = 0o022) -> Path:
    """A copy of the project, as somebody else would check it out."""
    for name in tracked():
        original, copy = markdown.ROOT / name, folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(original, copy)
        copy.chmod((0o777 if os.access(original, os.X_OK) else 0o666) & ~umask)
        os.utime(copy, (time, time))
    return folder


def build(folder: Path, *, time: int, umask: int, **variables: str) -> Built:
    source, out = checkout(folder / "source", time=time, umask=umask), folder / "out"
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


def test_two_builds_give_the_same_bytes(built: Built, tmp_path: Path) -> None:
    there = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "7", "HOME": str(tmp_path)}
    other = build(tmp_path / "quite" / "another" / "folder", time=1_800_000_001, umask=0o077, **there)
    assert other.sdist.read_bytes() == built.sdist.read_bytes()
    assert other.wheel.read_bytes() == built.wheel.read_bytes()


def test_the_wheel_holds_the_package_and_nothing_else(built: Built) -> None:
    expected = {name.removeprefix("src/"): name for name in tracked() if name.startswith("src/")}
    expected |= {f"{INFO}/licenses/{name}": name for name in LICENSES}
    described = {f"{INFO}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")}
    with zipfile.ZipFile(built.wheel) as wheel:
        assert sorted(wheel.namelist()) == sorted([*expected, *described])
        for name, source in expected.items():
            assert wheel.read(name) == (markdown.ROOT / source).read_bytes(), name
        metadata = wheel.read(f"{INFO}/METADATA").decode()
    for line in (f"Version: {__version__}", "License-Expression: Apache-2.0", "Requires-Python: >=3.11"):
        assert f"\n{line}\n" in metadata


def test_the_source_distribution_holds_the_project_and_nothing_else(built: Built) -> None:
    project = [name for name in tracked() if not name.startswith((".ci/", ".github/"))]
    with tarfile.open(built.sdist) as sdist:
        members = {member.name.removeprefix(f"{STEM}/"): member for member in sdist}
        assert sorted(members) == sorted([*project, "PKG-INFO"])
        for name in project:
            file = sdist.extractfile(members[name])
            assert file is not None
            assert file.read() == (markdown.ROOT / name).read_bytes(), name
            assert members[name].mode == (0o755 if os.access(markdown.ROOT / name, os.X_OK) else 0o644), name


def test_all_of_a_release_is_built_and_completes_a_payment(built: Built, tmp_path: Path) -> None:
    release = checkout(tmp_path / "clone") / "scripts" / "release"
    ended = subprocess.run(
        [release, "--dry-run"], env=environment(), capture_output=True, text=True, timeout=1000, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    files = {path.name: path for path in (tmp_path / "clone" / "dist" / "release").iterdir()}
    machine = os.uname().machine
    assert {*files} - {f"paymock-image-{__version__}.tar.gz"} == {
        "SHA256SUMS",
        "paymock.cdx.json",
        f"paymock-linux-{machine}",
        f"paymock-junit-{__version__}.jar",
        *(f"{name}-{__version__}.tgz" for name in ("paymock", f"paymock-linux-{NODE_MACHINES[machine]}")),
        *(path.name for path in built),
    }
    for path in built:
        assert files[path.name].read_bytes() == path.read_bytes()
