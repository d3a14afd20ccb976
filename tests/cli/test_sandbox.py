"""`requests`, `reset` and `ready`."""

import contextlib
import json
import re
import socket

import httpx
import pytest

from paymock.settings import Settings
from tests.cli.terminals import Terminal, interrupted, lines_of
from tests.support.client import Api
from tests.support.server import RunningServer, running_server


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
