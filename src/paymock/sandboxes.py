"""Sandboxes: whose time it is, and who waits for a change. What a use case gathers goes through here: it is
the only place where clock, store and core meet.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from paymock.clock import Clock
from paymock.core import identity, records
from paymock.core.records import SandboxRecord
from paymock.core.virtual_time import ClockSetting
from paymock.stores.base import Store

STATE = "sandbox"
"""The key of a sandbox's own record."""


def simulation_key(token: str) -> str:
    """The key of what tests have done to the payment with this token."""
    return f"{token}.simulation"


class Gathered(NamedTuple):
    """A sandbox at one moment: its record, its clock, the real and the virtual time, and the values asked
    for.
    """

    record: SandboxRecord
    clock: ClockSetting
    real: int
    values: list[bytes | None]

    @property
    def now(self) -> int:
        """The virtual time, in milliseconds since the epoch."""
        return self.clock.at(self.real)


class Sandboxes:
    """The sandboxes of a store. `speed` is that of a clock that nobody has touched."""

    def __init__(self, store: Store, clock: Clock, speed: float) -> None:
        self.store = store
        self._clock = clock
        self._untouched = ClockSetting(store.born, store.born, speed)
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    async def gather(self, sandbox: str, *keys: str) -> Gathered:
        """The sandbox now, and what is stored under `keys`, in one step. The clock is read once."""
        state, *values = await self.store.get(sandbox, STATE, *keys)
        record = records.decode_as(SandboxRecord, state)
        return Gathered(record, record.clock or self._untouched, self._clock(), values)

    async def change(self, sandbox: str, changed: Callable[[Gathered], SandboxRecord]) -> Gathered:
        """Replaces the sandbox's record by what `changed` makes of it, and wakes who waits."""
        while True:
            [state] = await self.store.get(sandbox, STATE)
            record = records.decode_as(SandboxRecord, state)
            before = Gathered(record, record.clock or self._untouched, self._clock(), [])
            after = changed(before)
            if await self.store.replace(sandbox, STATE, state, records.encode(after)):
                self.wake(sandbox)
                return before._replace(record=after, clock=after.clock or self._untouched)

    async def reset(self, sandbox: str) -> None:
        """Forgets everything of the sandbox; what is created then has other ids than before."""
        generation = (await self.gather(sandbox)).record.generation + 1
        await self.store.reset(sandbox, STATE, records.encode(SandboxRecord(generation=generation)))
        self.wake(sandbox)

    def token(self, sandbox: str, record: SandboxRecord, idempotency_key: str) -> str:
        """The token of whatever `idempotency_key` creates in the sandbox."""
        return identity.token_of(self.store.secret, sandbox, idempotency_key, record.generation)

    def wake(self, sandbox: str) -> None:
        """Tells everybody who waits in this sandbox that something has changed."""
        for waiting in self._waiting.pop(sandbox, ()):
            waiting.set()

    async def wait(self, sandbox: str, seconds: float) -> None:
        """Returns after `seconds` real seconds, or as soon as something changes in the sandbox."""
        changed = asyncio.Event()
        self._waiting[sandbox].add(changed)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), seconds)
        finally:
            self._waiting[sandbox].discard(changed)
            if not self._waiting[sandbox]:
                del self._waiting[sandbox]
