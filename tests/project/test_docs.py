"""The documentation cannot lie: its tables are the code's, what it shows is run, its links lead somewhere."""

import importlib.util
import json
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest
from benchmarks import figures, http
from benchmarks.peers.servers import PEERS

from paymock.settings import Settings
from tests.support import markdown
from tests.support.command_lines import check
from tests.support.generated import GENERATED, GENERATED_FILES
from tests.support.markdown import PAGES, Block
from tests.support.process import serving
from tests.support.server import RunningServer, running_server
from tests.support.snippets import SERVER, change_files, comparable, file_of, run_in, shell, write_files

SITE = [page for page in PAGES if not page.startswith(("deploy/", "examples/"))]

ELSEWHERE = {
    "docs/cli.md": "tests/cli/test_command_line.py",
    "docs/deploy.md": "tests/project/test_deploy.py",
    "docs/testing.md": "tests/project/test_testing_docs.py",
}
"""Pages whose snippets have a module of tests of their own."""

SESSIONS = {
    "README.md": None,
    "docs/concepts.md": None,
    "docs/quickstart.md": "A payment in four requests",
    "docs/time.md": None,
    "docs/control-api.md": None,
}
"""Pages, or sections of pages, whose commands are one session."""


@pytest.fixture
def demo() -> Iterator[RunningServer]:
    """The server of the documentation's examples: `paymock serve --seed demo`."""
    with running_server(Settings(port=0, seed="demo")) as server:
        yield server


# What talks to a server


def talks(block: Block) -> bool:
    """Whether a block of commands needs a server that runs."""
    return block.language == "sh" and ("curl -" in block.text or "/paymock watch" in block.text)


def session(page: str) -> list[Block]:
    """The blocks of a page, or of a section of it, that are one session."""
    text, heading = markdown.read(page), SESSIONS[page]
    return markdown.blocks(markdown.section(text, heading) if heading else text)


@pytest.mark.parametrize("page", SESSIONS)
def test_a_session_gives_what_is_shown(demo: RunningServer, page: str) -> None:
    blocks = session(page)
    commands = [block for block in blocks if talks(block) or block.text.startswith("api=")]
    outputs = shell(demo, "\necho ----\n".join(block.text for block in commands)).split("----\n")
    for block, output in zip(commands, outputs, strict=True):
        following = blocks[blocks.index(block) + 1] if block is not blocks[-1] else block
        shown = "" if following.language == "sh" else following.text
        assert comparable(output) == comparable(shown), f"{page}, line {block.line}"


def shown_commands() -> list[tuple[str, Block, Block]]:
    """Each block of commands that needs a server and is in no session, with its page and its output."""
    return [
        (page, block, output)
        for page in SITE
        if page not in ELSEWHERE and page not in SESSIONS
        for block, output in pairwise(markdown.blocks(markdown.read(page)))
        if talks(block) and output.language != "sh"
    ]


@pytest.mark.parametrize(
    ("commands", "output"),
    [pytest.param(block, output, id=f"{page}:{block.line}") for page, block, output in shown_commands()],
)
def test_a_command_gives_what_is_shown(demo: RunningServer, commands: Block, output: Block) -> None:
    assert comparable(shell(demo, commands.text)) == comparable(output.text)


def test_a_server_says_what_the_readme_shows(tmp_path: Path) -> None:
    [start, banner, *_] = markdown.blocks(markdown.read("README.md"))
    assert start.text == "scripts/run\n"
    with serving(tmp_path) as server:
        assert server.stop(15)[1].startswith(banner.text.replace(SERVER, server.url))


def test_the_ready_file_holds_what_is_shown(tmp_path: Path) -> None:
    blocks = markdown.blocks(markdown.read("docs/configuration.md"))
    [shown] = [json.loads(block.text) for block in blocks if block.language == "json"]
    with serving(tmp_path) as server:
        assert server.ready.keys() == shown.keys()
    assert shown["url"] == f"http://127.0.0.1:{shown['port']}"


# What is shown as files


def test_the_tests_that_are_shown_pass(tmp_path: Path) -> None:
    for page in ("README.md", "docs/architecture.md"):
        assert len(write_files(tmp_path, markdown.blocks(markdown.read(page)))) == 1
    assert "2 passed" in run_in(tmp_path, "pytest -q")


