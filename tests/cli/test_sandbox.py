"""`next`, `requests` and `reset`."""

import contextlib
import json
import re

import httpx
import pytest

from tests.cli.terminal import Terminal, interrupt, read_lines
from tests.support.client import Api


def test_next_sets_and_clears_overrides(terminal: Terminal, api: Api) -> None:
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


def test_requests_are_printed_like_a_log(terminal: Terminal, api: Api) -> None:
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
    with terminal.start("requests", "--follow", "--limit", "1", *form) as process:
        shown = read_lines(process, 1)
        api.get("/_mock/clock")  # below /v1 only
        for path in ("payments/third", "chains", "no-such-path"):
            api.get(f"/v1/{path}")
        shown += read_lines(process, 3)
        assert interrupt(process) == (130, "")
    paths = [json.loads(line)["path"] if form else line.split()[3] for line in shown]
    assert paths == ["/v1/payments/second", "/v1/payments/third", "/v1/chains", "/v1/no-such-path"]


def test_a_dropped_request_is_marked(terminal: Terminal, api: Api) -> None:
    with contextlib.suppress(httpx.RemoteProtocolError):
        api.get("/v1/chains", headers={"X-Mock-Fault": "drop"})
    assert "  dropped  GET   /v1/chains  fault drop  " in terminal.text("requests")


def test_a_request_with_a_fault_names_it(terminal: Terminal, api: Api) -> None:
    api.get("/v1/chains", headers={"X-Mock-Fault": "status=503; after"})
    assert "  503  GET   /v1/chains  injected_fault  fault status=503; after  " in terminal.text("requests")


def test_reset_empties_the_sandbox(terminal: Terminal, api: Api) -> None:
    api.created()
    outcome = terminal.run("reset")
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "", "the sandbox is empty\n")
    assert api.get("/_mock/payments").json()["data"] == []
    api.created()
    assert terminal.json("reset") == {"reset": True}
    assert api.get("/_mock/payments").json()["data"] == []


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
    assert message.startswith("Error: 1 of 2 requests with operation=getPayment, order_id=order-7, shown=")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--order", "order-7"], "need --wait"),
        (["--timeout", "1"], "need --wait"),
        (["--wait", "1", "--follow"], "not both"),
        (["--wait", "1", "--operation", "getPaiment"], "Did you mean 'getPayment'?"),
    ],
)
def test_a_selection_of_requests_that_makes_no_sense_is_refused(
    terminal: Terminal, options: list[str], message: str
) -> None:
    assert message in terminal.fails(2, "requests", *options)
