"""What the next creations of a sandbox take when they cannot add headers, and who suffers a fault."""

from typing import Any

import msgspec

from paymock.core import control_wire as wire
from paymock.core.errors import PaymockError
from paymock.core.records import Override, SandboxRecord
from paymock.core.validation import checker_for, decoded, validation_failed
from paymock.sandboxes import Gathered, Sandboxes

MAX_OVERRIDES = 100


class FaultDue(Exception):
    """The creation at hand takes `override`, which asks for a fault that is not this floor's to make."""

    def __init__(self, override: Override) -> None:
        self.override = override
        super().__init__(override)


def first_of(record: SandboxRecord) -> Override | None:
    """The override that the next creation takes."""
    return record.overrides[0] if record.overrides else None


def without_first(record: SandboxRecord) -> SandboxRecord:
    """What is left when a creation has taken the first override: one time less of it, if times count."""
    first, *rest = record.overrides
    if first.times is None:
        return record
    left = [msgspec.structs.replace(first, times=first.times - 1)] if first.times > 1 else []
    return msgspec.structs.replace(record, overrides=(*left, *rest))


class Overrides:
    """The pending overrides of sandboxes."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    async def add(self, sandbox: str, body: Any) -> wire.PendingList:
        """Adds an override for the next creations. Raises PaymockError `validation_failed`,
        `capacity_exceeded`.
        """
        wanted = decoded(_check_set_next, body, wire.SetNext)
        if wanted.scenario is None and wanted.fault is None:
            raise validation_failed({"scenario": "give a scenario, a fault, or both"})
        override = Override(wanted.scenario, wanted.fault, wanted.times)

        def added(now: Gathered) -> SandboxRecord:
            limited = [pending for pending in now.record.overrides if pending.times is not None]
            standing = [pending for pending in now.record.overrides if pending.times is None]
            if len(limited) >= MAX_OVERRIDES:
                raise PaymockError("capacity_exceeded", f"{MAX_OVERRIDES} overrides are pending already.")
            pending = [*limited, override, *standing] if override.times is not None else [*limited, override]
            return msgspec.structs.replace(now.record, overrides=tuple(pending))

        return _pending(await self._sandboxes.change(sandbox, added))

    async def take(self, sandbox: str, override: Override) -> bool:
        """Takes `override`, and says whether it was still the first, so that of creations that meet, one
        takes it.
        """
        took = False

        def taken(now: Gathered) -> SandboxRecord:
            nonlocal took
            took = first_of(now.record) == override
            return without_first(now.record) if took else now.record

        await self._sandboxes.change(sandbox, taken)
        return took

    async def suffers(self, sandbox: str, operation: str, times: int | None) -> bool:
        """Whether this try of `operation` is among the first `times`."""
        if times is None:
            return True
        return await self._sandboxes.store.count(sandbox, f"fault {operation}") <= times


def _pending(gathered: Gathered) -> wire.PendingList:
    return wire.PendingList(
        data=[
            wire.Pending(scenario=one.scenario, fault=one.fault, times=one.times)
            for one in gathered.record.overrides
        ]
    )


_check_set_next = checker_for(wire.SetNext)
