"""The SQLite store, which several processes on one machine can share.

Committed changes survive the end of the process; with `synchronous=full` (the default) also a power failure.
Changes that arrive during a commit share the next one. Logs and counters (the journal, the attempts of a
fault) do not wait for the disk. See docs/stores.md.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import Any, TypeVar

from paymock.rules.clock import MAX_PROPAGATION_MS
from paymock.rules.errors import PaymockError
from paymock.stores.base import (
    SANDBOX_RECORD,
    Addition,
    AddResult,
    Change,
    Check,
    LogEntries,
    RetentionClock,
    steady_clock,
)
from paymock.stores.batching import Batcher, Read, merge_reads
from paymock.stores.sqlite import queries
from paymock.stores.sqlite.file import LOCK_SECONDS, StoreFile, ThreadedConnection, begin, initialize
from paymock.stores.sqlite.queries import MAX_KEYS, SANDBOX_ID, Transaction, select_values

POLL_SECONDS = 0.1
"""How often the file is polled for changes of other processes, while `changes` is iterated."""

LOOK_SECONDS = 0.05
"""How old a look at the file may be before a commit: the writer, with pages in memory, notices no damage."""

_PING = ("REPLACE INTO log VALUES (0, '', 0, zeroblob(65536))", "DELETE FROM log WHERE sandbox = 0")
"""Needs for a moment more room than the largest payment, so that a full disk is noticed."""

_MAX_POSITION = 2**63 - 1

T = TypeVar("T")

_Change = tuple[Callable[[Transaction], Any], bool]
"""A step that writes, and whether it is committed with the `synchronous` mode of the store."""


class SqliteStore:
    """A `Store` in the file at `path`. `synchronous` is full or normal; `limits` caps the number of values of
    a kind over all sandboxes; `clock` is for the `retention`.
    """

    is_synchronous = False
    propagation_ms = MAX_PROPAGATION_MS

    def __init__(
        self,
        path: Path,
        synchronous: str = "full",
        limits: Mapping[str, int | None] | None = None,
        retention: int | None = None,
        clock: RetentionClock | None = None,
    ) -> None:
        self._path = path
        self.synchronous = synchronous
        self._limits = limits or {}
        self._retention, self._clock = retention, clock or steady_clock()
        self._expired = 0
        """The position up to which this process has applied the retention."""
        self._looked_at = -LOOK_SECONDS
        file = StoreFile(path)
        self._reader, self._writer = ThreadedConnection(file), ThreadedConnection(file)
        self._reads: Batcher[Read] = Batcher(self._run_short_reads)
        self._changes: Batcher[_Change] = Batcher(
            lambda changes: self._writer.run(partial(self._commit, changes))
        )

    @property
    def connections(self) -> int:
        return self._reader.opened + self._writer.opened

    async def initialize(self, check: Check | None = None) -> str | None:
        await asyncio.to_thread(initialize, self._path, check)
        return None

    async def add(
        self,
        sandbox: str,
        addition: Addition,
        *,
        expected_state: bytes | None,
        new_state: bytes | None = None,
        limit: int | None = None,
    ) -> AddResult:
        key, _, kind = addition

        def step(transaction: Transaction) -> AddResult:
            state = transaction.state(sandbox)
            expected = state == expected_state
            full = expected and transaction.is_full(sandbox, kind, limit, self._limits.get(kind))
            if expected and not full and transaction.add(sandbox, *addition):
                if new_state is not None:
                    transaction.upsert(sandbox, SANDBOX_RECORD, new_state)
                return AddResult(state, None)
            [existing] = select_values(transaction.connection, sandbox, (key,))
            if full and existing is None:
                raise PaymockError("capacity_exceeded")
            return AddResult(state, existing)

        return await self._change(step)

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        if len(keys) > MAX_KEYS:
            return await self._read(lambda connection: select_values(connection, sandbox, keys))
        values: list[bytes | None] = await self._reads.submit(Read(sandbox, keys))
        return values

    async def replace(
        self,
        sandbox: str,
        key: str,
        old: bytes | None,
        new: bytes,
        *,
        expected_state: bytes | None,
        addition: Addition | None = None,
        if_empty: bool = False,
    ) -> bool:
        def step(transaction: Transaction) -> bool:
            if select_values(transaction.connection, sandbox, (SANDBOX_RECORD, key)) != [expected_state, old]:
                return False
            if if_empty and transaction.connection.execute(queries.LISTED, (sandbox,)).fetchall():
                raise PaymockError("sandbox_not_empty")
            if addition is not None and not transaction.add(sandbox, *addition):
                return False
            transaction.upsert(sandbox, key, new)
            return True

        return await self._change(step)

    async def page(
        self, sandbox: str, kind: str, *, limit: int, before: int | None = None
    ) -> list[tuple[int, bytes]]:
        query = (
            f"SELECT position, value FROM entry WHERE sandbox = {SANDBOX_ID} "  # noqa: S608 - constants
            "AND kind = ? AND position < ? ORDER BY position DESC LIMIT ?"
        )
        values = (sandbox, kind, _MAX_POSITION if before is None else before, limit)
        return await self._read(lambda connection: connection.execute(query, values).fetchall())

    async def count(self, sandbox: str, kind: str) -> int:
        return await self._read(lambda connection: queries.count(connection, sandbox, kind))

    async def increment(self, sandbox: str, key: str) -> int:
        return await self._change(lambda writer: writer.increment(sandbox, key), durable=False)

    async def append(self, *logs: LogEntries) -> None:
        def step(writer: Transaction) -> None:
            for each in logs:
                writer.append(*each)

        await self._change(step, durable=False)

    async def tail(self, sandbox: str, log: str, limit: int) -> list[bytes]:
        return await self._read(lambda connection: queries.tail(connection, sandbox, log, limit))

    async def clear_log(self, sandbox: str, log: str) -> None:
        await self._change(lambda writer: writer.clear_log(sandbox, log), durable=False)

    async def revision(self, sandbox: str, log: str) -> tuple[bytes | None, bytes]:
        return await self._read_briefly(partial(queries.revision, sandbox=sandbox))

    async def reset(self, sandbox: str, new_state: bytes, *, expected_state: bytes | None) -> bool:
        def step(transaction: Transaction) -> bool:
            if transaction.state(sandbox) != expected_state:
                return False
            transaction.delete(sandbox)
            transaction.upsert(sandbox, SANDBOX_RECORD, new_state)
            return True

        return await self._change(step)

    async def time(self) -> int | None:
        return None

    async def ping(self) -> None:
        for statement in _PING:

            def step(transaction: Transaction, statement: str = statement) -> None:
                transaction.connection.execute(statement)

            self._looked_at = -LOOK_SECONDS
            await self._change(step, durable=False)

    async def changes(self) -> AsyncIterator[Change]:
        version: int | None = None
        failed = False
        while True:
            try:
                version, changes = await self._read(partial(queries.changes_since, version=version))
                failed = False
            except PaymockError:  # said once: who waits gets the error
                changes, failed = [] if failed else [Change(None)], True
            for change in changes:
                yield change
            await asyncio.sleep(POLL_SECONDS)

    async def close(self) -> None:
        for connection in (self._reader, self._writer):
            await connection.close()

    async def _read(self, step: Callable[[Connection], T]) -> T:
        return await self._reader.run(partial(_read, step))

    async def _read_briefly(self, step: Callable[[Connection], T]) -> T:
        outcome = self._reader.try_now(partial(_read, step, lock_seconds=0))
        return await self._read(step) if outcome is None else outcome

    async def _run_short_reads(self, reads: Sequence[Read]) -> list[Any]:
        merged, split = merge_reads(reads)

        def select_all(connection: Connection) -> list[list[bytes | None]]:
            return [select_values(connection, *read) for read in merged]

        return split(await self._read_briefly(select_all))

    async def _change(self, step: Callable[[Transaction], T], *, durable: bool = True) -> T:
        outcome: T = await self._changes.submit((step, durable))
        return outcome

    def _commit(self, changes: Sequence[_Change], connection: Connection) -> list[Any]:
        now = time.monotonic()
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._reader.run_here(partial(_read, queries.look))
        durable = any(durable for _, durable in changes)
        connection.execute(f"PRAGMA synchronous = {self.synchronous if durable else 'normal'}")
        begin(connection, "IMMEDIATE")
        transaction = Transaction(connection)
        outcomes: list[Any] = []
        for step, _ in changes:
            try:
                outcomes.append(step(transaction))
            except sqlite3.Error:
                raise
            except Exception as error:  # noqa: BLE001 - raised to the caller of this step; the others go on
                outcomes.append(error)
        expired, retention = self._expired, self._retention
        if retention and (real := self._clock()) is not None:
            expired = transaction.expire(real, retention, expired)
        transaction.finish()
        queries.purge(connection)
        connection.execute("COMMIT")
        self._expired = expired
        return outcomes


def _read(
    step: Callable[[Connection], T], connection: Connection, *, lock_seconds: float = LOCK_SECONDS
) -> T:
    begin(connection, "DEFERRED", lock_seconds)
    outcome = step(connection)
    connection.execute("COMMIT")
    return outcome
