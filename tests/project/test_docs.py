"""The documentation: generated tables are current, examples run, links resolve."""

import ast
import importlib.util
import json
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import get_args

import httpx
import pytest

from harness import docs_figures
from harness.server_process import run, server_process
from paymock.settings import Settings
from paymock.testing import NotReached, Refused, Sandbox
from tests.support import markdown
from tests.support.client import ORDER
from tests.support.command_lines import check
from tests.support.generated import GENERATED, GENERATED_FILES
from tests.support.markdown import PAGES, Block
from tests.support.server import RunningServer, running_server
from tests.support.snippets import (
    SERVER,
    change_files,
    comparable,
    file_of,
    run_in,
    shell,
    variables,
    write_files,
)

SITE = [page for page in PAGES if not page.startswith(("deploy/", "examples/"))]

ELSEWHERE = {
    "docs/cli.md": "tests/cli/test_main.py",
    "docs/deploy.md": "tests/project/test_deploy.py",
    "docs/faults.md": "tests/project/test_fault_docs.py",
    "docs/testing.md": "tests/project/test_testing_docs.py",
}
"""Pages whose snippets have a test module of their own."""

NOT_RUN = {
    ("docs/extend.md", "diff"),
    ("docs/pages.md", "js"),
    ("docs/verify.md", "text"),
    *(("docs/other-languages.md", language) for language in ("csharp", "go", "java", "js")),
}
"""Languages of pages whose blocks are tested elsewhere, or need a toolchain that the tests do not have."""


@pytest.fixture
def demo() -> Iterator[RunningServer]:
    """The server of the documentation's examples: `paymock serve --seed demo`."""
    with running_server(Settings(port=0, seed="demo")) as server:
        yield server


# Commands that need a server


def needs_server(block: Block) -> bool:
    return block.language == "sh" and ("curl -" in block.text or "/paymock watch" in block.text)


def session(page: str) -> list[tuple[Block, str]]:
    """The commands of a page that share one shell and one server, each with the output that is shown."""
    if page in ELSEWHERE:
        return []
    blocks = markdown.blocks(markdown.read(page))
    return [
        (block, "" if following is None or following.language == "sh" else following.text)
        for block, following in pairwise([*blocks, None])
        if block is not None and (needs_server(block) or block.text.startswith("api="))
    ]


SESSIONS = {page: commands for page in SITE if (commands := session(page))}
"""The pages with such commands. Each uses an API key, and so a sandbox, of its own."""


@pytest.mark.parametrize("pages", [[*SESSIONS], [*SESSIONS][::-1]], ids=["in order", "in reverse order"])
def test_commands_print_what_is_shown_whatever_other_pages_did(demo: RunningServer, pages: list[str]) -> None:
    for page in pages:
        blocks, shown = zip(*SESSIONS[page], strict=True)
        outputs = shell(demo, "\necho ----\n".join(block.text for block in blocks)).split("----\n")
        for block, output, expected in zip(blocks, outputs, shown, strict=True):
            assert comparable(output) == comparable(expected), f"{page}, line {block.line}"


def test_no_api_key_is_used_by_two_pages() -> None:
    used = {
        page: {key for block, _ in commands for key in re.findall(r"Bearer (mk_test_\w+)", block.text)}
        for page, commands in SESSIONS.items()
    }
    keys = [key for of_page in used.values() for key in of_page]
    assert len(keys) == len(set(keys)), used


def test_the_banner_is_as_in_the_readme(tmp_path: Path) -> None:
    [start, banner, *_] = markdown.blocks(markdown.read("README.md"))
    assert start.text == "scripts/run\n"
    expected = banner.text.replace(".venv/bin/paymock", "paymock --url http://127.0.0.1:8402")
    with server_process(tmp_path, **variables()) as server:
        assert server.stop(15)[1].startswith(expected.replace(SERVER, server.url))


def test_the_ready_file_is_as_shown(tmp_path: Path) -> None:
    blocks = markdown.blocks(markdown.read("docs/configuration.md"))
    [shown] = [json.loads(block.text) for block in blocks if block.language == "json"]
    with server_process(tmp_path) as server:
        assert server.ready.keys() == shown.keys()
    assert shown["url"] == f"http://127.0.0.1:{shown['port']}"


# Troubleshooting


def quoted() -> set[str]:
    """The messages that the page on troubleshooting quotes."""
    return set(re.findall(r"^> (.+)$", markdown.read("docs/troubleshooting.md"), re.MULTILINE))


REFUSED = [
    {"Authorization": "Bearer sk_live_1"},
    {"Authorization": "mk_test_demo"},
    {"Host": "payments.test"},
    {"Content-Type": "application/x-www-form-urlencoded"},
    {"X-Mock-Scenario": "HappyPath"},
]
"""Headers of requests that are refused with a message of the page."""


