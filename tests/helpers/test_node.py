"""The npm package, installed from its tarballs: the acceptance list, failures, starts and ends, the page."""

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.polling import wait_until
from harness.process_info import is_running
from harness.server_process import environment
from paymock import __version__
from paymock.rules.faults import FaultKind
from paymock.testing import Sandbox
from tests.support import markdown
from tests.support.snippets import write_files

pytestmark = pytest.mark.npm

PAGE = markdown.read("docs/node.md")
COMMAND = ["node", "node_modules/paymock/bin/paymock.js"]
TEST = """\
import test from "node:test";
import { inSandbox } from "paymock";
test("a test", inSandbox(async (mock) => {
BODY
}));
"""
LATE = 'test("a late test", inSandbox((mock) => mock.waitFor("1001", "completed")), 1000);'
CREATE = """\
  const key = { Authorization: `Bearer ${mock.apiKey}`, "Idempotency-Key": "payment-of-1001" };
  const headers = { "Content-Type": "application/json", ...key };
  await mock.next("underpaid_expired");
  await fetch(`${mock.url}/v1/payments`, { method: "POST", headers, body: JSON.stringify(ORDER) });
  await mock.advance(30);
""".replace("ORDER", (markdown.ROOT / "examples" / "order.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def project(npm_packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the packages are installed."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "package.json").write_text("{}")
    install = f"npm install --offline --no-audit {npm_packages}/npm/*.tgz"
    assert run(folder, "/bin/sh", "-c", install).returncode == 0
    shutil.copy(markdown.ROOT / "clients" / "node" / "test" / "acceptance.test.mjs", folder)
    return folder


def run(project: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=project, env=environment(**variables), capture_output=True, text=True, check=False
    )


def script(folder: Path, text: str) -> str:
    """The path of a shell script in the folder."""
    (folder / "script").write_text(f"#!/bin/sh\n{text}")
    (folder / "script").chmod(0o755)
    return str(folder / "script")


def run_test(project: Path, body: str, template: str = TEST, **variables: str) -> str:
    """What node:test prints of a test with this body."""
    name = write_test(project, template.replace("BODY", body))
    ended = run(project, "node", "--test", "--test-reporter=spec", name, **variables)
    return ended.stdout + ended.stderr


def write_test(project: Path, text: str) -> str:
    """The name of the file."""
    name = "one.test.cjs" if "require(" in text else "one.test.mjs"
    (project / name).write_text(text)
    return name


def common_js(text: str) -> str:
    return re.sub("import (.+) from (.+);", r"const \1 = require(\2);", text)


def test_the_node_helper_passes_the_acceptance_list(project: Path) -> None:
    acceptance = markdown.ROOT / "clients" / "acceptance.json"
    ended = run(project, "node", "--test", "acceptance.test.mjs", ACCEPTANCE=str(acceptance))
    assert ended.returncode == 0, ended.stdout
    assert f" pass {len(json.loads(acceptance.read_text())['cases'])}\n" in ended.stdout


@pytest.mark.parametrize(
    "failure", ['throw new Error("the shop is closed")', 'throw "the shop is closed"', "await mock.fault(0)"]
)
def test_a_failure_shows_what_happened_in_its_sandbox_once(project: Path, failure: str) -> None:
    printed = run_test(project, CREATE + failure).rpartition("failing tests:")[2]
    assert "test at one.test.mjs:3:1" in printed
    assert printed.count("the shop is closed" if "shop" in failure else "422 validation_failed") == 1
    for text in ("order order-1001", "  underpaid_expired  ", "201   POST  /v1/payments"):
        assert text in printed
    assert printed.count("Deposit observed") == 1
    assert "0x" not in printed


def test_a_test_that_its_runner_ends_shows_what_happened_and_waits_no_more(project: Path) -> None:
    canceled = TEST.replace('"a test", ', '"a test", { signal: limit.signal }, ')
    body = f"{CREATE}  setImmediate(() => limit.abort()); await mock.waitFor('x').catch(console.log);"
    printed = run_test(project, body, common_js(f"const limit = new AbortController();\n{canceled}"))
    assert printed.count("Deposit observed") == 1, printed
    assert printed.count("paymock: the runner has ended this test") == 1
    assert '\npaymock: "a test" was ended by its runner after ' in printed


def test_a_server_that_is_not_ready_holds_no_file(project: Path, tmp_path: Path) -> None:
    never = script(tmp_path, "read -r _")
    limited = TEST.replace("inSandbox(", "{ timeout: 9 }, inSandbox(")
    told = 'paymock: "a test" was ended by its runner: the server took more than '
    assert told in run_test(project, "", limited, PAYMOCK_BIN=never)
    assert "skipped 1" in run_test(project, "", TEST.replace("test(", "test.skip("), PAYMOCK_BIN=never)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("package", "command", "converted"),
    [
        ("vitest@3.2.7", "vitest run", lambda text: text.replace('test from "node:', '{ test } from "vi')),
        ("jest@30.5.2", "jest --testRegex cjs", lambda text: common_js(text.partition("\n")[2])),
    ],
)
def test_other_runners_show_it_once(
    project: Path, package: str, command: str, converted: Callable[[str], str]
) -> None:
    failing = TEST.replace("BODY", f"{CREATE}  assert.equal(1, 2);").replace("test(", f"{LATE}\ntest(", 1)
    name = write_test(project, converted(f'{failing}import assert from "node:assert";'))
    script = f"npm install --ignore-scripts --no-audit {package}; node_modules/.bin/{command} {name}"
    ended = run(project, "/bin/sh", "-c", script, NO_COLOR="1")
    printed = ended.stdout + ended.stderr
    assert printed.count('\npaymock: "a late test" was ended by its runner') == 1, printed
    told = printed.rpartition("FAIL")[2]
    assert told.count("Deposit observed") == 1, printed
    assert re.search(rf"{name}:\d+:\d", told)


