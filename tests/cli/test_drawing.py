"""The live display of `watch` and `demo` on a terminal."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.server_process import server_process
from paymock.rules.tables import scenario_rows
from tests.cli.terminal import Terminal, freeze, run_on_terminal
from tests.support.client import Api

COLOR = re.compile(r"\x1b\[[0-9;]*3[0-9]m")


def lines_without_colors(written: str) -> list[str]:
    """The lines of all redraws."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)
    return [line.rstrip() for line in plain.replace("\r", "\n").split("\n")]


@pytest.fixture
def fast_terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal for a server with a speed factor of 30."""
    with server_process(tmp_path, "--speed", "30") as served:
        yield Terminal(served.url, "mk_test_demo")


def test_watch_draws_a_live_display(fast_terminal: Terminal) -> None:
    payment = fast_terminal.json("create", "--order-id", "order-1001")
    status, written = run_on_terminal("watch", **fast_terminal.variables)
    assert status == 0
    lines = lines_without_colors(written)
    assert f"{payment['id']}  order-1001  happy_path" in lines
    assert any(re.fullmatch(r"━+●  45.0 of 45 s  speed 30", line) for line in lines)
    assert any(re.fullmatch(r"━+● +16/16  finalized", line) for line in lines)
    assert any(re.fullmatch(r"✓  45 s  completed", line) for line in lines)
    assert COLOR.search(written)
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 1  # the cursor is restored


def test_demo_draws_a_bar_for_each_scenario() -> None:
    status, written = run_on_terminal("demo", "--speed", "30")
    assert status == 0
    lines = lines_without_colors(written)
    assert "8 payments, one for each scenario, at 30 times real time" in lines
    for row in scenario_rows():
        assert any(
            re.fullmatch(rf"{row.name} +━+● +{row.final_status} +(\d+)\.0 of \1 s", line) for line in lines
        )


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        (66, r"(\w+) +━+● +(\w+) +(\d+)\.0 of \3 s"),
        (65, r"(\w+) +━+● +(\w+)"),
        (40, r"(\w+…?) +━+● +(\w+…?)"),
    ],
)
def test_a_narrow_terminal_keeps_the_bars(columns: int, row: str) -> None:
    status, written = run_on_terminal("demo", "--speed", "100", COLUMNS=str(columns))
    assert status == 0
    lines = lines_without_colors(written)
    assert max(map(len, lines)) <= columns
    matches = [match for line in lines if (match := re.fullmatch(row, line))]
    for scenario in scenario_rows():
        assert any(
            scenario.name.startswith(match[1].rstrip("…"))
            and scenario.final_status.startswith(match[2].rstrip("…"))
            for match in matches
        )
    assert max(line.count("━") for line in lines) >= 9


@pytest.mark.parametrize("columns", [40, 60, 72])
def test_a_narrow_terminal_cuts_nothing_of_a_payment(fast_terminal: Terminal, columns: int) -> None:
    payment = fast_terminal.json("create", "--order-id", "order-of-a-long-name-" * 4)
    fast_terminal.text("wait", payment["id"], "--status", "completed")
    status, written = run_on_terminal("watch", COLUMNS=str(columns), **fast_terminal.variables)
    assert status == 0
    lines = lines_without_colors(written)
    assert max(map(len, lines)) <= columns
    assert "…" not in written
    # A word that is longer than a line is continued on the next one.
    shown, words = "".join(lines), " ".join(" ".join(lines).split())
    instructions = payment["attempts"][0]["instructions"]
    for text in (payment["id"], payment["order_id"], instructions["invoice_address"]):
        assert text in shown
    assert "1.01 USDT on bsc to" in words
    if columns >= 60:
        assert "settlement_submitted" in words
        assert all(f"Confirmations {count}/16" in words for count in (4, 8, 12, 16))


def test_the_countdown_moves_nothing(terminal: Terminal, api: Api) -> None:
    api.created()
    until = "next change in "
    status, written = run_on_terminal("watch", until=until, COLUMNS="80", **terminal.variables)
    assert status == 130
    assert "…" not in written
    lines = lines_without_colors(written)
    assert "▸   5 s  payment_detected      Deposit observed, confirmations 0/16, pending" in lines


def test_no_color_and_ascii_terminals_are_honored(fast_terminal: Terminal) -> None:
    fast_terminal.text("create", "--order-id", "заказ")
    plain = {**fast_terminal.variables, "NO_COLOR": "1", "PYTHONIOENCODING": "ascii"}
    status, written = run_on_terminal("watch", **plain)
    assert status == 0
    assert not COLOR.search(written)
    assert any(re.fullmatch(r"=+\*  45.0 of 45 s  speed 30", line) for line in lines_without_colors(written))


def test_a_dumb_terminal_gets_lines(fast_terminal: Terminal) -> None:
    payment = fast_terminal.json("create")["id"]
    fast_terminal.text("wait", payment, "--status", "completed")
    status, written = run_on_terminal("watch", **fast_terminal.variables, TERM="dumb")
    assert status == 0
    assert "\x1b" not in written
    assert written.splitlines()[-1] == "    45 s  completed"


@pytest.mark.parametrize("command", ["watch", "demo --speed 1"])
def test_an_interrupt_restores_the_cursor(terminal: Terminal, api: Api, command: str) -> None:
    api.created()
    freeze(api)
    until = "frozen" if command == "watch" else "awaiting_payment"
    status, written = run_on_terminal(*command.split(), until=until, **terminal.variables)
    assert status == 130
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 1
    assert "Traceback" not in written
