from typing import Any

import pytest

from paymock.schemas import fields
from paymock.schemas.fields import url_problem
from paymock.schemas.metadata import MAX_SAFE_INTEGER, metadata_problem
from paymock.schemas.validation import Problems, checker_for


def problem(wire_type: Any, value: Any) -> str | None:
    """The problem of a value of a field, if it has one."""
    problems: Problems = {}
    checker_for(wire_type)(value, "field", problems)
    return next(iter(problems.values()), None)


@pytest.mark.parametrize(
    "url",
    [
        "https://merchant.example/hooks",
        "HTTP://localhost:8080",
        "http://[::1]:65535/hooks?a=b",
        "http://a/%20",
    ],
)
def test_an_absolute_http_url_is_valid(url: str) -> None:
    assert url_problem(url) is None


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://user@merchant.example", "user name"),
        ("https://merchant.example/#part", "fragment"),
        ("https://merchant.example:0/", "absolute http or https URL"),
        ("https://merchant.example:65536/", "absolute http or https URL"),
        ("http://[::g]/", "absolute http or https URL"),
        ("ftp://merchant.example/", "absolute http or https URL"),
        ("/hooks", "absolute http or https URL"),
        ("", "absolute http or https URL"),
    ],
)
def test_any_other_url_is_not(url: str, message: str) -> None:
    assert message in (url_problem(url) or "")


@pytest.mark.parametrize(
    ("wire_type", "value"),
    [
        (fields.OrderId, "order-1001 \u00e9\u2028"),
        (fields.Note, "two\nlines"),
        (fields.Events, ["*"]),
        (fields.Events, ["payment.completed", "payment.failed"]),
    ],
)
def test_a_valid_value_has_no_problem(wire_type: Any, value: Any) -> None:
    assert problem(wire_type, value) is None


@pytest.mark.parametrize(
    ("wire_type", "value", "message"),
    [
        (fields.OrderId, "a\x7fb", "control characters"),
        (fields.OrderId, "", "1 to 128 characters"),
        (fields.Note, "a\0b", "NUL"),
        (fields.Events, ["payment.paid"], "must be one of *, payment.awaiting_payment"),
        (fields.Events, "*", "must be an array, not a string"),
        (fields.Events, ["*", "*"], "must not name an event twice"),
    ],
)
def test_an_invalid_value_has_a_problem(wire_type: Any, value: Any, message: str) -> None:
    assert message in (problem(wire_type, value) or "")


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
