"""`verify`."""

import json
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.polling import wait_until
from harness.process_info import is_running
from harness.server_process import run
from paymock.testing import Sandbox
from paymock.verify.report import Report
from tests.cli.terminal import Terminal, run_on_terminal
from tests.verify.shops import bad, good, serve
from tests.verify.shops.base import Shop

ONE = ("--scenario", "happy_path", "--fault", "drop")
"""One scenario and one fault."""

ROOT = Path(__file__).parents[2]


@pytest.fixture
def terminal(paymock: Sandbox) -> Terminal:
    """A terminal for a server with a clock of its own: how long an application is silent is real time."""
    return Terminal(paymock.url, paymock.api_key)


@contextmanager
def served(shop_type: type[Shop], terminal: Terminal) -> Iterator[list[str]]:
    """The arguments for a shop that uses the sandbox of the terminal."""
    with (
        shop_type(terminal.variables["PAYMOCK_URL"], terminal.variables["PAYMOCK_API_KEY"]) as shop,
        serve.Server(shop, 0) as server,
    ):
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        yield [
            "verify", "--order", f"POST {url}/orders/{{order_id}}",
            "--deliveries", f"GET {url}/deliveries/{{order_id}}", *ONE,
        ]  # fmt: skip
        server.shutdown()
        thread.join()


@pytest.fixture
def right(terminal: Terminal) -> Iterator[list[str]]:
    """A shop that is right."""
    with served(good.Worker, terminal) as arguments:
        yield arguments


