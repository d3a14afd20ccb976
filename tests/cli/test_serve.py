"""`serve`: its options, and an interrupt on a terminal."""

import sys

import click
import pytest

from harness.server_process import PAYMOCK
from paymock.cli.serve import serve
from tests.cli.terminal import run_until
from tests.support.in_process import run


def test_every_option_has_an_environment_variable_that_the_help_shows() -> None:
    help_text = "".join(run("serve", "--help").stdout.split())
    options = [option for option in serve.params if isinstance(option, click.Option)]
    assert len(options) > 10
    for option in options:
        names = ["PAYMOCK_" + flag.removeprefix("--").replace("-", "_").upper() for flag in option.opts]
        assert option.envvar == (names if len(names) > 1 else names[0])
        assert all(name in help_text for name in names)


@pytest.mark.process
def test_the_line_of_an_interrupt_is_ended_on_a_terminal() -> None:
    status, written = run_until("http://", *PAYMOCK, "serve", "--port", "0")
    assert status == 0
    assert written.endswith("\r\n\r\n")


@pytest.mark.process
def test_the_line_of_an_early_interrupt_is_ended_on_a_terminal() -> None:
    script = (
        "import signal\n"
        "from paymock.cli import main\n"
        "from paymock.server import run\n"
        "run.serve = lambda *_: signal.raise_signal(signal.SIGINT)\n"
        "main.cli(['serve'])\n"
    )
    assert run_until(None, sys.executable, "-c", script) == (0, "\r\n")
