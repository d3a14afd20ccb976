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
        names = ["PAYMOCK_" + flag.removeprefix("--").replace("-", "_").upper() for flag in option.opts]
        assert option.envvar == (names if len(names) > 1 else names[0])
        assert all(name in help_text for name in names)


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
