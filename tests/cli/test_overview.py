"""`paymock` without a command."""

import json
import os
from pathlib import Path

import pytest

from harness.server_process import run, server_process
from paymock.cli import next_steps
from paymock.settings import Settings
from tests.cli.terminal import Terminal, run_on_terminal
from tests.support.client import Api
from tests.support.server import running_server


@pytest.fixture
def on_path(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell that finds a program `paymock`."""
    (tmp_path / "paymock").touch(mode=0o755)
    return {"PATH": os.pathsep.join([str(tmp_path), os.environ["PATH"]])}


def commands(text: str) -> list[str]:
    """The commands below the heading `Next:`."""
    lines = text.partition("Next:\n")[2].splitlines()
    return [line.strip().partition("  ")[0] for line in lines if line.startswith("  ")]


def test_without_a_server_it_shows_how_to_start_one(unconnected: Terminal, on_path: dict[str, str]) -> None:
    shown = unconnected.text(**on_path)
    url = unconnected.variables["PAYMOCK_URL"]
    assert f"cannot reach {url}: Connection refused" in shown
    port = url.rpartition(":")[2]
    assert commands(shown) == [f"paymock serve --port {port}", "paymock demo", "paymock --help"]


def test_in_an_empty_sandbox_it_shows_how_to_create_a_payment(
    terminal: Terminal, on_path: dict[str, str]
) -> None:
    shown = terminal.text(**on_path)
    assert f"  Dashboard {terminal.variables['PAYMOCK_URL']}/\n" in shown
    assert commands(shown) == ["paymock create", "paymock --help"]


def test_with_a_payment_it_shows_what_to_do_with_it(
    terminal: Terminal, api: Api, on_path: dict[str, str]
) -> None:
    payment = api.created("late_payment")
    shown = terminal.text(**on_path)
    assert f"{payment['id']}  awaiting_payment  late_payment" in shown
    assert f"/checkout/{payment['id']}\n" in shown
    assert commands(shown)[:2] == ["paymock watch", "paymock advance --to next"]
    document = terminal.json()
    assert document["newest"]["id"] == payment["id"]
    assert (document["url"], document["problem"]) == (terminal.variables["PAYMOCK_URL"], None)
    assert document["next"][0].endswith("paymock watch")


def test_the_commands_repeat_the_options(
    terminal: Terminal, api: Api, unconnected: Terminal, on_path: dict[str, str]
) -> None:
    api.created()
    options = ["--url", terminal.variables["PAYMOCK_URL"], "--key", terminal.variables["PAYMOCK_API_KEY"]]
    [watch, advance, *_] = commands(unconnected.text(*options, **on_path))
    assert watch == f"paymock {' '.join(options)} watch"
    assert unconnected.text(*advance.split()[1:]).split()[1] == "payment_detected"


def test_a_refusal_is_explained(terminal: Terminal, on_path: dict[str, str]) -> None:
    shown = terminal.text("--key", "wrong", **on_path)
    assert "unauthenticated: " in shown
    assert commands(shown)[0] == "paymock --key KEY"
    with running_server(Settings(port=0, control=False)) as server:
        shown = Terminal(server.url, "mk_test_demo").text(**on_path)
    assert "--no-control" in shown
    assert commands(shown)[0] == "paymock create"


def test_an_invalid_variable_is_a_usage_error() -> None:
    outcome = run(PAYMOCK_URL="nowhere")
    assert outcome.returncode == 2
    assert "PAYMOCK_URL" in outcome.stderr


def test_create_shows_what_is_next_on_a_terminal(terminal: Terminal, on_path: dict[str, str]) -> None:
    status, written = run_on_terminal("create", **terminal.variables, **on_path)
    assert status == 0
    assert commands(written.replace("\r", "")) == [
        "paymock watch",
        "paymock advance --to next",
        "paymock payment",
    ]
    assert terminal.run("create").stderr == ""


def test_create_prints_json_only_on_a_terminal(terminal: Terminal) -> None:
    status, written = run_on_terminal("create", "--json", **terminal.variables)
    assert (status, json.loads(written)["status"]) == (0, "awaiting_payment")


def test_the_program_is_named_as_the_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "a folder" / "bin" / "paymock"
    script.parent.mkdir(parents=True)
    python = str(script.with_name("python"))
    monkeypatch.setattr("sys.executable", python)
    monkeypatch.setenv("PATH", "")
    assert next_steps.program() == f"'{python}' -m paymock"
    script.touch(mode=0o755)
    assert next_steps.program() == f"'{script}'"
    monkeypatch.chdir(tmp_path / "a folder")
    assert next_steps.program() == "bin/paymock"
    monkeypatch.setenv("PATH", str(script.parent))
    assert next_steps.program() == "paymock"


def test_the_banner_shows_a_command_that_works(tmp_path: Path, on_path: dict[str, str]) -> None:
    with server_process(tmp_path, "--api-key", "secret-key", **on_path) as served:
        created = Terminal("http://127.0.0.1:1", "").run("--url", served.url, "--key", "secret-key", "create")
        assert created.returncode == 0
        _, output = served.stop(15)
    assert f"  Next      paymock --url {served.url} --key KEY create\n" in output
    assert "secret-key" not in output
