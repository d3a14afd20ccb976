import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.rules.times import parse_rfc3339, time_problem, to_rfc3339


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.001Z", 1),
        ("1970-01-01t00:00:01z", 1000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T18:30:00-05:30", 0),
        ("2030-01-31T12:00:00.123456789Z", 1_896_091_200_123),
        ("2030-01-31T12:00:00-00:00", 1_896_091_200_000),
    ],
)
def test_a_time_with_an_offset_is_parsed(text: str, at: int) -> None:
    assert parse_rfc3339(text) == at
    assert time_problem(text) is None


@given(st.integers(0, 4_102_444_800_000))
def test_a_formatted_time_is_parsed_to_the_same_time(at: int) -> None:
    assert parse_rfc3339(to_rfc3339(at)) == at
