import json
import math
import re
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.polling import wait_until
from harness.process_info import is_running
from harness.server_process import PAYMOCK, server_process
from paymock import testing
from paymock.cli import verify
from paymock.testing import Sandbox
from paymock.verify import example
from paymock.verify.checks import CHECKS
from tests.cli.terminal import TIMEOUT, Terminal
from tests.support.courses import TWO_HALVES
from tests.support.in_process import run, run_on_terminal
from tests.verify.shops import bad, good, serve

ROOT = Path(__file__).parents[2]
CALLS = ("--order", "true", "--deliveries", "echo 1")


@pytest.fixture
def terminal(paymock: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal for a server with a clock of its own: how long an application is silent is real time."""
    monkeypatch.setattr("paymock.verify.trial._ASK_SECONDS", 0.1)
    return Terminal(paymock.url, paymock.api_key)


@pytest.fixture
def shop(terminal: Terminal, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a shop that uses the sandbox of the terminal, and is right unless a test names another."""
    shop_type = getattr(request, "param", good.Worker)
    with (
        shop_type(terminal.url, terminal.variables["PAYMOCK_API_KEY"]) as shop,
        serve.Server(shop, 0) as server,
    ):
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def arguments(url: str) -> list[str]:
    return [
        "verify", "--order", f"POST {url}/orders/{{order_id}}",
        "--deliveries", f"GET {url}/deliveries/{{order_id}}", "--scenario", "happy_path", "--fault", "drop",
    ]  # fmt: skip


def test_a_shop_that_is_right_is_0(terminal: Terminal, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_PROGRESS_SECONDS", 0.0)
    outcome = terminal.run(*arguments(shop))
    first, *rest = outcome.stdout.splitlines()
    assert outcome.returncode == 0
    what = r"SAFE in 1 of 8 scenarios, 1 fault, 11( of 11)? trials: no rule about money was broken; \d+ s"
    assert re.fullmatch(what, first)
    assert "verify: faults; 11 of 11 trials so far\n" in outcome.stderr
    passed = [rule for rule in CHECKS if rule != "stays_down"]
    assert " ".join(rest).partition(" 1 of 8 ")[0].split() == [
        "passed",
        *", ".join(passed).split(),
        *["not", "judged", "stays_down"],
    ]


@pytest.mark.ci
@pytest.mark.parametrize("shop", [bad.NewKeyPerTry], indirect=True)
def test_an_unsafe_shop_is_1_and_its_findings_repeat(
    terminal: Terminal, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "_PROGRESS_SECONDS", math.inf)
    junit, summary, page = (tmp_path / name for name in ("junit.xml", "summary.md", "page.html"))
    key = terminal.variables["PAYMOCK_API_KEY"]
    files = ("--junit", str(junit), f"--markdown={summary}", "--html", str(page))
    status = ("--fulfil-at", "completed", "--fulfil-at", "overpaid_review", "--deep")
    outcome = terminal.run(*arguments(shop), "--key", key, *files, *status)
    token = "happy_path/createPayment=drop"
    told = [line.split(", not confirmed yet: ")[0] for line in outcome.stderr.splitlines()]
    assert (outcome.returncode, told) == (1, ["verify: double_payment", "verify: key_not_reused"])
    what = "double_payment when createPayment gets `drop`: 2 payments were created for one order ("
    assert outcome.stdout.startswith(f"UNSAFE: {what}")
    assert 'type="double_payment"' in junit.read_text()
    assert summary.read_text().startswith("## UNSAFE: double_payment when createPayment gets")

    [command] = re.findall("^paymock verify .*", outcome.stdout, re.MULTILINE)
    assert outcome.stdout.count("paymock verify") == 1
    for shown in (outcome.stdout, junit.read_text(), summary.read_text(), page.read_text()):
        assert key not in shown
        assert "PAYMOCK_API_KEY" in shown
    calls, narrow = arguments(shop)[1:5], arguments(shop)[5:]
    assert shlex.split(command) == [
        "paymock", "verify", "--key", "$PAYMOCK_API_KEY", *calls, *status[:4], *narrow, "--deep",
        "--only", token,
    ]  # fmt: skip
    repeated = [key if word == "$PAYMOCK_API_KEY" else word for word in shlex.split(command)[1:]]
    outcome = terminal.run(*repeated, "--json")
    document = json.loads(outcome.stdout)
    assert (outcome.returncode, outcome.stderr.count("\n"), outcome.stdout.count("\n")) == (1, 2, 1)
    assert (document["verdict"], document["findings"][0]["token"]) == ("UNSAFE", token)
    assert key not in outcome.stdout


@pytest.mark.ci
def test_the_example_is_unsafe_and_ends_with_the_command_for_ones_own(tmp_path: Path) -> None:
    (tmp_path / "scenarios.toml").write_text(TWO_HALVES)
    outcome = run("verify", "--example", "--scenarios", str(tmp_path / "scenarios.toml"))
    assert outcome.returncode == 1
    assert re.search(r"(?m)^self-test: 6 of 6 built-in bugs caught, in \d+ s\n", outcome.stderr)
    assert outcome.stdout.startswith("UNSAFE: free_goods ")
    assert "; also double_payment; " in outcome.stdout.splitlines()[0]
    assert "\n1 of 9 scenarios, 2 faults, side by side; not tried: " in outcome.stdout
    own = outcome.stdout.rpartition("For your own application:\n\n")[2]
    words = shlex.split(own.replace("\\\n", ""))
    assert (words[:2], words[2::2]) == (
        ["paymock", "verify"], ["--run", "--ready", "--order", "--deliveries"],
    )  # fmt: skip


@pytest.mark.ci
def test_a_built_in_bug_that_is_missed_is_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example, "BUGS", {"no bug at all": ("lost_sale", {})})
    outcome = run("verify", "--example")
    assert (outcome.returncode, outcome.stdout) == (3, "")
    assert outcome.stderr.splitlines()[1].startswith("Error: self-test: ")
    assert outcome.stderr.endswith(": no bug at all\n")


@pytest.mark.process
def test_a_server_that_is_killed_meanwhile_is_3(tmp_path: Path) -> None:
    with server_process(tmp_path) as served, Sandbox(served.url, "mk_test_gone") as sandbox:
        gone = Terminal(served.url, "mk_test_gone")
        order = f'{shlex.join(PAYMOCK)} create --order "$ORDER_ID"'
        command = ("verify", "--order", order, "--deliveries", "echo 0", "--tick", "sleep 0.1")
        with gone.start(*command) as process:
            wait_until(lambda: bool(sandbox.requests()))
            served.process.kill()
            output, messages = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, output.partition(":")[0]) == (3, "UNDETERMINED")
    assert served.url.removeprefix("http://") in output.partition("Not seen to its end:")[2]
    assert "Traceback" not in messages


