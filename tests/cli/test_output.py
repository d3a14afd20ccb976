"""What the commands print: any script, amounts, and nothing that steers a terminal."""

from pathlib import Path

import pytest

from paymock.cli.money import amount, one_token, usual_asset
from paymock.cli.output import printable
from tests.cli.terminals import Terminal
from tests.support.client import Api


def test_an_order_can_be_named_in_any_script(terminal: Terminal) -> None:
    created = terminal.json("create", "--order-id", "заказ 🎉")
    assert created["order_id"] == "заказ 🎉"
    shown = terminal.text("payments", PYTHONIOENCODING="latin-1")
    assert shown.endswith("  \\u0437\\u0430\\u043a\\u0430\\u0437 \\U0001f389\n")


def test_no_text_steers_the_terminal(terminal: Terminal) -> None:
    order = "a\u202eb\u2028c\u2066d"
    created = terminal.json("create", "--order-id", order)
    assert created["order_id"] == order
    assert terminal.text("payments").endswith("  a\\u202eb\\u2028c\\u2066d\n")
    assert "  order     a\\u202eb\\u2028c\\u2066d\n" in terminal.text("payment")


@pytest.mark.parametrize("character", ["\n", "\t", "\x1b", "\x7f", "\x9b", "\u200f", "\u2029", "\u2069"])
def test_what_would_steer_a_terminal_is_escaped(character: str) -> None:
    assert printable(f"a{character}b") == f"a{character.encode('unicode_escape').decode()}b"
    assert printable("заказ 🎉 \N{ZERO WIDTH JOINER}") == "заказ 🎉 \N{ZERO WIDTH JOINER}"


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
def test_amounts_are_shown_raw_and_whole(raw: str, chain: str, asset: str, shown: str) -> None:
    assert amount(raw, chain, asset) == shown


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    """A catalog of other decimals."""
    path = tmp_path / "chains.toml"
    path.write_text(
        '[[chains]]\nid = "bsc"\nname = "Mine"\nchain_id = 7\ntestnet = true\n'
        '[[chains.assets]]\nsymbol = "ONE"\nname = "One"\ndecimals = 0\n'
        '[[chains.assets]]\nsymbol = "TWO"\nname = "Two"\ndecimals = 2\n'
        'contract_address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"\n'
    )
    return str(path)


def test_defaults_fit_the_chain(catalog: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (usual_asset("ethereum"), one_token("ethereum", "USDT")) == ("USDT", "1000000")
    assert (usual_asset("moon"), one_token("moon", "USDT")) == ("USDT", "1" + 18 * "0")
    monkeypatch.setenv("PAYMOCK_CATALOG", catalog)
    assert (usual_asset("bsc"), one_token("bsc", "TWO"), one_token("bsc", "ONE")) == ("TWO", "100", "1")
    assert (amount("7", "bsc", "ONE"), amount("1234", "bsc", "TWO")) == ("7 (7 ONE)", "1234 (12.34 TWO)")


def test_decimals_that_are_not_known_are_not_guessed(terminal: Terminal, api: Api, catalog: str) -> None:
    api.created()
    for name in (catalog, "/no.toml"):
        assert "  1010000000000000000 raw units of USDT  " in terminal.text("payments", PAYMOCK_CATALOG=name)
