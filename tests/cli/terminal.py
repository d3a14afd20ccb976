"""Running the commands in subprocesses, against a real server."""

import contextlib
import json
import os
import signal
import struct
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import click
import pytest

from harness.server_process import PAYMOCK, environment, run
from paymock.cli.main import cli
from tests.support.client import Api

TIMEOUT = 20
"""Seconds within which a command must react: less than the interval at which it reads a payment again."""

LONG_SECONDS = 120
"""Seconds that no command takes on a terminal."""

COMMANDS = sorted(set(cli.list_commands(click.Context(cli))) - {"serve", "scenarios"})
"""The commands that use a server, and `demo`."""


class Terminal:
    """An environment with PAYMOCK_URL and PAYMOCK_API_KEY."""

    def __init__(self, url: str, key: str) -> None:
        self.variables = {"PAYMOCK_URL": url, "PAYMOCK_API_KEY": key}

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        outcome = run(*arguments, **{**self.variables, **variables})
        assert "Traceback" not in outcome.stderr, outcome.stderr
        return outcome

    def text(self, *arguments: str, **variables: str) -> str:
        """Run a command that must succeed without messages; return its output."""
        outcome = self.run(*arguments, **variables)
        assert (outcome.returncode, outcome.stderr) == (0, ""), outcome
        assert "\x1b" not in outcome.stdout
        return outcome.stdout

    def json(self, *arguments: str) -> Any:
        """Run a command that must print one JSON document; return it."""
        output = self.text(*arguments, "--json")
        assert output.count("\n") == 1
        return json.loads(output)

    def fails(self, status: int, *arguments: str, **variables: str) -> str:
        """Run a command that must fail with this exit status, without output; return its message."""
        outcome = self.run(*arguments, **variables)
        assert (outcome.returncode, outcome.stdout) == (status, ""), outcome
        return outcome.stderr

    @contextlib.contextmanager
    def start(self, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
        """Start a command, and kill it at the end of the block."""
        with subprocess.Popen(
            [*PAYMOCK, *arguments],
            env=environment(**{**self.variables, **variables}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


def run_on_terminal(
    *arguments: str, until: str | None = None, program: Sequence[str] = PAYMOCK, **variables: str
) -> tuple[int, str]:
    """Run a command on a terminal of 100 columns; return its exit status and output.

    Once it has written `until`, it is interrupted.
    """
    pty, fcntl, termios = (pytest.importorskip(name) for name in ("pty", "fcntl", "termios"))
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    with subprocess.Popen(
        [*program, *arguments],
        env=environment(**{"TERM": "xterm-256color", "NO_COLOR": "", "COLUMNS": "100", **variables}),
        stdin=slave,
        stdout=slave,
        stderr=slave,
    ) as process:
        os.close(slave)
        timer = threading.Timer(LONG_SECONDS, process.kill)
        timer.start()
        written = b""
        with contextlib.suppress(OSError):  # a terminal that no process has open cannot be read
            while received := os.read(master, 65536):
                written += received
                if until is not None and until in written.decode(errors="ignore"):
                    process.send_signal(signal.SIGINT)
                    until = None
        timer.cancel()
    os.close(master)
    return process.returncode, written.decode(errors="replace")  # an interrupt may cut a character


def read_lines(process: subprocess.Popen[str], count: int) -> list[str]:
    """Read the next lines of a running command, which is killed after a timeout."""
    assert process.stdout is not None
    timer = threading.Timer(TIMEOUT, process.kill)
    timer.start()
    try:
        return [process.stdout.readline().rstrip("\n") for _ in range(count)]
    finally:
        timer.cancel()


def interrupt(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Interrupt a command; return its exit status and its messages."""
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=10)
    return process.returncode, message


def advance(api: Api, seconds: float) -> None:
    assert api.post("/_mock/clock/advance", json={"seconds": seconds}).status_code == 200


def freeze(api: Api) -> None:
    assert api.put("/_mock/clock", json={"speed": 0}).status_code == 200
