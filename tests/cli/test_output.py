"""What the commands print: any script, amounts, and no control characters."""

import select
import socket

import pytest

from paymock.cli.output import format_amount, wait_readable
from tests.cli.terminal import Terminal
from tests.support.client import Api


def test_an_order_id_in_any_script_is_printed(terminal: Terminal) -> None:
    assert terminal.json("create", "--order-id", "заказ 🎉")["order_id"] == "заказ 🎉"
    shown = terminal.text("payments", PYTHONIOENCODING="latin-1")
    assert shown.endswith("  \\u0437\\u0430\\u043a\\u0430\\u0437 \\U0001f389\n")


def test_control_characters_are_escaped(terminal: Terminal) -> None:
    order = "a\u202eb\u2028c\u2066d"
    assert terminal.json("create", "--order-id", order)["order_id"] == order
    assert "  order     a\\u202eb\\u2028c\\u2066d\n" in terminal.text("payment")


@pytest.mark.parametrize(
    ("raw", "chain", "asset", "shown"),
    [
        ("1010000000000000000", "bsc", "USDT", "1010000000000000000 (1.01 USDT)"),
        ("1", "ethereum", "USDT", "1 (0.000001 USDT)"),
        ("5", "bsc", "GOLD", "5 raw units of GOLD"),
        ("5", "moon", "USDT", "5 raw units of USDT"),
    ],
)
def test_amounts_are_shown_in_raw_units_and_tokens(raw: str, chain: str, asset: str, shown: str) -> None:
    assert format_amount(raw, chain, asset) == shown


def test_unknown_decimals_are_not_guessed(terminal: Terminal, api: Api, catalog: str) -> None:
    api.created()
    for name in (catalog, "/no.toml"):
        assert "  1010000000000000000 raw units of USDT  " in terminal.text("payments", PAYMOCK_CATALOG=name)


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
        assert wait_readable(35, [source]) == [source]
    assert waits == [1000] * 3


def test_a_wait_of_no_time_finds_what_is_readable_already() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert wait_readable(0, [ours]) == []
        theirs.send(b"a reply")
        assert wait_readable(0, [ours]) == [ours]
