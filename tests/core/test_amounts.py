import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.core.amounts import MAX_FEE_BPS, MAX_RAW, fee_for, raw_problem


@pytest.mark.parametrize("text", ["1", "10", "1000000000000000000", str(MAX_RAW)])
def test_a_positive_integer_in_digits_is_an_amount(text: str) -> None:
    assert raw_problem(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "01",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1\n",
        "1_000",
        "1,000",
        "1.0",
        "1.",
        "1e3",
        "0x10",
        "NaN",
        "\uff11\uff12",
        "\u00b2",
        "\u0661",
    ],
)
def test_anything_else_is_not(text: str) -> None:
    assert "positive integer" in (raw_problem(text) or "")


@pytest.mark.parametrize("text", [str(MAX_RAW + 1), "9" * 78, "1" * 79, "9" * 5000])
def test_an_amount_fits_in_256_bits(text: str) -> None:
    assert raw_problem(text) == "must fit in 256 bits"


@pytest.mark.parametrize(
    ("settlement", "bps", "fee"),
    [
        (1, 100, 1),
        (99, 100, 1),
        (100, 100, 1),
        (101, 100, 2),
        (10**18, 100, 10**16),
        (10**18, 0, 1),
        (7, 10_000, 7),
    ],
)
def test_the_fee_is_rounded_up_and_at_least_one(settlement: int, bps: int, fee: int) -> None:
    assert fee_for(settlement, bps) == fee


@given(st.integers(1, MAX_RAW), st.integers(0, MAX_FEE_BPS))
def test_the_fee_is_never_below_its_share_and_less_than_one_unit_above(settlement: int, bps: int) -> None:
    fee = fee_for(settlement, bps)
    assert fee >= 1
    assert fee * 10_000 >= settlement * bps
    assert fee == 1 or (fee - 1) * 10_000 < settlement * bps
