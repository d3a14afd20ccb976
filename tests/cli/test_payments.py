"""`create`, `payment`, `payments`, `deposit`, `wait` and `watch`."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from rich.cells import cell_len

from harness.server_process import environment, server_process
from paymock.cli.output import format_amount
from paymock.cli.payments import default_asset, one_token
from tests.cli.terminal import TIMEOUT, Terminal, advance, freeze, read_lines, run_on_terminal
from tests.support.client import Api


def test_create_needs_no_options(terminal: Terminal, api: Api) -> None:
    shown = terminal.text("create").splitlines()
    [payment] = api.get("/_mock/payments").json()["data"]
    assert shown[0] == f"{payment['id']}  awaiting_payment"
    assert f"  order     {payment['order_id']}" in shown
    assert "  due       1010000000000000000 (1.01 USDT) on bsc" in shown
    assert payment["attempts"][0]["instructions"]["invoice_address"] in "".join(shown)


def test_every_command_that_prints_a_payment_names_its_checkout(terminal: Terminal, api: Api) -> None:
    reply = api.create()
    [path] = re.findall("<(.+)>", reply.headers["Link"])
    row = f"  checkout  {terminal.variables['PAYMOCK_URL']}{path}\n"
    for command in ("payment", "advance --to next", "deposit 1", "wait --status payment_detected"):
        assert row in terminal.text(*command.split())
    assert httpx.get(row.split()[1]).status_code == 200
    created = terminal.text("create")
    assert f"/checkout/{created.split()[0]}\n" in created


def test_create_sends_all_options(terminal: Terminal, api: Api) -> None:
    created = terminal.json(
        "create", "--chain", "ethereum", "--asset", "USDC", "--amount", "2500000", "--order-id", "order-7",
        "--address", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359", "--metadata", "cart=3 items",
        "--metadata", '{"nested": {"a": [1]}}', "--scenario", "no_payment_expired",
    )  # fmt: skip
    assert created == api.payment(created["id"])
    assert created["receive"] == {
        "chain": "ethereum",
        "asset": "USDC",
        "amount": "2500000",
        "address": "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    }
    assert (created["order_id"], created["metadata"]) == (
        "order-7",
        {"cart": "3 items", "nested": {"a": [1]}},
    )
    assert api.get(f"/_mock/payments/{created['id']}").json()["scenario"] == "no_payment_expired"


def test_create_uses_the_pending_scenario(terminal: Terminal, api: Api) -> None:
    api.post("/_mock/next", json={"scenario": "late_payment"})
    created = terminal.json("create")
    assert api.get(f"/_mock/payments/{created['id']}").json()["scenario"] == "late_payment"


def test_create_reports_a_replay(terminal: Terminal) -> None:
    arguments = ("create", "--idempotency-key", "order-1001-payment", "--json")
    first, second = terminal.run(*arguments), terminal.run(*arguments)
    assert (first.stdout, first.stderr) == (second.stdout, "")
    assert "used before" in second.stderr
    assert "Warning" not in second.stderr
    third = terminal.run(*arguments, "--scenario", "late_payment")
    assert third.stdout == first.stdout
    assert "Warning: replayed payment follows happy_path, not late_payment" in third.stderr


def test_create_can_be_retried_after_a_lost_reply(terminal: Terminal, api: Api) -> None:
    api.post("/_mock/next", json={"fault": "drop"})
    message = terminal.fails(3, "create")
    [payment] = api.get("/_mock/payments").json()["data"]
    hint = re.search(r"closed the connection .*\n.* (--idempotency-key) (\S+)$", message.rstrip())
    assert hint is not None
    retried = json.loads(terminal.run("create", "--json", *hint.groups()).stdout)
    assert retried == {name: payment[name] for name in retried}


@pytest.mark.curl
def test_the_curl_command_creates_the_payment(terminal: Terminal, api: Api) -> None:
    command = terminal.text(
        "create", "--print-curl", "--scenario", "overpaid_review", "--metadata", "note=it's $HOME \\ `x` é"
    )
    assert api.get("/_mock/payments").json()["data"] == []
    outcome = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    created = json.loads(outcome.stdout)
    assert created["metadata"] == {"note": "it's $HOME \\ `x` é"}
    assert api.get(f"/_mock/payments/{created['id']}").json()["scenario"] == "overpaid_review"
    replayed = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    assert replayed.stdout == outcome.stdout


def test_default_asset_and_amount_depend_on_the_chain(catalog: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (default_asset("ethereum"), one_token("ethereum", "USDT")) == ("USDT", "1000000")
    assert (default_asset("moon"), one_token("moon", "USDT")) == ("USDT", "1" + 18 * "0")
    monkeypatch.setenv("PAYMOCK_CATALOG", catalog)
    assert (default_asset("bsc"), one_token("bsc", "TWO"), one_token("bsc", "ONE")) == ("TWO", "100", "1")
    assert (format_amount("7", "bsc", "ONE"), format_amount("1234", "bsc", "TWO")) == (
        "7 (7 ONE)",
        "1234 (12.34 TWO)",
    )


def test_payment_shows_the_timeline(terminal: Terminal, api: Api) -> None:
    payment = api.created("underpaid_expired")
    advance(api, 8)
    detail = api.get(f"/_mock/payments/{payment['id']}").json()
    assert terminal.json("payment", payment["id"]) == terminal.json("payment") == detail
    shown = terminal.text("payment").splitlines()
    assert shown[0] == f"{payment['id']}  payment_detected  underpaid_expired"
    assert "  deposit   505000000000000000 (0.505 USDT), confirming 4/16" in shown
    assert shown[-7:] == [
        "  x      0 s  awaiting_payment      Created",
        "  x      5 s  payment_detected      Deposit observed, confirmations 0/16, pending",
        "  x      7 s  payment_detected      Confirmations 4/16, confirming",
        "         9 s  payment_detected      Confirmations 8/16, confirming",
        "        11 s  payment_detected      Confirmations 12/16, confirming",
        "        13 s  payment_detected      Confirmations 16/16, finalized",
        "        30 s  underpaid_expired",
    ]


def test_payments_are_listed_newest_first(terminal: Terminal, api: Api) -> None:
    assert terminal.run("payments").stderr == "no payments\n"
    ids = [api.created(order_id=f"order-{number}")["id"] for number in range(3)]
    header, *shown = terminal.text("payments").splitlines()
    assert header.split() == ["ID", "STATUS", "CREATED", "SCENARIO", "DUE", "ORDER"]
    assert [line.split()[0] for line in shown] == ids[::-1]
    assert shown[0].endswith("happy_path  1010000000000000000 (1.01 USDT)  order-2")
    assert terminal.json("payments") == api.get("/_mock/payments").json()


def test_payments_are_filtered(terminal: Terminal, api: Api) -> None:
    late = api.created("late_payment", order_id="order-a")["id"]
    over = api.created("overpaid_review", order_id="order-b")["id"]
    advance(api, 13)
    for filters, expected in {
        ("--scenario", "late_payment"): [late],
        ("--status", "overpaid_review"): [over],
        ("--order-id", "order-b"): [over],
        ("--order-id", "order-c"): [],
        ("--search", "order-"): [over, late],
        ("--search", late[:20]): [late],
    }.items():
        assert [item["id"] for item in terminal.json("payments", *filters)["data"]] == expected


def test_payments_reads_several_pages(terminal: Terminal, api: Api) -> None:
    for _ in range(205):
        api.created()
    page = terminal.json("payments", "--limit", "203")
    assert len({item["id"] for item in page["data"]}) == 203
    assert page["next_cursor"] is not None
    assert len(terminal.text("payments", "--limit", "1000").splitlines()) == 206


@pytest.mark.parametrize(
    ("columns", "header"),
    [
        (60, "ID STATUS"),
        (80, "ID STATUS ORDER"),
        (100, "ID STATUS DUE ORDER"),
        (140, "ID STATUS CREATED SCENARIO DUE ORDER"),
    ],
)
def test_payments_fit_the_terminal(terminal: Terminal, api: Api, columns: int, header: str) -> None:
    ids = [api.created(order_id=order)["id"] for order in ("order-1", "o" * 128, "заказ 注文" * 8)]
    status, written = run_on_terminal("payments", COLUMNS=str(columns), **terminal.variables)
    assert status == 0
    shown, *lines = written.splitlines()
    assert " ".join(shown.split()) == header
    assert [line.split()[0] for line in lines] == ids[::-1]
    assert all(cell_len(line) <= columns for line in lines) or columns == 60
    if "DUE" in header:
        assert all("  1.01 USDT  " in line for line in lines)
    if "ORDER" in header:
        assert lines[2].endswith("  order-1")
        assert lines[1].endswith("ooo…")


def test_payments_are_complete_in_a_pipe(terminal: Terminal, api: Api) -> None:
    api.created(order_id="o" * 128)
    assert terminal.text("payments", COLUMNS="40").endswith(f"  {'o' * 128}\n")


def test_two_deposits_fund_a_payment(terminal: Terminal, api: Api) -> None:
    payment = api.created("no_payment_expired")["id"]
    half = "505000000000000000"
    shown = terminal.text("deposit", payment, half)
    assert shown.startswith(f"{payment}  payment_detected\n")
    assert f"  deposit   {half} (0.505 USDT), pending 0/16\n" in shown
    assert terminal.json("deposit", "newest", half) == api.payment(payment)
    advance(api, 8)
    assert api.payment(payment)["status"] == "payment_finalized"


def test_a_deposit_can_be_half_of_due_or_what_is_missing(terminal: Terminal, api: Api) -> None:
    payment = api.created("no_payment_expired", receive__amount="100")["id"]
    due = int(api.payment(payment)["attempts"][0]["instructions"]["amounts"]["due"])
    assert due % 2
    terminal.text("deposit", "--half")
    terminal.text("deposit", payment, "--half")
    terminal.text("deposit", "newest", "--exact")
    deposits = api.payment(payment)["attempts"][0]["deposits"]
    assert [int(deposit["amount"]) for deposit in deposits] == [due // 2, due // 2, 1]
    message = terminal.fails(1, "deposit", "--exact")
    assert message == f"Error: nothing is missing: {due} raw units of {due} have arrived\n"
    advance(api, 8)
    assert api.payment(payment)["status"] == "payment_finalized"


def test_what_is_missing_is_all_when_another_asset_has_arrived(terminal: Terminal, api: Api) -> None:
    payment = api.created("no_payment_expired")["id"]
    terminal.text("deposit", "7", "--asset", "USDC")
    terminal.text("deposit", "--exact", "--asset", "USDC")
    amounts = [deposit["amount"] for deposit in api.payment(payment)["attempts"][0]["deposits"]]
    assert amounts == ["7", "1010000000000000000"]


@pytest.mark.parametrize("command", ["payment", "wait", "watch", "deposit 1", "advance --to next"])
def test_without_an_id_the_newest_payment_is_taken(terminal: Terminal, api: Api, command: str) -> None:
    older, newest = api.created()["id"], api.created()["id"]
    if command in ("wait", "watch"):
        api.post(f"/_mock/payments/{newest}/advance", json={"to": "end"})
    name, *arguments = command.split()
    for words in ([name, *arguments], [name, "newest", *arguments]):
        outcome = terminal.run(*words, "--json")
        assert newest in outcome.stdout
        assert older not in outcome.stdout


def test_deposit_takes_an_asset_and_an_idempotency_key(terminal: Terminal, api: Api) -> None:
    payment = api.created("no_payment_expired")["id"]
    arguments = ("deposit", payment, "7", "--asset", "USDC", "--idempotency-key", "deposit-1", "--json")
    first, second = terminal.run(*arguments), terminal.run(*arguments)
    assert (first.stdout, first.stderr) == (second.stdout, "")
    assert "used before" in second.stderr
    [deposit] = api.payment(payment)["attempts"][0]["deposits"]
    assert (deposit["asset"], deposit["amount"]) == ("USDC", "7")


def test_wait_returns_at_once_for_a_reached_status(terminal: Terminal, api: Api) -> None:
    payment = api.created()["id"]
    advance(api, 46)
    assert terminal.text("wait", payment, "--status", "settlement_pending").startswith(
        f"{payment}  completed\n"
    )
    result = terminal.json("wait", "newest", "--status", "completed")
    assert result == {"reached": True, "possible": True, "payment": api.payment(payment)}


@pytest.mark.parametrize("status", [["--status", "payment_detected"], []], ids=["a status", "any change"])
def test_wait_ends_when_the_clock_is_advanced(terminal: Terminal, api: Api, status: list[str]) -> None:
    payment = api.created()["id"]
    freeze(api)
    deadline = time.monotonic() + TIMEOUT
    with terminal.start("wait", payment, *status, "--json") as process:
        while process.poll() is None and time.monotonic() < deadline:
            # In small steps, since the wait may not have arrived yet.
            api.post(f"/_mock/payments/{payment}/advance", json={"seconds": 0.01})
        assert process.poll() == 0
        result = json.loads("".join(read_lines(process, 1)))
    assert (result["reached"], result["payment"]["status"]) == (True, "payment_detected")


def test_wait_exits_with_4_after_the_timeout(terminal: Terminal, api: Api) -> None:
    payment = api.created()["id"]
    arguments = ("wait", payment, "--status", "completed", "--timeout", "0.1")
    assert terminal.fails(4, *arguments) == (
        f"Error: payment {payment} is awaiting_payment after 0.1 s: "
        "completed lies 45 s ahead on a clock that runs at speed 1\n"
    )
    outcome = terminal.run(*arguments, "--json")
    assert outcome.returncode == 4
    assert json.loads(outcome.stdout) == {
        "reached": False,
        "possible": True,
        "payment": api.payment(payment),
    }
    assert "after 0 s: the next change lies 5 s ahead" in terminal.fails(4, "wait", payment, "--timeout", "0")


def test_wait_exits_with_1_when_the_status_can_no_longer_come(terminal: Terminal, api: Api) -> None:
    payment = api.created("asset_mismatch")["id"]
    message = terminal.fails(1, "wait", payment, "--status", "completed")
    assert message == (
        f"Error: status_unreachable: payment {payment} is awaiting_payment: completed can no longer come\n"
    )
    advance(api, 60)
    outcome = terminal.run("wait", payment, "--json")
    assert outcome.returncode == 1
    assert json.loads(outcome.stdout) == {
        "reached": False,
        "possible": False,
        "payment": api.payment(payment),
    }


def test_wait_times_out_on_a_silent_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        script = (
            "from paymock import __main__; from paymock.client import wait; wait.GRACE_PERIOD = 0.1;"
            "import sys; sys.argv[1:] = ['wait', 'newest', '--timeout', '0.1']; __main__.main()"
        )
        outcome = subprocess.run(
            [sys.executable, "-c", script],
            env=environment(PAYMOCK_URL=url),
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    assert (outcome.returncode, outcome.stderr) == (3, f"Error: {url} does not answer\n")


@pytest.mark.parametrize("command", ["wait", "watch"])
def test_a_server_that_stops_during_a_wait_is_3(tmp_path: Path, command: str) -> None:
    with server_process(tmp_path, "--speed", "0") as served:
        terminal = Terminal(served.url, "mk_test_demo")
        terminal.text("create")
        with terminal.start(command, "newest") as process:
            if command == "watch":
                read_lines(process, 1)
            else:
                # The wait cannot be observed from here; before it, the command exits with 3, too.
                time.sleep(0.5)
            served.stop(signal.SIGTERM)
            _, message = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 3
    assert re.match(f"Error: (cannot reach )?{served.url}", message)


def test_watch_prints_a_line_for_each_change(terminal: Terminal, api: Api) -> None:
    api.created("asset_mismatch")
    freeze(api)
    with terminal.start("watch") as process:
        assert read_lines(process, 1) == ["     0 s  awaiting_payment      Created"]
        advance(api, 6)
        assert read_lines(process, 1) == [
            "     5 s  payment_detected      Deposit observed, confirmations 0/16, pending"
        ]
        advance(api, 1)
        assert read_lines(process, 2) == ["     7 s  manual_review         Confirmations 0/16, rejected", ""]
        assert process.wait() == 0


def test_watch_prints_changes_in_quick_succession(terminal: Terminal, api: Api) -> None:
    payment = api.created()["id"]
    freeze(api)
    with terminal.start("watch", payment, "--json") as process:
        first = read_lines(process, 1)
        for _ in range(8):
            api.post(f"/_mock/payments/{payment}/advance", json={"to": "next"})
        output, message = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, message) == (0, "")
    changes = [json.loads(line) for line in [*first, *output.splitlines()]]
    timeline = api.get(f"/_mock/payments/{payment}").json()["timeline"]
    assert [change["offset_seconds"] for change in changes] == [entry["offset_seconds"] for entry in timeline]
    assert changes[-1].items() >= {
        "payment_id": payment, "scenario": "happy_path", "event": "completed", "status": "completed",
    }.items()  # fmt: skip


def test_watch_exits_with_1_after_a_reset(terminal: Terminal, api: Api) -> None:
    api.created()
    freeze(api)
    with terminal.start("watch") as process:
        read_lines(process, 1)
        api.post("/_mock/reset")
        _, message = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 1
    assert message.startswith("Error: payment_not_found: ")


def test_wait_takes_the_newest_payment_of_an_order(terminal: Terminal, api: Api) -> None:
    first, second = api.created(order_id="order-7"), api.created(order_id="order-7")
    api.created()
    result = terminal.json("wait", "--order", "order-7", "--status", "awaiting_payment")
    assert result["payment"]["id"] == second["id"]
    message = terminal.fails(4, "wait", "--order", "order-8", "--timeout", "0")
    assert message == "Error: order order-8: it has no payment after 0 s\n"
    assert "not both" in terminal.fails(2, "wait", first["id"], "--order", "order-7")
