"""The scenario table and the timing table as rows of text, derived from the rules. The OpenAPI document, the
command line and the documentation print them, so that they cannot differ.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from paymock.rules.faults import FAULT_ROWS
from paymock.rules.scenarios import DEFAULT_SCENARIO, PAYMENT_WINDOW, SCENARIOS, Scenario
from paymock.rules.timeline import State, describe_change, simulate

_DUE = 1010
_OTHER_ASSET = "USDC"
_SECOND = 1000


class ScenarioRow(NamedTuple):
    """A scenario, its final status, the seconds from creation to it, and what it simulates."""

    name: str
    final_status: str
    after_seconds: int
    description: str

    @property
    def after(self) -> str:
        """When the final status is reached, as text."""
        return f"{self.after_seconds} s"


class TimingRow(NamedTuple):
    """A step of the happy path and the time after creation at which it begins."""

    step: str
    after: str


def scenario_rows() -> list[ScenarioRow]:
    """The scenario table. Specification: "Scenarios"."""
    return [
        ScenarioRow(row.name, row.final_status, _final_state(row).at // _SECOND, row.description)
        for row in SCENARIOS.values()
    ]


def timing_rows() -> list[TimingRow]:
    """The timing table. Specification: "Happy-path timing"."""
    rows = [TimingRow("Created: `awaiting_payment`", "0 s")]
    before = None
    for state in simulate(SCENARIOS[DEFAULT_SCENARIO], _DUE, _OTHER_ASSET):
        if before is not None:
            rows.append(TimingRow(describe_change(before, state), _seconds(state.at)))
        before = state
    rows.append(TimingRow("Expiry scenarios expire", _seconds(PAYMENT_WINDOW)))
    return rows


def scenario_table() -> str:
    """The scenario table as Markdown."""
    rows = [(f"`{row.name}`", f"`{row.final_status}`", row.after, row.description) for row in scenario_rows()]
    return markdown(("Scenario", "Final status", "After", "Simulates"), rows)


def timing_table() -> str:
    """The timing table as Markdown."""
    return markdown(("Step", "After creation"), timing_rows())


def fault_table() -> str:
    """The table of faults as Markdown."""
    return markdown(("Fault", "Without a phase", "What happens"), FAULT_ROWS)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _final_state(scenario: Scenario) -> State:
    return next(
        state for state in simulate(scenario, _DUE, _OTHER_ASSET) if state.status == scenario.final_status
    )


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // _SECOND} s"
