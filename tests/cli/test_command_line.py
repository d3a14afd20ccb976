"""The command line as a whole: completion, what it imports, and the page that describes it."""

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import click
import pytest

from paymock.cli.main import cli
from paymock.rules.scenarios import SCENARIOS, PaymentStatus
from paymock.schemas.control import TARGETS
from tests.cli.terminals import COMMANDS
from tests.support import markdown
from tests.support.process import environment, run, serving


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("paymock create --scenario ", list(SCENARIOS)),
        ("paymock payments --scenario la", ["late_payment"]),
        ("paymock payments --status ", [status.value for status in PaymentStatus]),
        ("paymock wait pay_x --status comp", ["completed"]),
        ("paymock advance --to ", list(TARGETS)),
        ("paymock re", ["requests", "reset", "ready"]),
    ],
)
def test_the_shell_completes(words: str, completed: list[str]) -> None:
    count = str(len(words.split(" ")) - 1)
    outcome = run(_PAYMOCK_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=count)
    assert [line.partition(",")[2] for line in outcome.stdout.splitlines()] == completed


def test_nothing_is_imported_that_is_not_needed() -> None:
    script = (
        "import sys, paymock.cli.main\n"
        "def loaded(*roots): print(sorted({name.partition('.')[0] for name in sys.modules} & {*roots}))\n"
        "print([name for name in sys.modules if name.startswith('paymock.cli.') and name[12:] != 'main'])\n"
        "loaded('asyncio', 'msgspec', 'Crypto')\n"
        "import paymock.cli.watch, paymock.cli.demo\n"
        "loaded('rich', 'uvicorn')\n"
        "import paymock.server.uvicorn_server\n"
        "server = paymock.server.uvicorn_server.Server\n"
        "server.run = lambda *_, **__: loaded(*'jinja2 segno rich yaml redis'.split())\n"
        "paymock.cli.main.cli(['serve', '--port', '0'])\n"
    )
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert outcome.stdout.split() == ["[]"] * 4


def test_every_command_has_its_section() -> None:
    headings = re.findall(r"^### `paymock (\w+)`$", markdown.read("docs/cli.md"), re.MULTILINE)
    assert sorted(headings) == sorted(cli.list_commands(click.Context(cli)))


def comparable(text: str) -> str:
    """What a reader compares: ids, addresses and times differ."""
    text = re.sub(r"pay_[a-z2-7]{40}", "pay_...", text)
    text = re.sub(r"(0x|req_|paymock-)[0-9a-fA-F_]{6,}", r"\1...", text)
    return re.sub(r"20\d\d-\d\d-\d\dT[\d:.]+Z|[\d.]+ ms|127.0.0.1:\d+", "...", text)


def test_the_examples_of_the_page_give_what_it_shows(tmp_path: Path) -> None:
    found = markdown.blocks(markdown.read("docs/cli.md"))
    shown = [(one, other) for one, other in pairwise(found) if other.language == "text"]
    examples = [(one.text, other.text) for one, other in shown if one.language == "sh"]
    assert len(examples) >= len(COMMANDS)
    with serving(tmp_path, "--speed", "0") as served:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        variables = environment(PAYMOCK_URL=served.url, PATH=path)
        for script, output in examples:
            outcome = subprocess.run(
                ["/bin/sh", "-e", "-c", script], env=variables, capture_output=True, text=True, check=False
            )
            assert comparable(outcome.stdout + outcome.stderr) == comparable(output), script
