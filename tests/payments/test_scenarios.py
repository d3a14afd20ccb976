from typing import Any

import msgspec
import pytest
from hypothesis import given

from paymock.payments.files import parse
from paymock.payments.views import listed_scenario
from paymock.rules.amounts import MAX_RAW
from paymock.rules.scenarios import SCENARIOS, Scenario, Sending
from paymock.rules.timeline import simulate
from paymock.schemas.scenarios import CourseRequest, ScenarioFile, course_of
from tests.support.courses import COURSES as ANY_SCENARIO
from tests.support.specification import COURSES

HALVES: dict[str, Any] = {
    "name": "two_halves",
    "simulates": "The customer pays in two halves.",
    "sending": [{"at": 5, "share": "1/2"}, {"at": 10.5, "share": "1/2", "plus": 1}],
}


def values_of(scenario: Scenario) -> Any:
    """The values of a scenario and of what it sends, whichever form of message it came in."""
    return msgspec.to_builtins(scenario)


def test_a_file_has_scenarios_by_name() -> None:
    other = {
        "name": "b",
        "payout_succeeds": False,
        "review_hold": True,
        "sending": [{"at": 0, "other_asset": True}],
    }
    entries = parse({"scenario": [HALVES, other]}, ScenarioFile).scenario
    assert [*map(values_of, entries)] == [
        values_of(
            Scenario(
                "two_halves",
                "The customer pays in two halves.",
                sending=(Sending(5, "1/2"), Sending(10.5, "1/2", "1")),
            )
        ),
        values_of(
            Scenario("b", payout_succeeds=False, review_hold=True, sending=(Sending(0, other_asset=True),))
        ),
    ]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "scenario is required"),
        ({"scenario": []}, "scenario must have 1 to 100 items, not 0"),
        ({"scenario": HALVES}, "scenario must be an array, not an object"),
        ({"scenarios": [], "scenario": [HALVES]}, "scenarios is not a field; known here: scenario"),
        ({"scenario": [HALVES, 5]}, "scenario 2 must be an object, not a number"),
        ({"scenario": [HALVES, {}]}, "scenario 2: name is required"),
        ({"scenario": [HALVES | {"name": "late_payment"}]}, "scenario 1: name must not be one of the eight"),
        ({"scenario": [HALVES, HALVES]}, "scenario must not have the name two_halves twice"),
        ({"scenario": [HALVES | {"sending": [{"at": 9_999}]}]}, "scenario two_halves: sending[0].at must be"),
        (
            {"scenario": [HALVES | {"send": 1}, HALVES | {"name": "x\x1b", "review_hold": 1}]},
            "sending; scenario 2: name must begin with a-z and go on with at most 63 of a-z 0-9 _; scenario",
        ),
        ({"scenario": [HALVES | {"name": f"n{number}"} for number in range(101)]}, "not 101"),
    ],
)
def test_a_bad_file_is_refused_with_scenario_field_and_reason(document: Any, message: str) -> None:
    with pytest.raises(ValueError, match="scenario") as refused:
        parse(document, ScenarioFile)
    assert message in str(refused.value)


def test_at_most_a_hundred_problems_are_listed() -> None:
    with pytest.raises(ValueError, match="scenario") as refused:
        parse({"scenario": [HALVES | {"sending": [{"at": -1}] * 100, "name": "x", "a": 1}] * 2}, ScenarioFile)
    assert str(refused.value).count("; scenario x: ") == 99


@given(ANY_SCENARIO)
def test_what_is_shown_of_a_scenario_describes_it_in_full(scenario: Scenario) -> None:
    shown = msgspec.to_builtins(course_of(scenario))
    assert values_of(msgspec.convert(shown, CourseRequest)) == values_of(scenario)


@pytest.mark.parametrize("due", [2, 5, 9, 10**18, MAX_RAW])
def test_a_copy_of_what_is_listed_plays_the_same_for_every_due(due: int) -> None:
    for name, scenario in SCENARIOS.items():
        listed = msgspec.to_builtins(listed_scenario(scenario))
        copied = {
            field: listed[field] for field in ("simulates", "payout_succeeds", "review_hold", "sending")
        }
        course = msgspec.convert(copied, CourseRequest)
        assert simulate(course, due, "USDC") == simulate(scenario, due, "USDC")
        assert simulate(course, due, "USDC")[-1].status == COURSES[name][-1][1]


def test_a_course_without_a_name_gets_one() -> None:
    assert CourseRequest().name == "course"