@pytest.mark.parametrize("wrong", REFUSED, ids=lambda headers: next(iter(headers)))
def test_a_refusal_says_what_troubleshooting_quotes(demo: RunningServer, wrong: dict[str, str]) -> None:
    headers = {"Authorization": "Bearer mk_test_demo", "Content-Type": "application/json", **wrong}
    headers["Idempotency-Key"] = "order-1001-payment"
    reply = httpx.post(f"{demo.url}/v1/payments", content=json.dumps(dict(ORDER)), headers=headers)
    assert reply.json()["error"]["message"] in quoted()


def test_a_sandbox_says_what_troubleshooting_quotes(demo: RunningServer, paymock: Sandbox) -> None:
    payment = paymock.create(idempotency_key="order-1001-payment")
    with pytest.raises(NotReached) as frozen:
        paymock.wait(payment["id"], "completed", timeout=0)
    with pytest.raises(NotReached) as impossible:
        paymock.wait(payment["id"], "failed")
    with pytest.raises(Refused) as late:
        paymock.create(expires_at="2020-01-01T00:00:00Z")
    with pytest.raises(Refused) as unknown:
        paymock.payment("pay_unknown")
    messages = [str(error.value) for error in (frozen, impossible, late, unknown)]
    for text in messages:
        assert any(quote in text for quote in quoted()), text


@pytest.mark.parametrize(
    "arguments",
    [
        ("payments", "--url", "http://127.0.0.1:9"),
        ("serve", "--workers", "2"),
        ("serve", "--host", "0.0.0.0"),
    ],
    ids=" ".join,
)
def test_a_command_says_what_troubleshooting_quotes(arguments: tuple[str, ...]) -> None:
    outcome = run(*arguments)
    assert any(quote in outcome.stderr for quote in quoted()), outcome.stderr


def test_a_busy_port_is_told_as_troubleshooting_quotes(demo: RunningServer) -> None:
    messages = run("serve", "--port", str(demo.port)).stderr.replace(str(demo.port), "8402")
    assert any(quote in messages for quote in quoted()), messages


# Files


def test_the_tests_in_the_pages_pass(tmp_path: Path) -> None:
    for page in ("README.md", "docs/architecture.md"):
        assert len(write_files(tmp_path, markdown.blocks(markdown.read(page)))) == 1
    assert "2 passed" in run_in(tmp_path, "pytest -q")


def test_the_scenarios_of_the_page_lead_to_what_is_shown(tmp_path: Path) -> None:
    blocks = markdown.blocks(markdown.read("docs/scenarios.md"))
    write_files(tmp_path, blocks)
    [(check_file, shown)] = [
        (block, following) for block, following in pairwise(blocks) if "scenarios check" in block.text
    ]
    assert run_in(tmp_path, check_file.text) == shown.text
    assert "1 passed" in run_in(tmp_path, "pytest -q")


def test_the_coverage_of_the_page_is_what_is_shown(tmp_path: Path) -> None:
    blocks = markdown.blocks(markdown.read("docs/coverage.md"))
    write_files(tmp_path, blocks)
    [(command, shown)] = [
        (block, following) for block, following in pairwise(blocks) if block.language == "sh"
    ]

    def masked(text: str) -> str:
        return re.sub(r"req_\w+|repeated [\d.]+ s", "...", text)

    assert masked(shown.text) in masked(run_in(tmp_path, command.text))


@pytest.mark.nightly
def test_the_judge_says_of_the_shop_of_the_page_what_is_shown(tmp_path: Path) -> None:
    blocks = markdown.blocks(markdown.read("docs/verify.md"))
    [name] = write_files(tmp_path, blocks)
    file = tmp_path / name
    assert "1 passed" in run_in(tmp_path, "pytest -q")

    [shown] = [block.text for block in blocks if block.text.startswith("UNSAFE")]
    right = "                continue  # the next poll comes soon"
    wrong = f"                del self.open[order_id]\n{right}"
    text = file.read_text(encoding="utf-8")
    assert right in text
    file.write_text(text.replace(right, wrong), encoding="utf-8")
    output = run_in(tmp_path, "pytest -q || true")

    def masked(line: str) -> str:
        return re.sub(
            r"  +|verify-\w+-\w+|[0-9]+ trials( in [0-9]+ s)?|^E|AssertionError: |only=.*", "", line
        ).strip()

    printed = {masked(line) for line in output.splitlines()}
    for line in shown.splitlines():
        assert line.strip() in ("", "...") or masked(line) in printed, f"{line}\n{output}"


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


@pytest.mark.nightly
@pytest.mark.parametrize(("command", "following"), EXTENSIONS, ids=lambda block: f"line {block.line}")
def test_what_is_added_works(extended: Path, command: Block, following: Block) -> None:
    script = re.sub(r"^paymock serve .*\n", "", command.text, flags=re.MULTILINE)
    printed = run_in(extended, script, PYTHONPATH=str(extended / "src"))
    if following.language == "text":
        assert printed == following.text
    else:
        assert " passed" in printed


