"""`create`, `payment`, `payments`, `deposit`, `advance`, `clock` and `next`."""

import json
import re
import subprocess

import pytest

from tests.cli.terminals import Terminal, advance, freeze
from tests.support.client import Api


def test_create_needs_no_options(terminal: Terminal, api: Api) -> None:
    shown = terminal.text("create").splitlines()
    [payment] = api.get("/_mock/payments").json()["data"]
    assert shown[0] == f"{payment['id']}  awaiting_payment"
    assert f"  order     {payment['order_id']}" in shown
    assert "  due       1010000000000000000 (1.01 USDT) on bsc" in shown
    assert payment["attempts"][0]["instructions"]["invoice_address"] in "".join(shown)


def test_create_takes_everything_from_options(terminal: Terminal, api: Api) -> None:
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


def test_create_leaves_the_scenario_to_the_sandbox(terminal: Terminal, api: Api) -> None:
    api.post("/_mock/next", json={"scenario": "late_payment"})
    created = terminal.json("create")
    assert api.get(f"/_mock/payments/{created['id']}").json()["scenario"] == "late_payment"


def test_create_says_when_it_repeats(terminal: Terminal) -> None:
    arguments = ("create", "--idempotency-key", "order-1001-payment", "--json")
    first, second = terminal.run(*arguments), terminal.run(*arguments)
    assert (first.stdout, first.stderr) == (second.stdout, "")
    assert "used before" in second.stderr


def test_create_can_be_repeated_when_its_reply_was_lost(terminal: Terminal, api: Api) -> None:
    api.post("/_mock/next", json={"fault": "drop"})
    said = terminal.fails(3, "create")
    [payment] = api.get("/_mock/payments").json()["data"]
    lost = re.search(r"closed the connection .*\n.* (--idempotency-key) (\S+)$", said.rstrip())
    assert lost is not None
    repeated = json.loads(terminal.run("create", "--json", *lost.groups()).stdout)
    assert repeated == {name: payment[name] for name in repeated}


def test_the_curl_command_really_creates_the_payment(terminal: Terminal, api: Api) -> None:
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


def test_payment_shows_past_and_future(terminal: Terminal, api: Api) -> None:
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
    shown = terminal.text("payments").splitlines()
    assert [line.split()[0] for line in shown] == ids[::-1]
    assert shown[0].endswith("1010000000000000000 (1.01 USDT)  order-2")
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
    }.items():
        assert [one["id"] for one in terminal.json("payments", *filters)["data"]] == expected


def test_payments_go_on_over_pages(terminal: Terminal, api: Api) -> None:
    for _ in range(205):
        api.created()
    page = terminal.json("payments", "--limit", "203")
    assert len({one["id"] for one in page["data"]}) == 203
    assert page["next_cursor"] is not None
    assert len(terminal.text("payments", "--limit", "1000").splitlines()) == 205


def test_advance_moves_the_sandbox(terminal: Terminal, api: Api) -> None:
    before = api.get("/_mock/clock").json()["now"]
    moved = terminal.json("advance", "45")
    assert moved == api.get("/_mock/clock").json()
    assert moved["now"] > before
    assert re.fullmatch(r"20\S+Z  speed 1\n", terminal.text("advance", "--seconds", "0.5"))
    freeze(api)
    assert terminal.text("advance", "1").endswith("  frozen\n")


def test_the_clock_is_shown_and_changed(terminal: Terminal, api: Api) -> None:
    assert terminal.json("clock") == api.get("/_mock/clock").json()
    assert re.fullmatch(r"20\S+Z  speed 1\n", terminal.text("clock"))
    assert terminal.text("clock", "--speed", "2.5").endswith("  speed 2.5\n")
    assert terminal.json("clock", "--freeze") == api.get("/_mock/clock").json()
    assert api.get("/_mock/clock").json()["speed"] == 0
    assert terminal.text("clock").endswith("  frozen\n")
    terminal.text("clock", "--speed", "10")
    assert terminal.text("clock", "--speed", "0").endswith("  frozen\n")


def test_the_next_payments_take_what_was_prepared(terminal: Terminal, api: Api) -> None:
    outcome = terminal.run("next")
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "", "nothing is pending\n")
    assert terminal.text("next", "--scenario", "late_payment") == "once        late_payment\n"
    assert terminal.text("next", "--fault", "status=503", "--times", "3").splitlines() == [
        "once        late_payment",
        "3 times     status=503",
    ]
    pending = terminal.json("next", "--scenario", "overpaid_review", "--always")
    assert pending == terminal.json("next") == api.get("/_mock/next").json()
    assert terminal.text("next").splitlines()[1] == "always      overpaid_review"
    assert api.create().status_code == 503
    outcome = terminal.run("next", "--clear")
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "", "nothing is pending\n")
    assert api.create().status_code == 201
    assert json.loads(terminal.run("next", "--clear", "--json").stdout) == {"data": []}


@pytest.mark.parametrize(
    ("step", "status"),
    [
        (["--to", "settlement_pending"], "settlement_pending"),
        (["--to", "next"], "payment_detected"),
        (["--to", "end"], "completed"),
        (["--seconds", "13"], "payment_finalized"),
        (["13"], "payment_finalized"),
    ],
)
def test_advance_moves_one_payment(terminal: Terminal, api: Api, step: list[str], status: str) -> None:
    other, payment = api.created()["id"], api.created()["id"]
    assert terminal.json("advance", "--payment", payment, *step) == api.payment(payment)
    assert api.payment(payment)["status"] == status
    assert api.payment(other)["status"] == "awaiting_payment"
    shown = terminal.text("advance", "--payment", other, *step)
    assert shown.startswith(f"{other}  {status}\n")


def test_deposits_compose(terminal: Terminal, api: Api) -> None:
    payment = api.created("no_payment_expired")["id"]
    half = "505000000000000000"
    shown = terminal.text("deposit", payment, half)
    assert shown.startswith(f"{payment}  payment_detected\n")
    assert f"  deposit   {half} (0.505 USDT), pending 0/16\n" in shown
    assert terminal.json("deposit", "newest", half) == api.payment(payment)
    advance(api, 8)
    assert api.payment(payment)["status"] == "payment_finalized"


def test_a_deposit_can_come_in_another_asset_and_only_once(terminal: Terminal, api: Api) -> None:
    payment = api.created("no_payment_expired")["id"]
    arguments = ("deposit", payment, "7", "--asset", "USDC", "--idempotency-key", "deposit-1", "--json")
    first, second = terminal.run(*arguments), terminal.run(*arguments)
    assert (first.stdout, first.stderr) == (second.stdout, "")
    assert "used before" in second.stderr
    [deposit] = api.payment(payment)["attempts"][0]["deposits"]
    assert (deposit["asset"], deposit["amount"]) == ("USDC", "7")
