"""Sandboxes: whose time it is, and what is stored. What a use case gathers goes through here: it is the only
place where clock, store and core meet.
"""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from paymock.app.notifier import Watched
from paymock.app.system_clock import Clock
from paymock.resources import records
from paymock.resources.records import (
    DepositRecord,
    EndpointRecord,
    PaymentRecord,
    SandboxRecord,
    StoreMetadata,
)
from paymock.resources.timelines import PaymentTimelines
from paymock.rules import identifiers
from paymock.rules.clock import ClockSetting
from paymock.rules.errors import PaymockError
from paymock.stores.base import STATE, Store, StoreError

R = TypeVar("R", PaymentRecord, EndpointRecord, DepositRecord)

_ORIGIN = "origin"
"""Where a store keeps its origin: as the own record of a sandbox that no API key opens."""

_REMEMBERED = 10_000
"""Of how many sandboxes the last record seen is kept, so that a creation is one step of the store."""


class SeedMismatch(Exception):
    """A store was begun with another seed than the one that is asked for now."""


class SandboxSnapshot(Struct, frozen=True):
    """A sandbox at one moment: its own record, as stored and as read, its clock, the real time, and the
    values asked for.
    """

    sandbox: str
    state: bytes | None
    record: SandboxRecord
    clock: ClockSetting
    real: int
    values: list[bytes | None]

    @property
    def now(self) -> int:
        """The virtual time, in milliseconds since the epoch."""
        return self.clock.at(self.real)

    @property
    def pending_change_ms(self) -> int:
        """How many real milliseconds are left until the last change of speed takes effect; mostly 0."""
        return max(0, self.clock.since_real - self.real)


class Created(Struct, Generic[R], frozen=True):
    """A created resource, what is stored of it, and whether it was there before."""

    record: R
    stored: bytes
    replayed: bool


class KeyedRequest(Struct, frozen=True):
    """A state-changing request: whose it is, its idempotency key, what tells it from others, and its body."""

    sandbox: str
    idempotency_key: str
    fingerprint: bytes
    body: Any


def new_metadata(now: int, speed: float, seed: str | None) -> StoreMetadata:
    """Where the identifiers and the time of a new store begin. `speed` is that of a clock that nobody has
    touched, `now` is in milliseconds since the epoch.
    """
    secret = secrets.token_bytes(32) if seed is None else identifiers.secret_of(seed)
    return StoreMetadata(secret, ClockSetting(now, now, speed), records.FORM)


async def load_metadata(store: Store, now: int, speed: float, seed: str | None) -> StoreMetadata:
    """Where the identifiers and the time of `store` begin, if need be now. Clocks that nobody has touched go
    on from `now` where `speed` is not what it was. Raises SeedMismatch, and StoreError for a store of another
    version.
    """
    while True:
        [stored] = await store.get(_ORIGIN, STATE)
        origin = new_metadata(now, speed, seed)
        if stored is not None:
            found = records.decode_as(StoreMetadata, stored)
            if found.form != records.FORM:
                raise StoreError(
                    f"another version of paymock wrote the store (form {found.form}, not {records.FORM}): "
                    "serve it with that one, or begin an empty store"
                )
            if seed is not None and origin.secret != found.secret:
                raise SeedMismatch
            if found.clock.speed == speed:
                return found
            origin = replace(found, clock=found.clock.running_at(speed, now))
        if await store.replace(_ORIGIN, STATE, stored, records.encode(origin), expected_state=stored):
            return origin


