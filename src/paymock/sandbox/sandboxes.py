"""The sandboxes of a store: the only module that combines clock, store and records.

Theory of operation. A sandbox is its own record (clock, overrides, fault rules, how often it was reset),
lists of records (payments, endpoints), values beside them (what tests have done to a payment), logs and
counters. Nothing of it changes by itself. A *snapshot* is what is stored at one moment, with the time by the
sandbox's clock then; how a payment looks is computed from that.

- A change is optimistic. It is computed from a snapshot, and stored in one step if the sandbox record
  is still that of the snapshot. Whoever is overtaken computes again, until `RetryDeadline`. So a reset, a
  new speed and a new fault rule come before or after any other change, in all processes.
- A creation takes one step. The key of a payment is derived from its idempotency key, so that adding it, if
  it is absent, is the insert and the check at once. The sandbox record is the last that this process
  has seen; if another process has changed it, the step says so, and is repeated with the one that it
  returns.
- The clock is read before the store is asked: a reply that comes late must not lead to a time later than
  what others have seen under the same setting of the clock.
- Who waits sleeps in `notifier` until this process makes a change, or the store tells of one by another.
- `metadata` has the secret of all ids, and is read again after each reconnection, since a store can come
  back without its data. `owner_limits` counts what an owner makes this process remember.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from weakref import WeakValueDictionary

from paymock.cache import BoundedCache
from paymock.payments import records
from paymock.payments.records import SandboxRecord, StoreMetadata
from paymock.payments.timelines import PaymentTimelines
from paymock.rules import identifiers
from paymock.rules.clock import ClockSetting
from paymock.rules.errors import PaymockError
from paymock.rules.times import to_rfc3339
from paymock.sandbox.clock import Clock
from paymock.sandbox.conflicts import replay_of
from paymock.sandbox.log_buffer import Entry, LogBuffer
from paymock.sandbox.metadata import SharedMetadata
from paymock.sandbox.notifier import Notifier
from paymock.sandbox.owner_limits import OwnerLimits
from paymock.sandbox.retries import RetryDeadline
from paymock.sandbox.snapshot import Creation, KeyedRequest, R, SandboxSnapshot
from paymock.stores.base import SANDBOX_RECORD, Addition, AddResult, LogEntries, Store

_CLOSE_SECONDS = 1.0
"""How long the end of the process waits for what is buffered."""

_CACHED_RECORDS = 10_000
"""For how many sandboxes the last own record is cached, so that a creation takes one step of the store."""

_INITIAL = SandboxRecord()
_UNSEEN = (None, _INITIAL)


class RuleFound(Exception):
    """A fault rule may select a creation that is to be stored only if none does. Nothing was stored."""


class Sandboxes:
    """Takes snapshots of the sandboxes of a store, and changes them."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        metadata: StoreMetadata,
        retention: int | None = None,
        capacity: int | None = None,
    ) -> None:
        """`retention` is that of the store, in seconds, and `capacity` its most payments, if in memory."""
        # what others may use of the store
        self.get, self.page, self.count, self.increment = store.get, store.page, store.count, store.increment
        self.is_synchronous, self.propagation_ms = store.is_synchronous, store.propagation_ms
        since = f" This server keeps payments in memory, since {to_rfc3339(clock()):.19}Z."
        self.kept_since = since if store.is_synchronous else ""
        # what all sandboxes share
        self.metadata = SharedMetadata(store, clock, metadata)
        self.notifier = Notifier(store, clock)
        self.owner_limits = OwnerLimits(clock, retention, capacity if store.is_synchronous else None)
        self.timelines = PaymentTimelines()
        self._store, self._clock = store, clock
        self._log_buffer = LogBuffer(
            self._write_logs, self.notifier.scheduler, until_read=self.is_synchronous
        )
        # by sandbox
        self._records: BoundedCache[str, tuple[bytes | None, SandboxRecord]] = BoundedCache(_CACHED_RECORDS)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def snapshot(self, sandbox: str, *keys: str) -> SandboxSnapshot:
        """Return the sandbox now, with the values under `keys`, in one step. The clock is read once."""
        if not self.metadata.is_verified:
            await self.metadata.verify()
        real = self._clock()  # read first: a delayed reply of the store must not lead to later times
        state, *values = await self._store.get(sandbox, SANDBOX_RECORD, *keys)
        return self._snapshot_of(sandbox, state, values, real)

    def _known(self, sandbox: str) -> SandboxSnapshot:
        """Return the sandbox now, by its own record as this process knows it."""
        return self._snapshot_of(sandbox, self._records.get(sandbox, _UNSEEN)[0], [], self._clock())

    def known_record(self, sandbox: str) -> SandboxRecord:
        """Return the own record of the sandbox that this process has read or written last."""
        return self._records.get(sandbox, _UNSEEN)[1]

    def known_clock(self, sandbox: str) -> ClockSetting:
        """Return the clock of the sandbox as this process has seen it last."""
        return self._records.get(sandbox, _UNSEEN)[1].clock or self.metadata.current.clock

    async def sleep_until(self, real: int) -> None:
        """Sleep until the real time `real`, but no longer than a change takes to reach every process."""
        real = min(real, self._clock() + self.propagation_ms)
        while (left := real - self._clock()) > 0:
            await asyncio.sleep(left / 1000)

    async def tail(self, sandbox: str, log: str, limit: int) -> list[bytes]:
        await self._log_buffer.flush(sandbox)
        return await self._store.tail(sandbox, log, limit)

    async def revision(self, sandbox: str, log: str, keep: int) -> tuple[SandboxSnapshot, bytes]:
        """Return the sandbox now, and what differs after each change of it or of a log."""
        if not self.metadata.is_verified:
            await self.metadata.verify()
        real = self._clock()
        unwritten = self._log_buffer.added((sandbox, log, keep)) if self.is_synchronous else 0
        state, changes = await self._store.revision(sandbox, log)
        snapshot = self._snapshot_of(sandbox, state, [], real)
        return snapshot, b"%d %d %b" % (snapshot.record.generation, unwritten, changes)

    async def ping(self) -> None:
        """Return if requests can be served. Raises PaymockError `store_unavailable`."""
        await self._store.ping()
        if not self.metadata.is_verified:
            await self.metadata.verify()

    async def close(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._log_buffer.flush()
        await self._store.close()

    @asynccontextmanager
    async def exclusive(self, sandbox: str) -> AsyncIterator[None]:
        """Take turns in changes that all requests of a process make: they would overtake each other. Raises
        PaymockError `store_unavailable` for all that wait when the store fails one: each would take as long.
        """
        lock = self._locks.setdefault(sandbox, asyncio.Lock())
        async with lock:
            if self._locks.get(sandbox) is not lock:
                raise PaymockError("store_unavailable")
            try:
                yield
            except PaymockError as error:
                if error.kind.code == "store_unavailable":
                    self._locks.pop(sandbox, None)
                raise

    async def change(
        self, sandbox: str, compute: Callable[[SandboxSnapshot], SandboxRecord], *, if_empty: bool = False
    ) -> SandboxSnapshot:
        """Replace the sandbox record by the result of `compute`, unless that is the same object. Raises
        what `compute` raises, and PaymockError `sandbox_not_empty` as a store does.
        """
        deadline = RetryDeadline()
        while True:
            before = await self.snapshot(sandbox)
            after = await self.store(before, compute(before), if_empty=if_empty)
            if after is not None:
                return after
            deadline.check()

    async def store(
        self, before: SandboxSnapshot, record: SandboxRecord, *, if_empty: bool = False
    ) -> SandboxSnapshot | None:
        """Replace the sandbox record, unless it is that of `before`, and return the sandbox after that;
        None if it is no longer as before. Raises PaymockError `sandbox_not_empty` as a store does.
        """
        if record is before.record:
            return before
        sandbox, old, state = before.sandbox, before.state, records.encode(record)
        if not await self._store.replace(
            sandbox, SANDBOX_RECORD, old, state, expected_state=old, if_empty=if_empty
        ):
            return None
        self.notifier.notify(sandbox)
        return self._snapshot_of(sandbox, state, [], before.real)

    async def replace(
        self, before: SandboxSnapshot, key: str, old: bytes | None, new: bytes, added: Addition | None = None
    ) -> bool:
        """Store `new` under `key`, and what is `added`, if the value is still `old`, the sandbox is still as
        it was `before`, and the key of what is added is free; return whether they were stored.
        """
        replaced = await self._store.replace(
            before.sandbox, key, old, new, expected_state=before.state, addition=added
        )
        if replaced:
            self.notifier.notify(before.sandbox)
        return replaced

    async def create(
        self,
        request: KeyedRequest,
        kind: type[R],
        new: Callable[[str, SandboxSnapshot], tuple[R, SandboxRecord]],
        limit: int | None = None,
        unless_rule_for: str | None = None,
    ) -> Creation[R]:
        """Return the record behind an idempotency key, which is created if it is missing. Raises RuleFound if
        the sandbox has a fault rule for the operation `unless_rule_for`.

        `new` returns it for its token and the sandbox, with the own record of the sandbox after it. The token
        of the idempotency key is the key of the record, so that adding it is both the insert and the check,
        and one of any number of concurrent duplicates is stored. Raises what `new` raises, unless the key has
        been used; PaymockError `capacity_exceeded`, or the idempotency conflict.
        Specification: "Limits".
        """
        if not self.metadata.is_verified:
            await self.metadata.verify()
        snapshot = self._without_rule(unless_rule_for, self._known(request.sandbox))
        deadline = RetryDeadline()
        while True:
            token = self.token(snapshot, request.idempotency_key)
            state, existing, real = snapshot.state, None, snapshot.real
            if self.is_synchronous:  # to look first costs little, and spares a repeated request the rest
                state, existing = await self._store.get(request.sandbox, SANDBOX_RECORD, token)
            if existing is None and state == snapshot.state:
                real = self._clock()
                result = await self._add(token, snapshot, new, limit)
                if isinstance(result, Creation):
                    return result
                state, existing = result
            if state != snapshot.state or real != snapshot.real:
                newer = self._snapshot_of(request.sandbox, state, [], real)
                snapshot = self._without_rule(unless_rule_for, newer)
            if existing is not None:
                return replay_of(existing, request, kind, snapshot)
            deadline.check()

    async def _add(
        self,
        token: str,
        snapshot: SandboxSnapshot,
        new: Callable[[str, SandboxSnapshot], tuple[R, SandboxRecord]],
        limit: int | None,
    ) -> Creation[R] | AddResult:
        """Store what `new` returns, or return what the store has instead. Raises what `new` raises, unless
        the key has been used or the sandbox has changed: a replay comes before what depends on the time.
        """
        sandbox, state = snapshot.sandbox, snapshot.state
        try:
            record, after = new(token, snapshot)
        except PaymockError:
            found = AddResult(*await self._store.get(sandbox, SANDBOX_RECORD, token))
            if found == (state, None):
                raise
            return found
        addition = token, records.encode(record), record.KIND
        new_state = None if after is snapshot.record else records.encode(after)
        result = await self._store.add(
            sandbox, addition, expected_state=state, new_state=new_state, limit=limit
        )
        if result != (state, None):
            return result
        if new_state is not None:
            self._decode(sandbox, new_state)
        self.notifier.notify(sandbox, addition=new_state is None)
        return Creation(record, addition[1], replayed=False, snapshot=snapshot)

    def _without_rule(self, operation: str | None, snapshot: SandboxSnapshot) -> SandboxSnapshot:
        """Return the sandbox as a creation finds it. Raises RuleFound if it has a rule for the operation."""
        if operation is not None and snapshot.record.has_rule_for(operation):
            raise RuleFound
        return snapshot

    async def find_key(self, sandbox: str, idempotency_key: str) -> tuple[str, SandboxSnapshot]:
        """Return the token of an idempotency key, and the sandbox with what is stored under it."""
        known = self._known(sandbox)
        while True:
            token = self.token(known, idempotency_key)
            snapshot = await self.snapshot(sandbox, token)
            if snapshot.record.generation == known.record.generation:
                return token, snapshot
            known = snapshot

    def append(self, sandbox: str, log: str, entry: Entry, *, keep: int) -> None:
        """Add an entry to a log that keeps the last `keep`. It is buffered, and lost if the store fails."""
        self._log_buffer.add((sandbox, log, keep), entry)
        if self.is_synchronous and self.notifier.subscriptions:
            self.notifier.notify(sandbox, addition=True)

    async def clear_log(self, sandbox: str, log: str) -> None:
        await self._log_buffer.flush(sandbox)
        await self._store.clear_log(sandbox, log)
        self.notifier.notify(sandbox, addition=True)

    async def reset(self, sandbox: str) -> None:
        """Delete all data of the sandbox. The same idempotency keys then lead to other ids."""
        await self._log_buffer.flush(sandbox)
        deadline = RetryDeadline()
        while True:
            before = await self.snapshot(sandbox)
            after = records.encode(SandboxRecord(generation=before.record.generation + 1))
            if await self._store.reset(sandbox, after, expected_state=before.state):
                self._decode(sandbox, after)
                self.owner_limits.forget(sandbox)
                return self.notifier.notify(sandbox)
            deadline.check()

    def sandbox_of(self, token: str) -> str:
        return identifiers.sandbox_of_token(self.metadata.current.secret, token)

    def token(self, snapshot: SandboxSnapshot, idempotency_key: str) -> str:
        return identifiers.derive_token(
            self.metadata.current.secret, snapshot.sandbox, idempotency_key, snapshot.record.generation
        )

    async def _write_logs(self, logs: Sequence[LogEntries]) -> None:
        with suppress(PaymockError):
            await self._store.append(*logs)
            if not self.is_synchronous and self.notifier.subscriptions:
                for each in logs:
                    self.notifier.notify(each.sandbox, addition=True)

    def _snapshot_of(
        self, sandbox: str, state: bytes | None, values: list[bytes | None], real: int
    ) -> SandboxSnapshot:
        cached = self._records.get(sandbox)
        record = cached[1] if cached and cached[0] == state else self._decode(sandbox, state)
        clock = record.clock or self.metadata.current.clock
        # A change by a server whose clock is ahead is not pending for longer than one of this server, whose
        # clock goes on from there: otherwise its next change would set the time back.
        if real < (started := clock.since_real - self.propagation_ms):
            self._clock.catch_up(started)
            real = started
        return SandboxSnapshot(sandbox, state, record, clock, real, values)

    def _decode(self, sandbox: str, state: bytes | None) -> SandboxRecord:
        record = _INITIAL if state is None else records.decode_as(SandboxRecord, state)
        self._records[sandbox] = state, record
        counts = record.rules or record.scenarios
        self.owner_limits.record_size(sandbox, SANDBOX_RECORD, len(state or b"") if counts else 0)
        return record
