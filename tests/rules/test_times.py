import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.rules.times import LATEST, parse_rfc3339, time_problem, to_rfc3339


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
        ("2030-01-31T12:00:00.1239999999999999999Z", 1_896_091_200_123),
        ("1998-12-31T23:59:60Z", 915_148_800_000),
        ("1998-12-31T15:59:60.123-08:00", 915_148_800_123),
        ("9999-12-31T23:59:59.999Z", LATEST),
    ],
)
def test_a_time_with_an_offset_is_parsed(text: str, at: int) -> None:
    assert parse_rfc3339(text) == at
    assert time_problem(text) is None


def test_what_is_no_time_is_refused_with_the_reason() -> None:
    for text, problem in {
        "2030-01-31 12:00:00Z": "an RFC 3339 time with an offset",
        "2030-13-01T00:00:00Z": "the month is from 1 to 12, not 13",
        "2030-01-31T00:00:00+24:00": "the hour of the offset is from 0 to 23, not 24",
        "1998-12-31T23:58:60Z": "second 60 is a leap second, which ends a day in UTC",
        "9999-12-31T23:59:59-00:01": "must not be after 9999-12-31T23:59:59.999Z in UTC",
        "0000-02-29T00:00:00Z": "the year is from 1 to 9999, not 0",
    }.items():
        assert parse_rfc3339(text) is None
        assert problem in (time_problem(text) or "")


@given(st.integers(0, 4_102_444_800_000))
def test_a_formatted_time_is_parsed_to_the_same_time(at: int) -> None:
    assert parse_rfc3339(to_rfc3339(at)) == at
