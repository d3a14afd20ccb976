"""The command line."""

import re

from paymock import __version__
from paymock.core.scenarios import SCENARIOS
from tests.support.process import run


def test_the_version_is_printed() -> None:
    assert run("--version").stdout == f"paymock {__version__}\n"


def test_the_scenario_table_is_printed() -> None:
    lines = run("scenarios").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(SCENARIOS)
    assert re.fullmatch(r"late_payment\s+manual_review\s+35 s\s+The payment expires first; .*", lines[5])


def test_help_names_every_option_with_its_variable() -> None:
    shown = run("serve", "--help").stdout
    for option in re.findall(r"--[a-z-]+", shown):
        if option not in ("--help", "--port 0"):
            assert "PAYMOCK_" + option[2:].upper().replace("-", "_") in shown
