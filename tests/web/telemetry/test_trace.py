import pytest

from paymock.http.requests import Body, parse_request
from paymock.web.telemetry.trace import trace_of

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{PARENT}-01"


def trace(*values: str) -> dict[str, str]:
    """What is found in a request with these values of `traceparent`."""
    return trace_of(
        parse_request("GET", b"/", [(b"traceparent", value.encode()) for value in values], Body(b""))
    )


@pytest.mark.parametrize(
    "value",
    [
        VALID,
        f"00-{TRACE}-{PARENT}-00",
        f"  {VALID}\t",
        f"cc-{TRACE}-{PARENT}-01",
        f"cc-{TRACE}-{PARENT}-01-what-the-future-will-be-like",
    ],
)
def test_a_trace_has_two_ids(value: str) -> None:
    assert trace(value) == {"trace_id": TRACE, "parent_id": PARENT}


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00",
        f"ff-{TRACE}-{PARENT}-01",
        f"0-{TRACE}-{PARENT}-01",
        f"0g-{TRACE}-{PARENT}-01",
        f"00-{TRACE[1:]}-{PARENT}-01",
        f"00-{TRACE}0-{PARENT}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{PARENT[1:]}-01",
        f"00-{TRACE}-{PARENT}-1",
        f"00-{TRACE}-{PARENT}-0x",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}-01-",
        f"cc-{TRACE}-{PARENT}-01.more",
        f"00-{TRACE}-{PARENT}-01, {VALID}",
        f"00_{TRACE}_{PARENT}_01",
        f"00-mk_test_{TRACE[8:]}-{PARENT}-01",
    ],
)
def test_anything_else_is_no_trace(value: str) -> None:
    assert trace(value) == {}


def test_a_trace_that_is_named_twice_or_not_at_all_is_none() -> None:
    assert trace(VALID, VALID) == trace() == {}
