"""The documentation: generated parts are current, examples run, links resolve, recipes notice bad clients."""

import inspect
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from harness.server_process import server_process
from paymock.settings import Settings
from paymock.testing import NotReached, Refused, Sandbox, ServerHandle
from scripts.generated_docs import GENERATED, GENERATED_FILES
from tests.support import in_process, markdown
from tests.support.client import ORDER
from tests.support.markdown import PAGES, Block
from tests.support.server import RunningServer, running_server
from tests.support.snippets import (
    SERVER,
    change_files,
    comparable,
    example_shop,
    file_of,
    parse_commands,
    run_in,
    shell,
    variables,
    write_files,
)

ELSEWHERE = {"docs/cli.md", "docs/deploy.md"}
"""Pages whose snippets have a test module of their own."""

SITE = [page for page in PAGES if not page.startswith(("deploy/", "examples/")) and page not in ELSEWHERE]

NOT_RUN = {
    ("README.md", "js"),
    ("docs/extend.md", "diff"),
    ("docs/java.md", "java"),
    ("docs/java.md", "xml"),
    ("docs/node.md", "js"),
    ("docs/pages.md", "js"),
    ("docs/verify.md", "text"),
}
"""Languages of pages whose blocks are tested elsewhere, or need a toolchain that the tests do not have."""


# Commands that need a server


@pytest.fixture
def demo() -> Iterator[RunningServer]:
    """The server of the documentation's examples: `paymock serve --seed demo`."""
    with running_server(Settings(port=0, seed="demo")) as server:
        yield server


def needs_server(block: Block) -> bool:
    return block.language == "sh" and "curl -" in block.text


