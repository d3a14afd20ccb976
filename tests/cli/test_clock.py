"""`wait`, and servers that leave who waits alone."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.terminals import LONG, Terminal, advance, freeze, lines_of
from tests.support.client import Api
from tests.support.process import environment, serving


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
            "from paymock import __main__; from paymock.client import wait; wait.GRACE = 0.1;"
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
                # Nothing tells that it waits; if it does not yet, it ends with 3 all the same.
                time.sleep(0.5)
            served.stop(signal.SIGTERM)
            _, said = waiting.communicate(timeout=LONG)
    assert waiting.returncode == 3
    assert re.match(f"Error: (cannot reach )?{served.url}", said)
