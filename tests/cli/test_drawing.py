"""`watch` and `demo`: lines in a pipe, pictures on a terminal."""

import contextlib
import json
import os
import re
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from paymock.rules.scenarios import SCENARIOS
from paymock.rules.tables import scenario_rows
from tests.cli.terminals import LONG, Terminal, advance, freeze, lines_of
from tests.support.client import Api
from tests.support.process import PAYMOCK, environment, run, serving

COLOR = re.compile(r"\x1b\[[0-9;]*3[0-9]m")


def test_watch_prints_a_line_for_each_change(terminal: Terminal, api: Api) -> None:
    api.created("asset_mismatch")
    freeze(api)
    with terminal.start("watch") as watching:
        assert lines_of(watching, 1) == ["     0 s  awaiting_payment      Created"]
        advance(api, 6)
        assert lines_of(watching, 1) == [
            "     5 s  payment_detected      Deposit observed, confirmations 0/16, pending"
        ]
        advance(api, 1)
        assert lines_of(watching, 2) == ["     7 s  manual_review         Confirmations 0/16, rejected", ""]
        assert watching.wait() == 0


def test_watch_misses_no_change_however_quickly_they_come(terminal: Terminal, api: Api) -> None:
    payment = api.created()["id"]
    freeze(api)
    with terminal.start("watch", payment, "--json") as watching:
        seen = lines_of(watching, 1)
        for _ in range(8):
            api.post(f"/_mock/payments/{payment}/advance", json={"to": "next"})
        output, said = watching.communicate(timeout=LONG)
    assert (watching.returncode, said) == (0, "")
    changes = [json.loads(line) for line in [*seen, *output.splitlines()]]
    timeline = api.get(f"/_mock/payments/{payment}").json()["timeline"]
    assert [change["offset_seconds"] for change in changes] == [entry["offset_seconds"] for entry in timeline]
    assert changes[-1].items() >= {
        "payment_id": payment, "scenario": "happy_path", "event": "completed", "status": "completed",
    }.items()  # fmt: skip


def test_watch_ends_with_1_when_the_payment_is_gone(terminal: Terminal, api: Api) -> None:
    api.created()
    freeze(api)
    with terminal.start("watch") as watching:
        lines_of(watching, 1)
        api.post("/_mock/reset")
        _, said = watching.communicate(timeout=LONG)
    assert watching.returncode == 1
    assert said.startswith("Error: payment_not_found: ")


def test_demo_plays_every_scenario_to_its_end() -> None:
    outcome = run("demo", "--speed", "30")
    assert (outcome.returncode, outcome.stderr) == (0, "")
    last = {line.split()[0]: line.split()[1:4] for line in outcome.stdout.splitlines()}
    assert {name: status for name, (_, _, status) in last.items()} == {
        row.name: row.ends for row in scenario_rows()
    }
    assert "\x1b" not in outcome.stdout


def test_demo_prints_json_lines() -> None:
    outcome = run("demo", "--speed", "100", "--json", PAYMOCK_PORT="1", PAYMOCK_API_KEY="other")
    changes = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert {change["scenario"] for change in changes} == set(SCENARIOS)
    assert len({change["payment_id"] for change in changes}) == len(SCENARIOS)


def drawn(*arguments: str, until: str | None = None, **variables: str) -> tuple[int, str]:
    """The exit status of a command, and what it writes to a terminal of 100 columns, or of COLUMNS; once it
    has written `until`, it is interrupted.
    """
    pty, fcntl, termios = (pytest.importorskip(name) for name in ("pty", "fcntl", "termios"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    with subprocess.Popen(
        [*PAYMOCK, *arguments],
        env=environment(**{"TERM": "xterm-256color", "NO_COLOR": "", "COLUMNS": "100", **variables}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        written = b""
        with contextlib.suppress(OSError):  # a terminal whose last user has gone cannot be read
            while received := os.read(ours, 65536):
                written += received
                if until is not None and until in written.decode(errors="ignore"):
                    process.send_signal(signal.SIGINT)
                    until = None
    os.close(ours)
    return process.returncode, written.decode(errors="replace")  # an interrupt cuts where it likes


def lines_in(written: str) -> list[str]:
    """The lines of all pictures, without colors."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)
    return [line.rstrip() for line in plain.replace("\r", "\n").split("\n")]


@pytest.fixture
def swift(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal at a server whose time runs thirty times as fast as life."""
    with serving(tmp_path, "--speed", "30") as served:
        yield Terminal(served.url, "mk_test_demo")


def test_watch_draws_a_picture_on_a_terminal(swift: Terminal) -> None:
    payment = swift.json("create", "--order-id", "order-1001")
    status, written = drawn("watch", **swift.variables)
    assert status == 0
    shown = lines_in(written)
    assert f"{payment['id']}  order-1001  happy_path" in shown
    assert any(re.fullmatch(r"━+●  45.0 of 45 s  speed 30", line) for line in shown)
    assert any(re.fullmatch(r"━+● +16/16  finalized", line) for line in shown)
    assert any(re.fullmatch(r"✓  45 s  completed", line) for line in shown)
    assert COLOR.search(written)
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 1  # the cursor is back


def test_demo_draws_a_bar_for_each_scenario() -> None:
    status, written = drawn("demo", "--speed", "30")
    assert status == 0
    shown = lines_in(written)
    assert "8 payments, one for each scenario, 30 times as fast as life" in shown
    for row in scenario_rows():
        assert any(re.fullmatch(rf"{row.name} +━+● +{row.ends} +(\d+)\.0 of \1 s", line) for line in shown)


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        (66, r"(\w+) +━+● +(\w+) +(\d+)\.0 of \3 s"),
        (65, r"(\w+) +━+● +(\w+)"),
        (40, r"(\w+…?) +━+● +(\w+…?)"),
    ],
)
def test_the_bars_stay_on_a_narrow_terminal(columns: int, row: str) -> None:
    status, written = drawn("demo", "--speed", "100", COLUMNS=str(columns))
    assert status == 0
    shown = lines_in(written)
    assert max(map(len, shown)) <= columns
    found = [match for line in shown if (match := re.fullmatch(row, line))]
    for scenario in scenario_rows():
        assert any(
            scenario.name.startswith(match[1].rstrip("…")) and scenario.ends.startswith(match[2].rstrip("…"))
            for match in found
        )
    assert max(line.count("━") for line in shown) >= 9


def test_pictures_honor_no_color_and_plain_terminals(swift: Terminal) -> None:
    swift.text("create", "--order-id", "заказ")
    plain = {**swift.variables, "NO_COLOR": "1", "PYTHONIOENCODING": "ascii"}
    status, written = drawn("watch", **plain)
    assert status == 0
    assert not COLOR.search(written)
    assert any(re.fullmatch(r"=+\*  45.0 of 45 s  speed 30", line) for line in lines_in(written))


def test_a_terminal_that_cannot_draw_gets_lines(swift: Terminal) -> None:
    payment = swift.json("create")["id"]
    swift.text("wait", payment, "--status", "completed")
    status, written = drawn("watch", **swift.variables, TERM="dumb")
    assert status == 0
    assert "\x1b" not in written
    assert written.splitlines()[-1] == "    45 s  completed"


@pytest.mark.parametrize("command", ["watch", "demo --speed 1"])
def test_an_interrupted_picture_gives_the_cursor_back(terminal: Terminal, api: Api, command: str) -> None:
    api.created()
    freeze(api)
    until = "frozen" if command == "watch" else "awaiting_payment"
    status, written = drawn(*command.split(), until=until, **terminal.variables)
    assert status == 130
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h") == 1
    assert "Traceback" not in written
