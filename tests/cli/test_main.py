"""The group of commands: help, completion, imports, exit codes, and the page that describes them."""

import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import click
import pytest

from harness.server_process import PAYMOCK, environment, run, server_process
from paymock import __version__
from paymock.app.catalog_file import load_catalog
from paymock.cli.main import cli
from paymock.rules.scenarios import SCENARIOS, PaymentStatus
from paymock.schemas.control import TARGETS
from paymock.schemas.public import OPERATION_IDS
from tests.cli.terminal import COMMANDS, TIMEOUT, Terminal, freeze, interrupt, read_lines, run_on_terminal
from tests.support import markdown
from tests.support.client import Api

CATALOG = load_catalog(None)


def test_the_version_is_printed() -> None:
    assert run("--version").stdout == f"paymock {__version__}\n"


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("paymock create --scenario ", list(SCENARIOS)),
        ("paymock payments --scenario la", ["late_payment"]),
        ("paymock payments --status ", [status.value for status in PaymentStatus]),
        ("paymock wait pay_x --status comp", ["completed"]),
        ("paymock advance --to ", list(TARGETS)),
        ("paymock create --chain ", list(CATALOG.chains)),
        ("paymock create --chain ba", ["base"]),
        ("paymock create --chain base --asset ", list(CATALOG.assets("base") or ())),
        ("paymock create --asset US", ["USDT", "USDC"]),
        ("paymock deposit newest 1 --asset ET", ["ETH"]),
        ("paymock payment ", ["newest"]),
        ("paymock watch new", ["newest"]),
        ("paymock wait ne", ["newest"]),
        ("paymock deposit ne", ["newest"]),
        ("paymock advance ne", ["newest"]),
        ("paymock advance --payment ", ["newest"]),
        ("paymock fault ", ["add", "list", "clear"]),
        ("paymock fault add drop --operation list", [name for name in OPERATION_IDS if name[:4] == "list"]),
        ("paymock fault add drop --payment ", ["newest"]),
        ("paymock --url http://127.0.0.1:1 wait ne", ["newest"]),
        ("paymock --json create --scenario la", ["late_payment"]),
        ("paymock --u", ["--url"]),
        ("paymock re", ["requests", "reset", "ready"]),
    ],
)
def test_the_shell_completes(words: str, completed: list[str]) -> None:
    count = str(len(words.split(" ")) - 1)
    outcome = run(_PAYMOCK_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=count)
    assert [line.partition(",")[2] for line in outcome.stdout.splitlines()] == completed


def test_the_shell_completes_chains_and_assets_of_another_catalog(catalog: str) -> None:
    for words, completed in (
        ("paymock create --chain ", ["bsc"]),
        ("paymock create --asset ", ["ONE", "TWO"]),
    ):
        outcome = run(
            _PAYMOCK_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD="3", PAYMOCK_CATALOG=catalog
        )
        assert [line.partition(",")[2] for line in outcome.stdout.splitlines()] == completed


COMMON = {"--url", "--key", "--api-key", "--json"}


@pytest.mark.parametrize("command", COMMANDS)
def test_common_options_stand_before_a_command_or_after_it(command: str) -> None:
    options = {flag for parameter in command_of(command).params for flag in parameter.opts}
    assert "--json" in options
    common = {flag for parameter in cli.params for flag in parameter.opts} & COMMON
    assert common == COMMON
    assert options & COMMON == {"demo": {"--json"}, "ready": {"--url", "--json"}}.get(command, common)


