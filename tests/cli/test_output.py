"""What the commands print: any script, amounts, no control characters, tables, and the next command."""

import select
import shlex
import socket
from itertools import product
from pathlib import Path

import pytest

from paymock.cli.output import Column, cell_len, program, table_lines, wait_readable
from paymock.rules.scenarios import SCENARIOS
from paymock.settings import Settings
from tests.cli.terminal import Terminal
from tests.support.client import Api
from tests.support.in_process import run, run_on_terminal


def test_an_order_id_in_any_script_is_printed(terminal: Terminal) -> None:
    assert terminal.json("create", "--order", "заказ 🎉")["order_id"] == "заказ 🎉"
    shown = terminal.text("payments", PYTHONIOENCODING="latin-1")
    assert shown.endswith("  \\u0437\\u0430\\u043a\\u0430\\u0437 \\U0001f389\n")


def test_control_characters_are_escaped(terminal: Terminal) -> None:
    order = "a\u202eb\u2028c\u2066d"
    assert terminal.json("create", "--order", order)["order_id"] == order
    assert "  order     a\\u202eb\\u2028c\\u2066d\n" in terminal.text("payment")


def test_unknown_decimals_are_not_guessed(terminal: Terminal, api: Api, catalog: str) -> None:
    api.created()
    for name in (catalog, "/no.toml"):
        assert "  1010000000000000000 raw units of USDT  " in terminal.text("payments", PAYMOCK_CATALOG=name)


@pytest.mark.parametrize("width", [17, 38, 41, 79])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    columns = [
        Column("ID", ["pay_1", "pay_22"]),
        Column("STATUS", ["completed", "failed"]),
        Column("DUE", ["1.01 USDT", "7 ETH"], 2),
        Column("ORDER", ["注文 " * 12, "a\u202eb\n" * 9], 1),
    ]
    lines = table_lines(columns, width)
    assert all(cell_len(line) <= width and line.isprintable() for line in lines)


def test_lines_fit_the_terminal_with_statuses_in_color(terminal: Terminal, api: Api) -> None:
    api.payment(api.created("underpaid_expired")["id"])
    for command in ("payment", "requests", "coverage", "payments", "scenarios"):
        shown = terminal.shown(command, COLUMNS="80", NO_COLOR="1")
        assert max(map(len, shown.splitlines())) <= 80, command
    assert {*SCENARIOS["manual_review"].simulates.split()} <= {*shown.split()}
    assert "  \x1b[36mawaiting_payment\x1b[0m  underpaid_expired  " in terminal.shown("payments")


def test_wide_characters_are_aligned() -> None:
    columns = [Column("A", ["注文", "ab"]), Column("B", ["x", "y"])]
    assert table_lines(columns, None) == ["A     B", "注文  x", "ab    y"]
    assert [*map(cell_len, ("注文", "é", "e\u0301", "🎉"))] == [4, 1, 1, 2]


def test_the_program_is_named_as_the_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "a folder" / "bin" / "paymock"
    script.parent.mkdir(parents=True)
    monkeypatch.setattr("sys.executable", str(script.with_name("python")))
    monkeypatch.setenv("PATH", "")
    assert program() == f"'{script.with_name('python')}' -m paymock"
    script.touch(mode=0o755)
    assert program() == f"'{script}'"
    monkeypatch.chdir(tmp_path / "a folder")
    assert program() == "bin/paymock"
    monkeypatch.setattr("sys.executable", str(script.rename(script.with_name("paymock-linux-x86_64"))))
    monkeypatch.setattr("sys.frozen", True, raising=False)
    assert program() == "bin/paymock-linux-x86_64"


def test_a_long_wait_looks_for_signals_every_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes just before it begins does not interrupt it."""
    waits: list[float] = []

    class Poll:
        def register(self, descriptor: int, events: int) -> None:
            self.descriptor = descriptor

        def poll(self, milliseconds: float) -> list[tuple[int, int]]:
            waits.append(milliseconds)
            return [(self.descriptor, select.POLLIN)] if len(waits) == 3 else []

    monkeypatch.setattr(select, "poll", Poll)
    with socket.socket() as source:
        wait_readable(35, source.fileno())
    assert waits == [1000] * 3


SECRET = "planted-secret"

COMMANDS = [
    "", "--json", "create", "create --json", "create x", "payment", "payment x",
    "payments --json", "payments x", "payments --limit 0", "advance 1", "clock", "wait pay_x", "deposit x",
    "next late_payment", "next --times 2", "requests --json", "fault add drop", "fault add x", "fault list",
    "coverage", "reset", "xyzzy", "--xyzzy", "verify --order true",
    "verify --order true --deliveries true --only x", "payments --url http://127.0.0.1:1",
]  # fmt: skip


def test_no_command_repeats_the_key(terminal: Terminal, api: Api) -> None:
    for command, start in product(COMMANDS, (run, run_on_terminal)):
        outcome = start("--key", api.api_key, *shlex.split(command), PAYMOCK_URL=terminal.url)
        assert outcome.stdout + outcome.stderr
        assert api.api_key not in outcome.stdout + outcome.stderr, command


MISTAKES = [
    f"payments --key '{SECRET} x'", f"payments --url http://user:{SECRET}@127.0.0.1",
    f"serve --api-key '{SECRET} x'", f"serve --api-key {SECRET} --port x",
    f"serve --api-key {SECRET} --reuse-port", f"serve --api-key {SECRET}, --reuse-port",
    f"serve --store mysql://user:{SECRET}@127.0.0.1/x",
    f"serve --store redis://user:{SECRET}@127.0.0.1:port",
    f"serve --store redis://user:{SECRET}@127.0.0.1:1", f"serve --store 'sqlite:///x?password={SECRET}'",
    f"--key {SECRET} serve",
]  # fmt: skip


def test_no_mistake_repeats_a_key_or_a_password() -> None:
    for command in MISTAKES:
        outcome = run(*shlex.split(command))
        assert outcome.stderr.rpartition("Error: ")[2]
        assert SECRET not in outcome.stdout + outcome.stderr, command
    assert SECRET not in repr(Settings(api_keys=(SECRET,), store=f"redis://:{SECRET}@127.0.0.1"))
