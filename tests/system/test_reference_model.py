"""The server against the reference model, in 10,000 random histories that differ from run to run."""

import pytest

from tests.model.comparison import FEES, compare_histories
from tests.model.histories import STATUSES

HISTORIES_PER_FEE = 2_500


@pytest.mark.parametrize("fee_bps", FEES)
def test_the_server_answers_as_the_model_does(fee_bps: int) -> None:
    shown = compare_histories(fee_bps, HISTORIES_PER_FEE, derandomize=False)
    assert shown >= {*STATUSES, "status_unreachable", "validation_failed"}
