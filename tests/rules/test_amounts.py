from hypothesis import example, given
from hypothesis import strategies as st

from paymock.rules.amounts import MAX_FEE_BPS, MAX_RAW, fee_for, to_tokens


@given(st.integers(1, MAX_RAW), st.integers(0, MAX_FEE_BPS))
@example(99, 100)
@example(100, 100)
@example(101, 100)
@example(10**18, 0)
def test_the_fee_is_its_exact_share_rounded_up_and_at_least_one(settlement: int, bps: int) -> None:
    fee = fee_for(settlement, bps)
    assert fee >= 1
    assert fee * 10_000 >= settlement * bps
    assert fee == 1 or (fee - 1) * 10_000 < settlement * bps


@given(st.integers(0, MAX_RAW), st.integers(0, 36))
@example(10_211_102, 6)  # btcpayserver-tether/BTCPayServer.Plugins.USDt#10
def test_whole_tokens_are_exact_and_have_no_trailing_zeros(raw: int, decimals: int) -> None:
    whole, point, fraction = to_tokens(raw, decimals).partition(".")
    assert int(whole + fraction.ljust(decimals, "0")) == raw
    assert whole == str(int(whole))
    assert bool(point) == bool(fraction)
    assert not fraction.endswith("0")
