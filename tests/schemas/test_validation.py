"""The quick way to accept a body and the slow way to say what is wrong with it never disagree."""

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from paymock.schemas.control import SetNext
from paymock.schemas.public import CreateEndpoint, CreatePayment
from paymock.schemas.validation import Checker, Problems, acceptor_for, checker_for
from tests.support.client import ORDER

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)
LIKELY = st.sampled_from(
    [
        "",
        "bsc",
        "USDT",
        "0",
        "1",
        "1" * 78,
        "9" * 78,
        "0x" + "0" * 40,
        "0x" + "ab" * 20,
        "2099-01-31T12:30:00Z",
    ]
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

WAYS: dict[type, tuple[Callable[[Any], Any], Checker]] = {
    of: (acceptor_for(of), checker_for(of)) for of in (CreatePayment, CreateEndpoint, SetNext)
}


def changed(path: tuple[str | int, ...], value: Any) -> Any:
    """A create request with another value at a path."""
    body = copy.deepcopy(dict(ORDER))
    target: Any = body
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return body


def agree(of: type, body: Any) -> None:
    accept, check = WAYS[of]
    problems: Problems = {}
    check(body, "", problems)
    assert (accept(body) is None) == bool(problems), problems


@given(st.sampled_from(PATHS), VALUES)
@example(("metadata",), {"a": 2**70})
@example(("metadata",), {"a" * 65: 1})
@example(("pay_with",), [])
@example(("expires_at",), None)
def test_a_create_request_is_accepted_quickly_if_and_only_if_nothing_is_wrong_with_it(
    path: tuple[str | int, ...], value: Any
) -> None:
    agree(CreatePayment, changed(path, value))


@given(VALUES)
def test_any_body_is_accepted_quickly_if_and_only_if_nothing_is_wrong_with_it(body: Any) -> None:
    for of in WAYS:
        agree(of, body)
