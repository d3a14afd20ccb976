"""The server against the reference model, in chosen and in 300 random histories. tests/system has 10,000."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.model.comparison import FEES, Player, compare_histories, connected_player
from tests.model.histories import Advance, AdvanceTo, Create, History, Transfers
from tests.model.reference_model import SCENARIOS

HISTORIES_PER_FEE = 75


UNPAID, PAID = Create("no_payment_expired", 99), Create("happy_path", 99)
ONE_MORE = Transfers(0, "none", 1)

CHOSEN: dict[str, History] = {
    "transfer at the close": [UNPAID, Advance(30_000), Transfers(0, "due", 0)],
    "funded at the close": [UNPAID, Advance(22_000), Transfers(0, "due", 0), Advance(8_000)],
    "half funded at the close": [UNPAID, Advance(22_000), Transfers(0, "half", 0), Advance(8_000)],
    "other asset at the close": [
        UNPAID,
        Advance(29_000),
        Transfers(0, "due", 0, other_asset=True),
        Advance(1_000),
    ],
    "unconfirmed at the close": [UNPAID, Advance(29_000), Transfers(0, "half", 0), Advance(1_000)],
    "late transfer when funded": [UNPAID, Advance(20_000), Transfers(0, "due", 0), Advance(11_000), ONE_MORE],
    "late transfer when underpaid": [Create("underpaid_expired", 99), Advance(31_000), ONE_MORE],
    "excess when the settlement begins": [PAID, Advance(17_000), ONE_MORE, Advance(8_000)],
    "other asset when the settlement begins": [
        PAID,
        Advance(23_000),
        Transfers(0, "none", 1, other_asset=True),
    ],
    "excess after the settlement has begun": [PAID, Advance(17_001), ONE_MORE, Advance(8_000)],
    "status of no duration": [UNPAID, Transfers(0, "due", 0), ONE_MORE, AdvanceTo(0, "payment_finalized")],
    **{name: [Create(name, 99), *[AdvanceTo(0, "next")] * 10] for name in SCENARIOS},
}


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    with connected_player(fee_bps=100) as connected:
        yield connected


@pytest.mark.parametrize("name", CHOSEN)
def test_the_server_answers_chosen_histories_as_the_model_does(name: str, player: Player) -> None:
    player.play(CHOSEN[name], pieces=3)


@pytest.mark.parametrize("fee_bps", FEES)
def test_the_server_answers_as_the_model_does(fee_bps: int) -> None:
    compare_histories(fee_bps, HISTORIES_PER_FEE, derandomize=True)


def test_the_model_shares_no_code_with_the_server() -> None:
    imported = set()
    for name in ("reference_model", "reference_views"):
        tree = ast.parse(Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                imported.add(str(node.module))
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
    foreign = {name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names}
    assert foreign == {"tests.model.reference_model"}
