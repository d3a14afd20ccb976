"""The live display of `watch` and `demo` on a terminal."""

import re

import pytest

from harness.server_process import PAYMOCK
from paymock.rules.tables import scenario_rows
from tests.cli.terminal import Terminal, run_until
from tests.support.client import Api
from tests.support.in_process import run_on_terminal

COLOR = re.compile(r"\x1b\[[0-9;]*3[0-9]m")


def lines_without_colors(written: str) -> list[str]:
    """The lines of all redraws."""
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