def command_of(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command


def test_the_server_and_the_key_can_be_given_before_the_command(
    terminal: Terminal, unconnected: Terminal, api: Api
) -> None:
    url, key = terminal.variables["PAYMOCK_URL"], terminal.variables["PAYMOCK_API_KEY"]
    created = json.loads(unconnected.text("--url", f"{url}/", "--api-key", key, "--json", "create"))
    assert api.payment(created["id"]) == created
    shown = unconnected.text("--key", key, "payments", "--url", url, "--json")
    assert [item["id"] for item in json.loads(shown)["data"]] == [created["id"]]


def test_an_option_after_the_command_takes_precedence(terminal: Terminal, unconnected: Terminal) -> None:
    url = terminal.variables["PAYMOCK_URL"]
    wrong = unconnected.variables["PAYMOCK_URL"]
    assert unconnected.text("--url", wrong, "ready", "--url", url) == f"ready  {url}\n"
    assert f"cannot reach {wrong}" in terminal.fails(3, "--url", wrong, "ready")


def test_a_variable_is_checked_only_by_commands_that_use_it() -> None:
    outcome = run("scenarios", PAYMOCK_URL="nowhere", PAYMOCK_API_KEY="a b")
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert "PAYMOCK_URL" in run("ready", PAYMOCK_URL="nowhere").stderr


def test_modules_are_imported_lazily() -> None:
    script = (
        "import sys, paymock.cli.main\n"
        "def loaded(*roots): print(sorted({name.partition('.')[0] for name in sys.modules} & {*roots}))\n"
        "print([name for name in sys.modules if name.startswith('paymock.cli.') and name[12:] != 'main'])\n"
        "loaded('asyncio', 'msgspec', 'Crypto')\n"
        "import paymock.cli.payments, paymock.cli.demo\n"
        "loaded('rich', 'uvicorn')\n"
        "import paymock.server.uvicorn_server\n"
        "server = paymock.server.uvicorn_server.Server\n"
        "server.run = lambda *_, **__: loaded(*'jinja2 segno rich yaml redis'.split())\n"
        "paymock.cli.main.cli(['serve', '--port', '0'])\n"
    )
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert outcome.stdout.split() == ["['paymock.cli.common_options']", "[]", "[]", "[]"]


def printed_by(script: str) -> str:
    """What a script prints in an interpreter of its own."""
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


def test_a_start_needs_few_modules() -> None:
    script = (
        "import sys, paymock.server.uvicorn_server\n"
        "unused = {'importlib.resources', 'paymock.stores.sqlite', 'paymock.stores.redis', 'zipfile'}\n"
        "server = paymock.server.uvicorn_server.Server\n"
        "server.run = lambda *_, **__: print(sorted(unused & {*sys.modules}))\n"
        "import paymock.cli.main\n"
        "paymock.cli.main.cli(['serve', '--port', '0'])\n"
    )
    assert printed_by(script) == "[]\n"


def test_commands_run_with_the_garbage_collector() -> None:
    script = (
        "import gc, paymock.__main__, paymock.cli.main\n"
        "paymock.cli.main.main = lambda: print(gc.isenabled())\n"
        "paymock.__main__.main()\n"
    )
    assert printed_by(script) == "True\n"


def test_the_script_runs_the_module() -> None:
    assert tomllib.loads(markdown.read("pyproject.toml"))["project"]["scripts"] == {
        "paymock": "paymock.__main__:main"
    }


@pytest.mark.parametrize("module", ["click", "paymock.cli", "paymock.cli.clock", "paymock.settings"])
def test_an_interrupt_during_imports_is_130(module: str) -> None:
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
    command = [sys.executable, "-c", script]
    outcome = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (130, "", "")


@pytest.mark.parametrize("command", ["watch", "requests --follow", "demo --speed 1"])
def test_an_interrupt_is_130(terminal: Terminal, api: Api, command: str) -> None:
    api.created()
    with terminal.start(*command.split()) as process:
        read_lines(process, 1)
        assert interrupt(process) == (130, "")


@pytest.mark.parametrize(
    ("command", "until"),
    [
        ("wait --status completed", "waiting for completed, at most 60 s"),
        ("requests --follow", "POST"),
        ("watch", "awaiting_payment"),
        ("ready --wait 60 --url http://127.0.0.1:1", "not ready yet, waiting up to 60 s"),
    ],
)
def test_the_line_of_an_interrupt_is_ended_on_a_terminal(
    terminal: Terminal, api: Api, command: str, until: str
) -> None:
    api.created()
    freeze(api)
    status, written = run_on_terminal(*command.split(), until=until, **terminal.variables, TERM="dumb")
    assert status == 130
    assert written.endswith("\r\n\r\n")
    assert "Aborted" not in written


def test_an_interrupted_wait_is_130() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with (
            Terminal(url, "mk_test_demo").start("wait", "pay_x") as process,
            listener.accept()[0] as connection,
        ):
            assert connection.recv(65536)
            assert interrupt(process) == (130, "")


COMMANDS_WITH_OUTPUT = [
    "payments", "payment", "create", "advance 1", "clock", "wait newest --timeout 0 --json", "watch",
    "requests", "next --scenario late_payment", "fault add drop", "ready", "demo --speed 50", "scenarios",
    "--help", "create --help", "--version",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS_WITH_OUTPUT)
def test_a_closed_pipe_is_141(terminal: Terminal, api: Api, command: str) -> None:
    api.created()
    read_end, write_end = os.pipe()
    os.close(read_end)
    outcome = subprocess.run(
        [*PAYMOCK, *command.split()],
        env=environment(**terminal.variables),
        stdout=write_end,
        stderr=subprocess.PIPE,
        check=False,
        timeout=20,
    )
    os.close(write_end)
    assert (outcome.returncode, outcome.stderr) == (141, b"")


@pytest.mark.parametrize("command", ["requests --follow", "watch"])
def test_a_pipe_closed_during_a_wait_is_141(terminal: Terminal, api: Api, command: str) -> None:
    freeze(api)
    api.created()
    with terminal.start(*command.split()) as process:
        read_lines(process, 1)
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=TIMEOUT) == 141
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize("command", ["payments", "payments --json", "watch", "--help"])
def test_output_to_a_closed_descriptor_is_discarded(terminal: Terminal, api: Api, command: str) -> None:
    api.post(f"/_mock/payments/{api.created()['id']}/advance", json={"to": "end"})
    outcome = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m paymock {command} >&-"],
        env=environment(**terminal.variables),
        stderr=subprocess.PIPE,
        check=False,
        timeout=20,
    )
    assert (outcome.returncode, outcome.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_an_error(terminal: Terminal, api: Api) -> None:
    api.created()
    with Path("/dev/full").open("w") as full:
        outcome = subprocess.run(
            [*PAYMOCK, "payments"],
            env=environment(**terminal.variables, PYTHONUNBUFFERED=""),  # as a user runs it
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (outcome.returncode, outcome.stderr) == (1, b"Error: No space left on device\n")


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
