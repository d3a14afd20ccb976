"""The command line."""

import re
import subprocess
import sys
import tomllib

import click
import pytest

from paymock import __version__
from paymock.cli.main import serve
from paymock.rules.scenarios import SCENARIOS
from tests.support import markdown
from tests.support.process import environment, run


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


def test_the_command_is_the_module() -> None:
    assert tomllib.loads(markdown.read("pyproject.toml"))["project"]["scripts"] == {
        "paymock": "paymock.__main__:main"
    }


@pytest.mark.parametrize("module", ["click", "paymock.cli", "paymock.cli.clock", "paymock.settings"])
def test_an_interrupt_while_something_is_imported_is_130(module: str) -> None:
    script = f"""
import sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = ["clock"]
from paymock.__main__ import main
main()
"""
    command = [sys.executable, "-c", script]
    outcome = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (130, "", "")
