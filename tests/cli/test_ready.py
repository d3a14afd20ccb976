"""`paymock` without a command, and the commands that it and others suggest; `ready`."""

import json
import os
import secrets
import shlex
import socket
import threading
from pathlib import Path

import pytest

from paymock.settings import Settings
from tests.cli.terminal import Terminal
from tests.support.client import Api
from tests.support.server import RunningServer, running_server


@pytest.fixture(autouse=True)
def _on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell finds a program `paymock`."""
    (tmp_path / "paymock").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)


def commands(text: str) -> list[str]:
    """The commands below the heading `Next:`."""
    lines = text.partition("Next:\n")[2].splitlines()
    return [line.strip().partition("  ")[0] for line in lines if line.startswith("  ")]


def test_without_a_server_it_shows_how_to_start_one(unconnected: Terminal, port: int) -> None:
    shown = unconnected.text()
    assert f"cannot reach {unconnected.url}: Connection refused" in shown
    assert commands(shown) == [f"paymock serve --port {port}", "paymock --help"]


def test_in_an_empty_sandbox_it_shows_how_to_create_a_payment(terminal: Terminal) -> None:
    shown = terminal.text()
    assert f"  Dashboard {terminal.url}/\n" in shown
    assert commands(shown) == ["paymock create", "paymock --help"]


def test_with_a_payment_it_shows_what_to_do_with_it(terminal: Terminal, api: Api) -> None:
    payment = api.created("late_payment")
    shown = terminal.text()
    assert f"{payment['id']}  awaiting_payment  late_payment" in shown
    assert f"/checkout/{payment['id']}\n" in shown
    document = terminal.json()
    assert document["newest"]["id"] == payment["id"]
    assert (document["url"], document["problem"]) == (terminal.url, None)
    assert document["next"][:2] == commands(shown)[:2] == ["paymock wait", "paymock advance --to next"]


def test_the_commands_repeat_the_options(terminal: Terminal, api: Api, unconnected: Terminal) -> None:
    api.created()
    key = terminal.variables["PAYMOCK_API_KEY"]
    [wait, advance, *_] = commands(unconnected.text("--url", terminal.url, "--key", key))
    assert wait == f'paymock --url {terminal.url} --key "$PAYMOCK_API_KEY" wait'
    advance = advance.replace("$PAYMOCK_API_KEY", key)
    assert unconnected.text(*shlex.split(advance)[1:]).split()[1] == "payment_detected"


def test_a_refusal_is_explained(terminal: Terminal) -> None:
    shown = terminal.text("--key", "wrong")
    assert "unauthenticated: " in shown
    assert commands(shown)[0] == "paymock --key KEY"


def test_create_shows_what_is_next_on_a_terminal(terminal: Terminal) -> None:
    after = ["paymock wait", "paymock advance --to next", "paymock payment"]
    assert commands(terminal.shown("create")) == after
    assert json.loads(terminal.shown("create", "--json"))["status"] == "awaiting_payment"


def test_ready_needs_no_key(terminal: Terminal, server: RunningServer) -> None:
    assert terminal.text("ready", PAYMOCK_API_KEY="not a key") == f"ready  {server.url}\n"
    assert terminal.json("ready") == {"ready": True, "url": server.url}


def test_ready_distinguishes_unreachable_from_timeout(unconnected: Terminal) -> None:
    message = unconnected.fails(4, "ready", "--wait", "0.1")
    assert "not ready within 0.1 s: cannot reach" in message
    outcome = unconnected.run("ready", "--json")
    assert (outcome.returncode, json.loads(outcome.stdout)["ready"]) == (3, False)


def test_ready_retries_until_the_server_starts() -> None:
    is_ready = threading.Event()
    port = 20_000 + secrets.randbelow(10_000)  # clients of other tests get higher ones while it is free
    with socket.create_server(("127.0.0.1", port)) as listener:

        def start_after_an_attempt() -> None:
            listener.accept()[0].close()
            listener.close()
            with running_server(Settings(port=port)):
                is_ready.wait()

        thread = threading.Thread(target=start_after_an_attempt)
        thread.start()
        url = f"http://127.0.0.1:{port}"
        assert Terminal(url, "").text("ready", "--wait", "60") == f"ready  {url}\n"
        is_ready.set()
        thread.join()
