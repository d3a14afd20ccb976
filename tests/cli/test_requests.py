import contextlib
import re
import signal

import httpx
import pytest

from harness.polling import wait_until
from tests.cli.terminal import TIMEOUT, Terminal, read_lines
from tests.support.client import Api
from tests.support.server import RunningServer


def test_requests_are_printed_like_a_log(terminal: Terminal, api: Api) -> None:
    assert terminal.note("requests") == "no requests\n"
    api.created()
    api.get("/v1/payments/pay_x")
    created, read = terminal.text("requests").splitlines()
    assert re.fullmatch(r"\S+Z  201  POST  /v1/payments  new  key 1  [\d.]+ ms  req_\S+", created)
    assert re.fullmatch(
        r"\S+Z  404  GET   /v1/payments/pay_x  payment_not_found  [\d.]+ ms  req_\S+  This API .+", read
    )
    assert terminal.json("requests") == api.get("/_mock/requests").json()
    assert terminal.text("requests", "--limit", "1") == f"{read}\n"
    with contextlib.suppress(httpx.RemoteProtocolError):
        api.get("/v1/chains", headers={"X-Mock-Fault": "drop"})
    api.get("/v1/chains", headers={"X-Mock-Fault": "status=503; after"})
    dropped, failed = terminal.text("requests", "--limit", "2").splitlines()
    assert "  dropped  GET   /v1/chains  fault drop  " in dropped
    assert "  503  GET   /v1/chains  injected_fault  fault status=503; after  " in failed


@pytest.mark.process
def test_requests_are_followed_until_an_interrupt(
    terminal: Terminal, api: Api, server: RunningServer
) -> None:
    """By a wait of the server: each is printed as soon as it comes."""
    for path in ("first", "second"):
        api.get(f"/v1/payments/{path}")
    with terminal.start("requests", "--follow", "--limit", "1") as process:
        shown = read_lines(process, 1)
        wait_until(lambda: server.app.notifier.waiting == 1)
        api.get("/_mock/clock")  # below /v1 only
        for path in ("payments/third", "chains", "no-such-path"):
            api.get(f"/v1/{path}")
        shown += read_lines(process, 3)
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, message) == (130, "")
    paths = [line.split()[3].removeprefix("/v1/") for line in shown]
    assert paths == ["payments/second", "payments/third", "chains", "no-such-path"]


def test_requests_are_waited_for(terminal: Terminal, api: Api) -> None:
    api.created()
    payment = api.created(order_id="order-7")
    api.payment(payment["id"])
    selection = ("--operation", "getPayment", "--order", "order-7", "--shown", "awaiting_payment")
    assert "  200  GET   /v1/payments/pay_" in terminal.text("requests", "--wait", "1", *selection)
    of_payment = ("--payment", payment["id"], "--operation", "getPayment")
    [found] = terminal.json("requests", "--wait", "1", *of_payment)["data"]
    assert found["shown"] == "awaiting_payment"
    message = terminal.fails(4, "requests", "--wait", "2", *selection, "--timeout", "0")
    assert message.startswith("Error: 1 of 2 awaited requests with operation=getPayment, shown=")


def test_the_table_of_the_coverage_and_the_warnings_are_printed(terminal: Terminal, api: Api) -> None:
    api.create(key="order-1001-payment")
    api.create({"order_id": "other"}, key="order-1001-payment")
    header, *_, total, empty, warning = terminal.text("coverage").splitlines()
    assert header == "Group           Seen  Percent  Missing"
    assert total.split()[:3] == ["total", "1/42", "2.3%"]
    assert empty == ""
    assert warning.startswith(
        "key_conflict: order other: an Idempotency-Key was used again with another body"
    )
    found = terminal.json("coverage")
    assert (found["percent"], found["groups"][0]["name"]) == (2.3, "scenarios")
    assert found["warnings"][0]["rule"] == "key_conflict"


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_too_little_coverage_is_an_error(terminal: Terminal, api: Api, form: list[str]) -> None:
    api.created()
    assert terminal.run("coverage", "--fail-under", "2.3", *form).returncode == 0
    outcome = terminal.run("coverage", "--fail-under", "2.4", *form)
    assert outcome.returncode == 1
    assert "the coverage, 2.3%, is below 2.4%" in outcome.stderr
    assert "awaiting_payment" in outcome.stdout


def test_a_full_journal_is_told(terminal: Terminal, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paymock.cli.requests.JOURNAL_LENGTH", 1)
    api.created()
    assert terminal.run("coverage").stderr == "the journal is full: only the last 1 requests count\n"
