"""Scenarios of users: from a file or a course to the scenario of the rules, and back to what is shown."""

from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict

from paymock.rules import scenarios as rules
from paymock.rules.scenarios import Scenario
from paymock.rules.tables import example_states
from paymock.rules.timeline import State, changed_deposit, describe_change
from paymock.schemas.control import ListedScenario, ScenarioChange
from paymock.schemas.scenarios import Course, CourseRequest, Sending, SendingRequest

DEFAULT_NAME = "course"
"""The name of a course without one."""


def scenario_from(course: CourseRequest) -> Scenario:
    return Scenario(
        course.name or DEFAULT_NAME,
        course.simulates,
        tuple(map(_sending_from, course.sending)),
        course.payout_succeeds,
        course.review_hold,
    )


def _sending_from(sending: SendingRequest) -> rules.Sending:
    least_excess = None if sending.least_excess is UNSET else str(int(sending.least_excess))
    share = rules.Share.of(sending.share, str(int(sending.plus)), least_excess)
    return rules.Sending(round(sending.at * 1000), share, sending.other_asset)


def render(scenario: Scenario) -> Course:
    sending = [
        Sending(
            at=one.at / 1000,
            share=one.share.fraction,
            plus=one.share.plus,
            least_excess=UNSET if one.share.least_excess is None else one.share.least_excess,
            other_asset=one.other_asset,
        )
        for one in scenario.sending
    ]
    return Course(**scenario._asdict() | {"sending": sending})


def render_listed(scenario: Scenario) -> ListedScenario:
    """The scenario with what it leads to, for a due of EXAMPLE_DUE raw units."""
    states = example_states(scenario)
    return ListedScenario(
        **asdict(render(scenario)),
        final_status=states[-1].status,
        timeline=[
            ScenarioChange(**change(previous, state))
            for previous, state in zip((None, *states), states, strict=False)
        ],
    )


def change(previous: State | None, state: State) -> dict[str, Any]:
    """The members of a ScenarioChange, and of a TimelineEntry, between two consecutive states; `previous` is
    None for the creation.
    """
    number = None if previous is None else changed_deposit(previous, state)
    deposit = None if number is None else state.deposits[number]
    return {
        "offset_seconds": state.at / 1000,
        "event": "Created" if previous is None else describe_change(previous, state).replace("`", ""),
        "status": state.status,
        "deposit": None if number is None else number + 1,
        "confirmations": None if deposit is None else deposit.confirmations,
        "deposit_status": None if deposit is None else deposit.status,
    }
