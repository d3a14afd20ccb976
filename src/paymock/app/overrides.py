"""The overrides of sandboxes: the scenarios of their next creations."""

from collections.abc import Mapping

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
from paymock.schemas.scenarios import course_of
from paymock.schemas.validation import validation_failed
from paymock.stores.base import SANDBOX_RECORD

MAX_OVERRIDES = 100  # of a sandbox, pending


class Overrides:
    """`scenarios` are those of the server, by name."""

    def __init__(self, sandboxes: Sandboxes, scenarios: Mapping[str, Scenario] = SCENARIOS) -> None:
        self._sandboxes = sandboxes
        self._scenarios = scenarios

    async def pending(self, sandbox: str) -> schemas.PendingOverrideList:
        return await _pending(await self._sandboxes.snapshot(sandbox))

    async def add(self, sandbox: str, override: schemas.SetNext) -> schemas.PendingOverrideList:
        """Add what the next creations take. Raises PaymockError `validation_failed`, `capacity_exceeded`."""
        name, times, order_id = override.scenario, override.times, override.order_id
        if (override.course is None) == (name is None):
            raise validation_failed({"scenario": "give either a scenario or a course"})
        scenario = override.course or self._scenarios.get(name or "")
        if scenario is None:
            hint = scenario_hint(name or "", self._scenarios)
            problem = f"must be one of {', '.join(self._scenarios)}{hint and f'; {hint}'}"
            raise validation_failed({"scenario": problem})
        added = Override(scenario.name, times, stored_scenario(scenario), order_id)

        def add(snapshot: SandboxSnapshot) -> SandboxRecord:
            record = replace(snapshot.record, scenarios=_enqueued(snapshot.record.scenarios, added))
            return self._sandboxes.owner_limits.check_room(sandbox, SANDBOX_RECORD, record)

        return await _pending(await self._sandboxes.change(sandbox, add))

    async def clear(self, sandbox: str, query: schemas.ClearNext) -> None:
        """Delete what is pending: all, or only for the creations of one order."""
        order_id = query.order_id

        def cleared(snapshot: SandboxSnapshot) -> SandboxRecord:
            queue = snapshot.record.scenarios
            left = (one for one in queue if order_id is not None and one.order_id != order_id)
            return replace(snapshot.record, scenarios=tuple(left))

        await self._sandboxes.change(sandbox, cleared)


def take_scenario(record: SandboxRecord, order_id: str | None) -> tuple[SandboxRecord, Override | None]:
    """The sandbox after a creation of an order, and what it takes: the first of its own, or else for all."""
    queue = record.scenarios
    matching = (override for override in queue if override.order_id in (None, order_id))
    taken = min(matching, key=lambda override: override.order_id is None, default=None)
    if taken is None or taken.times is None:
        return record, taken
    number = queue.index(taken)
    remaining = [replace(taken, times=taken.times - 1)] if taken.times > 1 else []
    return replace(record, scenarios=(*queue[:number], *remaining, *queue[number + 1 :])), taken


def _enqueued(queue: tuple[Override, ...], added: Override) -> tuple[Override, ...]:
    """Return the queue with one more override. Last come the permanent ones, one for each order and all."""
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


async def _pending(snapshot: SandboxSnapshot) -> schemas.PendingOverrideList:
    data = await in_slices(
        schemas.PendingOverride(
            scenario=one.value,
            times=one.times,
            course=course_of(scenario_of(one.value, one.custom_scenario)) if one.custom_scenario else UNSET,
            order_id=one.order_id or UNSET,
        )
        for one in snapshot.record.scenarios
    )
    return schemas.PendingOverrideList(data=data)
