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


@pytest.mark.parametrize(
    "text",
    [
        "", "2030", "2030-01-31", "2030-01-31T12:00:00", "2030-01-31 12:00:00Z", "2030-01-31T12:00Z",
        "20300131T120000Z",
        "2030-W05-4T12:00:00Z", "2030-13-01T00:00:00Z", "2030-02-29T00:00:00Z", "2030-01-31T24:00:00Z",
        "2030-01-31T12:60:00Z", "2030-01-31T23:59:60Z", "2030-01-31T12:00:00+24:00",
        "2030-01-31T12:00:00+0100",
        "2030-01-31T12:00:00,5Z", "2030-01-31T12:00:00.Z", "2030-01-31T12:00:00.1234567890Z",
        "0000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59",
        "2030-01-31T12:00:00Z\n",
        "\uff12\uff10\uff13\uff10-01-31T12:00:00Z", "1896091200", "Thu, 31 Jan 2030 12:00:00 GMT",
    ],
)  # fmt: skip
def test_any_other_text_is_not_a_time(text: str) -> None:
    assert parse_rfc3339(text) is None
    assert "RFC 3339" in (time_problem(text) or "")


@given(st.integers(0, 4_102_444_800_000))
def test_a_formatted_time_is_parsed_to_the_same_time(at: int) -> None:
    assert parse_rfc3339(to_rfc3339(at)) == at
