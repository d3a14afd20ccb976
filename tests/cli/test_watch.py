import json
import re
import signal
from pathlib import Path

import pytest

from harness.server_process import server_process
from paymock.rules.scenarios import SCENARIOS
from paymock.rules.timeline import summarize
from tests.cli.terminal import TIMEOUT, Terminal, meanwhile, read_lines
from tests.support.client import Api
from tests.support.in_process import run


def test_watch_prints_changes_in_quick_succession(terminal: Terminal, api: Api) -> None:
    payment = api.created()["id"]
    api.speed(0)
    with meanwhile(lambda: api.post(f"/_mock/payments/{payment}/advance", json={"to": "next"})):
        changes = [json.loads(line) for line in terminal.text("watch", payment, "--json").splitlines()]
    timeline = api.get(f"/_mock/payments/{payment}").json()["timeline"]
    assert [change["offset_seconds"] for change in changes] == [entry["offset_seconds"] for entry in timeline]
    assert changes[-1].items() >= {
        "payment_id": payment, "scenario": "happy_path", "event": "completed", "status": "completed",
    }.items()  # fmt: skip


@pytest.mark.process
def test_watch_prints_each_change_as_it_comes(terminal: Terminal, api: Api) -> None:
    api.created("asset_mismatch")
    api.speed(0)
    with terminal.start("watch") as process:
        assert read_lines(process, 1) == ["     0 s  awaiting_payment      Created"]
        api.advance(6)
        assert read_lines(process, 1) == [
            "     5 s  payment_detected      Deposit observed, confirmations 0/16, pending"
        ]
        api.advance(1)
        assert read_lines(process, 2) == ["     7 s  manual_review         Confirmations 0/16, rejected", ""]
        assert process.wait() == 0


@pytest.mark.process
def test_watch_exits_with_1_after_a_reset_and_with_3_when_the_server_stops(tmp_path: Path) -> None:
    with server_process(tmp_path, "--speed", "0") as served:
        terminal = Terminal(served.url, "mk_test_demo")
        for end, status, message in (
            (lambda: terminal.note("reset"), 1, "Error: payment_not_found: "),
            (lambda: served.stop(signal.SIGTERM), 3, f"Error: (cannot reach )?{served.url}"),
        ):
            terminal.text("create")
            with terminal.start("watch") as process:
                read_lines(process, 1)
                end()
                _, written = process.communicate(timeout=TIMEOUT)
            assert process.returncode == status
            assert re.match(message, written)


def test_demo_plays_every_scenario_to_the_end() -> None:
    outcome = run("demo", "--speed", "100")
    assert (outcome.returncode, outcome.stderr) == (0, "")
    last = {line.split()[0]: line.split()[3] for line in outcome.stdout.splitlines()}
    assert last == {row.name: row.final_status for row in map(summarize, SCENARIOS.values())}
    assert "\x1b" not in outcome.stdout


def test_demo_prints_json_lines() -> None:
    outcome = run("demo", "--speed", "100", "--json", PAYMOCK_PORT="1", PAYMOCK_API_KEY="other")
    changes = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert {change["scenario"] for change in changes} == set(SCENARIOS)
    assert len({change["payment_id"] for change in changes}) == len(SCENARIOS)
