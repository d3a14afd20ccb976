"""The limits of metadata."""

from typing import Any

import pytest

from paymock.schemas.fields import MAX_SAFE_INTEGER, metadata_problem


def nested(levels: int) -> dict[str, Any]:
    return {"a": nested(levels - 1)} if levels > 1 else {}


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {str(number): number for number in range(50)},
        {"k" * 64: None},
        nested(8),
        {"a": MAX_SAFE_INTEGER, "b": -MAX_SAFE_INTEGER, "c": [1e300, True]},
        {"a": "x" * (16 * 1024 - len('{"a":""}'))},
        {"a": "1234567890123456"},
    ],
)
def test_metadata_at_its_limits_is_valid(metadata: dict[str, Any]) -> None:
    assert metadata_problem(metadata) is None


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({str(number): number for number in range(51)}, "at most 50 entries, not 51"),
        ({"": 1}, "keys of 1 to 64 characters"),
        ({"k" * 65: 1}, "keys of 1 to 64 characters"),
        (nested(9), "at most 8 levels"),
        ({"a": [MAX_SAFE_INTEGER + 1]}, "integers beyond"),
        ({"a": {"b": -MAX_SAFE_INTEGER - 1}}, "integers beyond"),
        ({"a": "b\0"}, "NUL"),
        ({"a": {"\0": 1}}, "NUL"),
        ({"a": "x" * 16 * 1024}, "at most 16384 bytes"),
    ],
)
def test_metadata_beyond_a_limit_is_refused(metadata: dict[str, Any], message: str) -> None:
    assert message in (metadata_problem(metadata) or "")
