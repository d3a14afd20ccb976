"""The server against the reference model, in chosen and in random histories."""

from collections.abc import Iterator

import pytest

from tests.model.comparison import FEES, HistoryComparison, compare_histories, connected_player
from tests.model.histories import STATUSES, AdvanceSandbox, AdvanceTo, Create, History, MakeDeposits
from tests.model.reference_model import SCENARIOS

UNPAID, PAID = Create("no_payment_expired", 99), Create("happy_path", 99)
ONE_MORE = MakeDeposits(0, "none", 1)

CHOSEN: dict[str, History] = {
    "transfer at the close": [UNPAID, AdvanceSandbox(30_000), MakeDeposits(0, "due", 0)],
    "funded at the close": [UNPAID, AdvanceSandbox(22_000), MakeDeposits(0, "due", 0), AdvanceSandbox(8_000)],
    "half funded at the close": [
        UNPAID,
        AdvanceSandbox(22_000),
        MakeDeposits(0, "half", 0),
        AdvanceSandbox(8_000),
    ],
    "other asset at the close": [
        UNPAID,
        AdvanceSandbox(29_000),
        MakeDeposits(0, "due", 0, other_asset=True),
        AdvanceSandbox(1_000),
    ],
    "unconfirmed at the close": [
        UNPAID,
        AdvanceSandbox(29_000),
        MakeDeposits(0, "half", 0),
        AdvanceSandbox(1_000),
    ],
    "late transfer when funded": [
        UNPAID,
        AdvanceSandbox(20_000),
        MakeDeposits(0, "due", 0),
        AdvanceSandbox(11_000),
        ONE_MORE,
    ],
    "late transfer when underpaid": [Create("underpaid_expired", 99), AdvanceSandbox(31_000), ONE_MORE],
    "excess when the settlement begins": [PAID, AdvanceSandbox(17_000), ONE_MORE, AdvanceSandbox(8_000)],
    "other asset when the settlement begins": [
        PAID,
        AdvanceSandbox(23_000),
        MakeDeposits(0, "none", 1, other_asset=True),
    ],
    "excess after the settlement has begun": [PAID, AdvanceSandbox(17_001), ONE_MORE, AdvanceSandbox(8_000)],
    "status of no duration": [UNPAID, MakeDeposits(0, "due", 0), ONE_MORE, AdvanceTo(0, "payment_finalized")],
    **{name: [Create(name, 99), *[AdvanceTo(0, "next")] * 10] for name in SCENARIOS},
}


@pytest.fixture(scope="module")
def player() -> Iterator[HistoryComparison]:
    with connected_player(fee_bps=100) as connected:
        yield connected


@pytest.mark.parametrize("name", CHOSEN)
def test_the_server_answers_chosen_histories_as_the_model_does(name: str, player: HistoryComparison) -> None:
    player.play(CHOSEN[name], pieces=3)


@pytest.mark.parametrize(
    "histories", [15, pytest.param(60, marks=pytest.mark.ci), pytest.param(2_500, marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize("fee_bps", FEES)
def test_the_server_answers_as_the_model_does(fee_bps: int, histories: int) -> None:
    """At night in histories that differ from run to run."""
    shown = compare_histories(fee_bps, histories, derandomize=histories < 2_500)
    assert histories < 2_500 or shown >= {*STATUSES, "status_unreachable", "validation_failed"}
