import json
import re
import subprocess

import pytest

from tests.cli.terminal import Terminal, meanwhile
from tests.support.client import DUE, HALF, Api


def test_create_needs_no_options(terminal: Terminal, api: Api) -> None:
    shown = terminal.text("create").splitlines()
    [payment] = api.get("/_mock/payments").json()["data"]
    assert shown[0] == f"{payment['id']}  awaiting_payment"
    assert f"  order     {payment['order_id']}" in shown
    assert f"  due       {DUE} (1.01 USDT) on bsc" in shown
    assert payment["attempts"][0]["instructions"]["invoice_address"] in "".join(shown)


def test_every_command_that_prints_a_payment_names_its_checkout(terminal: Terminal, api: Api) -> None:
    [path] = re.findall("<(.+)>", api.create(key="order-1001-payment").headers["Link"])
    for command in ("payment", "advance --to next", "deposit 1", "wait --status payment_detected"):
        assert f"  checkout  {terminal.url}{path}\n" in terminal.text(*command.split())


def test_create_sends_all_options(terminal: Terminal, api: Api) -> None:
    address = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"
    created = terminal.json(
        "create", "--chain", "ethereum", "--asset", "USDC", "--amount", "2500000", "--address", address,
        "--order", "order-7", "--metadata", "cart=3 items", "--metadata", '{"nested": {"a": [1]}}',
        "no_payment_expired",
    )  # fmt: skip
    assert created == api.payment(created["id"])
    receive = {"chain": "ethereum", "asset": "USDC", "amount": "2500000", "address": address}
    metadata = {"cart": "3 items", "nested": {"a": [1]}}
    assert created.items() >= {"receive": receive, "order_id": "order-7", "metadata": metadata}.items()
    assert api.get(f"/_mock/payments/{created['id']}").json()["scenario"] == "no_payment_expired"


def test_create_reports_a_replay(terminal: Terminal) -> None:
    arguments = ("create", "--idempotency-key", "order-1001-payment", "--json")
    first, second = terminal.run(*arguments), terminal.run(*arguments)
    assert (first.stdout, first.stderr) == (second.stdout, "")
    assert "used before" in second.stderr
    assert "Warning" not in second.stderr
    third = terminal.run(*arguments, "late_payment")
    assert third.stdout == first.stdout
    assert "Warning: replayed payment follows happy_path, not late_payment" in third.stderr


def test_create_can_be_retried_after_a_lost_reply(terminal: Terminal, api: Api) -> None:
    api.post("/_mock/faults", json={"fault": "drop", "operation": "createPayment"})
    message = terminal.fails(3, "create")
    [payment] = api.get("/_mock/payments").json()["data"]
    hint = re.search(r"closed the connection .*\n.* (--idempotency-key) (\S+)$", message.rstrip())
    assert hint is not None
    retried = json.loads(terminal.run("create", "--json", *hint.groups()).stdout)
    assert retried == {name: payment[name] for name in retried}


def test_create_prints_a_curl_command_and_sends_nothing(terminal: Terminal, api: Api) -> None:
    command = terminal.text("create", "--print-curl", "--idempotency-key", "order-1001-payment")
    assert command.startswith(f"curl -sS {terminal.url}/v1/payments \\\n")
    assert " \\\n    -H 'Idempotency-Key: order-1001-payment' \\\n" in command
    assert api.get("/_mock/payments").json()["data"] == []


@pytest.mark.curl
def test_the_curl_command_creates_the_payment(terminal: Terminal, api: Api) -> None:
    metadata = "it's $HOME \\ `x` é"
    command = terminal.text("create", "--print-curl", "overpaid_review", "--metadata", f"note={metadata}")
    created = json.loads(subprocess.check_output(["/bin/sh", "-c", command]))
    assert created["metadata"] == {"note": metadata}
    assert api.get(f"/_mock/payments/{created['id']}").json()["scenario"] == "overpaid_review"
    assert json.loads(subprocess.check_output(["/bin/sh", "-c", command])) == created