@pytest.fixture
def wrong(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A shop that uses a new key for each try."""
    monkeypatch.setattr(serve, "TICK_SECONDS", 0.01)
    with served(bad.NewKeyPerTry, terminal) as arguments:
        yield arguments


@pytest.fixture
def port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_shop_that_is_right_is_0(terminal: Terminal, right: list[str]) -> None:
    first, *rest = terminal.text(*right).splitlines()
    assert first.startswith("SAFE: no rule about money was broken; 11 trials in ")
    assert rest == ["", "Notes:", "  - operations that the application never called: listAttempts"]


def test_a_shop_that_costs_money_is_1_and_its_findings_can_be_repeated(
    terminal: Terminal, wrong: list[str], tmp_path: Path
) -> None:
    junit, summary = tmp_path / "junit.xml", tmp_path / "summary.md"
    outcome = terminal.run(*wrong, "--junit", str(junit), f"--markdown={summary}")
    assert (outcome.returncode, outcome.stderr) == (1, "")
    assert outcome.stdout.startswith("UNSAFE: double_payment; ")
    [failure] = ET.fromstring(junit.read_bytes()).iter("failure")  # noqa: S314 - our own
    assert failure.get("type") == "double_payment"
    assert summary.read_text().startswith("## paymock verify: UNSAFE\n\ndouble_payment; ")

    [repeat, *_] = [line for line in outcome.stdout.splitlines() if line.startswith("  Repeat: ")]
    program, *arguments = shlex.split(repeat.removeprefix("  Repeat: "))
    assert program == "paymock"
    assert arguments == [*wrong, "--only", "happy_path/createPayment=drop"]
    outcome = terminal.run(*arguments, "--json")
    document = json.loads(outcome.stdout)
    assert (outcome.returncode, outcome.stderr, outcome.stdout.count("\n")) == (1, "", 1)
    assert document.keys() == {"verdict", *Report.__dataclass_fields__}
    assert (document["verdict"], document["trials"]) == ("UNSAFE", 2)
    [first, *_] = document["findings"]
    assert (first["rule"], first["token"]) == ("double_payment", arguments[-1])
    assert shlex.split(first["command"]) == ["paymock", *wrong, "--json", "--only", arguments[-1]]


@pytest.mark.parametrize(
    ("deliveries", "reason"),
    [
        ("echo many", "CallFailed: an integer, true or false must be printed or answered, not 'many"),
        (
            "echo no database >&2; exit 7",
            "CallFailed: echo no database >&2; exit 7: exit status 7: no database",
        ),
    ],
)
def test_what_could_not_be_seen_is_3(
    terminal: Terminal, right: list[str], deliveries: str, reason: str
) -> None:
    outcome = terminal.run(*right, "--deliveries", deliveries)
    assert (outcome.returncode, outcome.stderr) == (3, "")
    assert outcome.stdout.startswith("UNDETERMINED: not everything was seen to its end; 1 trial in ")
    assert f"  - happy_path: deliveries cannot be told: {reason}" in outcome.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--order", "true"], "Missing option '--deliveries'"),
        (["--deliveries", "true"], "Missing option '--order'"),
        (
            ["--order", "true", "--deliveries", "true", "--fault", "explode"],
            "must be status=CODE (400 to 599)",
        ),
        (
            ["--order", "true", "--deliveries", "true", "--only", "happy_path/x"],
            "must be like getPayment@5=drop",
        ),
        (
            ["--order", "true", "--deliveries", "true", "--fulfil-at", "paid"],
            "'paid' is not one of 'awaiting_",
        ),
        (["--order", "true", "--deliveries", "true", "--scenario", "paid"], "there is no scenario 'paid'"),
        (["--order", "true", "--deliveries", "true", "--jobs", "97"], "97 is not in the range 1<=x<=96"),
    ],
)
def test_wrong_usage_is_2(terminal: Terminal, arguments: list[str], message: str) -> None:
    assert message in terminal.fails(2, "verify", *arguments)


def test_a_key_that_is_refused_is_3(terminal: Terminal) -> None:
    message = terminal.fails(3, "verify", "--order", "true", "--deliveries", "true", PAYMOCK_API_KEY="other")
    assert message.startswith("Error: unauthenticated: ")


class TestRun:
    """--run, against a server of its own."""

    @pytest.fixture
    def shop(self, port: int) -> list[str]:
        url = f"http://127.0.0.1:{port}"
        command = shlex.join([sys.executable, "-m", "tests.verify.shops.serve", "worker"])
        return [
            "verify", "--run", f"cd {shlex.quote(str(ROOT))}; echo $$ >&2; PORT={port} exec {command}",
            "--ready", f"{url}/health", "--order", f"POST {url}/orders/{{order_id}}",
            "--deliveries", f"GET {url}/deliveries/{{order_id}}", *ONE,
        ]  # fmt: skip

    def test_it_starts_the_application_and_ends_it(self, shop: list[str], port: int) -> None:
        outcome = run(*shop, "--only", "happy_path/getPayment@5=drop")
        assert (outcome.returncode, outcome.stderr) == (0, "")
        assert outcome.stdout.startswith("SAFE: ")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))

    def test_what_does_not_start_is_3(self, terminal: Terminal, port: int) -> None:
        command = "echo $PAYMOCK_URL; echo no database >&2; exit 7"
        message = terminal.fails(
            3, "verify", "--run", command, "--ready", f"http://127.0.0.1:{port}", "--order", "true",
            "--deliveries", "true",
        )  # fmt: skip
        assert message == (
            "Error: the application ended with exit status 7 before it was ready.\n"
            f"Its last output:\n{terminal.variables['PAYMOCK_URL']}\nno database\n"
        )

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_an_interrupt_prints_the_report_so_far_and_ends_everything(
        self, terminal: Terminal, right: list[str], tmp_path: Path, number: signal.Signals
    ) -> None:
        pids, junit = tmp_path / "pids", tmp_path / "junit.xml"
        note = f'echo $$ >> "{pids}"; exec sleep 60'
        with terminal.start(
            *right, "--run", note, "--tick", note, "--junit", str(junit), "--json"
        ) as process:
            wait_until(lambda: pids.exists() and pids.read_text().count("\n") == 2)
            process.send_signal(number)
            output, messages = process.communicate(timeout=30)
        assert (process.returncode, messages) == (3, "interrupted: the report so far\n")
        document = json.loads(output)
        assert (document["verdict"], document["trials"]) == ("UNDETERMINED", 0)
        assert document["undetermined"] == ["interrupted: at least 1 trials did not run"]
        assert ET.fromstring(junit.read_bytes()).get("errors") == "1"  # noqa: S314 - our own
        wait_until(lambda: not any(is_running(int(pid)) for pid in pids.read_text().split()))

    def test_an_interrupt_before_the_first_trial_is_no_verdict(
        self, terminal: Terminal, tmp_path: Path
    ) -> None:
        pid = tmp_path / "pid"
        arguments = ["--order", "true", "--deliveries", "true", "--ready", "http://127.0.0.1:1"]
        with terminal.start("verify", "--run", f'echo $$ > "{pid}"; exec sleep 60', *arguments) as process:
            wait_until(lambda: pid.exists() and pid.read_text().endswith("\n"))
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=30)
        assert (process.returncode, output) == (130, "")
        assert not is_running(int(pid.read_text()))


@pytest.mark.parametrize(
    ("colors", "verdict"),
    [
        ({}, "\x1b[33m\x1b[1mUNDETERMINED\x1b[0m: not everything"),
        ({"NO_COLOR": "1"}, "\x1b[2KUNDETERMINED: not everything"),
    ],
)
def test_on_a_terminal_trials_are_counted_and_the_verdict_has_a_color(
    terminal: Terminal, right: list[str], colors: dict[str, str], verdict: str
) -> None:
    arguments = [*right, "--deliveries", "echo many"]
    status, output = run_on_terminal(*arguments, **terminal.variables, **colors)
    assert status == 3
    progress = output.partition("UNDETERMINED")[0]
    assert "trials" in progress
    assert "1/1" in progress
    assert verdict in output


def test_a_file_that_cannot_be_written_does_not_lose_the_report(
    terminal: Terminal, right: list[str], tmp_path: Path
) -> None:
    outcome = terminal.run(*right, "--deliveries", "echo many", "--junit", str(tmp_path))
    assert (outcome.returncode, outcome.stderr) == (3, f"Error: {tmp_path}: Is a directory\n")
    assert outcome.stdout.startswith("UNDETERMINED: ")