@pytest.mark.ci
def test_an_application_that_is_started_gets_a_sandbox_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_self_test", lambda: "")
    key = "first-key"
    with testing.serve(api_keys=[key]) as server, Sandbox(server.url, key) as own:
        terminal = Terminal(server.url, key)
        for api_key, chosen, name in ((key, "", None), (key, "ci", "ci"), (f"{key}.mine", "ci", "mine")):
            outcome = terminal.run(
                *("verify", "--example", "--scenario", "happy_path", "--fault", "drop", "--tick", key),
                PAYMOCK_API_KEY=api_key,
                PAYMOCK_SANDBOX=chosen,
            )
            assert outcome.returncode == 1
            assert key not in outcome.stdout + outcome.stderr
            if name is not None:
                with Sandbox(server.url, key, name=name) as used:
                    assert used.requests()
        assert own.requests() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Missing option '--order' and '--deliveries': .*: paymock verify --example"),
        (["--order", "true"], "Missing option '--deliveries': "),
        ([*CALLS, "--crash"], "--crash and --replicas need --run and --ready"),
        ([*CALLS, "--replicas", "2", "--run", "true"], "--crash and --replicas need --run and --ready"),
        ([*CALLS, "--scenarios", __file__], "--scenarios is for a temporary server: "),
    ],
)
def test_what_is_missing_is_told(terminal: Terminal, options: list[str], message: str) -> None:
    assert re.search(message, terminal.fails(2, "verify", *options).replace("\n", " "))


