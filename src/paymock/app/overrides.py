"""Overrides: the scenario and the fault of the next creations that carry no header of their own.

Scenarios and faults wait in separate queues. So a fault that refuses a creation leaves the scenario to the
retry, and does not replace a permanent scenario.
"""

from collections.abc import Mapping

from msgspec import UNSET
from msgspec.structs import replace

from paymock.rules.errors import PaymockError
from paymock.rules.fault_injection import Override, SandboxRecord
from paymock.rules.faults import FaultKind, parse_fault
from paymock.rules.scenarios import SCENARIOS, Scenario, scenario_of, stored_scenario
from paymock.sandbox.sandboxes import Sandboxes, SandboxSnapshot
from paymock.schemas import control as schemas
from paymock.schemas.scenarios import course_of
from paymock.schemas.validation import validation_failed

MAX_OVERRIDES = 100
"""The most pending scenarios, and the most pending faults, of a sandbox."""

Queue = tuple[Override, ...]


class Overrides:
    """The pending overrides of sandboxes. `scenarios` are those of the server, by name."""

    def __init__(self, sandboxes: Sandboxes, scenarios: Mapping[str, Scenario] = SCENARIOS) -> None:
        self._sandboxes = sandboxes
        self._scenarios = scenarios

    async def pending(self, sandbox: str) -> schemas.PendingOverrideList:
        return _pending(await self._sandboxes.snapshot(sandbox))

    async def add(self, sandbox: str, override: schemas.SetNext) -> schemas.PendingOverrideList:
        """Add a scenario, a fault, or both for the next creations. Raises PaymockError `validation_failed`,
        `invalid_fault`, `capacity_exceeded`.
        """
        name, fault, times, order_id = override.scenario, override.fault, override.times, override.order_id
        scenario: Scenario | None = override.course
        if scenario is not None and name is not None:
            raise validation_failed({"course": "give a scenario or a course, not both"})
        if name is not None:
            if name not in self._scenarios:
                raise validation_failed({"scenario": f"must be one of {', '.join(self._scenarios)}"})
            scenario = self._scenarios[name]
        if scenario is None and fault is None:
            raise validation_failed({"scenario": "give a scenario or a course, a fault, or both"})
        parsed = parse_fault(fault or "")
        if parsed is not None and parsed.kind is FaultKind.HOLD:
            raise PaymockError("invalid_fault", "`hold` works in a rule only: POST /_mock/faults.")

        def add(snapshot: SandboxSnapshot) -> SandboxRecord:
            scenarios, faults = snapshot.record.scenarios, snapshot.record.faults
            if scenario is not None:
                added = Override(scenario.name, times, stored_scenario(scenario), order_id)
                scenarios = _enqueued(scenarios, added)
            if fault is not None:
                faults = _enqueued(faults, Override(fault, times, order_id=order_id))
            return replace(snapshot.record, scenarios=scenarios, faults=faults)

        return _pending(await self._sandboxes.change(sandbox, add))

    async def clear(self, sandbox: str, query: schemas.ClearNext) -> None:
        """Delete what is pending: all, or only for the creations of one order."""
        order_id = query.order_id

        def left(queue: Queue) -> Queue:
            return tuple(one for one in queue if order_id is not None and one.order_id != order_id)

        def cleared(snapshot: SandboxSnapshot) -> SandboxRecord:
            record = snapshot.record
            return replace(record, scenarios=left(record.scenarios), faults=left(record.faults))

        await self._sandboxes.change(sandbox, cleared)


def _enqueued(queue: Queue, added: Override) -> Queue:
    """Return the queue with one more override. The permanent ones stay last, of which there is at most one
    for each order, and one for all.
    """
    limited = [override for override in queue if override.times is not None]
    permanent = {override.order_id: override for override in queue if override.times is None}
    if added.times is None:
        permanent[added.order_id] = added
    else:
        limited.append(added)
    if max(len(limited), len(permanent)) > MAX_OVERRIDES:
        raise PaymockError("capacity_exceeded", f"{MAX_OVERRIDES} overrides are pending already.")
    last = sorted(permanent.values(), key=lambda override: override.order_id is None)
    return (*limited, *last)


def _pending(snapshot: SandboxSnapshot) -> schemas.PendingOverrideList:
    scenarios, faults = snapshot.record.scenarios, snapshot.record.faults
    pending = [(one, one.value, None) for one in scenarios] + [(one, None, one.value) for one in faults]
    data = [
        schemas.PendingOverride(
            scenario=scenario,
            fault=fault,
            times=one.times,
            course=course_of(scenario_of(one.value, one.custom_scenario)) if one.custom_scenario else UNSET,
            order_id=one.order_id or UNSET,
        )
        for one, scenario, fault in pending
    ]
    return schemas.PendingOverrideList(data=data)
