import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paymock.rules.errors import PaymockError
from paymock.schemas.control import SetNext
from paymock.schemas.public import CreatePayment, CreateWebhookEndpoint
from paymock.schemas.validation import MAX_DETAILS, Checker, Problems, checker_for, converter_for, validate
from tests.support.client import ORDER

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)
LIKELY = st.sampled_from(
    ["", "bsc", "USDT", "0", "1", "9" * 78, "0x" + "0" * 40, "0x" + "ab" * 20, "2099-01-31T12:30:00Z"]
)
VALUES = st.recursive(
    SCALARS | LIKELY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
PATHS: list[tuple[str | int, ...]] = [
    *((name,) for name in ORDER),
    *((name, member) for name in ("receive", "settlement", "refund_to") for member in [*ORDER[name], "more"]),
    ("pay_with", 0),
    ("pay_with", 0, "chain"),
    ("metadata", "customer_id"),
    ("more",),
]

WIRE_TYPES: dict[type, tuple[Callable[[Any], Any], Checker]] = {
    wire_type: (converter_for(wire_type), checker_for(wire_type))
    for wire_type in (CreatePayment, CreateWebhookEndpoint, SetNext)
}


def changed(path: tuple[str | int, ...], value: Any) -> Any:
    """A create request with another value at a path."""
    body = copy.deepcopy(dict(ORDER))
    target: Any = body
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return body


def assert_agreement(wire_type: type, body: Any) -> None:
    """The converter converts `body` if and only if the checker finds no problem."""
    convert, check = WIRE_TYPES[wire_type]
    problems: Problems = {}
    check(body, "", problems)
    assert (convert(body) is None) == bool(problems), problems


@given(st.sampled_from(PATHS), VALUES)
@example(("metadata",), {"a": 2**70})
@example(("metadata",), {"a" * 65: 1})
@example(("pay_with",), [])
@example(("expires_at",), None)
def test_converter_and_checker_agree_on_a_create_request(path: tuple[str | int, ...], value: Any) -> None:
    assert_agreement(CreatePayment, changed(path, value))


@given(VALUES)
def test_converter_and_checker_agree_on_any_body(body: Any) -> None:
    for wire_type in WIRE_TYPES:
        assert_agreement(wire_type, body)


def test_a_valid_body_becomes_its_wire_type() -> None:
    assert validate(checker_for(SetNext), {"times": 2.0}, SetNext) == SetNext(times=2)


def test_an_error_counts_all_problems_and_lists_a_hundred() -> None:
    with pytest.raises(PaymockError) as caught:
        validate(checker_for(SetNext), {f"field {number}": number for number in range(101)}, SetNext)
    assert caught.value.message == "101 fields are not acceptable; see `details`."
    assert len(caught.value.details or {}) == MAX_DETAILS


def test_a_message_contains_no_address_and_no_long_name() -> None:
    address, long = "0x" + "ab" * 20, "n" * 65
    with pytest.raises(PaymockError) as caught:
        validate(checker_for(SetNext), {address: 1, long: 1}, SetNext)
    assert list(caught.value.details or {}) == ["***", "n" * 63 + "…"]


def test_an_unsupported_type_has_no_checker() -> None:
    with pytest.raises(TypeError, match="no checker"):
        checker_for(bytes)
