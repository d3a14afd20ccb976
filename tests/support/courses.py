"""Scenarios of users: a file, and hypothesis strategies for arbitrary ones."""

from hypothesis import strategies as st
from msgspec import UNSET

from paymock.rules.amounts import MAX_RAW
from paymock.rules.scenarios import Scenario, Sending

TWO_HALVES = """
[[scenario]]
name = "two_halves"
simulates = "The customer pays in two halves."

[[scenario.sending]]
at = 5
share = "1/2"

[[scenario.sending]]
at = 10
share = "1/2"
plus = 1
"""
"""A file of scenarios."""

OTHER_CATALOG = """
[[chains]]
id = "bsc"
name = "Mine"
chain_id = 7
testnet = true
[[chains.assets]]
symbol = "ONE"
name = "One"
decimals = 0
[[chains.assets]]
symbol = "TWO"
name = "Two"
decimals = 2
contract_address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
"""
"""A catalog whose assets and decimals are not those of the built-in one."""

LATEST = 3_600_000

_NUMBERS = st.sampled_from([1, 2, 3]) | st.integers(1, 999_999_999)
_TIMES = st.sampled_from([0, 1, 5_000, 21_999, 22_000, 29_999, 30_000, 30_001, LATEST])
TRANSFERS = st.builds(
    Sending,
    (_TIMES | st.integers(0, LATEST)).map(lambda milliseconds: milliseconds / 1000),
    st.sampled_from(["1/1", "1/2"]) | st.builds("{}/{}".format, st.just(0) | _NUMBERS, _NUMBERS),
    st.sampled_from(["0", 1, "-1"]) | st.integers(-MAX_RAW, MAX_RAW).map(str),
    st.just(UNSET) | st.sampled_from(["0", "1", -1, str(MAX_RAW)]),
    st.booleans(),
)
COURSES = st.builds(
    Scenario,
    st.from_regex("[a-z][a-z0-9_]{0,63}", fullmatch=True),
    st.text(max_size=20),
    st.booleans(),
    st.booleans(),
    st.lists(TRANSFERS, max_size=4).map(tuple) | st.lists(TRANSFERS, max_size=100).map(tuple),
)
"""Scenarios of 0 to 100 transfers, mostly of few."""
