"""The executables that scripts/binary builds: in an empty environment, in a folder elsewhere."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from harness.polling import wait_until
from harness.redis_engine import redis_server
from harness.server_process import ServerProcess, environment
from paymock.cli.main import COMMANDS
from tests.support import markdown

MEGABYTES = 25
KINDS = {"file": 2, "folder": 1}


@pytest.fixture(scope="module")
def built_executable() -> Path:
    """Built by the first process of this run that needs it."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    with (markdown.ROOT / ".venv" / "binary.lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.seek(0)
        if lock.read() != run:
            subprocess.run([markdown.ROOT / "scripts" / "binary"], check=True)
            lock.truncate(0)
            lock.write(run)
    return markdown.ROOT / "dist" / f"paymock-linux-{os.uname().machine}"


class Executable:
    """An executable, with a folder for what it unpacks. That of a folder is one process."""

    def __init__(self, built: Path, folder: Path, kind: str) -> None:
        self.processes = KINDS[kind]
        in_folder = built.parent / "folder" / built.name / "paymock"
        self.path = str(shutil.copy(built, folder) if kind == "file" else in_folder)
        self.unpacked = folder / "unpacked"
        self.unpacked.mkdir()
        self.environment = {"TMPDIR": str(self.unpacked)}

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [self.path, *arguments]
        return subprocess.run(
            command, env=self.environment | variables, capture_output=True, text=True, timeout=60, check=False
        )

    @contextmanager
    def serve(self, *options: str) -> Iterator[ServerProcess]:
        command = [self.path, "serve", "--port", "0", "--ready-file", "-", *options]
        with subprocess.Popen(
            command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            try:
                [url] = re.findall(r'"url": ?"(.+?)"', process.stdout.readline())
                yield ServerProcess(process, {"url": url, "port": url.rpartition(":")[2]})
            finally:
                process.terminate()


@pytest.fixture
def executable(
    built_executable: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Executable]:
    executable = Executable(built_executable, tmp_path, getattr(request, "param", "file"))
    yield executable
    assert not list(executable.unpacked.iterdir())


def test_it_is_small_and_needs_no_library_but_glibc(built_executable: Path) -> None:
    assert built_executable.stat().st_size <= MEGABYTES * 1_000_000
    command = ["readelf", "--dynamic", str(built_executable)]
    libraries = {*re.findall(r"\(NEEDED\).*\[(.+)\]", subprocess.check_output(command, text=True))}
    assert libraries <= {"libc.so.6", "libdl.so.2", "libpthread.so.0"}  # those of glibc
    python = markdown.ROOT / ".venv" / "binary" / "bin" / "python"
    command = [str(python), str(markdown.ROOT / "scripts" / "glibc_needed.py"), str(built_executable)]
    assert b"needs glibc 2." in subprocess.check_output([*command, "2.99"])
    refused = subprocess.run([*command, "2.3"], stderr=subprocess.PIPE, text=True, check=False)
    assert refused.returncode == 1
    assert "  its loader needs 2." in refused.stderr
    assert re.search(r"  libpython3\S+ needs 2\.", refused.stderr)


def test_each_command_is_there(executable: Executable) -> None:
    overview = executable.run("--help").stdout  # which loads all, for what they say of themselves
    for names in COMMANDS.values():
        assert set(names) <= set(re.findall(r"  (\w+)  ", overview))


def test_stores_and_pages_are_there(executable: Executable, tmp_path: Path) -> None:
    with redis_server() as engine:
        for store in ("memory://", f"sqlite://{tmp_path}/payments.db", engine.url):
            with executable.serve("--store", store, "--metrics-address", "127.0.0.1:0") as server:
                assert executable.run("create", PAYMOCK_URL=server.url).returncode == 0
                for path in ("/", "/swagger/swagger-ui-bundle.js", "/openapi.yaml", "/_mock/openapi.yaml"):
                    assert httpx.get(server.url + path).status_code == 200
                assert server.stop(signal.SIGTERM)[0] == 0


def test_the_judge_finds_its_own_shop_unsafe(executable: Executable) -> None:
    outcome = executable.run("verify", "--example")
    assert (outcome.returncode, outcome.stdout[:6]) == (1, "UNSAFE")


@pytest.mark.parametrize("executable", KINDS, indirect=True)
@pytest.mark.parametrize("path", [None, "/opt/lib"])
def test_a_command_gets_the_environment_of_the_user(executable: Executable, path: str | None) -> None:
    given = {"A": "1"} if path is None else {"A": "1", "LD_LIBRARY_PATH": path}
    outcome = executable.run("exec", executable.path, "exec", "/usr/bin/env", **given)
    gotten = dict(line.split("=", 1) for line in outcome.stdout.splitlines())
    assert gotten.pop("PAYMOCK_URL")
    assert gotten.pop("PATH").startswith(os.defpath)  # and a folder with `paymock`
    marks = [name for name in gotten if name.startswith("PAYMOCK_EXEC_")]
    assert len([gotten.pop(name) for name in marks]) == 2
    assert gotten == executable.environment | given


@pytest.mark.parametrize("executable", KINDS, indirect=True)
@pytest.mark.parametrize("end", [lambda process: process.kill(), lambda process: process.stdin.close()])
def test_nothing_is_left(executable: Executable, end: Callable[["subprocess.Popen[str]"], object]) -> None:
    with executable.serve("--exit-on-stdin-close") as server:
        pids = server.tree.pids
        assert len(pids) == executable.processes
        end(server.process)
        server.process.wait(60)
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids[1:]))


def test_it_ends_as_the_installed_command_does(built_executable: Path) -> None:
    """The tests of commands whose processes need not be children of the process that was started."""
    files = ["tests/cli/test_exec.py", "tests/cli/test_requests.py", "tests/cli/test_main.py"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--quiet",
        "--ci",
        "-m",
        "process",
        "-k",
        "not server-",
        *files,
    ]
    subprocess.run(
        command, env=environment(TESTED_EXECUTABLE=str(built_executable)), cwd=markdown.ROOT, check=True
    )
