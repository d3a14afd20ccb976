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
        ("2030-01-31T12:00:00.1239999999999999999Z", 1_896_091_200_123),
        ("1998-12-31T23:59:60Z", 915_148_800_000),
        ("1998-12-31T15:59:60.123-08:00", 915_148_800_123),
        ("0000-02-29T00:00:00Z", -62_162_121_600_000),
        ("9999-12-31T23:59:59-00:01", 253_402_300_859_000),
    ],
)
def test_a_time_with_an_offset_is_parsed(text: str, at: int) -> None:
    assert parse_rfc3339(text) == at
    assert time_problem(text) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2030-01-31 12:00:00Z", "an RFC 3339 time with an offset"),
        ("2030-13-01T00:00:00Z", "the month is from 1 to 12, not 13"),
        ("2030-02-31T00:00:00Z", "the day is from 1 to 28, not 31"),
        ("2030-01-31T00:00:00+24:00", "the hour of the offset is from 0 to 23, not 24"),
        ("1998-12-31T23:58:60Z", "second 60 is a leap second, which ends a month in UTC"),
        ("1998-12-30T23:59:60Z", "second 60 is a leap second, which ends a month in UTC"),
    ],
)
def test_what_is_no_time_is_refused_with_the_reason(text: str, problem: str) -> None:
    assert parse_rfc3339(text) is None
    assert problem in (time_problem(text) or "")


def test_the_grammar_is_that_of_rfc_3339_and_no_other() -> None:
    """The kinds of solana-foundation/pay-kit#284, on which payment libraries disagree."""
    for end in (".1Z", f".{'9' * 100}Z", "+23:59", "-23:59", "z"):
        assert parse_rfc3339(f"2026-01-31T12:00:00{end}") is not None, end
    for end in ("", "+24:00", "+00:60", "+1:00", "+01", "+0100", "Z+01:00", " Z", "Z ", "\u221201:00", "Z\n"):
        assert time_problem(f"2026-01-31T12:00:00{end}"), end
    for date in ("10000-01-01", "2100-02-29", "2026-04-31", "2026-00-10", "2026-01-00", "2026-1-31"):
        assert time_problem(f"{date}T12:00:00Z"), date
    for time in ("24:00:00", "12:60:00", "23:59:61", "12:00", "1:00:00", "12:00:00,5", "12:00:00."):
        assert time_problem(f"2026-01-31T{time}Z"), time
    for text in ("", "1928000000", "20260131T120000Z", "2026-W05-6T12:00:00Z", "202\u09e8-01-31T12:00:00Z"):
        assert time_problem(text), text


@given(st.integers(0, 4_102_444_800_000))
def test_a_formatted_time_is_parsed_to_the_same_time(at: int) -> None:
    assert parse_rfc3339(to_rfc3339(at)) == at
