"""docs/testing.md: its tests pass, its commands run, its table lists the methods of a sandbox."""

import inspect
import re
from itertools import pairwise
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


@pytest.mark.nightly
def test_its_tests_pass(tmp_path: Path) -> None:
    write_files(tmp_path, BLOCKS)
    functions = sum(len(re.findall(r"^ *def test_", FILES[name].text, re.MULTILINE)) for name in TESTS)
    assert f"{functions} passed" in run_in(tmp_path, "pytest -q " + " ".join(TESTS))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("command", "following"),
    [
        pytest.param(command, following, marks=NEEDS.get(command.text.split()[0], ()))
        for command, following in pairwise([*BLOCKS, None])
        if command in COMMANDS
    ],
)
def test_its_commands_run(
    tmp_path: Path, paymock_server: ServerHandle, command: Block, following: Block | None
) -> None:
    write_files(tmp_path, BLOCKS, paymock_server.url)
    output = run_in(tmp_path, command.text, paymock_server.url)
    if following is not None and following.language == "text":
        assert output == following.text


def test_every_block_is_a_file_a_command_or_its_output() -> None:
    for before, block in pairwise([None, *BLOCKS]):
        assert block is not None
        shown = block.language == "text" and before in COMMANDS
        assert file_of(block) or block in COMMANDS or shown, f"line {block.line}"


def test_the_table_lists_all_methods() -> None:
    methods = set()
    for name, method in inspect.getmembers(Sandbox, inspect.isfunction):
        signature = inspect.signature(method)
        bare = [one.replace(annotation=one.empty) for one in signature.parameters.values()][1:]
        shown = signature.replace(parameters=bare, return_annotation=signature.empty)
        if not name.startswith("_"):
            methods.add(f"{name}{shown}".replace("'", '"'))
    rows = re.findall(r"^\| `([^`]+)` \|", markdown.section(PAGE, "The fixtures"), re.MULTILINE)
    assert set(rows) == methods | {"url", "api_key"}