def test_the_test_of_the_readme_has_ten_lines() -> None:
    [test] = [block for block in markdown.blocks(markdown.read("README.md")) if block.language == "python"]
    assert len(test.text.splitlines()) == 10


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which everything has been done that docs/extend.md shows."""
    clone = tmp_path_factory.mktemp("clone")
    for name in ("src", "tests"):
        shutil.copytree(markdown.ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(markdown.ROOT / "pyproject.toml", clone)
    blocks = markdown.blocks(markdown.read("docs/extend.md"))
    write_files(clone, blocks)
    for block in blocks:
        if block.language == "diff":
            change_files(clone, block.text)
    return clone


EXTENSIONS = [
    (block, following)
    for block, following in pairwise(markdown.blocks(markdown.read("docs/extend.md")))
    if block.language == "sh"
]
"""Commands of that page, each with what follows it."""


@pytest.mark.parametrize(("command", "following"), EXTENSIONS, ids=lambda block: f"line {block.line}")
def test_what_is_added_works(extended: Path, command: Block, following: Block) -> None:
    script = re.sub(r"^paymock serve .*\n", "", command.text, flags=re.MULTILINE)
    printed = run_in(extended, script, PYTHONPATH=str(extended / "src"))
    if following.language == "text":
        assert printed == following.text
    else:
        assert " passed" in printed


def test_what_is_added_keeps_to_the_rules_of_the_house(extended: Path) -> None:
    run_in(extended, "ruff check . && ruff format --check .")
    assert " 0 broken" in run_in(extended, "lint-imports --no-logo", PYTHONPATH=str(extended / "src"))


# What is printed from the code


@pytest.mark.parametrize(("page", "name"), GENERATED)
def test_what_is_printed_from_the_code_is_what_the_code_prints(page: str, name: str) -> None:
    assert markdown.marked(markdown.read(page), name) == GENERATED[page, name]()


@pytest.mark.parametrize("name", GENERATED_FILES)
def test_a_file_that_is_drawn_from_the_code_is_what_the_code_draws(name: str) -> None:
    assert markdown.read(name) == GENERATED_FILES[name]()


# All of it


@pytest.mark.parametrize("page", [page for page in SITE if page not in ELSEWHERE])
def test_nothing_is_shown_that_no_test_looks_at(page: str) -> None:
    text = markdown.read(page)
    generated = [markdown.marked(text, name) for of, name in GENERATED if of == page]
    outputs = [output for of, _, output in shown_commands() if of == page]
    files = [file_of(block) for block in markdown.blocks(text)]
    before = None
    for block in markdown.blocks(text):
        if block.language == "sh" and not talks(block):
            if not block.text.startswith("api="):
                check(block.text, files)
        elif not (
            talks(block)
            or file_of(block)
            or (before is not None and before.language == "sh")
            or block in outputs
            or any(block.text in part for part in generated)
            or (page, block.language) in {("docs/extend.md", "diff"), ("CONTRIBUTING.md", "text")}
            or (page, block.language) == ("docs/pages.md", "js")
        ):
            pytest.fail(f"{page}, line {block.line}: what of this {block.language} is true?")
        before = block


@pytest.mark.parametrize("page", PAGES)
def test_links_within_the_project_lead_somewhere(page: str) -> None:
    for target in markdown.links(markdown.read(page)):
        path, _, anchor = target.partition("#")
        if re.match("[a-z]+:", target):
            continue
        file = (markdown.ROOT / page).parent / path if path else markdown.ROOT / page
        assert file.exists(), target
        if anchor:
            assert anchor in markdown.anchors(file.read_text(encoding="utf-8")), target


def test_every_figure_of_a_program_has_its_place(tmp_path: Path) -> None:
    page = tmp_path / "reliability.md"
    page.write_text(markdown.read("docs/reliability.md"), encoding="utf-8")
    for name in get_args(figures.Name):
        figures.write(name, f"a figure of {name}", page)
    for name in get_args(figures.Name):
        assert f"<!-- {name} -->a figure of {name}; 20" in page.read_text(encoding="utf-8")


def test_the_least_ratios_that_are_shown_are_those_that_decide() -> None:
    rows = re.findall(
        r"^\| ([a-z ]+) \|.* \| (0\.\d+) \|$", markdown.read("docs/performance.md"), re.MULTILINE
    )
    assert {name: float(least) for name, least in rows} == http.FLOORS


def test_what_proves_a_promise_is_there() -> None:
    text = markdown.read("docs/reliability.md")
    commands, tests = re.findall(r"python -m ([\w.]+)", text), re.findall(r"`(tests/[\w/.]+)", text)
    assert commands
    assert tests
    assert all(importlib.util.find_spec(command) for command in commands)
    assert all((markdown.ROOT / test).exists() for test in tests)


def test_the_readme_compares_the_versions_that_are_measured() -> None:
    readme = markdown.read("README.md")
    measured = {peer.name.split()[0]: peer.version for peer in PEERS}
    compared = {name: note for name, note in re.findall(r"(\w+)\[\^(\d+)\] \|", readme) if name in measured}
    assert compared
    for name, note in compared.items():
        assert f"\n[^{note}]: {measured[name]} from " in readme, name


# The map of the house


def test_every_module_is_on_the_map_and_nothing_that_is_not_there() -> None:
    [tree] = [
        block for block in markdown.blocks(markdown.read("CONTRIBUTING.md")) if block.language == "text"
    ]
    listed = set(re.findall(r"\b\w+\.(?:py|toml)\b", tree.text))
    modules = {path.name for path in (markdown.ROOT / "src").rglob("*.py")} - {"__init__.py"}
    assert modules <= listed
    known = {
        path.name
        for folder in ("src", "benchmarks", "tests")
        for path in (markdown.ROOT / folder).rglob("*.*")
    }
    assert listed <= known


def test_no_test_imports_from_another() -> None:
    for file in (markdown.ROOT / "tests").rglob("*.py"):
        assert not re.search(r"^from tests\.(?:\w+\.)*test_\w+ import", file.read_text(), re.MULTILINE), file
