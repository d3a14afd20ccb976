"""What the next creations of a sandbox take when they cannot add headers, and who suffers a fault."""

from typing import Any

import msgspec

from paymock.core import control_wire as wire
from paymock.core.errors import PaymockError
from paymock.core.records import Override, SandboxRecord
from paymock.core.validation import checker_for, decoded, validation_failed
from paymock.sandboxes import Gathered, Sandboxes

MAX_OVERRIDES = 100


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

    async def first(self, sandbox: str, idempotency_key: str) -> Override | None:
        """The override that a creation with this key takes: none when the key has been used before."""
        gathered = await self._sandboxes.gather(sandbox)
        if not gathered.record.overrides:
            return None
        token = self._sandboxes.token(sandbox, gathered.record, idempotency_key)
        [used] = await self._sandboxes.store.get(sandbox, token)
        return None if used else gathered.record.overrides[0]

    async def take(self, sandbox: str, override: Override) -> None:
        """One creation has taken `override`."""

        def taken(now: Gathered) -> SandboxRecord:
            first, *rest = now.record.overrides or (None,)
            if first != override or first.times is None:
                return now.record
            left = [msgspec.structs.replace(first, times=first.times - 1)] if first.times > 1 else []
            return msgspec.structs.replace(now.record, overrides=(*left, *rest))

        await self._sandboxes.change(sandbox, taken)

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
