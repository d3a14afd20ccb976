import json
import re
import signal
from pathlib import Path

import pytest

from harness.server_process import PAYMOCK, server_process
from paymock.rules.scenarios import SCENARIOS
from paymock.rules.tables import scenario_rows
from tests.cli.terminal import TIMEOUT, Terminal, meanwhile, read_lines, run_until
from tests.support.client import Api
from tests.support.in_process import run, run_on_terminal


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
    assert last == {row.name: row.final_status for row in scenario_rows()}
    assert "\x1b" not in outcome.stdout


def test_demo_prints_json_lines() -> None:
    outcome = run("demo", "--speed", "100", "--json", PAYMOCK_PORT="1", PAYMOCK_API_KEY="other")
    changes = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert {change["scenario"] for change in changes} == set(SCENARIOS)
    assert len({change["payment_id"] for change in changes}) == len(SCENARIOS)


COLOR = re.compile(r"\x1b\[[0-9;]*3[0-9]m")


def lines_without_colors(written: str) -> list[str]:
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)
    return [line.rstrip() for line in plain.replace("\r", "\n").split("\n")]


def watched(terminal: Terminal, api: Api, order_id: str, **variables: str) -> str:
    """What `watch` draws of a completed payment."""
    payment = api.created(order_id=order_id)["id"]
    assert api.post(f"/_mock/payments/{payment}/advance", json={"to": "end"}).is_success
    return terminal.shown("watch", payment, **variables)


def test_watch_draws_a_payment(terminal: Terminal, api: Api) -> None:
    written = watched(terminal, api, "order-1001")
    lines = lines_without_colors(written)
    assert any(re.fullmatch("pay_.*  order-1001  happy_path", line) for line in lines)
    assert any(re.fullmatch(r"━+●  45.0 of 45 s  speed 1", line) for line in lines)
    assert any(re.fullmatch(r"━+● +16/16  finalized", line) for line in lines)
    assert any(re.fullmatch(r"✓  45 s  completed", line) for line in lines)
    assert COLOR.search(written)


@pytest.mark.parametrize("columns", [40, 72])
def test_a_narrow_terminal_cuts_nothing_of_a_payment(terminal: Terminal, api: Api, columns: int) -> None:
    order = "order-of-a-long-name-" * 4
    written = watched(terminal, api, order, COLUMNS=str(columns))
    lines = lines_without_colors(written)
    assert max(map(len, lines)) <= columns
    assert "…" not in written
    assert order in "".join(lines)  # a word that is longer than a line is continued on the next one
    words = " ".join(" ".join(lines).split())
    assert "1.01 USDT on bsc to" in words
    assert columns == 40 or "settlement_submitted" in words


@pytest.mark.parametrize(
    ("columns", "row"), [(66, r"(\w+) +━+● +(\w+) +(\d+)\.0 of \3 s"), (40, r"(\w+…?) +━+● +(\w+…?)")]
)
def test_demo_draws_a_bar_for_each_scenario(columns: int, row: str) -> None:
    lines = lines_without_colors(run_on_terminal("demo", "--speed", "100", COLUMNS=str(columns)).stdout)
    assert max(map(len, lines)) <= columns
    shown = {
        match[1].rstrip("…"): match[2].rstrip("…") for line in lines if (match := re.fullmatch(row, line))
    }
    for scenario in scenario_rows():
        [name] = [name for name in shown if scenario.name.startswith(name)]
        assert scenario.final_status.startswith(shown[name])
    assert max(line.count("━") for line in lines) >= 9


def test_no_color_and_ascii_terminals_are_honored(terminal: Terminal, api: Api) -> None:
    written = watched(terminal, api, "заказ", NO_COLOR="1", PYTHONIOENCODING="ascii")
    assert not COLOR.search(written)
    assert any(re.fullmatch(r"=+\*  45.0 of 45 s  speed 1", line) for line in lines_without_colors(written))


def test_a_dumb_terminal_gets_lines(terminal: Terminal, api: Api) -> None:
    written = watched(terminal, api, "order-1001", TERM="dumb")
    assert "\x1b" not in written
    assert written.splitlines()[-1] == "    45 s  completed"


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "until"), [("watch", "next change in "), ("demo --speed 1", "awaiting_payment")]
)
def test_an_interrupt_restores_the_cursor(terminal: Terminal, api: Api, command: str, until: str) -> None:
    api.created()
    status, written = run_until(until, *PAYMOCK, *command.split(), **terminal.variables)
    assert status == 130
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 1
    assert "Traceback" not in written
    if command == "watch":
        upcoming = "▸   5 s  payment_detected      Deposit observed, confirmations 0/16, pending"
        assert upcoming in lines_without_colors(written)
