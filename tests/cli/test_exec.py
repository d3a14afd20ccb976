"""`paymock exec`: what its command gets, what ends what, and the exit statuses."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from harness.process_info import child_pids
from harness.server_process import PAYMOCK, ServerProcess, environment, run
from tests.support.servers import NEEDS_LINUX, wait_until_refused

pytestmark = pytest.mark.process

STATUSES = {
    "sh -c 'exit 7'": (7, ""),
    "-- sh -c 'kill -9 $$'": (137, ""),
    "no-such-command": (127, "Error: no-such-command: No such file or directory\n"),
    "/dev/null": (126, "Error: /dev/null: Permission denied\n"),
    "--catalog no-such.toml true": (
        1,
        "Error: cannot read the catalog no-such.toml: No such file or directory\n",
    ),
}


@pytest.mark.parametrize(("arguments", "expected"), STATUSES.items())
def test_the_status_is_that_of_the_command(arguments: str, expected: tuple[int, str]) -> None:
    outcome = run("exec", *shlex.split(arguments))
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (expected[0], "", expected[1])


KEYS = {
    "": "",
    "PAYMOCK_API_KEY=secret": "",
    "PAYMOCK_API_KEY=mk_test_mine": "mk_test_mine",
    "PAYMOCK_API_KEYS=first,second PAYMOCK_API_KEY=mk_test_mine": "first",
    "PAYMOCK_API_KEYS=first,second PAYMOCK_API_KEY=second": "second",
}


@pytest.mark.parametrize(("variables", "key"), KEYS.items())
def test_the_command_gets_a_key_that_the_server_accepts(variables: str, key: str) -> None:
    given = dict(item.split("=") for item in variables.split())
    outcome = run("exec", "sh", "-c", 'echo "$PAYMOCK_API_KEY"', **given)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, f"{key}\n", "")


def test_the_command_gets_the_url_and_requests_are_logged_on_demand() -> None:
    outcome = run("exec", "--access-log", *PAYMOCK, "ready", PAYMOCK_URL="http://127.0.0.1:1")
    assert outcome.stdout.startswith("ready  http://127.0.0.1:")
    assert "/readyz" in outcome.stderr


def test_the_command_finds_paymock_last_on_its_path(tmp_path: Path) -> None:
    outcome = run("exec", "--", "paymock", "ready", PATH=str(tmp_path))
    assert outcome.stdout.startswith("ready  http://127.0.0.1:")
    (tmp_path / "paymock").symlink_to("/bin/echo")
    assert run("exec", "--", "paymock", "mine", PATH=str(tmp_path)).stdout == "mine\n"


def test_the_command_gets_its_options_and_the_standard_streams() -> None:
    command = shlex.split("exec --seed one sh -c 'cat; echo \"$@\" >&2' sh --watch -- -x")
    outcome = subprocess.run(
        [*PAYMOCK, *command], env=environment(), input="in", capture_output=True, text=True, check=True
    )
    assert (outcome.stdout, outcome.stderr) == ("in", "--watch -- -x\n")


@contextmanager
def sleeping(*options: str, prelude: str = ":") -> Iterator[tuple[ServerProcess, dict[str, int]]]:
    """`paymock exec` without a terminal, with a command that sleeps, and the ids of its processes."""
    with subprocess.Popen(
        [*PAYMOCK, "exec", *options, "sh", "-c", f'{prelude}; echo $$ "$PAYMOCK_URL"; exec sleep 60'],
        env=environment(), start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        command, url = process.stdout.readline().split()
        [server] = {*child_pids(process.pid)} - {int(command)}
        ids = {"exec": process.pid, "command": int(command), "server": server}
        try:
            yield ServerProcess(process, {"url": url, "port": url.rpartition(":")[2]}), ids
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


SERVER_ENDED = "Error: the server ended before the command: sending it SIGTERM\n"
ENDS = [
    ("command", signal.SIGKILL, (137, "")),
    ("exec", signal.SIGTERM, (143, "")),
    ("exec", signal.SIGINT, (130, "")),
    ("exec", signal.SIGHUP, (129, "")),
    ("server", signal.SIGKILL, (3, SERVER_ENDED)),
    ("server", signal.SIGTERM, (3, SERVER_ENDED)),
]


@NEEDS_LINUX
@pytest.mark.parametrize(("target", "number", "end"), ENDS)
def test_all_end_together(target: str, number: signal.Signals, end: tuple[int, str]) -> None:
    with sleeping() as (served, ids):
        os.kill(ids[target], number)
        _, errors = served.process.communicate(timeout=20)
        assert (served.process.returncode, errors) == end
        wait_until_refused(served)


@NEEDS_LINUX
def test_a_stop_ends_what_the_command_has_started_and_nothing_else() -> None:
    with sleeping(prelude="(sleep 60 &)") as (served, _):
        others = subprocess.Popen(["/bin/sleep", "60"], env=environment(PAYMOCK_URL=served.url))
        served.process.send_signal(signal.SIGTERM)
        served.process.communicate(timeout=20)  # all have closed its standard output
        others.kill()
        assert others.wait() == -signal.SIGKILL


@NEEDS_LINUX
def test_the_server_ends_when_exec_is_killed() -> None:
    with sleeping() as (served, _):
        served.process.kill()
        wait_until_refused(served)


@NEEDS_LINUX
@pytest.mark.nightly
def test_a_command_that_ignores_a_stop_is_killed() -> None:
    with sleeping(prelude="trap '' TERM") as (served, _):
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(8) == 137
        wait_until_refused(served)


@NEEDS_LINUX
def test_ctrl_c_on_a_terminal_reaches_the_command_and_its_children_once() -> None:
    """The command then still has a server."""
    script = "trap 'echo interrupted; \"$@\"; exit 5' INT; (echo begun; exec sleep 60)"
    terminal = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    with subprocess.Popen(
        [sys.executable, "-c", terminal, *PAYMOCK, "exec", "sh", "-c", script, "sh", *PAYMOCK, "ready"],
        env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.read(7) == b"begun\r\n"
        process.stdin.write(b"\x03")
        written = process.stdout.read().decode()
    assert process.returncode == 5
    assert re.fullmatch("(\\^C)?interrupted\r\nready  http://127.0.0.1:[0-9]+\r\n", written)
