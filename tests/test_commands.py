"""The commands for people and scripts, each against a real server: text, JSON, exit statuses, pictures."""

import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import httpx
import pytest

from paymock.cli import cli
from paymock.commands.money import amount, one_token, usual_asset
from paymock.commands.output import printable
from paymock.core.control_wire import TARGETS
from paymock.core.scenarios import SCENARIOS, PaymentStatus
from paymock.core.tables import scenario_rows
from paymock.settings import Settings
from tests.support import markdown
from tests.support.client import Api
from tests.support.process import PAYMOCK, environment, run, serving
from tests.support.server import RunningServer, running_server

LONG = 20
"""Seconds in which a command notices what happens: less than those after which it would look again."""

COLOR = re.compile(r"\x1b\[[0-9;]*3[0-9]m")
COMMANDS = sorted(set(cli.list_commands(click.Context(cli))) - {"serve", "scenarios"})


class Terminal:
    """A shell with PAYMOCK_URL and PAYMOCK_API_KEY set."""

    def __init__(self, url: str, key: str) -> None:
        self.variables = {"PAYMOCK_URL": url, "PAYMOCK_API_KEY": key}

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        outcome = run(*arguments, **{**self.variables, **variables})
        assert "Traceback" not in outcome.stderr, outcome.stderr
        return outcome

    def text(self, *arguments: str, **variables: str) -> str:
        """What a command prints that does what it is told, and nothing but that."""
        outcome = self.run(*arguments, **variables)
        assert (outcome.returncode, outcome.stderr) == (0, ""), outcome
        assert "\x1b" not in outcome.stdout
        return outcome.stdout

    def json(self, *arguments: str) -> Any:
        """The one JSON document that a command prints."""
        printed = self.text(*arguments, "--json")
        assert printed.count("\n") == 1
        return json.loads(printed)

    def fails(self, status: int, *arguments: str, **variables: str) -> str:
        """What a command says that fails with this exit status. It prints no data."""
        outcome = self.run(*arguments, **variables)
        assert (outcome.returncode, outcome.stdout) == (status, ""), outcome
        return outcome.stderr

    @contextlib.contextmanager
    def start(self, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
        """A command that is still running."""
        with subprocess.Popen(
            [*PAYMOCK, *arguments],
            env=environment(**{**self.variables, **variables}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def terminal(server: RunningServer, api: Api) -> Terminal:
    """A terminal at a server whose clock stands still, in the sandbox of `api`."""
    return Terminal(server.url, api.api_key)


def lines_of(process: subprocess.Popen[str], count: int) -> list[str]:
    """The next lines that a running command prints. If they do not come, it is ended."""
    assert process.stdout is not None
    alarm = threading.Timer(LONG, process.kill)
    alarm.start()
    try:
        return [process.stdout.readline().rstrip("\n") for _ in range(count)]
    finally:
        alarm.cancel()


def interrupted(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit status of a command that is interrupted now, and its messages."""
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=10)
    return process.returncode, said


def advance(api: Api, seconds: float) -> None:
    assert api.post("/_mock/clock/advance", json={"seconds": seconds}).status_code == 200


def freeze(api: Api) -> None:
    """Nothing comes by itself then, also not for who waits and is not told."""
    assert api.put("/_mock/clock", json={"speed": 0}).status_code == 200


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


def test_wait_answers_at_once_when_the_status_has_come(terminal: Terminal, api: Api) -> None:
    payment = api.created()["id"]
    advance(api, 46)
    assert terminal.text("wait", payment, "--status", "settlement_pending").startswith(
        f"{payment}  completed\n"
    )
    result = terminal.json("wait", "newest", "--status", "completed")
    assert result == {"reached": True, "possible": True, "payment": api.payment(payment)}


@pytest.mark.parametrize("status", [["--status", "payment_detected"], []], ids=["a status", "any change"])
def test_wait_ends_when_somebody_moves_time(terminal: Terminal, api: Api, status: list[str]) -> None:
    payment = api.created()["id"]
    freeze(api)
    give_up = time.monotonic() + LONG
    with terminal.start("wait", payment, *status, "--json") as waiting:
        while waiting.poll() is None and time.monotonic() < give_up:
            # In small steps, since the wait may still be on its way.
            api.post(f"/_mock/payments/{payment}/advance", json={"seconds": 0.01})
        assert waiting.poll() == 0
        result = json.loads("".join(lines_of(waiting, 1)))
    assert (result["reached"], result["payment"]["status"]) == (True, "payment_detected")


def test_wait_ends_with_4_when_time_is_over(terminal: Terminal, api: Api) -> None:
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


def test_wait_ends_with_1_when_the_status_cannot_come(terminal: Terminal, api: Api) -> None:
    payment = api.created("asset_mismatch")["id"]
    said = terminal.fails(1, "wait", payment, "--status", "completed")
    assert said == (
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


def test_a_wait_for_a_server_that_says_nothing_ends_soon() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        script = (
            "from paymock import __main__, waiting; waiting.GRACE = 0.1;"
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
def test_a_server_that_stops_while_it_is_watched_is_3(tmp_path: Path, command: str) -> None:
    with serving(tmp_path, "--speed", "0") as served:
        terminal = Terminal(served.url, "mk_test_demo")
        terminal.text("create")
        with terminal.start(command, "newest") as waiting:
            if command == "watch":
                lines_of(waiting, 1)
            else:
                time.sleep(
                    0.5
                )  # nothing tells that it waits; if it does not yet, it ends with 3 all the same
            served.stop(signal.SIGTERM)
            _, said = waiting.communicate(timeout=LONG)
    assert waiting.returncode == 3
    assert re.match(f"Error: (cannot reach )?{served.url}", said)


def test_requests_are_shown_like_a_log(terminal: Terminal, api: Api) -> None:
    assert terminal.run("requests").stderr == "no requests\n"
    api.created()
    api.get("/v1/payments/pay_x")
    created, read = terminal.text("requests").splitlines()
    assert re.fullmatch(r"\S+Z  201  POST  /v1/payments  new  [\d.]+ ms  req_\S+", created)
    assert re.fullmatch(r"\S+Z  404  GET   /v1/payments/pay_x  payment_not_found  [\d.]+ ms  req_\S+", read)
    assert terminal.json("requests") == api.get("/_mock/requests").json()
    assert terminal.text("requests", "--limit", "1") == f"{read}\n"


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_requests_are_followed(terminal: Terminal, api: Api, form: list[str]) -> None:
    for path in ("first", "second"):
        api.get(f"/v1/payments/{path}")
    with terminal.start("requests", "--follow", "--limit", "1", *form) as following:
        shown = lines_of(following, 1)
        api.get("/_mock/clock")  # below /v1 only
        for path in ("payments/third", "chains", "no-such-path"):
            api.get(f"/v1/{path}")
        shown += lines_of(following, 3)
        assert interrupted(following) == (130, "")
    paths = [json.loads(line)["path"] if form else line.split()[3] for line in shown]
    assert paths == ["/v1/payments/second", "/v1/payments/third", "/v1/chains", "/v1/no-such-path"]


def test_a_dropped_request_is_called_so(terminal: Terminal, api: Api) -> None:
    with contextlib.suppress(httpx.RemoteProtocolError):
        api.get("/v1/chains", headers={"X-Mock-Fault": "drop"})
    assert "  dropped  GET   /v1/chains  " in terminal.text("requests")


def test_reset_forgets_the_sandbox(terminal: Terminal, api: Api) -> None:
    api.created()
    outcome = terminal.run("reset")
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "", "the sandbox is empty\n")
    assert api.get("/_mock/payments").json()["data"] == []


def test_ready_needs_no_key(terminal: Terminal, server: RunningServer) -> None:
    assert terminal.text("ready", PAYMOCK_API_KEY="not a key") == f"ready  {server.url}\n"
    assert terminal.json("ready") == {"ready": True, "url": server.url}


@pytest.fixture
def closed() -> Terminal:
    """A terminal at a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    return Terminal(f"http://127.0.0.1:{port}", "mk_test_demo")


def test_ready_tells_unreachable_from_too_late(closed: Terminal) -> None:
    assert "Connection refused" in closed.fails(3, "ready")
    said = closed.fails(4, "ready", "--wait", "0.1")
    assert "not ready within 0.1 s: cannot reach" in said
    outcome = closed.run("ready", "--json")
    assert (outcome.returncode, json.loads(outcome.stdout)["ready"]) == (3, False)


def test_ready_waits_for_a_server_that_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Terminal(f"http://127.0.0.1:{port}", "").start("ready", "--wait", "15") as waiting:
            taken.accept()[0].close()  # it has asked, and must ask again
            taken.close()
            with running_server(Settings(port=port)) as server:
                assert lines_of(waiting, 1) == [f"ready  {server.url}"]
                assert waiting.wait() == 0


WHERE_A_SERVER_IS_NEEDED = {
    "create": ["create"],
    "watch": ["watch", "pay_x"],
    "payment": ["payment"],
    "payments": ["payments"],
    "advance": ["advance", "1"],
    "clock": ["clock"],
    "next": ["next"],
    "wait": ["wait", "pay_x", "--status", "completed"],
    "deposit": ["deposit", "pay_x", "1"],
    "requests": ["requests"],
    "reset": ["reset"],
    "ready": ["ready"],
}


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"demo"}))
def test_a_server_that_is_not_there_is_3(closed: Terminal, command: str) -> None:
    said = closed.fails(3, *WHERE_A_SERVER_IS_NEEDED[command])
    assert said.startswith(f"Error: cannot reach {closed.variables['PAYMOCK_URL']}: Connection refused")


REFUSED = {
    "an unknown payment": (["payment", "pay_x"], "payment_not_found: This API key has no payment"),
    "an empty sandbox": (["watch"], "payment_not_found: This sandbox has no payments"),
    "an unknown chain": (["create", "--chain", "moon"], "  receive.chain: "),
    "an amount in tokens": (["create", "--amount", "1.5"], "  receive.amount: must be a positive integer"),
    "every detail": (["create", "--amount", "0", "--address", "0x1"], "  receive.address: must be an EVM"),
    "a short key": (["create", "--idempotency-key", "short"], "idempotency_key_invalid: "),
    "a text that is none": (["create", "--order-id", "\udcff"], "invalid_json: "),
    "an id that is none": (["payment", "\udcff/../x"], "payment_not_found: "),
    "a wrong key": (["payments", "--key", "wrong"], "unauthenticated: "),
    "an asset of no chain": (["deposit", "newest", "1", "--asset", "GOLD"], "payment_not_found: "),
    "a status of the past": (["advance", "--payment", "pay_x", "--to", "expired"], "payment_not_found: "),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_server_refuses_is_1(terminal: Terminal, what: str) -> None:
    arguments, message = REFUSED[what]
    assert message in terminal.fails(1, *arguments)


MISUSED = {
    "no command of ours": ["pay"],
    "no status": ["payments", "--status", "done"],
    "no scenario": ["create", "--scenario", "happy"],
    "no limit": ["payments", "--limit", "0"],
    "metadata without a value": ["create", "--metadata", "cart"],
    "metadata that is no object": ["create", "--metadata", "{]"],
    "no header": ["create", "--idempotency-key", "not visible"],
    "no step": ["advance"],
    "two steps": ["advance", "1", "--seconds", "1"],
    "a status of the whole sandbox": ["advance", "--to", "completed"],
    "a step of nothing": ["advance", "0"],
    "a step that is no number": ["advance", "nan"],
    "no id": ["wait"],
    "no timeout": ["wait", "pay_x", "--timeout", "-1"],
    "no URL": ["ready", "--url", "127.0.0.1:8402"],
    "no port": ["ready", "--url", "http://127.0.0.1:99999"],
    "a URL that says more": ["ready", "--url", "http://127.0.0.1/?a=b"],
    "no key": ["payments", "--key", "a b"],
    "a demo that stands still": ["demo", "--speed", "0"],
    "a demo at no speed": ["demo", "--speed", "nan"],
    "no speed": ["clock", "--speed", "nan"],
    "two speeds": ["clock", "--speed", "1", "--freeze"],
    "an empty id": ["payment", ""],
    "an empty id of an option": ["advance", "--payment", "", "1"],
    "times of nothing": ["next", "--times", "2"],
    "once and always": ["next", "--scenario", "late_payment", "--times", "1", "--always"],
    "something and nothing": ["next", "--clear", "--fault", "drop"],
}


@pytest.mark.parametrize("what", MISUSED)
def test_misuse_is_2(terminal: Terminal, what: str) -> None:
    assert "Error: " in terminal.fails(2, *MISUSED[what])


@contextlib.contextmanager
def answering(reply: bytes) -> Iterator[Terminal]:
    """A terminal at something that answers every request with these bytes, then closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(reply)

        threading.Thread(target=answer, daemon=True).start()
        yield Terminal(f"http://127.0.0.1:{listening.getsockname()[1]}", "mk_test_demo")
        listening.shutdown(socket.SHUT_RDWR)


def page(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


STRANGE = {
    "another site": (page("200 OK", b"<html>"), "is not paymock"),
    "another API": (page("200 OK", b'{"data": 1}'), "is not paymock"),
    "another error": (page("404 Not Found", b"oops"), "is not paymock"),
    "an error that says nothing": (page("500 Oops", b"oops"), "broke off with 500"),
    "an error of another kind": (page("400 Bad Request", b'{"error": "oops"}'), "is not paymock"),
    "a redirect": (page("302 Found", b""), "is not paymock"),
    "no text": (page("200 OK", b'{"data": "\xff"}'), "is not paymock"),
    "endless nesting": (page("200 OK", b"[" * 50_000), "is not paymock"),
    "no HTTP": (b"SSH-2.0-OpenSSH\r\n", "does not speak HTTP"),
    "half a reply": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "in the middle of its reply"),
    "nothing": (b"", "closed the connection without a reply"),
}


@pytest.mark.parametrize("what", STRANGE)
def test_what_is_not_paymock_is_3(what: str) -> None:
    reply, message = STRANGE[what]
    with answering(reply) as terminal:
        assert message in terminal.fails(3, "payments")


def test_a_wait_for_what_is_not_paymock_is_3() -> None:
    strange = b'{"reached": true, "possible": true, "payment": {}}'
    with answering(page("200 OK", strange)) as terminal:
        assert "is not paymock" in terminal.fails(3, "wait", "pay_x")


def test_a_server_that_says_nothing_is_3() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        terminal = Terminal(f"http://127.0.0.1:{silent.getsockname()[1]}", "mk_test_demo")
        assert terminal.fails(3, "ready") == f"Error: {terminal.variables['PAYMOCK_URL']} does not answer\n"


def test_a_host_that_is_no_name_is_3(terminal: Terminal) -> None:
    assert "cannot reach http://a..b" in terminal.fails(3, "payments", "--url", "http://a..b")


def test_a_server_that_is_not_ready_is_1() -> None:
    body = b'{"error": {"code": "store_unavailable", "message": "The store cannot be reached."}}'
    with answering(page("503 Service Unavailable", body)) as terminal:
        assert "store_unavailable: The store cannot be reached." in terminal.fails(1, "ready")


def test_a_server_without_the_control_api_is_explained() -> None:
    with running_server(Settings(port=0, control=False)) as server:
        terminal = Terminal(server.url, "mk_test_demo")
        assert "--no-control" in terminal.fails(1, "payments")
        assert terminal.text("create").startswith("pay_")


def test_the_first_of_several_keys_counts(server: RunningServer) -> None:
    key = f"mk_test_{uuid.uuid4().hex}"
    created = Terminal(server.url, f"{key}, mk_test_other").json("create")
    assert [one["id"] for one in Terminal(server.url, key).json("payments")["data"]] == [created["id"]]


def test_an_error_names_the_variable_only_where_it_is_wrong(terminal: Terminal) -> None:
    for flag, variable in (("--key", "PAYMOCK_API_KEY"), ("--url", "PAYMOCK_URL")):
        assert f"'{flag}': must be " in terminal.fails(2, "payments", flag, "")
        said = terminal.fails(2, "payments", **{variable: "a b"})
        assert f"'{flag}' (env var: '{variable}'): must be " in said


def test_a_flag_wins_over_the_environment(closed: Terminal, server: RunningServer) -> None:
    assert closed.text("ready", "--url", f"{server.url}/") == f"ready  {server.url}\n"


@pytest.mark.parametrize("command", ["watch", "requests --follow", "demo --speed 1"])
def test_an_interrupt_is_130(terminal: Terminal, api: Api, command: str) -> None:
    api.created()
    with terminal.start(*command.split()) as process:
        lines_of(process, 1)
        assert interrupted(process) == (130, "")


def test_an_interrupted_wait_is_130() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with Terminal(url, "mk_test_demo").start("wait", "pay_x") as process, listening.accept()[0] as asked:
            assert asked.recv(65536)
            assert interrupted(process) == (130, "")


PRINTING = [
    "payments", "payment", "create", "advance 1", "clock", "wait newest --timeout 0 --json", "watch",
    "requests", "next --scenario late_payment", "ready", "demo --speed 50", "scenarios", "--help",
    "create --help", "--version",
]  # fmt: skip


@pytest.mark.parametrize("command", PRINTING)
def test_a_reader_that_has_had_enough_is_141(terminal: Terminal, api: Api, command: str) -> None:
    api.created()
    reads, writes = os.pipe()
    os.close(reads)
    outcome = subprocess.run(
        [*PAYMOCK, *command.split()],
        env=environment(**terminal.variables),
        stdout=writes,
        stderr=subprocess.PIPE,
        check=False,
        timeout=20,
    )
    os.close(writes)
    assert (outcome.returncode, outcome.stderr) == (141, b"")


@pytest.mark.parametrize("command", ["requests --follow", "watch"])
def test_it_is_noticed_while_nothing_happens(terminal: Terminal, api: Api, command: str) -> None:
    freeze(api)
    api.created()
    with terminal.start(*command.split()) as process:
        lines_of(process, 1)
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=LONG) == 141
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize("command", ["payments", "payments --json", "watch", "--help"])
def test_a_closed_output_gets_nothing(terminal: Terminal, api: Api, command: str) -> None:
    api.post(f"/_mock/payments/{api.created()['id']}/advance", json={"to": "end"})
    outcome = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m paymock {command} >&-"],
        env=environment(**terminal.variables),
        stderr=subprocess.PIPE,
        check=False,
        timeout=20,
    )
    assert (outcome.returncode, outcome.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_one_line(terminal: Terminal, api: Api) -> None:
    api.created()
    with Path("/dev/full").open("w") as full:
        outcome = subprocess.run(
            [*PAYMOCK, "payments"],
            env=environment(**terminal.variables),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (outcome.returncode, outcome.stderr) == (1, b"Error: No space left on device\n")


def test_an_order_can_be_named_in_any_script(terminal: Terminal) -> None:
    created = terminal.json("create", "--order-id", "заказ 🎉")
    assert created["order_id"] == "заказ 🎉"
    shown = terminal.text("payments", PYTHONIOENCODING="latin-1")
    assert shown.endswith("  \\u0437\\u0430\\u043a\\u0430\\u0437 \\U0001f389\n")


def test_no_text_steers_the_terminal(terminal: Terminal) -> None:
    order = "a\u202eb\u2028c\u2066d"
    created = terminal.json("create", "--order-id", order)
    assert created["order_id"] == order
    assert terminal.text("payments").endswith("  a\\u202eb\\u2028c\\u2066d\n")
    assert "  order     a\\u202eb\\u2028c\\u2066d\n" in terminal.text("payment")


@pytest.mark.parametrize("character", ["\n", "\t", "\x1b", "\x7f", "\x9b", "\u200f", "\u2029", "\u2069"])
def test_what_would_steer_a_terminal_is_escaped(character: str) -> None:
    assert printable(f"a{character}b") == f"a{character.encode('unicode_escape').decode()}b"
    assert printable("заказ 🎉 \N{ZERO WIDTH JOINER}") == "заказ 🎉 \N{ZERO WIDTH JOINER}"


def test_watch_prints_a_line_for_each_change(terminal: Terminal, api: Api) -> None:
    api.created("asset_mismatch")
    freeze(api)
    with terminal.start("watch") as watching:
        assert lines_of(watching, 1) == ["     0 s  awaiting_payment      Created"]
        advance(api, 6)
        assert lines_of(watching, 1) == [
            "     5 s  payment_detected      Deposit observed, confirmations 0/16, pending"
        ]
        advance(api, 1)
        assert lines_of(watching, 2) == ["     7 s  manual_review         Confirmations 0/16, rejected", ""]
        assert watching.wait() == 0


def test_watch_misses_no_change_however_quickly_they_come(terminal: Terminal, api: Api) -> None:
    payment = api.created()["id"]
    freeze(api)
    with terminal.start("watch", payment, "--json") as watching:
        seen = lines_of(watching, 1)
        for _ in range(8):
            api.post(f"/_mock/payments/{payment}/advance", json={"to": "next"})
        output, said = watching.communicate(timeout=LONG)
    assert (watching.returncode, said) == (0, "")
    changes = [json.loads(line) for line in [*seen, *output.splitlines()]]
    timeline = api.get(f"/_mock/payments/{payment}").json()["timeline"]
    assert [change["offset_seconds"] for change in changes] == [entry["offset_seconds"] for entry in timeline]
    assert changes[-1].items() >= {
        "payment_id": payment, "scenario": "happy_path", "event": "completed", "status": "completed",
    }.items()  # fmt: skip


def test_watch_ends_with_1_when_the_payment_is_gone(terminal: Terminal, api: Api) -> None:
    api.created()
    freeze(api)
    with terminal.start("watch") as watching:
        lines_of(watching, 1)
        api.post("/_mock/reset")
        _, said = watching.communicate(timeout=LONG)
    assert watching.returncode == 1
    assert said.startswith("Error: payment_not_found: ")


def test_demo_plays_every_scenario_to_its_end() -> None:
    outcome = run("demo", "--speed", "30")
    assert (outcome.returncode, outcome.stderr) == (0, "")
    last = {line.split()[0]: line.split()[1:4] for line in outcome.stdout.splitlines()}
    assert {name: status for name, (_, _, status) in last.items()} == {
        row.name: row.ends for row in scenario_rows()
    }
    assert "\x1b" not in outcome.stdout


def test_demo_prints_json_lines() -> None:
    outcome = run("demo", "--speed", "100", "--json", PAYMOCK_PORT="1", PAYMOCK_API_KEY="other")
    changes = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert {change["scenario"] for change in changes} == set(SCENARIOS)
    assert len({change["payment_id"] for change in changes}) == len(SCENARIOS)


def drawn(*arguments: str, until: str | None = None, **variables: str) -> tuple[int, str]:
    """The exit status of a command, and what it writes to a terminal of 100 columns, or of COLUMNS; once it
    has written `until`, it is interrupted.
    """
    pty, fcntl, termios = (pytest.importorskip(name) for name in ("pty", "fcntl", "termios"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    with subprocess.Popen(
        [*PAYMOCK, *arguments],
        env=environment(**{"TERM": "xterm-256color", "NO_COLOR": "", "COLUMNS": "100", **variables}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        written = b""
        with contextlib.suppress(OSError):  # a terminal whose last user has gone cannot be read
            while received := os.read(ours, 65536):
                written += received
                if until is not None and until in written.decode(errors="ignore"):
                    process.send_signal(signal.SIGINT)
                    until = None
    os.close(ours)
    return process.returncode, written.decode(errors="replace")  # an interrupt cuts where it likes


def lines_in(written: str) -> list[str]:
    """The lines of all pictures, without colors."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)
    return [line.rstrip() for line in plain.replace("\r", "\n").split("\n")]


@pytest.fixture
def swift(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal at a server whose time runs thirty times as fast as life."""
    with serving(tmp_path, "--speed", "30") as served:
        yield Terminal(served.url, "mk_test_demo")


def test_watch_draws_a_picture_on_a_terminal(swift: Terminal) -> None:
    payment = swift.json("create", "--order-id", "order-1001")
    status, written = drawn("watch", **swift.variables)
    assert status == 0
    shown = lines_in(written)
    assert f"{payment['id']}  order-1001  happy_path" in shown
    assert any(re.fullmatch(r"━+●  45.0 of 45 s  speed 30", line) for line in shown)
    assert any(re.fullmatch(r"━+● +16/16  finalized", line) for line in shown)
    assert any(re.fullmatch(r"✓  45 s  completed", line) for line in shown)
    assert COLOR.search(written)
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 1  # the cursor is back


def test_demo_draws_a_bar_for_each_scenario() -> None:
    status, written = drawn("demo", "--speed", "30")
    assert status == 0
    shown = lines_in(written)
    assert "8 payments, one for each scenario, 30 times as fast as life" in shown
    for row in scenario_rows():
        assert any(re.fullmatch(rf"{row.name} +━+● +{row.ends} +(\d+)\.0 of \1 s", line) for line in shown)


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        (66, r"(\w+) +━+● +(\w+) +(\d+)\.0 of \3 s"),
        (65, r"(\w+) +━+● +(\w+)"),
        (40, r"(\w+…?) +━+● +(\w+…?)"),
    ],
)
def test_the_bars_stay_on_a_narrow_terminal(columns: int, row: str) -> None:
    status, written = drawn("demo", "--speed", "100", COLUMNS=str(columns))
    assert status == 0
    shown = lines_in(written)
    assert max(map(len, shown)) <= columns
    found = [match for line in shown if (match := re.fullmatch(row, line))]
    for scenario in scenario_rows():
        assert any(
            scenario.name.startswith(match[1].rstrip("…")) and scenario.ends.startswith(match[2].rstrip("…"))
            for match in found
        )
    assert max(line.count("━") for line in shown) >= 9


def test_pictures_honor_no_color_and_plain_terminals(swift: Terminal) -> None:
    swift.text("create", "--order-id", "заказ")
    plain = {**swift.variables, "NO_COLOR": "1", "PYTHONIOENCODING": "ascii"}
    status, written = drawn("watch", **plain)
    assert status == 0
    assert not COLOR.search(written)
    assert any(re.fullmatch(r"=+\*  45.0 of 45 s  speed 30", line) for line in lines_in(written))


def test_a_terminal_that_cannot_draw_gets_lines(swift: Terminal) -> None:
    payment = swift.json("create")["id"]
    swift.text("wait", payment, "--status", "completed")
    status, written = drawn("watch", **swift.variables, TERM="dumb")
    assert status == 0
    assert "\x1b" not in written
    assert written.splitlines()[-1] == "    45 s  completed"


@pytest.mark.parametrize("command", ["watch", "demo --speed 1"])
def test_an_interrupted_picture_gives_the_cursor_back(terminal: Terminal, api: Api, command: str) -> None:
    api.created()
    freeze(api)
    until = "frozen" if command == "watch" else "awaiting_payment"
    status, written = drawn(*command.split(), until=until, **terminal.variables)
    assert status == 130
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 1
    assert "Traceback" not in written


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("paymock create --scenario ", list(SCENARIOS)),
        ("paymock payments --scenario la", ["late_payment"]),
        ("paymock payments --status ", [status.value for status in PaymentStatus]),
        ("paymock wait pay_x --status comp", ["completed"]),
        ("paymock advance --to ", list(TARGETS)),
        ("paymock re", ["requests", "reset", "ready"]),
    ],
)
def test_the_shell_completes(words: str, completed: list[str]) -> None:
    count = str(len(words.split(" ")) - 1)
    outcome = run(_PAYMOCK_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=count)
    assert [line.partition(",")[2] for line in outcome.stdout.splitlines()] == completed


def test_nothing_is_imported_that_is_not_needed() -> None:
    script = (
        "import sys, paymock.cli\n"
        "def loaded(*roots): print(sorted({name.partition('.')[0] for name in sys.modules} & {*roots}))\n"
        "print([name for name in sys.modules if 'paymock.commands' in name])\n"
        "loaded('asyncio', 'msgspec', 'Crypto')\n"
        "import paymock.commands.watch, paymock.commands.demo\n"
        "loaded('rich', 'uvicorn')\n"
        "import paymock.serving\n"
        "paymock.serving.Server.run = lambda *_, **__: loaded(*'jinja2 segno rich yaml redis'.split())\n"
        "paymock.cli.cli(['serve', '--port', '0'])\n"
    )
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert outcome.stdout.split() == ["[]"] * 4


@pytest.mark.parametrize(
    ("raw", "chain", "asset", "shown"),
    [
        ("1010000000000000000", "bsc", "USDT", "1010000000000000000 (1.01 USDT)"),
        ("1000000", "ethereum", "USDT", "1000000 (1 USDT)"),
        ("1", "ethereum", "USDT", "1 (0.000001 USDT)"),
        ("123456700000", "ethereum", "USDC", "123456700000 (123456.7 USDC)"),
        ("5", "bsc", "GOLD", "5 raw units of GOLD"),
        ("5", "moon", "USDT", "5 raw units of USDT"),
    ],
)
def test_amounts_are_shown_raw_and_whole(raw: str, chain: str, asset: str, shown: str) -> None:
    assert amount(raw, chain, asset) == shown


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    """A catalog of other decimals."""
    path = tmp_path / "chains.toml"
    path.write_text(
        '[[chains]]\nid = "bsc"\nname = "Mine"\nchain_id = 7\ntestnet = true\n'
        '[[chains.assets]]\nsymbol = "ONE"\nname = "One"\ndecimals = 0\n'
        '[[chains.assets]]\nsymbol = "TWO"\nname = "Two"\ndecimals = 2\n'
        'contract_address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"\n'
    )
    return str(path)


def test_defaults_fit_the_chain(catalog: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (usual_asset("ethereum"), one_token("ethereum", "USDT")) == ("USDT", "1000000")
    assert (usual_asset("moon"), one_token("moon", "USDT")) == ("USDT", "1" + 18 * "0")
    monkeypatch.setenv("PAYMOCK_CATALOG", catalog)
    assert (usual_asset("bsc"), one_token("bsc", "TWO"), one_token("bsc", "ONE")) == ("TWO", "100", "1")
    assert (amount("7", "bsc", "ONE"), amount("1234", "bsc", "TWO")) == ("7 (7 ONE)", "1234 (12.34 TWO)")


def test_decimals_that_are_not_known_are_not_guessed(terminal: Terminal, api: Api, catalog: str) -> None:
    api.created()
    for name in (catalog, "/no.toml"):
        assert "  1010000000000000000 raw units of USDT  " in terminal.text("payments", PAYMOCK_CATALOG=name)


def test_every_command_has_its_section() -> None:
    headings = re.findall(r"^### `paymock (\w+)`$", markdown.read("docs/cli.md"), re.MULTILINE)
    assert sorted(headings) == sorted(cli.list_commands(click.Context(cli)))


def comparable(text: str) -> str:
    """What a reader compares: ids, addresses and times differ."""
    text = re.sub(r"pay_[a-z2-7]{40}", "pay_...", text)
    text = re.sub(r"(0x|req_|paymock-)[0-9a-fA-F_]{6,}", r"\1...", text)
    return re.sub(r"20\d\d-\d\d-\d\dT[\d:.]+Z|[\d.]+ ms|127.0.0.1:\d+", "...", text)


def test_the_examples_of_the_page_give_what_it_shows(tmp_path: Path) -> None:
    found = markdown.blocks(markdown.read("docs/cli.md"))
    shown = [(one, other) for one, other in pairwise(found) if other.language == "text"]
    examples = [(one.text, other.text) for one, other in shown if one.language == "sh"]
    assert len(examples) >= len(COMMANDS)
    with serving(tmp_path, "--speed", "0") as served:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        variables = environment(PAYMOCK_URL=served.url, PATH=path)
        for script, output in examples:
            outcome = subprocess.run(
                ["/bin/sh", "-e", "-c", script], env=variables, capture_output=True, text=True, check=False
            )
            assert comparable(outcome.stdout + outcome.stderr) == comparable(output), script
