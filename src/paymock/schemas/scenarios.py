"""Scenarios as users write them, in the file of `--scenarios` and as `course` in `POST /_mock/next`, and as
the control API shows them. See docs/scenarios.md.
"""

import re
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict, force_setattr

from paymock.rules import scenarios as rules
from paymock.rules.amounts import MAX_DIGITS, MAX_RAW
from paymock.rules.scenarios import SCENARIOS
from paymock.schemas.fields import MAX_SAFE_INTEGER, check, doc, matching
from paymock.schemas.public import Reply, Request
from paymock.text import CONTROL, SEPARATORS

MAX_SCENARIOS, MAX_SENDINGS = 100, 100
MAX_AT = 3_600
"""The latest time of a sending, in seconds after creation."""

NAME_PATTERN = "^[a-z][a-z0-9_]{0,63}$"
is_name = re.compile(NAME_PATTERN.strip("^$")).fullmatch
_FORMAT = "must begin with a-z and go on with at most 63 of a-z 0-9 _"
_RAW_DIFFERENCE = re.compile(f"-?[0-9]{{1,{MAX_DIGITS}}}")
_CONTROL = re.compile(f"[{CONTROL}{SEPARATORS}]")


def name_problem(text: str) -> str | None:
    if not is_name(text):
        return _FORMAT
    return "must not be one of the eight built-in scenarios" if text in SCENARIOS else None


def units_problem(value: Any) -> str | None:
    if isinstance(value, str):
        valid = _RAW_DIFFERENCE.fullmatch(value) and abs(int(value)) <= MAX_RAW
    else:
        whole = isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0
        valid = whole and abs(value) <= MAX_SAFE_INTEGER
    if valid:
        return None
    return 'must be an integer of raw units up to 2^53-1, or as a string, "-1000", up to 2^256-1'


Name = Annotated[
    str,
    doc(
        "A name of your own: none of the eight built-in scenarios.",
        examples=["two_halves"],
        extra_json_schema={"pattern": NAME_PATTERN},
        extra={"check": name_problem},
    ),
]
NAME_FORMAT = matching(NAME_PATTERN, _FORMAT)
AnyScenarioName = Annotated[
    str, doc("A scenario of this server, or the name of a course.", examples=["happy_path"]), NAME_FORMAT
]
Simulates = Annotated[
    str,
    doc(
        "What it simulates, in one line.",
        max_length=256,
        examples=["The customer pays in two halves."],
        extra=check(lambda text: not _CONTROL.search(text), "must be one line, without control characters"),
    ),
]
PayoutSucceeds = Annotated[
    bool, doc("Whether the payout succeeds, once it has been submitted. Default: true.")
]
ReviewHold = Annotated[
    bool, doc("Whether a reviewer holds the payment, once its funding is final. Default: false.")
]
At = Annotated[
    float,
    doc(
        "Seconds after creation, in steps of 0.001.",
        ge=0,
        le=MAX_AT,
        examples=[5],
        extra=check(lambda at: round(at * 1000) / 1000 == at, "must be in steps of 0.001 seconds"),
    ),
]
Fraction = Annotated[
    str,
    doc('The fraction of `due` that is sent, rounded down. Default: `"1/1"`.', examples=["1/2"]),
    matching(
        "^(0|[1-9][0-9]{0,8})/[1-9][0-9]{0,8}$", 'must be a fraction of due, "1/2", of at most 9 digits each'
    ),
]
UnitsAsNumber = Annotated[
    int,
    Meta(
        title="UnitsAsNumber",
        description="Raw units, within what every JSON parser reads exactly.",
        ge=-MAX_SAFE_INTEGER,
        le=MAX_SAFE_INTEGER,
        examples=[1],
    ),
]
UnitsAsText = Annotated[
    str,
    Meta(
        title="UnitsAsText",
        description="Raw units, up to 2^256-1.",
        examples=["-1000"],
        extra_json_schema={"pattern": "^-?[0-9]+$", "maxLength": MAX_DIGITS + 1},
    ),
]
Units = Annotated[UnitsAsNumber | UnitsAsText, Meta(extra={"check": units_problem})]
OtherAsset = Annotated[
    bool, doc("Whether it is sent in another asset than that of the instructions. Default: false.")
]


class Sending(Reply):
    """A transfer by the simulated customer."""

    at: At
    share: Fraction
    plus: Annotated[str, doc("Raw units in addition to the share, negative ones too.", examples=["0"])]
    other_asset: OtherAsset
    least_excess: (
        Annotated[str, doc("The minimum excess over `due`, in raw units; absent: none.", examples=["1"])]
        | UnsetType
    ) = UNSET


class SendingRequest(rules.Sending, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A transfer by the simulated customer. A sum below 1 counts as 1."""

    at: At
    share: Fraction = "1/1"
    plus: Annotated[Units, doc("Raw units in addition to the share, negative ones too. Default: 0.")] = 0
    least_excess: (
        Annotated[Units, doc("The minimum excess over `due`, in raw units. Default: none.")] | UnsetType
    ) = UNSET
    other_asset: OtherAsset = False


class CourseRequest(rules.Scenario, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens to a payment outside the service. The rules compute what it leads to."""

    name: Annotated[Name | None, doc("None of the eight built-in ones. Default: `course`.")] = None  # type: ignore[assignment] # null stands for the default
    simulates: Simulates = ""
    payout_succeeds: PayoutSucceeds = True
    review_hold: ReviewHold = False
    sending: Annotated[
        tuple[SendingRequest, ...], doc("What the customer sends. Default: nothing.", max_length=MAX_SENDINGS)
    ] = ()

    def __post_init__(self) -> None:
        if self.name is None:
            force_setattr(self, "name", "course")


class FileScenario(CourseRequest, frozen=True):
    """A scenario of a file."""

    name: Name


def twice_problem(entries: list[Any]) -> str | None:
    names = [entry["name"] for entry in entries]
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    return f"must not have the name {twice[0]} twice" if twice else None


class ScenarioFile(Request):
    """The file of `--scenarios`."""

    scenario: Annotated[
        list[FileScenario], Meta(min_length=1, max_length=MAX_SCENARIOS, extra={"check": twice_problem})
    ]


class Course(Reply):
    """What happens to a payment outside the service."""

    name: AnyScenarioName
    simulates: Simulates
    payout_succeeds: PayoutSucceeds
    review_hold: ReviewHold
    sending: Annotated[list[Sending], doc("What the customer sends.")]


def course_of(scenario: rules.Scenario) -> Course:
    sending = [Sending(**asdict(one)) for one in scenario.sending]
    return Course(**asdict(scenario) | {"sending": sending})