def test_a_file_that_cannot_be_written_is_told_before_the_first_trial(
    terminal: Terminal, paymock: Sandbox, shop: str, tmp_path: Path
) -> None:
    summary, nowhere = tmp_path / "summary.md", tmp_path / "nowhere" / "junit.xml"
    for path, problem in ((tmp_path, "Is a directory"), (nowhere, "No such file or directory")):
        message = terminal.fails(3, *arguments(shop), "--markdown", str(summary), "--junit", str(path))
        assert message == f"Error: {path}: {problem}\n"
    assert (paymock.requests(), [*tmp_path.iterdir()]) == ([], [])


def test_what_could_not_be_seen_is_3_also_if_a_file_cannot_be_written(terminal: Terminal, shop: str) -> None:
    unclear = ("--deliveries", f"GET {shop}/none/{terminal.variables['PAYMOCK_API_KEY']}")
    outcome = terminal.run(*arguments(shop), *unclear, "--junit", "/dev/full")
    assert (outcome.returncode, outcome.stderr) == (3, "Error: /dev/full: No space left on device\n")
    assert outcome.stdout.startswith("UNDETERMINED: not everything was seen to its end; 0 of 8 scenarios, ")
    reason = f"CallFailed: GET {shop}/none/***: status 404"  # without the key
    assert f"  - happy_path: deliveries cannot be told: {reason}\n" in outcome.stdout


@pytest.mark.parametrize(
    ("no_color", "verdict"),
    [("", "\x1b[33m\x1b[1mUNDETERMINED\x1b[0m: not"), ("1", "\x1b[KUNDETERMINED: not")],
)
def test_on_a_terminal_trials_are_counted_and_the_verdict_has_a_color(
    terminal: Terminal, shop: str, no_color: str, verdict: str
) -> None:
    unclear = ("--deliveries", f"GET {shop}/health")
    outcome = run_on_terminal(*arguments(shop), *unclear, **terminal.variables, NO_COLOR=no_color)
    assert outcome.returncode == 3
    assert "1 of 1 trials" in outcome.stdout.partition("UNDETERMINED")[0]
    assert verdict in outcome.stdout


def test_a_key_that_is_refused_is_3(terminal: Terminal) -> None:
    message = terminal.fails(3, *arguments("http://127.0.0.1:1"), PAYMOCK_API_KEY="other")
    assert message.startswith("Error: unauthenticated: ")


@pytest.mark.process
def test_the_application_is_started_and_ended(port: int) -> None:
    command = shlex.join([sys.executable, "-m", "tests.verify.shops.serve", "worker"])
    application = f"cd {shlex.quote(str(ROOT))}; echo $$ >&2; PORT={port} exec {command}"
    url = f"http://127.0.0.1:{port}"
    only = ("--only", "happy_path/getPayment@5=drop")
    outcome = run(*arguments(url), *only, "--run", application, "--ready", f"{url}/health")
    assert (outcome.returncode, re.sub("verify: .* so far\n", "", outcome.stderr)) == (0, "")
    assert outcome.stdout.startswith("SAFE in 1 of 8 scenarios")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.process
def test_an_application_that_does_not_start_is_3(terminal: Terminal) -> None:
    application = ("--run", "echo no database, $PAYMOCK_API_KEY >&2; exit 7", "--ready", "http://127.0.0.1:1")
    message = terminal.fails(3, *arguments("http://127.0.0.1:1"), *application)
    assert message.startswith("Error: the application ended with exit status 7 before it was ready.\n")
    assert message.endswith("\nno database, ***\n")


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_prints_the_report_so_far_and_ends_everything(
    terminal: Terminal, shop: str, tmp_path: Path, number: signal.Signals
) -> None:
    pids = tmp_path / "pids"
    note = f'echo $$ >> "{pids}"; exec sleep 60'
    with terminal.start(*arguments(shop), "--run", note, "--tick", note, "--json") as process:
        wait_until(lambda: pids.exists() and pids.read_text().count("\n") == 2)
        process.send_signal(number)
        output, messages = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, messages) == (3, "interrupted: the report so far\n")
    assert json.loads(output)["undetermined"] == ["interrupted: at least 1 trials did not run"]
    wait_until(lambda: not any(is_running(int(pid)) for pid in pids.read_text().split()))