class Sandboxes(Watched):
    """The sandboxes of a store. All that is stored goes by what was read before: where another request, or
    another process, has been faster, it is done again with what is stored by then.
    """

    def __init__(self, store: Store, clock: Clock, origin: StoreMetadata) -> None:
        super().__init__(store)
        self.timelines = PaymentTimelines()
        self._clock = clock
        self._origin = origin
        self._seen: dict[str, bytes] = {}
        self._verified: int | None = store.connections

    async def snapshot(self, sandbox: str, *keys: str) -> SandboxSnapshot:
        """The sandbox now, and what is stored under `keys`, in one step. The clock is read once."""
        if self._verified != self.store.connections:
            await self._verify_origin()
        real = self._clock()  # before the store is asked: what comes late must not show later times
        state, *values = await self.store.get(sandbox, STATE, *keys)
        self._remember(sandbox, state)
        return self._snapshot_of(sandbox, state, values, real)

    async def until(self, real: int) -> None:
        """Returns when the real moment `real`, in milliseconds since the epoch, has come."""
        while (left := real - self._clock()) > 0:
            await asyncio.sleep(left / 1000)

    async def change(
        self, sandbox: str, changed: Callable[[SandboxSnapshot], SandboxRecord]
    ) -> SandboxSnapshot:
        """Replaces the sandbox's own record by what `changed` makes of it, and wakes who waits."""
        while True:
            before = await self.snapshot(sandbox)
            after = records.encode(changed(before))
            if await self.store.replace(sandbox, STATE, before.state, after, expected_state=before.state):
                self._remember(sandbox, after)
                self.wake(sandbox)
                return self._snapshot_of(sandbox, after, [], before.real)

    async def create(
        self,
        request: KeyedRequest,
        kind: type[R],
        accept: Callable[[str, SandboxSnapshot], tuple[R, SandboxRecord]],
        limit: int | None = None,
    ) -> Created[R]:
        """The record behind an idempotency key.

        `accept` makes it of its token and the sandbox, and says what becomes of the sandbox's own record. The
        key's token is the record's own key, so adding it is both the insert and the idempotency check, and
        of any number of concurrent duplicates one is stored. Raises what `accept` raises, unless the key has
        been used; PaymockError `capacity_exceeded`, or the idempotency conflict. Specification: "Limits".
        """
        if self._verified != self.store.connections:
            await self._verify_origin()
        now = self._snapshot_of(request.sandbox, self._seen.get(request.sandbox), [], self._clock())
        while True:
            token = self.token(now, request.idempotency_key)
            if self.store.at_once:
                [existing] = await self.store.get(request.sandbox, token)
                if existing is not None:
                    return Created(_replayed(existing, request, kind), existing, replayed=True)
            try:
                record, after = accept(token, now)
                value = records.encode(record)
            except Exception:
                found = await self.snapshot(request.sandbox, token)
                if found.values == [None] and found.state == now.state:  # the key has not been used
                    raise
            else:
                instead = await self._add(now, token, value, record.KIND, after, limit)
                if instead is None:
                    return Created(record, value, replayed=False)
                found = instead
            [existing] = found.values
            if existing is not None:
                return Created(_replayed(existing, request, kind), existing, replayed=True)
            now = found

    async def reset(self, sandbox: str) -> None:
        """Forgets everything of the sandbox; what is created then has other ids than before."""
        while True:
            before = await self.snapshot(sandbox)
            after = records.encode(SandboxRecord(generation=before.record.generation + 1))
            if await self.store.reset(sandbox, after, expected_state=before.state):
                return self.wake(sandbox)

    def sandbox_of(self, token: str) -> str:
        """The sandbox of whatever has this token."""
        return identifiers.sandbox_in(self._origin.secret, token)

    def token(self, now: SandboxSnapshot, idempotency_key: str) -> str:
        """The token of whatever `idempotency_key` creates in the sandbox."""
        return identifiers.token_of(self._origin.secret, now.sandbox, idempotency_key, now.record.generation)

    async def _add(
        self,
        now: SandboxSnapshot,
        token: str,
        value: bytes,
        kind: str,
        after: SandboxRecord,
        limit: int | None,
    ) -> SandboxSnapshot | None:
        """What was there instead, or None if the record has been added."""
        new_state, real = None if after is now.record else records.encode(after), self._clock()
        found = await self.store.add(
            now.sandbox, token, value, kind=kind, expected_state=now.state, new_state=new_state, limit=limit
        )
        if found == (now.state, None):
            if new_state is not None:
                self._remember(now.sandbox, new_state)
            self.wake(now.sandbox, minor=new_state is None)
            return None
        self._remember(now.sandbox, found.state)
        return self._snapshot_of(now.sandbox, found.state, [found.existing], real)

    def _snapshot_of(
        self, sandbox: str, state: bytes | None, values: list[bytes | None], real: int
    ) -> SandboxSnapshot:
        record = records.decode_as(SandboxRecord, state)
        return SandboxSnapshot(sandbox, state, record, record.clock or self._origin.clock, real, values)

    async def _verify_origin(self) -> None:
        """Takes the origin from a store that has been connected to anew: an engine that lost everything has
        another one now, or none; then it gets ours back, so that all processes go by one.
        """
        while self._verified != self.store.connections:
            self._verified = self.store.connections
            # Where nobody answers, there will be a new connection.
            with suppress(PaymockError):
                [stored] = await self.store.get(_ORIGIN, STATE)
                ours = records.encode(self._origin)
                if stored is not None:
                    self._origin = records.decode_as(StoreMetadata, stored)
                elif not await self.store.replace(_ORIGIN, STATE, None, ours, expected_state=None):
                    self._verified = None  # another process was faster: its own is there now

    def _remember(self, sandbox: str, state: bytes | None) -> None:
        if state is None:  # as of a sandbox that nobody has changed, or that there is none
            self._seen.pop(sandbox, None)
            return
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        self._seen[sandbox] = state


def _replayed(stored: bytes, request: KeyedRequest, kind: type[R]) -> R:
    existing = records.decode(stored)
    if existing.fingerprint != request.fingerprint or not isinstance(existing, kind):
        raise PaymockError("idempotency_key_reused_with_different_payload")
    return existing
