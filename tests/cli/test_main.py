"""The group of commands: help, completion, imports, exit codes, `serve`, and the page that describes them."""

import json
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import click
import pytest

from harness.server_process import PAYMOCK, environment, server_process
from paymock import __version__
from paymock.cli.main import cli
from paymock.cli.serve import serve
from paymock.payments.files import load_catalog
from paymock.rules.scenarios import SCENARIOS
from paymock.schemas.control import TARGETS
from tests.cli.terminal import COMMANDS, TIMEOUT, Terminal, run_until
from tests.support import markdown
from tests.support.client import Api
from tests.support.in_process import run

CATALOG = load_catalog(None)
PROGRAM = shlex.join(PAYMOCK)


def test_the_version_is_printed() -> None:
    assert run("--version").stdout == f"paymock {__version__}\n"


def completions(words: str, **variables: str) -> list[str]:
    count = str(len(words.split(" ")) - 1)
    outcome = run(_PAYMOCK_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=count, **variables)
    return [line.partition(",")[2] for line in outcome.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("paymock --json create ", list(SCENARIOS)),
        ("paymock advance --to ", list(TARGETS)),
        ("paymock create --chain ", list(CATALOG.chains)),
        ("paymock create --chain base --asset ", list(CATALOG.assets("base") or ())),
        ("paymock create --asset US", ["USDT", "USDC"]),
        ("paymock fault ", ["add", "list", "delete", "clear"]),
        ("paymock --u", ["--url"]),
        ("paymock clock ", ["freeze"]),
        ("paymock exec --s", ["--scenarios", "--speed", "--seed", "--store"]),
        ("paymock re", ["ready", "requests", "reset"]),
        *((f"paymock {command} ne", ["newest"]) for command in ("payment", "wait", "deposit", "advance")),
        ("paymock fault add drop --payment ne", ["newest"]),
        ("paymock fault add h", ["hang", "hold"]),
    ],
)
def test_the_shell_completes(words: str, completed: list[str]) -> None:
    assert completions(words) == completed


def test_the_shell_completes_what_the_server_lists(terminal: Terminal, api: Api) -> None:
    payment = api.created(order_id="order-7")
    rule = json.loads(terminal.text("fault", "add", "drop", "--json"))
    assert completions("paymock payment ord", **terminal.variables) == ["order-7"]
    assert completions("paymock deposit pay", **terminal.variables) == [payment["id"]]
    assert completions("paymock fault delete ", **terminal.variables) == [rule["id"]]


def test_the_shell_completes_chains_and_assets_of_another_catalog(catalog: str) -> None:
    assert completions("paymock create --chain ", PAYMOCK_CATALOG=catalog) == ["bsc"]
    assert completions("paymock deposit newest 1 --asset ", PAYMOCK_CATALOG=catalog) == ["ONE", "TWO"]


COMMON = {"--url", "--key", "--api-key", "--json"}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_common_options_stand_after_a_command(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    options = {flag for parameter in command.params for flag in parameter.opts}
    assert options & COMMON == {"ready": {"--url", "--json"}}.get(name, COMMON)


def test_an_option_after_the_command_takes_precedence(terminal: Terminal, unconnected: Terminal) -> None:
    url, wrong = terminal.url, unconnected.url
    assert unconnected.text("--url", wrong, "ready", "--url", f"{url}/") == f"ready  {url}\n"
    assert f"cannot reach {wrong}" in terminal.fails(3, "--url", wrong, "ready")


def test_a_variable_is_checked_only_by_commands_that_use_it() -> None:
    outcome = run("scenarios", PAYMOCK_URL="nowhere", PAYMOCK_API_KEY="a b")
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert "PAYMOCK_URL" in run("ready", PAYMOCK_URL="nowhere").stderr


@pytest.mark.process
def test_modules_are_imported_lazily() -> None:
    script = (
        "import sys, paymock.cli.main\n"
        "def loaded(*names): print(sorted({*names} & {*sys.modules}))\n"
        "print([name for name in sys.modules if name.startswith('paymock.cli.') and name[12:] != 'main'])\n"
        "loaded('asyncio', 'msgspec', 'Crypto')\n"
        "import paymock.cli.payments\n"
        "loaded('uvloop')\n"
        "import paymock.server.server\n"
        "server = paymock.server.server.Server\n"
        "unused = ['jinja2', 'segno', 'yaml', 'redis', 'importlib.resources', 'zipfile',\n"
        "    'paymock.stores.sqlite', 'paymock.stores.redis']\n"
        "server.run = lambda *_, **__: sys.exit(loaded(*unused))\n"
        "paymock.cli.main.cli(['serve', '--port', '0'])\n"
    )
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert outcome.stdout.split() == ["['paymock.cli.options']", "[]", "[]", "[]"]


@pytest.mark.process
def test_commands_run_with_the_garbage_collector() -> None:
    script = (
        "import gc, paymock.__main__, paymock.cli.main\n"
        "paymock.cli.main.main = lambda: print(gc.isenabled())\n"
        "paymock.__main__.main()\n"
    )
    assert subprocess.check_output([sys.executable, "-c", script]) == b"True\n"


def ended(command: str, terminal: Terminal, stdout: int = subprocess.DEVNULL) -> tuple[int, str]:
    """The exit status and the messages of a command of the shell with this standard output."""
    outcome = subprocess.run(
        ["/bin/sh", "-c", command],
        env=environment(**terminal.variables, PYTHONUNBUFFERED=""),  # as a user runs it
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    return outcome.returncode, outcome.stderr


@pytest.mark.process
@pytest.mark.parametrize("module", ["click", "paymock.cli.clock"])
def test_an_interrupt_during_imports_is_130(terminal: Terminal, module: str) -> None:
    script = f"""
import sys
class InterruptingFinder:
    def find_spec(self, name, *_):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, InterruptingFinder())
sys.argv[1:] = ["clock"]
from paymock.__main__ import main
main()
"""
    assert ended(f"exec {shlex.join([sys.executable, '-c', script])}", terminal) == (130, "")


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "until"),
    [
        ("wait --status completed", "waiting for completed, at most 60 s"),
        ("ready --wait 60 --url http://127.0.0.1:1", "not ready yet, waiting up to 60 s"),
    ],
)
def test_an_interrupt_ends_the_line_on_a_terminal(
    terminal: Terminal, api: Api, command: str, until: str
) -> None:
    api.created()
    status, written = run_until(until, *PAYMOCK, *command.split(), **terminal.variables)
    assert status == 130
    assert written.endswith("\r\n\r\n")
    assert "Aborted" not in written


