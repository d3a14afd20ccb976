"""What the next creations of a sandbox take when they cannot add headers, and who suffers a fault.

Scenarios and faults wait in queues of their own. So a refusal that was asked for leaves the scenario to the
retry, and a fault does not replace a standing scenario.
"""

import hashlib
from typing import Any

from msgspec.structs import replace

from paymock.app.sandboxes import Sandboxes, SandboxSnapshot
from paymock.resources.records import Override, SandboxRecord
from paymock.rules.errors import PaymockError
from paymock.schemas import control as schemas
from paymock.schemas.validation import checker_for, decoded, validation_failed

MAX_OVERRIDES = 100
"""How many scenarios, and how many faults, can wait in a sandbox."""

Queue = tuple[Override, ...]


class FaultDue(Exception):
    """The creation at hand meets `fault`, which a higher floor carries out."""

    def __init__(self, fault: Override) -> None:
        self.fault = fault
        super().__init__(fault)


def without_first(queue: Queue) -> Queue:
    """What is left when a creation has taken the first of the queue: one time less of it, if times count."""
    if not queue or queue[0].times is None:
        return queue
    first, *rest = queue
    left = [replace(first, times=first.times - 1)] if first.times and first.times > 1 else []
    return (*left, *rest)


class Overrides:
    """The pending overrides of sandboxes."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    async def pending(self, sandbox: str) -> schemas.PendingList:
        """What is pending, in the order in which it will be taken."""
        return _pending(await self._sandboxes.snapshot(sandbox))

    async def add(self, sandbox: str, body: Any) -> schemas.PendingList:
        """Adds a scenario, a fault or both for the next creations. Raises PaymockError `validation_failed`,
        `capacity_exceeded`.
        """
        wanted = decoded(_check_set_next, body, schemas.SetNext)
        if wanted.scenario is None and wanted.fault is None:
            raise validation_failed({"scenario": "give a scenario, a fault, or both"})

        def added(now: SandboxSnapshot) -> SandboxRecord:
            return replace(
                now.record,
                scenarios=_queued(now.record.scenarios, wanted.scenario, wanted.times),
                faults=_queued(now.record.faults, wanted.fault, wanted.times),
            )

        return _pending(await self._sandboxes.change(sandbox, added))

    async def clear(self, sandbox: str) -> None:
        """Forgets what is pending."""
        await self._sandboxes.change(sandbox, lambda now: replace(now.record, scenarios=(), faults=()))

    async def take(self, sandbox: str, fault: Override) -> bool:
        """Takes `fault` if it is still the first, and says whether it was: of several creations at once, one
        takes it.
        """
        took = False

        def taken(now: SandboxSnapshot) -> SandboxRecord:
            nonlocal took
            took = now.record.faults[:1] == (fault,)
            return replace(now.record, faults=without_first(now.record.faults)) if took else now.record

        await self._sandboxes.change(sandbox, taken)
        return took

    async def tries(self, sandbox: str, operation: str, fault: str) -> int:
        """How often `operation` has been tried with `fault`, this time included."""
        key = hashlib.blake2b(f"{operation}\n{fault}".encode(), digest_size=16).hexdigest()
        return await self._sandboxes.store.count(sandbox, f"fault {key}")


def _queued(queue: Queue, value: str | None, times: int | None) -> Queue:
    """The queue with one more at its end, but before what stands for good, of which there is one at most."""
    if value is None:
        return queue
    limited = tuple(one for one in queue if one.times is not None)
    if len(limited) >= MAX_OVERRIDES:
        raise PaymockError("capacity_exceeded", f"{MAX_OVERRIDES} overrides are pending already.")
    one = Override(value, times)
    return (*limited, one) if times is None else (*limited, one, *queue[len(limited) :])


def _pending(snapshot: SandboxSnapshot) -> schemas.PendingList:
    record = snapshot.record
    scenarios = [schemas.Pending(scenario=one.value, fault=None, times=one.times) for one in record.scenarios]
    faults = [schemas.Pending(scenario=None, fault=one.value, times=one.times) for one in record.faults]
    return schemas.PendingList(data=scenarios + faults)


_check_set_next = checker_for(schemas.SetNext)