def session(page: str) -> list[tuple[Block, str]]:
    """The commands of a page that share one shell and one server, each with the output that is shown."""
    return [
        (block, "" if following is None or following.language == "sh" else following.text)
        for block, following in pairwise([*markdown.blocks(markdown.read(page)), None])
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


def test_the_first_screen_says_what_it_needs_and_how_to_start_test_and_judge() -> None:
    first_screen = " ".join(markdown.read("README.md").split()[:220])
    for text in ("No account, no network", "scripts/run", "UNSAFE: ", "paymock.next", "mock.next"):
        assert text in first_screen


def test_the_first_test_in_node_is_the_same_everywhere() -> None:
    pages = (
        "README.md",
        "docs/node.md",
        "skills/paymock/SKILL.md",
        "src/paymock/web/pages/templates/llms.txt",
    )
    found = [re.findall(r"(?ms)^test\(.*?^}\)\);\n", markdown.read(page))[0] for page in pages]
    assert len({*found}) == 1


@pytest.mark.process
def test_the_banner_and_the_ready_file_are_as_shown(tmp_path: Path) -> None:
    [start, banner, *_] = markdown.blocks(markdown.read("docs/quickstart.md"))
    blocks = markdown.blocks(markdown.read("docs/configuration.md"))
    [ready_file] = [json.loads(block.text) for block in blocks if block.language == "json"]
    expected = banner.text.replace(".venv/bin/paymock", "paymock --url http://127.0.0.1:8402")
    assert start.text == "scripts/run --seed demo\n"
    with server_process(tmp_path, **variables()) as server:
        assert server.ready.keys() == ready_file.keys()
        assert server.stop(15)[1].startswith(expected.replace(SERVER, server.url))


# Troubleshooting


QUOTED = set(re.findall(r"^> (.+)$", markdown.read("docs/troubleshooting.md"), re.MULTILINE))
"""The messages that the page on troubleshooting quotes."""


@pytest.mark.parametrize(
    "wrong",
    [{"Authorization": "Bearer sk_live_1"}, {"Authorization": "mk_test_demo"}, {"Host": "payments.test"}],
    ids=lambda headers: next(iter(headers)),
)
def test_a_refusal_says_what_troubleshooting_quotes(server: RunningServer, wrong: dict[str, str]) -> None:
    headers = {"Authorization": "Bearer mk_test_demo", "Content-Type": "application/json", **wrong}
    headers["Idempotency-Key"] = "order-1001-payment"
    url = f"{server.url}/v1/payments"
    reply = httpx.post(url, content=json.dumps(dict(ORDER)), headers=headers, timeout=30)
    assert reply.json()["error"]["message"] in QUOTED


def test_a_sandbox_says_what_troubleshooting_quotes(paymock: Sandbox) -> None:
    payment = paymock.create(idempotency_key="order-1001-payment")
    with pytest.raises(NotReached) as frozen:
        paymock.wait(payment["id"], "completed", timeout=0)
    with pytest.raises(NotReached) as impossible:
        paymock.wait(payment["id"], "failed")
    with pytest.raises(Refused) as late:
        paymock.create(expires_at="2020-01-01T00:00:00Z")
    with pytest.raises(Refused) as unknown:
        paymock.payment("pay_unknown")
    for error in (frozen, impossible, late, unknown):
        assert any(quote in str(error.value) for quote in QUOTED), error.value


@pytest.mark.parametrize(
    "command",
    ["payments --url http://127.0.0.1:9", "serve --reuse-port", "serve --host 0.0.0.0", "serve --port PORT"],
)
def test_a_command_says_what_troubleshooting_quotes(server: RunningServer, command: str) -> None:
    outcome = in_process.run(*command.replace("PORT", str(server.port)).split())
    message = outcome.stderr.replace(str(server.port), "8402")
    assert any(quote in message for quote in QUOTED), message


# Files


@pytest.mark.process
@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/architecture.md",
        "docs/coverage.md",
        "docs/crash-safety.md",
        "docs/scenarios.md",
        pytest.param("docs/faults.md", marks=pytest.mark.nightly),
        pytest.param("docs/verify.md", marks=pytest.mark.nightly),
    ],
)
def test_tests_and_commands_of_a_page_lead_to_what_is_shown(tmp_path: Path, page: str) -> None:
    def masked(text: str) -> str:
        return re.sub(r"req_\w+|repeated [\d.]+ s|(?:\d+ of )?\d+ trials; \d+ s", "...", text)

    blocks = markdown.blocks(markdown.read(page))
    write_files(tmp_path, [*example_shop(), *blocks])
    assert re.search(r"\d+ passed", run_in(tmp_path, "pytest -q"))
    for command, shown in pairwise(blocks):
        if (
            page in {"docs/coverage.md", "docs/scenarios.md"} and shown.language == "text"
        ) or "| head" in command.text:
            assert masked(shown.text) in masked(run_in(tmp_path, command.text.replace(".venv/bin/", "")))


@pytest.mark.nightly
def test_the_commands_of_docs_testing_run_its_tests(tmp_path: Path, paymock_server: ServerHandle) -> None:
    blocks = markdown.blocks(markdown.read("docs/testing.md"))
    write_files(tmp_path, [*example_shop(), *blocks], paymock_server.url)
    for block in blocks:
        if block.language == "sh":
            run_in(tmp_path, block.text, paymock_server.url)


@pytest.mark.parametrize(
    ("page", "application"),
    [
        pytest.param("docs/go.md", "shop.go", marks=pytest.mark.go),
        pytest.param("docs/php.md", "Shop.php", marks=pytest.mark.php),
    ],
)
def test_the_tests_of_a_page_find_a_bad_shop_and_explain_it(
    tmp_path: Path, page: str, application: str
) -> None:
    [prepare, file, command] = markdown.blocks(markdown.read(page))
    write_files(tmp_path, [file])
    shop = Path(shutil.copy(markdown.ROOT / "examples" / application, tmp_path))
    with_keys = command.text.replace("exec", "exec --api-key a-key-of-the-server")
    run_in(tmp_path, f"{prepare.text}\n{command.text}".replace("../paymock", str(markdown.ROOT)))
    run_in(tmp_path, with_keys)
    shop.write_text(re.sub("== (.)completed.", r"== \1underpaid_expired\1", shop.read_text()))
    tests = next(tmp_path.glob("**/[Ss]hop*[Tt]est.*"))
    waits = {"advanceTo": "waitFor", "AdvanceTo": "WaitFor"}
    tests.write_text(
        re.sub(r"([aA]dvanceTo)\((.*)\)", lambda call: f"{waits[call[1]]}({call[2]}, 0)", tests.read_text())
    )
    assert f"run by: {command.text}" in run_in(tmp_path, f"! {command.text.removeprefix('paymock exec -- ')}")
    for run, link in ((command.text, "/#key=mk_test_test-"), (with_keys, "/#sandbox=test-")):
        printed = run_in(tmp_path, f"! {run}")
        assert link in printed
        assert "awaited: completed, 45 s ahead; the clock is frozen: advance it" in printed
        assert re.search("  pay_.*  underpaid_expired  order 1001\n", printed)
        assert "Deposit observed, confirmations 0/16, pending" in printed
        assert re.search("  200   GET   /v1/payments/pay_.*  shown underpaid_expired at 30 s", printed)


