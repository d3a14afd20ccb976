"""What an application has been shown of all that the service can show it.

Pure functions over the journals and the payments of sandboxes, as `paymock.testing.Sandbox` returns them.
What there is comes from the rules. Of the error codes, those count that an application can meet without a
defect of its own: a test suite should not need wrong requests to be complete.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from itertools import pairwise
from textwrap import wrap
from typing import Any, NamedTuple

from paymock.rules.errors import ERRORS
from paymock.rules.faults import FaultKind, parse_fault
from paymock.rules.scenarios import SCENARIOS, PaymentStatus
from paymock.rules.timeline import simulate, visible

_MISSING_WIDTH = 72
"""Characters of a line of missing items, at most."""


@cache
def scenario_statuses() -> Mapping[str, tuple[PaymentStatus, ...]]:
    """The statuses of a payment of each scenario, by its name, in order."""
    courses = {}
    for name, scenario in SCENARIOS.items():
        states = visible(simulate(scenario, due=100, other_asset=""))
        courses[name] = tuple(dict.fromkeys(state.status for state in states))  # no status comes back
    return courses


@cache
def _items() -> Mapping[str, Collection[str]]:
    """All that there is, by group."""
    steps = (pair for course in scenario_statuses().values() for pair in pairwise(course))
    return {
        "scenarios": tuple(SCENARIOS),
        "statuses": tuple(status.value for status in PaymentStatus),
        "transitions": tuple(dict.fromkeys(map("->".join, steps))),
        "errors": tuple(code for code, error in ERRORS.items() if error.expected),
        # HOLD looks like DELAY to the application
        "faults": tuple(kind.value for kind in FaultKind if kind is not FaultKind.HOLD),
    }


class Group(NamedTuple):
    """Items of one kind: all of them, and those that were seen."""

    name: str
    items: Collection[str]
    seen: list[str]

    @property
    def missing(self) -> list[str]:
        return [item for item in self.items if item not in self.seen]

    @property
    def percent(self) -> float:
        """The share of the items that were seen, rounded down to a tenth: 100 means all."""
        return len(self.seen) * 1000 // len(self.items) / 10


class Coverage:
    """What an application has seen, by group, from the items that were `seen`. `str` is a table."""

    def __init__(self, seen: Mapping[str, Collection[str]]) -> None:
        self.groups = [
            Group(name, items, [item for item in items if item in seen.get(name, ())])
            for name, items in _items().items()
        ]
        self.seen = {group.name: group.seen for group in self.groups}
        items = [item for group in self.groups for item in group.items]
        self._total = Group("total", items, [item for group in self.groups for item in group.seen])
        self.percent = self._total.percent

    def as_json(self) -> dict[str, Any]:
        groups = [
            {"name": group.name, "percent": group.percent, "seen": group.seen, "missing": group.missing}
            for group in self.groups
        ]
        return {"percent": self.percent, "groups": groups}

    def __str__(self) -> str:
        return self.table()

    def table(self, width: int | None = None) -> str:
        """The table, in this width if that has room for the longest item."""
        fitted = _MISSING_WIDTH if width is None else min(_MISSING_WIDTH, max(41, width - 31))
        rows = [("Group", "Seen", "Percent", "Missing")]
        for group in (*self.groups, self._total):
            missing = "" if group is self._total else ", ".join(group.missing)
            first, *rest = wrap(missing, fitted, break_on_hyphens=False) or [""]
            seen = f"{len(group.seen)}/{len(group.items)}"
            rows.append((group.name, seen, f"{group.percent:g}%", first))
            rows += [("", "", "", line) for line in rest]
        lines = [f"{name:<11}  {seen:>7}  {percent:>7}  {missing}" for name, seen, percent, missing in rows]
        return "\n".join(line.rstrip() for line in lines)


def coverage(entries: Iterable[Mapping[str, Any]], payments: Iterable[Mapping[str, Any]]) -> Coverage:
    """Return what the application has seen in one sandbox, from its journal, newest first, and its payments.

    A scenario was seen if a reply showed the final status of a payment of that scenario; a transition, if one
    reply about a payment showed the status before and the next one the status after.
    """
    seen: dict[str, set[str]] = {name: set() for name in _items()}
    scenarios = {payment["id"]: payment["scenario"] for payment in payments}
    statuses: dict[str, str] = {}
    for entry in reversed(list(entries)):
        fault = parse_fault(entry["fault"] or "")
        if fault is not None:
            seen["faults"].add(fault.kind)
        was_read = entry["status"] and not (fault and fault.kind is FaultKind.TRUNCATE)
        if entry["error"] is not None and was_read:
            seen["errors"].add(entry["error"])
        status, payment = entry["shown"], entry["payment_id"]
        if status is None:
            continue
        seen["statuses"].add(status)
        scenario = scenarios.get(payment, "")
        if status == scenario_statuses().get(scenario, ("",))[-1]:
            seen["scenarios"].add(scenario)
        seen["transitions"].add(f"{statuses.get(payment)}->{status}")
        statuses[payment] = status
    return Coverage(seen)


def merged(coverages: Iterable[Coverage]) -> Coverage:
    """Return what was seen in any of several sandboxes."""
    seen = [one.seen for one in coverages]
    return Coverage({name: set().union(*(items[name] for items in seen)) for name in _items()})
