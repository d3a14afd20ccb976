import datetime
from typing import Any

import pytest

from paymock.rules.scenarios import SCENARIOS
from paymock.schemas.scenarios import CourseRequest
from paymock.schemas.validation import Problems, checker_for

FRACTION = 'must be a fraction of due, "1/2", of at most 9 digits each'
PLUS = 'must be an integer of raw units up to 2^53-1, or as a string, "-1000", up to 2^256-1'
NAME = "must begin with a-z and go on with at most 63 of a-z 0-9 _"
STEPS = "must be in steps of 0.001 seconds"
SECONDS = "must be a number, at least 0 and at most 3,600"
SENDING: dict[str, Any] = {"at": 5}
BAD_AMOUNTS: list[Any] = [
    *(0.5, 2**53, -(2**53), 10**400, float("inf"), float("nan"), True, [], {}),
    *("", "-", "+1", "1.0", "1e3", " 1", "1\n", str(2**256), str(-(2**256)), "9" * 79, "\uff11"),
    datetime.date(2030, 1, 31),
]


def problems(body: Any) -> Problems:
    found: Problems = {}
    checker_for(CourseRequest)(body, "", found)
    return found


@pytest.mark.parametrize(
    "course",
    [
        {},
        {"name": "a", "simulates": "Ä | b", "payout_succeeds": False, "review_hold": True, "sending": []},
        {"name": "x" + "_9" * 31 + "z"},
        {"sending": [SENDING] * 100},
        *({"sending": [{"at": at}]} for at in (0, 0.0, 0.001, 1.001, 3_599.999, 3_600)),
        *({"sending": [SENDING | {"share": share}]} for share in ("0/1", "999999999/1", "1/999999999")),
        *(
            {"sending": [SENDING | {"plus": plus}]}
            for plus in (0, -1, 1.0, 2**53 - 1, 1 - 2**53, "5", "-5", str(2**256 - 1), str(1 - 2**256))
        ),
        *({"sending": [SENDING | {"least_excess": units}]} for units in (0, 1, -1, "1", str(2**256 - 1))),
        {"sending": [SENDING | {"other_asset": True}]},
    ],
)
def test_a_course_is_accepted(course: dict[str, Any]) -> None:
    assert problems(course) == {}


@pytest.mark.parametrize(
    ("course", "field", "problem"),
    [
        ([], "body", "must be an object, not an array"),
        *(({"name": name}, "name", NAME) for name in ("", "A", "9a", "_a", "a-b", "a" * 65, "a\n", "ä")),
        *(({"name": name}, "name", "must not be one of the eight built-in scenarios") for name in SCENARIOS),
        ({"name": 1}, "name", "must be a string, not a number"),
        ({"simulates": None}, "simulates", "must be a string, not null"),
        ({"simulates": "a" * 257}, "simulates", "must have 0 to 256 characters, not 257"),
        *(
            ({"simulates": text}, "simulates", "must be one line, without control characters")
            for text in ("a\nb", "\x1b[31m", "a\u2028b")
        ),
        ({"payout_succeeds": 1}, "payout_succeeds", "must be a boolean, not a number"),
        ({"review_hold": "no"}, "review_hold", "must be a boolean, not a string"),
        ({"final_status": "completed"}, "final_status", "is not a field; known here: name, simulates"),
        ({"sending": {}}, "sending", "must be an array, not an object"),
        ({"sending": [SENDING] * 101}, "sending", "must have 0 to 100 items, not 101"),
        ({"sending": [5]}, "sending[0]", "must be an object, not a number"),
        ({"sending": [{}]}, "sending[0].at", "is required"),
        *(
            ({"sending": [{"at": at}]}, "sending[0].at", SECONDS)
            for at in (-0.001, 3_600.001, "5", True, None, float("nan"), float("inf"), 10**400)
        ),
        *(({"sending": [{"at": at}]}, "sending[0].at", STEPS) for at in (0.0001, 1.0005, 3_599.9999)),
        *(
            ({"sending": [SENDING | {"share": share}]}, "sending[0].share", FRACTION)
            for share in ("", "1", "1/0", "-1/2", "1/2\n", "0.5/1", "1000000000/1", "01/2", "\uff11/2")
        ),
        ({"sending": [SENDING | {"share": 0.5}]}, "sending[0].share", "must be a string, not a number"),
        *(({"sending": [SENDING | {"plus": plus}]}, "sending[0].plus", PLUS) for plus in BAD_AMOUNTS),
        *(
            ({"sending": [SENDING | {"least_excess": one}]}, "sending[0].least_excess", PLUS)
            for one in BAD_AMOUNTS
        ),
        *(
            ({"sending": [SENDING | {name: None}]}, f"sending[0].{name}", "must not be null")
            for name in ("plus", "least_excess")
        ),
        ({"sending": [SENDING | {"other_asset": 0}]}, "sending[0].other_asset", "must be a boolean"),
        ({"sending": [SENDING | {"asset": "USDC"}]}, "sending[0].asset", "is not a field; known here: at,"),
        ({"name": datetime.time(12)}, "name", "must be a string, not a date or a time"),
    ],
)
def test_the_problem_of_a_course(course: Any, field: str, problem: str) -> None:
    found = problems(course)
    assert list(found) == [field]
    assert found[field].startswith(problem)
