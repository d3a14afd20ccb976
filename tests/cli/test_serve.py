"""The options of `serve`."""

import sys

import click

from harness.server_process import run
from paymock.cli.serve import serve
from tests.cli.terminal import run_on_terminal


def test_every_option_has_an_environment_variable_that_the_help_shows() -> None:
    help_text = "".join(run("serve", "--help").stdout.split())
    options = [option for option in serve.params if isinstance(option, click.Option)]
    assert len(options) > 10
    for option in options:
        assert option.envvar == "PAYMOCK_" + option.opts[0].removeprefix("--").replace("-", "_").upper()
        assert option.envvar in help_text


def test_the_line_of_an_interrupt_is_ended_on_a_terminal() -> None:
    status, written = run_on_terminal("serve", "--port", "0", until="http://")
    assert status == 0
    assert written.endswith("\r\n\r\n")


def test_the_line_of_an_early_interrupt_is_ended_on_a_terminal() -> None:
    script = (
        "import signal\n"
        "from paymock.cli import main\n"
        "from paymock.server import run\n"
        "run.serve = lambda *_: signal.raise_signal(signal.SIGINT)\n"
        "main.cli(['serve'])\n"
    )
    assert run_on_terminal("-c", script, program=[sys.executable]) == (0, "\r\n")
