"""The documentation cannot lie: its tables are the code's, its examples run, its links lead somewhere."""

import importlib.util
import json
import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest
from benchmarks import figures

from paymock.settings import Settings
from tests.support import markdown
from tests.support.generated import GENERATED
from tests.support.markdown import Block
from tests.support.server import RunningServer, running_server

PAGES = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/decisions.md",
    "docs/time.md",
    "docs/control-api.md",
    "docs/testing.md",
    "docs/cli.md",
    "docs/pages.md",
    "docs/stores.md",
    "docs/deploy.md",
    "docs/scale.md",
    "docs/reliability.md",
    "docs/dependencies.md",
    "docs/faults.md",
    "examples/README.md",
    *(f"examples/{file.parent.name}/README.md" for file in markdown.ROOT.glob("examples/*/README.md")),
]
TIME = re.compile(r"20\d\d-\d\d-\d\dT[\d:.]+Z")


@pytest.fixture
def demo() -> Iterator[RunningServer]:
    """The server of the documentation's examples: `paymock serve --seed demo`."""
    with running_server(Settings(port=0, seed="demo")) as server:
        yield server


def shell(server: RunningServer, script: str) -> str:
    """The output of a shell script of the documentation. Its waits are waits for the server's clock."""
    script = re.sub(r"^sleep (\d+)$", r"echo wait \1; read -r _", script, flags=re.MULTILINE)
    script = script.replace("http://127.0.0.1:8402", server.url)
    command = ["/bin/sh", "-e", "-c", script]
    output = ""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=markdown.ROOT,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            if wait := re.fullmatch(r"wait (\d+)\n", line):
                server.clock.advance(int(wait[1]))
                process.stdin.write("\n")
                process.stdin.flush()
            else:
                output += line
    assert process.returncode == 0, output
    return output


def comparable(text: str) -> object:
    """What a reader compares: JSON by value, text by line; times differ."""
    text = TIME.sub("(a time)", text.strip())
    values, decoder = [], json.JSONDecoder()
    try:
        while text:
            value, end = decoder.raw_decode(text)
            values.append(value)
            text = text[end:].lstrip()
    except ValueError:
        return text
    return values


SESSIONS = {
    "README.md": "A payment in four requests",
    "docs/time.md": None,
    "docs/control-api.md": None,
}
"""Pages, or sections of pages, whose commands are one session."""


@pytest.mark.parametrize("page", SESSIONS)
def test_a_session_gives_what_is_shown(demo: RunningServer, page: str) -> None:
    text, heading = markdown.read(page), SESSIONS[page]
    blocks = markdown.blocks(markdown.section(text, heading) if heading else text)
    commands = [block for block in blocks if block.language == "sh"]
    outputs = shell(demo, "\necho ----\n".join(block.text for block in commands)).split("----\n")
    for block, output in zip(commands, outputs, strict=True):
        following = blocks[blocks.index(block) + 1] if block is not blocks[-1] else block
        shown = "" if following.language == "sh" else following.text
        assert comparable(output) == comparable(shown), f"{page}, line {block.line}"


def shown_commands(*pages: str) -> list[tuple[Block, Block]]:
    """Each block of commands that talks to a server, with the block that shows its output."""
    return [
        (block, output)
        for page in pages
        for block, output in pairwise(markdown.blocks(markdown.read(page)))
        if block.language == "sh" and "curl" in block.text and output.language != "sh"
    ]


@pytest.mark.parametrize(
    ("commands", "output"),
    shown_commands("docs/decisions.md", "docs/pages.md"),
    ids=lambda block: f"line {block.line}",
)
def test_a_command_gives_what_is_shown(demo: RunningServer, commands: Block, output: Block) -> None:
    assert comparable(shell(demo, commands.text)) == comparable(output.text)


@pytest.mark.parametrize(("page", "name"), GENERATED)
def test_what_is_printed_from_the_code_is_what_the_code_prints(page: str, name: str) -> None:
    assert markdown.marked(markdown.read(page), name) == GENERATED[page, name]()


@pytest.mark.parametrize("page", PAGES)
def test_links_within_the_project_lead_somewhere(page: str) -> None:
    for target in markdown.links(markdown.read(page)):
        path, _, anchor = target.partition("#")
        if re.match("[a-z]+:", target):
            continue
        file = (markdown.ROOT / page).parent / path if path else markdown.ROOT / page
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, target


def test_every_figure_of_a_program_has_its_place(tmp_path: Path) -> None:
    page = tmp_path / "reliability.md"
    page.write_text(markdown.read("docs/reliability.md"), encoding="utf-8")
    for name in get_args(figures.Name):
        figures.write(name, f"a figure of {name}", page)
    for name in get_args(figures.Name):
        assert f"<!-- {name} -->a figure of {name}; 20" in page.read_text(encoding="utf-8")


def test_what_proves_a_promise_is_there() -> None:
    text = markdown.read("docs/reliability.md")
    commands, tests = re.findall(r"python -m ([\w.]+)", text), re.findall(r"`(tests/[\w/.]+)", text)
    assert commands
    assert tests
    assert all(importlib.util.find_spec(command) for command in commands)
    assert all((markdown.ROOT / test).exists() for test in tests)