def test_default_asset_and_amount_depend_on_the_chain(terminal: Terminal, catalog: str) -> None:
    def received(*arguments: str, **variables: str) -> tuple[str, str]:
        [body] = re.findall("-d '(.*)'", terminal.text("create", "--print-curl", *arguments, **variables))
        receive = json.loads(body)["receive"]
        return receive["asset"], receive["amount"]

    assert received("--chain", "ethereum") == ("USDT", "1000000")
    assert received("--chain", "moon") == ("USDT", "1" + 18 * "0")
    assert received(PAYMOCK_CATALOG=catalog) == ("TWO", "100")
    assert received("--asset", "ONE", PAYMOCK_CATALOG=catalog) == ("ONE", "1")


def test_payment_shows_its_story(terminal: Terminal, api: Api) -> None:
    payment = api.created("underpaid_expired")
    api.advance(8)
    detail = api.get(f"/_mock/payments/{payment['id']}").json()
    assert terminal.json("payment", payment["id"]) == detail
    shown = terminal.text("payment").splitlines()
    assert shown[0] == f"{payment['id']}  payment_detected  underpaid_expired"
    assert f"  deposit   {HALF} (0.505 USDT), confirming 4/16" in shown
    story = api.get("/_mock/story", params={"payment_id": payment["id"]}).text.splitlines()
    assert shown[shown.index("") :] == ["", *story[:2], "timeline:", *story[4:11], *story[13:]]
    assert "    x      7 s  payment_detected      Confirmations 4/16, confirming" in story


def test_payments_are_listed_newest_first(terminal: Terminal, api: Api) -> None:
    assert terminal.note("payments") == "no payments\n"
    ids = [api.created(order_id=f"order-{number}")["id"] for number in range(3)]
    header, *shown = terminal.text("payments").splitlines()
    assert header.split() == ["ID", "STATUS", "CREATED", "SCENARIO", "DUE", "ORDER"]
    assert [line.split()[0] for line in shown] == ids[::-1]
    assert shown[0].endswith(f"happy_path  {DUE} (1.01 USDT)  order-2")
    assert terminal.json("payments") == api.get("/_mock/payments").json()


def test_payments_are_filtered(terminal: Terminal, api: Api) -> None:
    late = api.created("late_payment", order_id="order-a")["id"]
    over = api.created("overpaid_review", order_id="order-b")["id"]
    api.advance(13)
    for filters, expected in {
        ("--scenario", "late_payment"): [late],
        ("--status", "overpaid_review"): [over],
        ("--order", "order-b"): [over],
        ("--search", "order-"): [over, late],
    }.items():
        assert [item["id"] for item in terminal.json("payments", *filters)["data"]] == expected


def test_payments_reads_several_pages(terminal: Terminal, api: Api) -> None:
    for _ in range(202):
        api.created()
    page = terminal.json("payments", "--limit", "201")
    assert len({item["id"] for item in page["data"]}) == 201
    assert page["next_cursor"] is not None
    assert len(terminal.text("payments", "--limit", "1000").splitlines()) == 203


def test_payments_fit_the_terminal(terminal: Terminal, api: Api) -> None:
    api.created(order_id="o" * 128)
    payment = api.created("underpaid_expired", order_id="order-7")
    terminal.variables["NO_COLOR"] = "1"
    wide, narrow = (terminal.shown("payments", COLUMNS=width).splitlines() for width in ("100", "80"))
    assert wide[0].split() == narrow[0].split() == ["ORDER", "ID", "STATUS", "SCENARIO", "DUE"]
    shortened = f"{payment['id'][:8]}…{payment['id'][-4:]}"
    assert narrow[1].split()[:4] == ["order-7", shortened, "awaiting_payment", "underpaid_expired"]
    assert narrow[2].startswith(f"{'o' * 13}…  pay_")
    assert payment["id"] in terminal.shown("payments", "--wide", COLUMNS="80")
    for width, columns in ((60, ["ORDER", "ID", "STATUS", "DUE"]), (40, ["ORDER", "ID", "STATUS"])):
        assert terminal.shown("payments", COLUMNS=str(width)).split()[: len(columns)] == columns


