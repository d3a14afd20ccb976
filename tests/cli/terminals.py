"""The commands as a person at a terminal runs them, against a real server."""

import contextlib
import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import click

from paymock.cli.main import cli
from tests.support.client import Api
from tests.support.process import PAYMOCK, environment, run

LONG = 20
"""Seconds in which a command notices what happens: less than those after which it would look again."""

COMMANDS = sorted(set(cli.list_commands(click.Context(cli))) - {"serve", "scenarios"})


class Terminal:
    """A shell with PAYMOCK_URL and PAYMOCK_API_KEY set."""

    def __init__(self, url: str, key: str) -> None:
        self.variables = {"PAYMOCK_URL": url, "PAYMOCK_API_KEY": key}

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        outcome = run(*arguments, **{**self.variables, **variables})
        assert "Traceback" not in outcome.stderr, outcome.stderr
        return outcome

    def text(self, *arguments: str, **variables: str) -> str:
        """What a command prints that does what it is told, and nothing but that."""
        outcome = self.run(*arguments, **variables)
        assert (outcome.returncode, outcome.stderr) == (0, ""), outcome
        assert "\x1b" not in outcome.stdout
        return outcome.stdout

    def json(self, *arguments: str) -> Any:
        """The one JSON document that a command prints."""
        printed = self.text(*arguments, "--json")
        assert printed.count("\n") == 1
        return json.loads(printed)

    def fails(self, status: int, *arguments: str, **variables: str) -> str:
        """What a command says that fails with this exit status. It prints no data."""
        outcome = self.run(*arguments, **variables)
        assert (outcome.returncode, outcome.stdout) == (status, ""), outcome
        return outcome.stderr

    @contextlib.contextmanager
    def start(self, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
        """A command that is still running."""
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


def lines_of(process: subprocess.Popen[str], count: int) -> list[str]:
    """The next lines that a running command prints. If they do not come, it is ended."""
    assert process.stdout is not None
    alarm = threading.Timer(LONG, process.kill)
    alarm.start()
    try:
        return [process.stdout.readline().rstrip("\n") for _ in range(count)]
    finally:
        alarm.cancel()


def interrupted(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit status of a command that is interrupted now, and its messages."""
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=10)
    return process.returncode, said


def advance(api: Api, seconds: float) -> None:
    assert api.post("/_mock/clock/advance", json={"seconds": seconds}).status_code == 200


def freeze(api: Api) -> None:
    """Nothing comes by itself then, also not for who waits and is not told."""
    assert api.put("/_mock/clock", json={"speed": 0}).status_code == 200
