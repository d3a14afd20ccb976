"""docs/testing.md: its tests pass, its commands run, its table lists the methods of a sandbox."""

import inspect
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from paymock.testing import Sandbox, ServerHandle
from tests.support import markdown
from tests.support.markdown import Block
from tests.support.snippets import file_of, run_in, write_files

PAGE = markdown.read("docs/testing.md")
BLOCKS = markdown.blocks(PAGE)
FILES = {name: block for block in BLOCKS if (name := file_of(block))}
NEEDS = {"java": pytest.mark.java, "node": pytest.mark.node, "sh": pytest.mark.curl}
"""The group of a command, by its first word."""

COMMANDS = [block for block in BLOCKS if block.language == "sh" and not file_of(block)]
TESTS = [name for name in FILES if Path(name).name.startswith("test_")]


@pytest.fixture
def run(tmp_path: Path, paymock_server: ServerHandle) -> Callable[[str], str]:
    """The output of a script that runs in a folder with every file of the page, for a real server."""
    write_files(tmp_path, BLOCKS, paymock_server.url)
    return partial(run_in, tmp_path, url=paymock_server.url)


def test_every_block_is_a_file_a_command_or_its_output() -> None:
    for before, block in zip([None, *BLOCKS], BLOCKS, strict=False):
        shown = block.language == "text" and before in COMMANDS
        assert file_of(block) or block in COMMANDS or shown, f"line {block.line}"
    assert len(TESTS) == 9
    assert {block.language for block in BLOCKS} == {"python", "sh"}


def test_the_first_example_has_ten_lines() -> None:
    assert len(BLOCKS[0].text.splitlines()) == 10


@pytest.mark.nightly
def test_its_tests_pass(run: Callable[[str], str]) -> None:
    functions = sum(len(re.findall(r"^ *def test_", FILES[name].text, re.MULTILINE)) for name in TESTS)
    assert f"{functions} passed" in run("pytest -q " + " ".join(TESTS))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(block, marks=NEEDS.get(block.text.split()[0], ()), id=f"line {block.line}")
        for block in COMMANDS
    ],
)
def test_its_commands_run(run: Callable[[str], str], command: Block) -> None:
    output = run(command.text)
    following = [block for block in BLOCKS if block.line > command.line][:1]
    if following and following[0].language == "text":
        assert output == following[0].text


def shown_signature(name: str, method: Callable[..., object]) -> str:
    """A method as documentation shows it: without `self` and without types."""
    signature = inspect.signature(method)
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    shown = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    return f"{name}{shown}".replace("'", '"')


def test_the_table_lists_all_methods() -> None:
    methods = {
        shown_signature(name, method)
        for name, method in inspect.getmembers(Sandbox, inspect.isfunction)
        if not name.startswith("_")
    }
    rows = re.findall(r"^\| `([^`]+)` \|", markdown.section(PAGE, "The fixtures"), re.MULTILINE)
    assert {row for row in rows if "(" in row} == methods
    assert {row for row in rows if "(" not in row} == {"url", "api_key"}
