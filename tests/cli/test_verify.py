import json
import re
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from harness.polling import wait_until
from harness.process_info import is_running
from paymock.testing import Sandbox
from tests.cli.terminal import TIMEOUT, Terminal
from tests.support.in_process import run, run_on_terminal
from tests.verify.shops import bad, good, serve

ROOT = Path(__file__).parents[2]


@pytest.fixture
def terminal(paymock: Sandbox) -> Terminal:
    """A terminal for a server with a clock of its own: how long an application is silent is real time."""
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


def test_a_shop_that_is_right_is_0(terminal: Terminal, shop: str) -> None:
    first, *rest = terminal.text(*arguments(shop)).splitlines()
    assert first.startswith("SAFE: no rule about money was broken; 11 trials in ")
    assert rest == ["", "Notes:", "  - operations that the application never called: listAttempts"]


@pytest.mark.ci
@pytest.mark.parametrize("shop", [bad.NewKeyPerTry], indirect=True)
def test_an_unsafe_shop_is_1_and_its_findings_repeat(terminal: Terminal, shop: str, tmp_path: Path) -> None:
    junit, summary = tmp_path / "junit.xml", tmp_path / "summary.md"
    key = terminal.variables["PAYMOCK_API_KEY"]
    files = ("--junit", str(junit), f"--markdown={summary}")
    outcome = terminal.run(*arguments(shop), "--key", key, *files)
    assert (outcome.returncode, outcome.stderr) == (1, "")
    assert outcome.stdout.startswith("UNSAFE: double_payment; ")
    assert 'type="double_payment"' in junit.read_text()
    assert summary.read_text().startswith("## paymock verify: UNSAFE\n\ndouble_payment; ")

    [only, *_] = re.findall("  Repeat: (.*)", outcome.stdout)
    command = f"{outcome.stdout.splitlines()[-1]} {only}"
    findings = httpx.get(f"{terminal.url}/_mock/findings", headers={"Authorization": f"Bearer {key}"}).text
    for shown in (outcome.stdout, junit.read_text(), summary.read_text(), findings):
        assert key not in shown
        assert "PAYMOCK_API_KEY" in shown
    assert shlex.split(command) == [
        "paymock", "verify", "--key", "$PAYMOCK_API_KEY", *arguments(shop)[1:],
        "--only", "happy_path/createPayment=drop",
    ]  # fmt: skip
    repeated = [key if word == "$PAYMOCK_API_KEY" else word for word in shlex.split(command)[1:]]
    outcome = terminal.run(*repeated, "--json")
    document = json.loads(outcome.stdout)
    assert (outcome.returncode, outcome.stderr, outcome.stdout.count("\n")) == (1, "", 1)
    assert (document["verdict"], document["trials"]) == ("UNSAFE", 2)
    assert key not in outcome.stdout


def test_a_file_that_cannot_be_written_is_told_before_the_first_trial(
    terminal: Terminal, paymock: Sandbox, shop: str, tmp_path: Path
) -> None:
    summary, nowhere = tmp_path / "summary.md", tmp_path / "nowhere" / "junit.xml"
    for path, problem in ((tmp_path, "Is a directory"), (nowhere, "No such file or directory")):
        message = terminal.fails(3, *arguments(shop), "--markdown", str(summary), "--junit", str(path))
        assert message == f"Error: {path}: {problem}\n"
    assert (paymock.requests(), [*tmp_path.iterdir()]) == ([], [])


def test_what_could_not_be_seen_is_3_also_if_a_file_cannot_be_written(terminal: Terminal, shop: str) -> None:
    unclear = ("--deliveries", f"GET {shop}/health")
    outcome = terminal.run(*arguments(shop), *unclear, "--junit", "/dev/full")
    assert (outcome.returncode, outcome.stderr) == (3, "Error: /dev/full: No space left on device\n")
    assert outcome.stdout.startswith("UNDETERMINED: not everything was seen to its end; 1 trial in ")
    reason = "CallFailed: an integer, true or false must be printed or answered, not 'ok'"
    assert f"  - happy_path: deliveries cannot be told: {reason}" in outcome.stdout


@pytest.mark.parametrize(
    ("no_color", "verdict"),
    [("", "\x1b[33m\x1b[1mUNDETERMINED\x1b[0m: not"), ("1", "\x1b[2KUNDETERMINED: not")],
)
def test_on_a_terminal_trials_are_counted_and_the_verdict_has_a_color(
    terminal: Terminal, shop: str, no_color: str, verdict: str
) -> None:
    unclear = ("--deliveries", f"GET {shop}/health")
    outcome = run_on_terminal(*arguments(shop), *unclear, **terminal.variables, NO_COLOR=no_color)
    assert outcome.returncode == 3
    progress = outcome.stdout.partition("UNDETERMINED")[0]
    assert "trials" in progress
    assert "1/1" in progress
    assert verdict in outcome.stdout


def test_what_a_call_repeats_of_the_key_is_masked(terminal: Terminal, shop: str) -> None:
    unclear = ("--deliveries", f"GET {shop}/none/{terminal.variables['PAYMOCK_API_KEY']}")
    outcome = terminal.run(*arguments(shop), *unclear)
    assert f"deliveries cannot be told: CallFailed: GET {shop}/none/***: status 404\n" in outcome.stdout


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
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith("SAFE: ")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.process
def test_a_command_ends_with_the_budget(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("commands", "runner"):
        monkeypatch.setattr(f"paymock.verify.{module}.GRACE_SECONDS", 0.1)
    hanging = ("--order", "exec sleep 60", "--tick", "true", "--deliveries", "echo 0", "--budget", "1")
    began = time.monotonic()
    assert terminal.run("verify", *hanging).returncode == 3
    assert time.monotonic() - began < 30


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
