"""Tables of the rules as Markdown, for the documentation and the OpenAPI documents."""

import re
from collections.abc import Iterable, Sequence

from paymock.payments.views import listed_scenario
from paymock.rules.faults import FAULT_ROWS
from paymock.rules.scenarios import (
    DEFAULT_SCENARIO,
    PAYMENT_WINDOW,
    SCENARIOS,
    DepositStatus,
    PaymentStatus,
)
from paymock.rules.timeline import summarize

_STATUS = re.compile(rf"\b({'|'.join([*PaymentStatus, *DepositStatus])})\b")


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def scenario_table() -> str:
    """Specification: "Scenarios"."""
    rows = [
        (f"`{row.name}`", f"`{row.final_status}`", row.after, row.description)
        for row in map(summarize, SCENARIOS.values())
    ]
    return markdown(("Scenario", "Final status", "After", "Simulates"), rows)


def timing_table() -> str:
    """Specification: "Happy-path timing"."""
    created, *later = listed_scenario(SCENARIOS[DEFAULT_SCENARIO]).timeline
    changes = [(one.event, one.offset_seconds) for one in later]
    steps = [(f"Created: {created.status}", 0), *changes, ("Expiry scenarios expire", PAYMENT_WINDOW / 1000)]
    rows = [(_STATUS.sub(r"`\1`", step), f"{seconds:g} s") for step, seconds in steps]
    return markdown(("Step", "After creation"), rows)


def fault_table() -> str:
    rows = [(f"`{row.example}`", re.sub("^[a-z]+", r"`\g<0>`", row.phase), row.meaning) for row in FAULT_ROWS]
    return markdown(("Fault", "Without a phase", "What happens"), rows)