@pytest.mark.nightly
def test_what_is_added_passes_lint(extended: Path) -> None:
    run_in(extended, "ruff check . && ruff format --check .")
    assert " 0 broken" in run_in(extended, "lint-imports --no-logo", PYTHONPATH=str(extended / "src"))


# Generated parts


@pytest.mark.parametrize(("page", "name"), GENERATED)
def test_a_generated_block_is_current(page: str, name: str) -> None:
    assert markdown.marked(markdown.read(page), name) == GENERATED[page, name]()


@pytest.mark.parametrize("name", GENERATED_FILES)
def test_a_generated_file_is_current(name: str) -> None:
    assert markdown.read(name) == GENERATED_FILES[name]()


# All of it


@pytest.mark.parametrize("page", [page for page in SITE if page not in ELSEWHERE])
def test_every_block_is_tested(page: str) -> None:
    text = markdown.read(page)
    generated = [markdown.marked(text, name) for of, name in GENERATED if of == page]
    files = [file_of(block) for block in markdown.blocks(text)]
    before = None
    for block in markdown.blocks(text):
        if block.language == "sh" and not needs_server(block):
            if not block.text.startswith("api="):
                check(block.text, files)
        elif not (
            needs_server(block)
            or file_of(block)
            or (before is not None and before.language == "sh")
            or any(block.text in part for part in generated)
            or (page, block.language) in NOT_RUN
        ):
            pytest.fail(f"{page}, line {block.line}: no test covers this {block.language} block")
        before = block


@pytest.mark.parametrize("page", PAGES)
def test_links_within_the_project_resolve(page: str) -> None:
    for target in markdown.links(markdown.read(page)):
        path, _, anchor = target.partition("#")
        if re.match("[a-z]+:", target):
            continue
        file = (markdown.ROOT / page).parent / path if path else markdown.ROOT / page
        assert file.exists(), target
        if anchor:
            assert anchor in markdown.anchors(file.read_text(encoding="utf-8")), target


def test_every_figure_has_a_marker(tmp_path: Path) -> None:
    page = tmp_path / "reliability.md"
    page.write_text(markdown.read("docs/reliability.md"), encoding="utf-8")
    for name in get_args(docs_figures.Name):
        docs_figures.write_figure(name, f"a figure of {name}", page)
    for name in get_args(docs_figures.Name):
        assert f"<!-- {name} -->a figure of {name}; 20" in page.read_text(encoding="utf-8")


def test_the_least_ratios_are_those_of_the_benchmark() -> None:
    rows = re.findall(
        r"^\| ([a-z ]+) \|.* \| (0\.\d+) \|$", markdown.read("docs/performance.md"), re.MULTILINE
    )
    [floors] = re.findall(r"^FLOORS = (\{.*\})$", markdown.read("benchmarks/http.py"), re.MULTILINE)
    assert {name: float(least) for name, least in rows} == ast.literal_eval(floors)


def test_the_programs_of_promises_exist() -> None:
    commands = re.findall(r"python -m ([\w.]+)", markdown.read("docs/reliability.md"))
    assert commands
    assert all(importlib.util.find_spec(command) for command in commands)


def test_the_versions_that_are_compared_are_those_that_are_measured() -> None:
    sources = markdown.section(markdown.read("docs/performance.md"), "Comparison with other servers")
    compared = dict(re.findall(r"^\| (\w+) \| ([\d.]+) \|", sources, re.MULTILINE))
    peers = re.findall(
        r'^        "([\w-]+)[^"]*",\n        "(?:npm|pip):[^"]+",\n        "([\d.]+)",$',
        markdown.read("benchmarks/peers/servers.py"),
        re.MULTILINE,
    )
    measured = dict(peers)
    common = compared.keys() & measured.keys()
    assert common
    assert {name: compared[name] for name in common} == {name: measured[name] for name in common}


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page: str) -> None:
    for path in re.findall(r"`((?:src|tests|benchmarks|harness|scripts)/[\w./-]*)`", markdown.read(page)):
        assert (markdown.ROOT / path).exists(), path


def test_the_places_of_changes_exist() -> None:
    table = markdown.section(markdown.read("CONTRIBUTING.md"), "Where a change goes")
    paths = re.findall(r"`([\w/]+(?:\.py|/))`", table.replace("`src/paymock/`", ""))
    assert len(paths) > 10
    assert [path for path in paths if not (markdown.ROOT / "src" / "paymock" / path).exists()] == []


def test_the_picture_of_a_request_names_packages() -> None:
    names = re.findall('class="package"[^>]*>([^<]+)<', markdown.read("docs/images/request.svg"))
    assert names
    assert all(importlib.util.find_spec(f"paymock.{name}") for name in names)


def test_no_test_imports_from_another() -> None:
    for file in (markdown.ROOT / "tests").rglob("*.py"):
        assert not re.search(r"^from tests\.(?:\w+\.)*test_\w+ import", file.read_text(), re.MULTILINE), file
