"""The format of a fault."""

import pytest

from paymock.rules.faults import Fault, fault_problem, parse_fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("status=503", Fault(503, None, drop=False, times=None)),
        ("status=400; times=2", Fault(400, None, drop=False, times=2)),
        ("delay=1500", Fault(None, 1500, drop=False, times=None)),
        ("delay=0;times=1", Fault(None, 0, drop=False, times=1)),
        ("delay=30000", Fault(None, 30_000, drop=False, times=None)),
        ("drop", Fault(None, None, drop=True, times=None)),
        ("drop ; times=999999", Fault(None, None, drop=True, times=999_999)),
    ],
)
def test_a_fault_is_parsed(text: str, fault: Fault) -> None:
    assert parse_fault(text) == fault
    assert fault_problem(text) is None


@pytest.mark.parametrize(
    "text",
    ["", "status", "status=", "status=200", "status=600", "status=5033", "delay=30001", "delay=-1",
     "delay=1.5", "DROP", "drop=1", "drop; times=0", "drop; times=", "drop; times=1; times=2",
     "status=503,drop", "drop\n", "delay=\uff11"],
)  # fmt: skip
def test_any_other_text_is_not_a_fault(text: str) -> None:
    assert parse_fault(text) is None
    assert "status=CODE" in (fault_problem(text) or "")