def test_a_failed_test_leaves_its_sandbox_on_a_server_that_runs_on(project: Path, paymock: Sandbox) -> None:
    for end, left in ((CREATE, 0), (CREATE + "throw 0", 1)):
        printed = run_test(project, end, PAYMOCK_URL=paymock.url, PAYMOCK_API_KEY=paymock.api_key)
        assert len(paymock.payments()) == left
        assert (f"paymock: {paymock.dashboard_url}\n" in printed) == bool(left)


def test_no_server_is_left_when_a_runner_is_killed(project: Path) -> None:
    program = (
        'import { Sandbox } from "paymock"; await Sandbox.open(); console.log(1); setInterval(Date, 1e6)'
    )
    runner = ["node", "--input-type=module", "--eval", program]
    with subprocess.Popen(runner, cwd=project, env=environment(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        [server] = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
        assert is_running(server)
        process.kill()
    wait_until(lambda: not is_running(server))


def test_what_is_wrong_with_a_server_is_said(project: Path, tmp_path: Path) -> None:
    alone = shutil.copytree(project, tmp_path / "alone", symlinks=True)
    shutil.rmtree(alone / "node_modules" / "@paymock")
    ended = run(alone, *COMMAND, "serve")
    assert re.fullmatch(r"127paymock: install @paymock/\S+, or set .*\n", f"{ended.returncode}{ended.stderr}")
    assert ended.stderr.strip() in run_test(alone, "")
    program = script(tmp_path, "echo no such option >&2; exit 2")
    printed = run_test(project, "", PAYMOCK_BIN=program)
    assert f"the server did not start:\n  no such option\n  \n  {program} ended with status 2" in printed
    assert "http://127.0.0.1:1 does not answer" in run_test(project, "", PAYMOCK_URL="http://127.0.0.1:1")
    missing = "paymock: cannot start /missing: ENOENT, which PAYMOCK_BIN names"
    assert missing in run_test(project, "", PAYMOCK_BIN="/missing")
    assert run(project, *COMMAND, PAYMOCK_BIN="/missing").stderr == f"{missing}\n"


def test_a_server_of_another_version_is_named_once(project: Path, paymock: Sandbox, tmp_path: Path) -> None:
    other = shutil.copytree(project, tmp_path / "other", symlinks=True)
    described = other / "node_modules" / "paymock" / "package.json"
    for version, lines in (("99.1.0", 1), (f"{__version__.rpartition('.')[0]}.99", 0)):
        described.write_text(re.sub('"version": ".*"', f'"version": "{version}"', described.read_text()))
        printed = run_test(other, "", PAYMOCK_URL=paymock.url)
        told = f"paymock: the server at {paymock.url} is version {__version__}, this helper is {version}: "
        assert printed.count(f"{told}install the same version\n") == lines, printed


def test_the_command_is_the_executable_with_its_exit_status(project: Path, tmp_path: Path) -> None:
    assert run(project, "npx", "paymock", "--version").stdout == f"paymock {__version__}\n"
    assert run(project, "npx", "paymock", "unknown").returncode == 2
    pipe, variables = (
        subprocess.PIPE,
        environment(PAYMOCK_BIN=script(tmp_path, "trap 'exit 5' TERM; echo; read -r _")),
    )
    with subprocess.Popen(COMMAND, cwd=project, env=variables, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 5
    assert (
        run(project, *COMMAND, PAYMOCK_BIN=script(tmp_path, "kill -9 $$")).returncode == 128 + signal.SIGKILL
    )


def test_a_package_of_a_platform_is_for_it_alone(project: Path) -> None:
    [folder] = (project / "node_modules" / "@paymock").iterdir()
    described = json.loads((folder / "package.json").read_text())
    assert [*described["os"], *described["cpu"], *described["libc"]] == [*folder.name.split("-"), "glibc"]
    assert {path.name for path in folder.iterdir()} == {"bin", "LICENSE", "README.md", "package.json"}


def test_the_page_and_the_types_list_all_members_of_a_sandbox(project: Path) -> None:
    program = """import("paymock").then(({ Sandbox }) => {
        const members = [new Sandbox("", ""), Sandbox.prototype].flatMap(Object.getOwnPropertyNames);
        console.log(JSON.stringify(members)); })"""
    members = json.loads(run(project, "node", "--eval", program).stdout)
    listed = " ".join(re.findall(r"^\| (`.+?`) \|", PAGE, re.MULTILINE))
    declared = markdown.read("clients/node/index.d.ts")
    types = declared.split("class Sandbox {")[1].split("\n}")[0]
    assert sorted([*re.findall(r"`(\w+)", listed), "constructor"]) == sorted(members)
    assert sorted(re.findall(r"^  (?:readonly )?(\w+)[(:<]", types, re.MULTILINE)) == sorted(members)
    assert {*re.findall(r"[\"`](\w+)", declared.split("type Kind =")[1].split(";\n")[0])} == {*FaultKind}


@pytest.mark.nightly
@pytest.mark.parametrize("runner", ["@playwright/test@1.65.1 playwright test", "vitest@3.2.7 vitest run"])
def test_a_fixture_of_the_page_shows_what_happened(project: Path, runner: str) -> None:
    package, name, command = runner.split(" ")
    write_files(project, markdown.blocks(PAGE))
    test = f'import {{ test }} from "./{name}-fixture.mjs";\ntest("one", async ({{ mock }}) => {{ BODY }});\n'
    file = f"fails.{'spec' if name == 'playwright' else 'test'}.mjs"
    (project / file).write_text(test.replace("BODY", f'{CREATE} throw new Error("no");'))
    script = f"npm install --ignore-scripts --no-audit {package}; node_modules/.bin/{name} {command} {file}"
    ended = run(project, "/bin/sh", "-c", script, NO_COLOR="1")
    printed = ended.stdout + ended.stderr
    assert printed.count("Deposit observed") == 1, printed


def test_the_commands_of_the_page_work(npm_packages: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(markdown.ROOT / "examples" / "javascript", tmp_path / "project")
    (tmp_path / "paymock").mkdir()
    (tmp_path / "paymock" / "dist").symlink_to(npm_packages)
    blocks = markdown.blocks(PAGE)
    tests = "\n".join(one.text for one in blocks if one.language == "js" and "inSandbox" in one.text)
    assert tests.startswith(markdown.blocks(markdown.read("clients/node/README.md"))[0].text)
    (folder / "shop.test.mjs").write_text(tests)
    for command in blocks:
        if command.language == "sh":
            ended = run(folder, "/bin/sh", "-euc", command.text)
            assert ended.returncode == 0, ended.stdout + ended.stderr
