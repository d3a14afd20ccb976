"""The overrides of sandboxes: the scenarios of their next creations."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from paymock.payments.records import Override, SandboxRecord
from paymock.rules.errors import PaymockError
from paymock.rules.scenarios import SCENARIOS, Scenario, scenario_of, stored_scenario
from paymock.rules.timeline import scenario_hint
from paymock.sandbox.sandboxes import Sandboxes
from paymock.sandbox.scheduler import in_slices
from paymock.sandbox.snapshot import SandboxSnapshot
from paymock.schemas import control as schemas
from paymock.schemas.json import equal
from paymock.schemas.scenarios import course_of
from paymock.schemas.validation import validation_failed
from paymock.stores.base import SANDBOX_RECORD

MAX_OVERRIDES = 100  # of a sandbox, pending
_ALL = schemas.SelectNext()


class Overrides:
    """`scenarios` are those of the server, by name."""

    def __init__(self, sandboxes: Sandboxes, scenarios: Mapping[str, Scenario] = SCENARIOS) -> None:
        self._sandboxes = sandboxes
        self._scenarios = scenarios

    async def pending(self, sandbox: str, query: schemas.SelectNext = _ALL) -> schemas.PendingOverrideList:
        return await _pending(await self._sandboxes.snapshot(sandbox), query)

    async def add(self, sandbox: str, override: schemas.SetNext) -> schemas.PendingOverrideList:
        """Add what the next creations take. Raises PaymockError `validation_failed`, `capacity_exceeded`."""
        name, times = override.scenario, override.times
        if (override.course is None) == (name is None):
            raise validation_failed({"scenario": "give either a scenario or a course"})
        scenario = override.course or self._scenarios.get(name or "")
        if scenario is None:
            hint = scenario_hint(name or "", self._scenarios)
            problem = f"must be one of {', '.join(self._scenarios)}{hint and f'; {hint}'}"
            raise validation_failed({"scenario": problem})
        if override.order_id is not None and override.order_id_prefix is not None:
            raise validation_failed({"order_id_prefix": "cannot be combined with order_id"})
        conditions = override.order_id, override.order_id_prefix, override.metadata
        added = Override(scenario.name, times, stored_scenario(scenario), *conditions)

        def add(snapshot: SandboxSnapshot) -> SandboxRecord:
            record = replace(snapshot.record, scenarios=_enqueued(snapshot.record.scenarios, added))
            return self._sandboxes.owner_limits.check_room(sandbox, SANDBOX_RECORD, record)

        return await _pending(await self._sandboxes.change(sandbox, add))

    async def clear(self, sandbox: str, query: schemas.SelectNext) -> None:
        """Delete what is pending: all, or only what has these conditions."""

        def cleared(snapshot: SandboxSnapshot) -> SandboxRecord:
            queue = snapshot.record.scenarios
            return replace(snapshot.record, scenarios=tuple(one for one in queue if not _has(one, query)))

        await self._sandboxes.change(sandbox, cleared)


def take_scenario(
    record: SandboxRecord, order_id: str, metadata: Mapping[str, Any] = {}
) -> tuple[SandboxRecord, Override | None]:
    """The sandbox after a creation, and what it takes: the first of those with the closest conditions."""
    queue = record.scenarios
    matching = (override for override in queue if override.selects(order_id, metadata))
    taken = min(matching, key=_precedence, default=None)
    if taken is None or taken.times is None:
        return record, taken
    number = queue.index(taken)
    remaining = [replace(taken, times=taken.times - 1)] if taken.times > 1 else []
    return replace(record, scenarios=(*queue[:number], *remaining, *queue[number + 1 :])), taken


def _precedence(one: Override) -> tuple[bool, int, int, bool]:
    return one.order_id is None, -len(one.order_id_prefix or ""), -len(one.metadata or ()), one.times is None


def _has(one: Override, query: schemas.SelectNext) -> bool:
    metadata = msgspec.json.decode(query.metadata or "null")
    wanted = [query.order_id, query.order_id_prefix, metadata]
    return all(value is None or equal(value, own) for value, own in zip(wanted, one.conditions, strict=True))


def _enqueued(queue: tuple[Override, ...], added: Override) -> tuple[Override, ...]:
    """Return the queue with one more override. Last come the permanent ones, one for equal conditions."""
    limited = [override for override in queue if override.times is not None]
    permanent = [override for override in queue if override.times is None]
    if added.times is None:
        permanent = [one for one in permanent if not equal(one.conditions, added.conditions)]
        permanent.append(added)
    else:
        limited.append(added)
    if max(len(limited), len(permanent)) > MAX_OVERRIDES:
        raise PaymockError("capacity_exceeded", f"{MAX_OVERRIDES} overrides are already pending.")
    return (*limited, *sorted(permanent, key=_precedence))


async def _pending(
    snapshot: SandboxSnapshot, query: schemas.SelectNext = _ALL
) -> schemas.PendingOverrideList:
    data = await in_slices(
        schemas.PendingOverride(
            scenario=one.value,
            times=one.times,
            course=course_of(scenario_of(one.value, one.custom_scenario)) if one.custom_scenario else UNSET,
            order_id=one.order_id or UNSET,
            order_id_prefix=one.order_id_prefix or UNSET,
            metadata=one.metadata or UNSET,
        )
        for one in snapshot.record.scenarios
        if _has(one, query)
    )
    return schemas.PendingOverrideList(data=data)
