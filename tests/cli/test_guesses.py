"""What somebody types who knows docker, kubectl or gh, and has not read the documentation."""

import json
import shlex

import pytest

from paymock.cli.options import Duration
from tests.cli.terminal import Terminal
from tests.support.client import Api
from tests.support.in_process import run, run_on_terminal

GUESSES = {
    # Words of other programs
    "ls": (2, "Did you mean 'payments'?"),
    "list": (2, "Did you mean 'payments'?"),
    "get order-1001": (2, "Did you mean 'payment'?"),
    "logs -f": (2, "Did you mean 'requests'?"),
    "status": (2, "Did you mean 'ready'?"),
    "up": (2, "Did you mean 'serve'?"),
    "run": (2, "Did you mean 'serve' or 'exec'?"),
    "stop": (2, "Did you mean 'Ctrl-C'?"),
    "rm order-1001": (2, "Did you mean 'reset' or 'fault delete'?"),
    "version": (2, "Did you mean '--version'?"),
    "help create": (2, "Did you mean '--help'?"),
    "pay order-1001": (2, "Did you mean 'deposit'?"),
    "simulate": (2, "Did you mean 'next' or 'deposit' or 'advance'?"),
    "chains": (2, "Did you mean 'GET /v1/chains'?"),
    "freeze": (2, "Did you mean 'clock freeze'?"),
    "watch order-1001": (2, "Did you mean 'wait' or 'requests --follow'?"),
    "demo --speed 20": (2, "Did you mean 'serve and its dashboard'?"),
    "completion bash": (2, "Did you mean '_PAYMOCK_COMPLETE=bash_source paymock'?"),
    # A payment by its order
    "payment order-1001": (0, "  order     order-1001\n"),
    "payment newest": (0, "  order     order-1002\n"),
    "payment": (0, "  order     order-1002\n"),
    "wait --status awaiting_payment": (0, "  order     order-1002\n"),
    "deposit 5": (0, "  order     order-1002\n"),
    "advance --to end": (0, "  order     order-1002\n"),
    "advance newest --to end": (0, "  order     order-1002\n"),
    "payment order-7": (1, "payment_not_found: This sandbox has no payment with the id or the order"),
    "wait order-1001 --status awaiting_payment": (0, "  order     order-1001\n"),
    "deposit order-1001 5": (0, "  order     order-1001\n"),
    "deposit order-1001 --half": (0, "  order     order-1001\n"),
    "advance order-1001 --to end": (0, "  order     order-1001\n"),
    "advance newest --to awaiting_payment": (1, "ahead: `expired`."),
    "advance order-1001 5s": (0, "  order     order-1001\n"),
    "fault add drop --payment order-1001": (0, "once   drop   pay_"),
    "requests --wait 1 --payment order-1001": (0, "/v1/payments"),
    "payments --order order-1001": (0, "order-1001\n"),
    # Durations
    "advance 1m30s": (0, "  speed 1\n"),
    "advance -5": (2, "Negative numbers are not allowed."),
    "payment -7": (2, "Put an argument that begins with - after --, as in -- -7."),
    "payment -- -7": (1, "the order '-7'"),
    "advance soon": (2, "'soon' is not a duration from 0.001 to 31,536,000 seconds, like 45 or 1m30s"),
    "wait newest --status completed --timeout 1ms": (4, "; awaited: completed"),
    "requests --wait 9 --timeout 0s": (4, " of 9 awaited requests"),
    "ready --wait 1x": (2, "'1x' is not a duration from 0 to 86,400 seconds, like 45 or 1m30s"),
    # Arguments
    "create underpaid_expired --order order-7": (0, "  order     order-7\n"),
    "create -h": (0, "Usage: paymock create [OPTIONS] [SCENARIO]\n"),
    "create hapy_path": (1, "invalid_scenario: SCENARIO is not one of happy_path, "),
    "next underpaid_expired": (0, "once        underpaid_expired\n"),
    "clock 10": (0, "  speed 10\n"),
    "clock freeze": (0, "  frozen\n"),
    "clock x10": (0, "  speed 10\n"),
    "clock 10x": (0, "  speed 10\n"),
    "clock x10x": (2, "'x10x' is not a speed factor"),
    "clock ten": (2, "'ten' is not a speed factor from 0 to 10,000, freeze, or a time like 2024-02-29T"),
    "next review": (1, "the nearest is overpaid_review or manual_review"),
    "clock 2024-02-29T12:00Z": (1, "sandbox_not_empty: A clock can be set only while its sandbox"),
    "clock 2024-02-29T12:00": (2, "'2024-02-29T12:00' must be an RFC 3339 time with an offset"),
    "fault ls": (0, "no fault rules"),
    "fault rm flt_x": (1, "not_found: This sandbox has no fault rule with that id."),
    "fault delete": (2, "Missing argument 'RULE_ID...'"),
    "requests --clear": (0, "no requests"),
    "reset -y": (0, "the sandbox is empty"),
    "reset --json": (0, '{"reset":true}\n'),
    "payments --status Paid": (2, "Did you mean 'completed'?"),
    # Amounts and other values
    "create --amount 1.5": (2, "Amounts are in raw units. Did you mean 1500000000000000000 (1.5 USDT)?"),
    "create --amount '10 USDC' --chain base": (2, "Did you mean 10000000 (10 USDC)?"),
    "create --amount 5": (0, "Amounts are in raw units: for 5 USDT, use 5000000000000000000 (5 USDT)\n"),
    "deposit --half --asset usdc": (2, "'--asset': Unknown asset 'usdc'. Did you mean 'USDC'?"),
    "deposit order-1001 ten": (2, "Give exactly one of AMOUNT (in raw units), --exact and --half."),
    "deposit order-1001 0": (1, "  AMOUNT: must be a positive integer in raw token units"),
    "fault 503": (2, "Did you mean 'add status=503'?"),
    "fault add 503": (1, "  FAULT: must name its kind: did you mean status=503?"),
    "deposit 1.5": (2, "Did you mean 1500000000000000000 (1.5 USDT)?"),
    "create --amount x --chain moon": (1, "validation_failed:\n  --amount: must be a positive integer"),
    "create --idempotency-key x": (1, "The --idempotency-key has a length of 1; 8 to 128 characters"),
    "serve --port abc": (2, "Invalid value for '--port': 'abc' is not a whole number from 0 to 65,535"),
    "payments --limit 0": (2, "'0' is not a whole number of at least 1"),
    "fault add drop --times 0": (2, "'0' is not a whole number from 1 to 1,000,000"),
    "ready --url http://127.0.0.1:8402/v1": (2, "'--url': must be given without /v1"),
}  # fmt: skip
"""Command lines, in a sandbox with payments of two orders: exit status, and what is said or shown."""


