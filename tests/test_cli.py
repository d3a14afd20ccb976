"""The command line."""

import re

import click

from paymock import __version__
from paymock.cli import serve
from paymock.core.scenarios import SCENARIOS
from tests.support.process import run


def test_the_version_is_printed() -> None:
    assert run("--version").stdout == f"paymock {__version__}\n"


def test_the_scenario_table_is_printed() -> None:
    lines = run("scenarios").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(SCENARIOS)
    assert re.fullmatch(r"late_payment\s+manual_review\s+35 s\s+The payment expires first; .*", lines[5])


def test_every_option_of_serve_has_a_variable_of_its_name_and_the_help_says_so() -> None:
    shown = "".join(run("serve", "--help").stdout.split())
    options = [option for option in serve.params if isinstance(option, click.Option)]
    assert len(options) > 10
    for option in options:
        assert option.envvar == "PAYMOCK_" + option.opts[0].removeprefix("--").replace("-", "_").upper()
        assert option.envvar in shown
