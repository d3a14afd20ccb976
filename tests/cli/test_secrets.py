"""API keys and passwords are in no output. Those of reports are in test_verify."""

import shlex
from itertools import product

import pytest

from paymock.settings import Settings
from paymock.testing import Sandbox
from tests.cli.terminal import Terminal
from tests.support.client import Api
from tests.support.in_process import run, run_on_terminal

SECRET = "planted-secret"

COMMANDS = [
    "", "--json", "create", "create --json", "create --scenario x", "payment", "payment x",
    "payments --json", "payments x", "payments --limit 0", "advance 1", "clock", "wait pay_x", "deposit x",
    "next --fault drop", "next --times 2", "requests --json", "fault add drop", "fault add x", "fault list",
    "coverage", "reset", "xyzzy", "--xyzzy", "verify --order true",
    "verify --order true --deliveries true --only x", "payments --url http://127.0.0.1:1",
]  # fmt: skip


def test_no_command_repeats_the_key(terminal: Terminal, api: Api) -> None:
    for command, start in product(COMMANDS, (run, run_on_terminal)):
        outcome = start("--key", api.api_key, *shlex.split(command), PAYMOCK_URL=terminal.url)
        assert outcome.stdout + outcome.stderr
        assert api.api_key not in outcome.stdout + outcome.stderr, command


MISTAKES = [
    f"payments --key '{SECRET} x'", f"payments --url http://user:{SECRET}@127.0.0.1",
    f"serve --api-key '{SECRET} x'", f"serve --api-key {SECRET} --port x",
    f"serve --api-key {SECRET} --workers 2", f"serve --api-key {SECRET}, --workers 2",
    f"serve --store mysql://user:{SECRET}@127.0.0.1/x",
    f"serve --store redis://user:{SECRET}@127.0.0.1:port",
    f"serve --store redis://user:{SECRET}@127.0.0.1:1", f"serve --store 'sqlite:///x?password={SECRET}'",
    f"--key {SECRET} serve",
]  # fmt: skip


def test_no_mistake_repeats_a_key_or_a_password() -> None:
    for command in MISTAKES:
        outcome = run(*shlex.split(command))
        assert outcome.stderr.rpartition("Error: ")[2]
        assert SECRET not in outcome.stdout + outcome.stderr, command


def test_neither_does_python() -> None:
    for url in (f"http://user:{SECRET}@127.0.0.1", f"redis://:{SECRET}@127.0.0.1"):
        with pytest.raises(ValueError, match="without user and password") as wrong:
            Sandbox(url, "mk_test_demo")
        assert SECRET not in str(wrong.value)
    assert SECRET not in repr(Settings(api_keys=(SECRET,), store=f"redis://:{SECRET}@127.0.0.1"))
