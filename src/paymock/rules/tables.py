"""The scenario table and the timing table as rows of text, derived from the rules: for the OpenAPI
document, the command line and the documentation, so that none of them can say anything else.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from paymock.rules.scenarios import DEFAULT_SCENARIO, SCENARIOS, WINDOW, Scenario
from paymock.rules.timeline import State, event_between, play

_DUE = 1010
_OTHER_ASSET = "USDC"
_SECOND = 1000


class ScenarioRow(NamedTuple):
    """A scenario, how its payment ends, after how many seconds, and what it simulates."""

    name: str
    ends: str
    after: str
    simulates: str


class TimingRow(NamedTuple):
    """A step of the happy path and the seconds after creation at which it begins."""

    step: str
    after: str


def scenario_rows() -> list[ScenarioRow]:
    """The scenario table. Specification: "Scenarios"."""
    return [
        ScenarioRow(row.name, row.ends, _seconds(_end(row).at), row.simulates) for row in SCENARIOS.values()
    ]


def timing_rows() -> list[TimingRow]:
    """The timing table. Specification: "Happy-path timing"."""
    rows = [TimingRow("Created: `awaiting_payment`", "0 s")]
    before = None
    for state in play(SCENARIOS[DEFAULT_SCENARIO], _DUE, _OTHER_ASSET):
        if before is not None:
            rows.append(TimingRow(event_between(before, state), _seconds(state.at)))
        before = state
    rows.append(TimingRow("Expiry scenarios expire", _seconds(WINDOW)))
    return rows


def scenario_table() -> str:
    """The scenario table as Markdown."""
    rows = [row._replace(name=f"`{row.name}`", ends=f"`{row.ends}`") for row in scenario_rows()]
    return markdown(("Scenario", "Final status", "After", "Simulates"), rows)


def timing_table() -> str:
    """The timing table as Markdown."""
    return markdown(("Step", "After creation"), timing_rows())


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _end(scenario: Scenario) -> State:
    return next(state for state in play(scenario, _DUE, _OTHER_ASSET) if state.status == scenario.ends)


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // _SECOND} s"