@pytest.mark.process
@pytest.mark.parametrize("command", ["clock", "--help"])
def test_a_closed_pipe_is_141(terminal: Terminal, command: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    assert ended(f"exec {PROGRAM} {command}", terminal, write_end) == (141, "")
    os.close(write_end)


@pytest.mark.process
def test_output_to_a_closed_descriptor_is_discarded(terminal: Terminal) -> None:
    assert ended(f"{PROGRAM} clock >&-", terminal) == (0, "")


@pytest.mark.process
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_an_error(terminal: Terminal) -> None:
    assert ended(f"{PROGRAM} clock >/dev/full", terminal) == (1, "Error: No space left on device\n")


def test_the_documentation_describes_every_command() -> None:
    headings = re.findall(r"^### `paymock (\w+)`$", markdown.read("docs/cli.md"), re.MULTILINE)
    assert sorted(headings) == sorted(cli.list_commands(click.Context(cli)))


def normalized(text: str) -> str:
    """The text without ids, addresses and times, which differ."""
    text = re.sub(r"pay_[a-z2-7]{40}", "pay_...", text)
    text = re.sub(r"(0x|req_|flt_|paymock-)[0-9a-fA-F_]{6,}", r"\1...", text)
    return re.sub(r"20\d\d-\d\d-\d\dT[\d:.]+Z|[\d.]+ ms|127.0.0.1:\d+", "...", text)


@pytest.mark.nightly
def test_the_examples_of_the_documentation_are_correct(tmp_path: Path) -> None:
    blocks = markdown.blocks(markdown.read("docs/cli.md"))
    pairs = [(block, output) for block, output in pairwise(blocks) if output.language == "text"]
    examples = [(block.text, output.text) for block, output in pairs if block.language == "sh"]
    assert len(examples) >= len(COMMANDS)
    with server_process(tmp_path, "--speed", "0") as served:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        variables = environment(PAYMOCK_URL=served.url, PATH=path)
        for script, output in examples:
            outcome = subprocess.run(
                ["/bin/sh", "-e", "-c", script], env=variables, capture_output=True, text=True, check=False
            )
            assert normalized(outcome.stdout + outcome.stderr) == normalized(output), script


def test_every_option_has_an_environment_variable_that_the_help_shows() -> None:
    help_text = "".join(run("serve", "--help").stdout.split())
    options = [one for one in serve.params if isinstance(one, click.Option) and not one.hidden]
    assert len(options) > 10
    for option in options:
        names = ["PAYMOCK_" + flag.removeprefix("--").replace("-", "_").upper() for flag in option.opts]
        expected = names if len(names) > 1 else names[0]
        assert option.envvar == ("PAYMOCK_API_KEYS" if option.name == "api_keys" else expected)
        assert all(name in help_text for name in names)


@pytest.mark.process
def test_the_line_of_an_interrupt_of_serve_is_ended_on_a_terminal() -> None:
    status, written = run_until("http://", *PAYMOCK, "serve", "--port", "0")
    assert status == 0
    assert written.endswith("\r\n\r\nstopped (SIGINT)\r\n")


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
