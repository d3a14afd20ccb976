"""What the commands print: any script, amounts, and no control characters."""

import pytest

from paymock.cli.output import format_amount
from tests.cli.terminal import Terminal
from tests.support.client import Api


def test_an_order_id_in_any_script_is_printed(terminal: Terminal) -> None:
    created = terminal.json("create", "--order-id", "заказ 🎉")
    assert created["order_id"] == "заказ 🎉"
    shown = terminal.text("payments", PYTHONIOENCODING="latin-1")
    assert shown.endswith("  \\u0437\\u0430\\u043a\\u0430\\u0437 \\U0001f389\n")


def test_control_characters_are_escaped_in_output(terminal: Terminal) -> None:
    order = "a\u202eb\u2028c\u2066d"
    created = terminal.json("create", "--order-id", order)
    assert created["order_id"] == order
    assert terminal.text("payments").endswith("  a\\u202eb\\u2028c\\u2066d\n")
    assert "  order     a\\u202eb\\u2028c\\u2066d\n" in terminal.text("payment")


@pytest.mark.parametrize(
    ("raw", "chain", "asset", "shown"),
    [
        ("1010000000000000000", "bsc", "USDT", "1010000000000000000 (1.01 USDT)"),
        ("1000000", "ethereum", "USDT", "1000000 (1 USDT)"),
        ("1", "ethereum", "USDT", "1 (0.000001 USDT)"),
        ("123456700000", "ethereum", "USDC", "123456700000 (123456.7 USDC)"),
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
