"""Overrides: the scenario and the fault of the next creations that carry no header of their own.

Scenarios and faults wait in separate queues. So a fault that refuses a creation leaves the scenario to the
retry, and does not replace a permanent scenario.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from paymock.app.sandboxes import Sandboxes, SandboxSnapshot
from paymock.resources.payments import course_of
from paymock.resources.records import Override, SandboxRecord
from paymock.resources.scenarios import render, scenario_from
from paymock.rules.errors import PaymockError
from paymock.rules.scenarios import SCENARIOS, Scenario
from paymock.schemas import control as schemas
from paymock.schemas.validation import checker_for, validate, validation_failed

MAX_OVERRIDES = 100
"""The most pending scenarios, and the most pending faults, of a sandbox."""

Queue = tuple[Override, ...]


class FaultDue(Exception):
    """A creation is subject to `fault`, the first of its queue. The caller takes the fault and applies it."""

    def __init__(self, fault: Override) -> None:
        self.fault = fault
        super().__init__(fault)


def without_first(queue: Queue) -> Queue:
    """Return the queue after a creation has taken its first override once."""
    if not queue or queue[0].times is None:
        return queue
    first, *rest = queue
    remaining = [replace(first, times=first.times - 1)] if first.times and first.times > 1 else []
    return (*remaining, *rest)


class Overrides:
    """The pending overrides of sandboxes. `scenarios` are those of the server, by name."""

    def __init__(self, sandboxes: Sandboxes, scenarios: Mapping[str, Scenario] = SCENARIOS) -> None:
        self._sandboxes = sandboxes
        self._scenarios = scenarios

    async def pending(self, sandbox: str) -> schemas.PendingOverrideList:
        """Return what is pending, in the order in which it will be taken."""
        return _pending(await self._sandboxes.snapshot(sandbox))

    async def add(self, sandbox: str, body: Any) -> schemas.PendingOverrideList:
        """Add a scenario or a course, a fault, or both for the next creations. Raises PaymockError
        `validation_failed`, `capacity_exceeded`.
        """
        override = validate(_check_set_next, body, schemas.SetNext)
        scenario = self._scenario(override)
        if scenario is None and override.fault is None:
            raise validation_failed({"scenario": "give a scenario or a course, a fault, or both"})

        def add(snapshot: SandboxSnapshot) -> SandboxRecord:
            return replace(
                snapshot.record,
                scenarios=_enqueued(
                    snapshot.record.scenarios,
                    scenario and scenario.name,
                    override.times,
                    scenario and course_of(scenario),
                ),
                faults=_enqueued(snapshot.record.faults, override.fault, override.times),
            )

        return _pending(await self._sandboxes.change(sandbox, add))

    def _scenario(self, override: schemas.SetNext) -> Scenario | None:
        """Return the scenario of an override. Raises PaymockError `validation_failed`."""
        if override.course is not None:
            if override.scenario is not None:
                raise validation_failed({"course": "give a scenario or a course, not both"})
            return scenario_from(override.course)
        if override.scenario is None:
            return None
        if override.scenario not in self._scenarios:
            raise validation_failed({"scenario": f"must be one of {', '.join(self._scenarios)}"})
        return self._scenarios[override.scenario]

    async def clear(self, sandbox: str) -> None:
        """Delete what is pending."""
        await self._sandboxes.change(
            sandbox, lambda snapshot: replace(snapshot.record, scenarios=(), faults=())
        )

    async def take(self, sandbox: str, fault: Override) -> bool:
        """Take `fault` if it is still the first of the queue, and return whether it was. Of concurrent
        creations, one takes it.
        """
        taken = False

        def take(snapshot: SandboxSnapshot) -> SandboxRecord:
            nonlocal taken
            record = snapshot.record
            taken = record.faults[:1] == (fault,)
            return replace(record, faults=without_first(record.faults)) if taken else record

        await self._sandboxes.change(sandbox, take)
        return taken


def _enqueued(queue: Queue, value: str | None, times: int | None, course: Scenario | None = None) -> Queue:
    """Return the queue with one more override. A permanent one, of which there is at most one, stays last."""
    if value is None:
        return queue
    limited = tuple(override for override in queue if override.times is not None)
    if len(limited) >= MAX_OVERRIDES:
        raise PaymockError("capacity_exceeded", f"{MAX_OVERRIDES} overrides are pending already.")
    added = Override(value, times, course)
    return (*limited, added) if times is None else (*limited, added, *queue[len(limited) :])


def _pending(snapshot: SandboxSnapshot) -> schemas.PendingOverrideList:
    record = snapshot.record
    scenarios = [
        schemas.PendingOverride(
            scenario=one.value,
            fault=None,
            times=one.times,
            course=render(one.course) if one.course else UNSET,
        )
        for one in record.scenarios
    ]
    faults = [
        schemas.PendingOverride(scenario=None, fault=one.value, times=one.times) for one in record.faults
    ]
    return schemas.PendingOverrideList(data=scenarios + faults)


_check_set_next = checker_for(schemas.SetNext)