@pytest.mark.nightly
def test_what_the_page_on_extending_shows_works_and_passes_lint(tmp_path: Path) -> None:
    for name in ("docs", "examples", "lock", "scripts", "src", "tests"):
        left_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(markdown.ROOT / name, tmp_path / name, ignore=left_out)
    for name in ("CONTRIBUTING.md", "README.md", "pyproject.toml"):
        shutil.copy(markdown.ROOT / name, tmp_path)
    blocks = markdown.blocks(markdown.read("docs/extend.md"))
    write_files(tmp_path, blocks)
    for block in blocks:
        if block.language == "diff":
            change_files(tmp_path, block.text)
    source = str(tmp_path / "src")
    for command, following in pairwise(blocks):
        if command.language == "sh":
            script = re.sub(r"^paymock serve .*\n", "", command.text, flags=re.MULTILINE)
            printed = run_in(tmp_path, script, PYTHONPATH=source)
            expected = following.text if following.language == "text" else " passed"
            assert expected in printed, f"line {command.line}"
    run_in(tmp_path, "ruff check . && ruff format --check .")
    assert " 0 broken" in run_in(tmp_path, "lint-imports --no-logo", PYTHONPATH=source)


# Generated parts


@pytest.mark.parametrize(
    ("page", "name"),
    [pytest.param(*key, marks=pytest.mark.nightly if "scripts" in key else ()) for key in GENERATED],
)
def test_a_generated_block_is_current(page: str, name: str) -> None:
    assert markdown.marked(markdown.read(page), name) == GENERATED[page, name]()


@pytest.mark.parametrize("name", GENERATED_FILES)
def test_a_generated_file_is_current(name: str) -> None:
    assert markdown.read(name) == GENERATED_FILES[name]()


# All of it


def test_the_page_on_testing_lists_all_methods_of_a_sandbox() -> None:
    methods = set()
    for name, method in inspect.getmembers(Sandbox, inspect.isfunction):
        signature = inspect.signature(method)
        kept = [one for one in signature.parameters.values() if one.annotation is not None]
        bare = [one.replace(annotation=one.empty) for one in kept][1:]
        shown = signature.replace(parameters=bare, return_annotation=signature.empty)
        if not name.startswith("_"):
            methods.add(f"{name}{shown}".replace("'", '"'))
    fixtures = markdown.section(markdown.read("docs/testing.md"), "The fixtures")
    assert {*re.findall(r"^\| `([^`]+)` \|", fixtures, re.MULTILINE)} == methods | {
        "url",
        "api_key",
        "dashboard_url",
    }


@pytest.mark.parametrize("page", SITE)
def test_every_block_is_tested(page: str) -> None:
    text = markdown.read(page)
    generated = [markdown.marked(text, name) for of, name in GENERATED if of == page]
    for before, block in pairwise([None, *markdown.blocks(text)]):
        assert block is not None
        tested = (
            block.language == "sh"
            or file_of(block)
            or (before is not None and before.language == "sh")
            or any(block.text in part for part in generated)
            or (page, block.language) in NOT_RUN
        )
        assert tested, f"line {block.line}: no test covers this {block.language} block"
        if block.language == "sh" and not needs_server(block) and not block.text.startswith("api="):
            parse_commands(block.text)


