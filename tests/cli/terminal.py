"""Running the commands against a real server: in this process, or in one of their own."""

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest

from harness.server_process import PAYMOCK, environment
from paymock.cli.main import cli
from tests.support import in_process

TIMEOUT = 20
"""Seconds within which a command must react."""

LONG_SECONDS = 120
"""Seconds that no command takes on a terminal."""

COMMANDS = set(cli.list_commands(click.Context(cli))) - {"serve", "exec", "scenarios"}
"""The commands that use a server."""


class Terminal:
    """An environment with PAYMOCK_URL and PAYMOCK_API_KEY."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.variables = {"PAYMOCK_URL": url, "PAYMOCK_API_KEY": key}

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return in_process.run(*arguments, **{**self.variables, **variables})

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

    def note(self, *arguments: str) -> str:
        """Run a command that must succeed without output; return its message."""
        outcome = self.run(*arguments)
        assert (outcome.returncode, outcome.stdout) == (0, ""), outcome
        return outcome.stderr

    def fails(self, status: int, *arguments: str, **variables: str) -> str:
        """Run a command that must fail with this exit status, without output; return its message."""
        outcome = self.run(*arguments, **variables)
        assert (outcome.returncode, outcome.stdout) == (status, ""), outcome
        return outcome.stderr

    def shown(self, *arguments: str, **variables: str) -> str:
        """Run a command that must succeed on a terminal; return what it has written."""
        outcome = in_process.run_on_terminal(*arguments, **{**self.variables, **variables})
        assert outcome.returncode == 0, outcome
        return outcome.stdout

    @contextlib.contextmanager
    def start(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Start a command in a process of its own, and kill it at the end of the block."""
        with subprocess.Popen(
            [*PAYMOCK, *arguments],
            env=environment(**self.variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


@contextlib.contextmanager
def meanwhile(action: Callable[[], object]) -> Iterator[None]:
    """Repeat an action in a thread until the block ends."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.is_set():
            action()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def killed_after(seconds: float, process: subprocess.Popen[Any]) -> Iterator[None]:
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def run_until(until: str | None, *command: str, **variables: str) -> tuple[int, str]:
    """Run a command in a process of its own, on a terminal, and interrupt it once it has written `until`, if
    that is given. Return its exit status and output.
    """
    master, slave = pytest.importorskip("pty").openpty()
    terminal = {"TERM": "xterm-256color", "NO_COLOR": "", "COLUMNS": "100", "LINES": "30"}
    with (
        subprocess.Popen(
            command, env=environment(**terminal, **variables), stdin=slave, stdout=slave, stderr=slave
        ) as process,
        killed_after(LONG_SECONDS, process),
    ):
        os.close(slave)
        written = b""
        with contextlib.suppress(OSError):  # a terminal that no process has open cannot be read
            while received := os.read(master, 65536):
                written += received
                if until is not None and until in written.decode(errors="ignore"):
                    process.send_signal(signal.SIGINT)
                    until = None
    os.close(master)
    return process.returncode, written.decode(errors="replace")  # an interrupt may cut a character


def read_lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    with killed_after(TIMEOUT, process):
        return [process.stdout.readline().rstrip("\n") for _ in range(count)]