def test_deposits_fund_a_payment(terminal: Terminal, api: Api) -> None:
    payment = api.created("no_payment_expired", receive__amount="100")["id"]
    due = int(api.payment(payment)["attempts"][0]["instructions"]["amounts"]["due"])
    assert due % 2
    shown = terminal.text("deposit", "--half")
    assert shown.startswith(f"{payment}  payment_detected\n")
    assert "USDT), pending 0/16\n" in shown
    assert terminal.json("deposit", payment, str(due // 2)) == api.payment(payment)
    terminal.text("deposit", "newest", "--exact")
    deposits = api.payment(payment)["attempts"][0]["deposits"]
    assert [int(deposit["amount"]) for deposit in deposits] == [due // 2, due // 2, 1]
    message = terminal.fails(1, "deposit", "--exact")
    assert message == f"Error: nothing_missing: {due} of {due} raw units have already arrived\n"
    api.advance(8)
    assert api.payment(payment)["status"] == "payment_finalized"


def test_deposits_of_another_asset_leave_all_missing(terminal: Terminal, api: Api) -> None:
    payment = api.created("no_payment_expired")["id"]
    arguments = ("deposit", payment, "7", "--asset", "USDC", "--idempotency-key", "deposit-1", "--json")
    first, second = terminal.run(*arguments), terminal.run(*arguments)
    assert (first.stdout, first.stderr) == (second.stdout, "")
    assert "used before" in second.stderr
    terminal.text("deposit", "--exact", "--asset", "USDC")
    deposits = api.payment(payment)["attempts"][0]["deposits"]
    assert {deposit["asset"] for deposit in deposits} == {"USDC"}
    assert [deposit["amount"] for deposit in deposits] == ["7", str(DUE)]


def test_wait_ends_when_the_status_is_reached(terminal: Terminal, api: Api) -> None:
    payment = api.created()["id"]
    # In small steps, since the wait may not have arrived yet.
    with meanwhile(lambda: api.post(f"/_mock/payments/{payment}/advance", json={"seconds": 0.1})):
        shown = terminal.text("wait", payment, "--status", "payment_detected")
    assert shown.startswith(f"{payment}  payment_detected\n")
    api.advance(46)
    result = terminal.json("wait", "newest", "--status", "completed")
    assert result == {"reached": True, "possible": True, "payment": api.payment(payment)}


def test_wait_takes_the_newest_payment_of_an_order(terminal: Terminal, api: Api) -> None:
    _, second, _ = api.created(order_id="order-7"), api.created(order_id="order-7"), api.created()
    result = terminal.json("wait", "--order", "order-7", "--status", "awaiting_payment")
    assert result["payment"]["id"] == second["id"]
    message = terminal.fails(4, "wait", "--order", "order-8", "--timeout", "0")
    assert message == "Error: the order has no payment; awaited: a payment; the clock runs at speed 1\n"


@pytest.mark.parametrize(
    ("scenario", "status", "reason"),
    [
        ("happy_path", 4, "awaited: completed, 45 s ahead; the clock runs at speed 1\n"),
        ("asset_mismatch", 1, "is awaiting_payment; awaited: completed, which can no longer come\n"),
    ],
)
def test_wait_says_why_the_status_is_not_reached(
    terminal: Terminal, api: Api, scenario: str, status: int, reason: str
) -> None:
    payment = api.created(scenario)
    arguments = ("wait", "--status", "completed", "--timeout", "0.1")
    assert terminal.fails(status, *arguments).endswith(reason)
    outcome = terminal.run(*arguments, "--json")
    assert outcome.returncode == status
    assert json.loads(outcome.stdout) == {"reached": False, "possible": status == 4, "payment": payment}