@pytest.mark.parametrize("page", PAGES)
def test_links_and_files_that_a_page_names_exist(page: str) -> None:
    text = markdown.read(page)
    for target in markdown.links(text):
        path, _, anchor = target.partition("#")
        if re.match("[a-z]+:", target):
            continue
        file = (markdown.ROOT / page).parent / path if path else markdown.ROOT / page
        assert file.exists(), target
        if anchor:
            assert anchor in markdown.anchors(file.read_text(encoding="utf-8")), target
    for path in re.findall(r"`((?:src|tests|benchmarks|harness|scripts)/[\w./-]*)`", text):
        assert (markdown.ROOT / path).exists(), path


@pytest.mark.process
def test_whoever_changes_a_document_tells_so_in_the_changelog() -> None:
    def output_of(*command: str) -> str:
        return subprocess.check_output(command, cwd=markdown.ROOT, text=True)

    base = output_of("bash", "scripts/submission-base").strip()
    changed = {*output_of("git", "diff", "--name-only", base).splitlines()}
    documents = [name for name in changed if name.startswith("src/paymock/web/openapi")]
    assert "CHANGELOG.md" in changed or not documents


PAGE = markdown.read("docs/faults.md")
RECIPES = [
    (blocks[0].text, blocks[1].text)
    for blocks in map(markdown.blocks, PAGE.split("\n## "))
    if [block.language for block in blocks] == ["python", "sh"]
]
"""Tests of the page, each with the commands that add the same rules."""
TESTS = {*re.findall(r"^def (test_\w+)", PAGE, re.MULTILINE)}

FAULT = re.compile(r'"((?:(?:status|delay|truncate)=|drop|reset|hang|extra)[^"]*)"')
SEND = "reply = self.http.request(method, path, **request)"
BAD_CLIENTS = {
    "does not retry": ("PAUSES = (0, 0.2, 0.4, 0.8, 1.6)", "PAUSES = (0,)"),
    "has a new key for each attempt": (
        SEND,
        f'request["headers"] = {{"Idempotency-Key": f"{{time.monotonic_ns()}}"}}\n                {SEND}',
    ),
    "takes a gateway's page for a refusal": ("if from_service and ", "if "),
    "ignores Retry-After": ("max(pause, retry_after)", "pause"),
    "never gives up": ("for pause in self.pauses:", "for pause in self.pauses * 100:"),
    "takes expired for final": ('"failed", "under', '"failed", "expired", "under'),
    "takes an unknown status for a failure": (
        "if status in FINAL:",
        'if status in FINAL or "_unk" in status:',
    ),
    "delivers again": (" and order_id not in self.delivered", ""),
}
"""What a client does wrong, and the change of the good one."""


@pytest.mark.nightly
def test_each_recipe_notices_a_bad_client_and_each_bad_client_is_noticed(tmp_path: Path) -> None:
    write_files(tmp_path, markdown.blocks(PAGE))
    shop = tmp_path / "shop.py"
    good = shop.read_text()
    noticed = set()
    for mistake, (old, new) in BAD_CLIENTS.items():
        assert good.count(old) == 1, mistake
        shop.write_text(good.replace(old, new))
        report = run_in(tmp_path, "pytest -q --tb=no -rf || true")
        failed = re.findall(r"^FAILED .*::(\w+)", report, re.MULTILINE)
        assert failed, mistake
        noticed.update(failed)
    assert noticed >= TESTS


@pytest.mark.parametrize(("test", "commands"), RECIPES)
def test_its_commands_add_the_rules_of_the_test(paymock: Sandbox, test: str, commands: str) -> None:
    for line in commands.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "paymock"
        added = in_process.run(*arguments, PAYMOCK_URL=paymock.url, PAYMOCK_API_KEY=paymock.api_key)
        assert added.returncode == 0, added.stderr
    rules = paymock.faults()
    assert {rule["fault"] for rule in rules} == set(FAULT.findall(test))
    for rule in rules:
        assert f'operation="{rule["operation"]}"' in test
        assert not rule["skip"] or f"skip={rule['skip']}" in test
        assert rule["times"] == 1 or f"times={rule['times']}" in test
