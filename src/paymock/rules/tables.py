"""The scenario table and the timing table as rows of text, derived from the rules. The OpenAPI document, the
command line and the documentation print them, so that they cannot differ.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from paymock.rules.faults import FAULT_ROWS
from paymock.rules.scenarios import DEFAULT_SCENARIO, PAYMENT_WINDOW, SCENARIOS, Scenario
from paymock.rules.timeline import State, describe_change, simulate

EXAMPLE_DUE = 1_000_000
"""The raw units due in the payment whose timeline stands for those of a scenario."""

_OTHER_ASSET = "USDC"


class ScenarioRow(NamedTuple):
    """A scenario, its final status, the seconds from creation to it, and what it simulates."""

    name: str
    final_status: str
    after_seconds: float
    description: str

    @property
    def after(self) -> str:
        """When the final status is reached, as text."""
        return f"{self.after_seconds} s"


class TimingRow(NamedTuple):
    """A step of the happy path and the time after creation at which it begins."""

    step: str
    after: str


def scenario_rows(scenarios: Iterable[Scenario] = SCENARIOS.values()) -> list[ScenarioRow]:
    """The scenario table. Specification: "Scenarios"."""
    return [_row(scenario) for scenario in scenarios]


def example_states(scenario: Scenario) -> tuple[State, ...]:
    """The states of a payment of EXAMPLE_DUE raw units in `scenario`."""
    return simulate(scenario, EXAMPLE_DUE, _OTHER_ASSET)


def timing_rows() -> list[TimingRow]:
    """The timing table. Specification: "Happy-path timing"."""
    rows = [TimingRow("Created: `awaiting_payment`", "0 s")]
    before = None
    for state in example_states(SCENARIOS[DEFAULT_SCENARIO]):
        if before is not None:
            rows.append(TimingRow(describe_change(before, state), f"{_seconds(state.at)} s"))
        before = state
    rows.append(TimingRow("Expiry scenarios expire", f"{_seconds(PAYMENT_WINDOW)} s"))
    return rows


def scenario_table(scenarios: Iterable[Scenario] = SCENARIOS.values()) -> str:
    """The scenario table as Markdown."""
    rows = [
        (f"`{row.name}`", f"`{row.final_status}`", row.after, row.description.replace("|", "\\|"))
        for row in scenario_rows(scenarios)
    ]
    return markdown(("Scenario", "Final status", "After", "Simulates"), rows)


def timing_table() -> str:
    return markdown(("Step", "After creation"), timing_rows())


def fault_table() -> str:
    return markdown(("Fault", "Without a phase", "What happens"), FAULT_ROWS)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@lru_cache(maxsize=256)  # those of a server; a long one takes milliseconds
def _row(scenario: Scenario) -> ScenarioRow:
    states = example_states(scenario)
    final = next(state for state in states if state.status is states[-1].status)
    return ScenarioRow(scenario.name, final.status, _seconds(final.at), scenario.simulates)


def _seconds(milliseconds: int) -> float:
    """Seconds: an integer where there is no fraction."""
    return milliseconds / 1000 if milliseconds % 1000 else milliseconds // 1000
