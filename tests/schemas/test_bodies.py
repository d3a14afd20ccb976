from typing import Any

import pytest

from paymock.schemas.control import AddFault, Advance, AdvancePayment, MakeDeposit, SetClock, SetNext
from paymock.schemas.validation import Problems, checker_for


@pytest.mark.parametrize(
    ("wire_type", "body", "problems"),
    [
        (SetClock, {"speed": 0}, {}),
        (SetClock, {"speed": 10_001}, {"speed": "must be a number, at least 0 and at most 10,000"}),
        # by tiny ones, a division overflows, or leads to a time that never comes
        *(
            (SetClock, {"speed": speed}, {"speed": "must be"})
            for speed in (-1, "1", None, True, [1], 5e-324, 1e-320, 1e-9, 0.000999, -5e-324)
        ),
        (SetClock, {"now": "2000-01-01T00:00:00Z", "speed": 0}, {}),
        (SetClock, {"now": "2000-01-01T00:00:00+00:01"}, {"now": "must be in the years 2000 to 2100"}),
        (SetClock, {"now": "2101-01-01T00:00:00Z"}, {"now": "must be in the years 2000 to 2100"}),
        (
            SetClock,
            {"now": "2024-02-30T12:00:00Z", "speed": None},
            {"now": "must be", "speed": "must be a number"},
        ),
        (Advance, {"seconds": 0}, {"seconds": "must be a number, more than 0 and at most 31,536,000"}),
        *((Advance, {"seconds": one}, {"seconds": "must be"}) for one in (-1, 31_536_001, "45", None, False)),
        (AdvancePayment, {"to": "end"}, {}),
        (AdvancePayment, {"to": "paid"}, {"to": "must be one of awaiting_payment,"}),
        (AdvancePayment, {"to": "end", "timeout": -1}, {"timeout": "at least 0 and at most 60"}),
        (AdvancePayment, {"to": "end", "until_observed": 1}, {"until_observed": "must be a boolean"}),
        (AddFault, {}, {"fault": "is required"}),
        (AddFault, {"fault": "explode"}, {"fault": "status=CODE"}),
        (AddFault, {"fault": "drop", "operation": "getPayments"}, {"operation": "must be one of listChains"}),
        (AddFault, {"fault": "drop", "order_id": ""}, {"order_id": "1 to 128 characters"}),
        (AddFault, {"fault": "drop", "payment_id": "order-1"}, {"payment_id": "must be the `id`"}),
        (AddFault, {"fault": "drop", "skip": -1, "times": 0}, {"skip": "at least 0", "times": "at least 1"}),
        (MakeDeposit, {"amount": 1, "asset": ""}, {"amount": "must be a string", "asset": "1 to 64"}),
        (SetNext, {"scenario": "late_payment", "times": None}, {}),
        (SetNext, {"times": 2.0}, {}),
        *(
            (SetNext, {"times": times}, {"times": "must be an integer, at least 1 and at most 1,000,000"})
            for times in (0, 1.5, True)
        ),
        (AddFault, {"fault": "503"}, {"fault": "did you mean status=503?"}),
        (SetNext, {"course": {"sending": [{}]}}, {"course.sending[0].at": "is required"}),
    ],
)
def test_the_problems_of_a_body(wire_type: type, body: dict[str, Any], problems: dict[str, str]) -> None:
    actual: Problems = {}
    checker_for(wire_type)(body, "", actual)
    assert actual.keys() == problems.keys()
    assert all(problems[field] in message for field, message in actual.items())