@pytest.mark.parametrize(("command", "answer"), GUESSES.items())
def test_a_guess_is_right_or_answered_with_what_is_meant(
    terminal: Terminal, api: Api, command: str, answer: tuple[int, str]
) -> None:
    for number in (1001, 1002):
        api.created("no_payment_expired", order_id=f"order-{number}")
    outcome = terminal.run(*shlex.split(command))
    assert outcome.returncode == answer[0]
    assert answer[1] in outcome.stdout + outcome.stderr
    assert "details`" not in outcome.stderr


DURATIONS = {"45": 45, "1.5": 1.5, "1m30s": 90, "1h30m": 5_400, "500ms": 0.5, ".5s": 0.5, "2d": 172_800}


@pytest.mark.parametrize(("text", "seconds"), DURATIONS.items())
def test_a_duration_is_seconds_or_has_units(text: str, seconds: float) -> None:
    assert Duration(0).convert(text, None, None) == seconds


def test_a_server_is_named_by_host_and_port(terminal: Terminal) -> None:
    port = terminal.url.rpartition(":")[2]
    for url in (f"127.0.0.1:{port}", f"localhost:{port}/", f":{port}"):
        assert terminal.text("ready", "--url", url) == terminal.text("ready", PAYMOCK_URL=url)
    message = terminal.fails(3, "ready", "--url", terminal.url.replace("http", "https"))
    assert message.endswith("does not speak TLS: try http://\n")


@pytest.mark.parametrize(
    ("command", "status", "code"),
    [
        ("payment order-7", 1, "payment_not_found"),
        ("create --amount x", 1, "validation_failed"),
        ("deposit", 2, "usage"),
        ("ls", 2, "usage"),
        ("clock --url :1", 3, "unreachable"),
        ("requests --wait 1 --timeout 0", 4, "timeout"),
    ],
)
def test_an_error_is_json_with_json(terminal: Terminal, command: str, status: int, code: str) -> None:
    for words in ([*command.split(), "--json"], ["--json", *command.split()]):
        error = json.loads(terminal.fails(status, *words))["error"]
        assert (error["code"], bool(error["message"])) == (code, True)
        assert [one["field"] for one in error.get("details", [])] == ["receive.amount"] * (
            "amount" in command
        )


def test_the_help_fits_a_screen() -> None:
    lines = run("--help").stdout.splitlines()
    assert len(lines) <= 28
    assert not [line for line in lines[1:] if len(line) > 80 or line.endswith("...")]
    assert [line.split("  ")[0] for line in lines if line[:1].isupper()][1:5] == [
        "Server", "Payments", "Time and faults", "Your application",
    ]  # fmt: skip


@pytest.mark.parametrize(("typed", "status"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_reset_asks_on_a_terminal(terminal: Terminal, api: Api, typed: str, status: int) -> None:
    api.created()
    outcome = run_on_terminal("reset", typed=typed, **terminal.variables)
    assert outcome.returncode == status
    assert "Delete all payments and everything else" in outcome.stdout
    assert len(api.get("/_mock/payments").json()["data"]) == status
