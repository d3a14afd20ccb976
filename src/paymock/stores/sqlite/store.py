"""The SQLite store, which several processes on one machine can share.

Committed changes survive the end of the process; with `synchronous=full` (the default) also a power failure.
Changes that arrive during a commit share the next one. Logs and counters (the journal, the attempts of a
fault) do not wait for the disk. See docs/stores.md.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple, TypeVar

from paymock.rules.clock import MAX_PROPAGATION_MS
from paymock.rules.errors import PaymockError
from paymock.stores.base import STATE, AddResult, Change
from paymock.stores.batching import Append, Batcher, merge_appends
from paymock.stores.sqlite import queries
from paymock.stores.sqlite.file import (
    StoreFile,
    ThreadedConnection,
    begin_immediate,
    initialize,
    write_header,
)
from paymock.stores.sqlite.queries import SANDBOX_ID, sandbox_id, select_values, upsert

POLL_SECONDS = 0.1
"""How often the file is polled for changes of other processes, while `changes` is iterated."""

APPEND_DELAY_SECONDS = 0.005
"""How long log entries wait for other changes to share a commit with. No caller waits for them, and at 10,000
requests per second their commits would cost as much as the reads.
"""

_MAX_POSITION = 2**63 - 1

T = TypeVar("T")

_Step = Callable[[Connection], Any]


class _Change(NamedTuple):
    """A step that writes. A `durable` one is committed with the `synchronous` mode of the store."""

    run: _Step
    durable: bool


class SqliteStore:
    """A `Store` in the file at `path`. `synchronous` is full or normal; `limits` caps the number of values of
    a kind over all sandboxes.
    """

    never_waits = False
    propagation_ms = MAX_PROPAGATION_MS

    def __init__(
        self, path: Path, synchronous: str = "full", limits: Mapping[str, int] | None = None
    ) -> None:
        self._path = path
        self.synchronous = synchronous
        self._limits = limits or {}
        self._changed: dict[str, bool] = {}
        file = StoreFile(path)
        self._reader, self._writer = ThreadedConnection(file), ThreadedConnection(file)
        self._reads: Batcher[_Step] = Batcher(partial(self._reader.run, _run_reads))
        self._changes: Batcher[_Change | Append] = Batcher(
            partial(self._writer.run, self._run_changes), APPEND_DELAY_SECONDS
        )

    @property
    def connections(self) -> int:
        return self._reader.opened + self._writer.opened

    def copies(self, sandbox: str) -> Sequence[str]:
        return [sandbox]

    async def initialize(self) -> str | None:
        await asyncio.to_thread(initialize, self._path)
        return None

    async def add(
        self,
        sandbox: str,
        key: str,
        value: bytes,
        *,
        kind: str,
        expected_state: bytes | None,
        new_state: bytes | None = None,
        limit: int | None = None,
    ) -> AddResult:
        def step(connection: Connection) -> AddResult:
            current = AddResult(*select_values(connection, sandbox, (STATE, key)))
            if current == (expected_state, None):
                queries.reserve_capacity(connection, sandbox, kind, limit, self._limits.get(kind))
                connection.execute(
                    "INSERT INTO entry (sandbox, key, kind, value) VALUES (?, ?, ?, ?)",
                    (sandbox_id(connection, sandbox), key, kind, value),
                )
                if new_state is not None:
                    upsert(connection, sandbox, STATE, new_state)
                self._note_change(sandbox, minor=new_state is None)
            return current

        return await self._change(step)

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        return await self._read(lambda connection: select_values(connection, sandbox, keys))

    async def replace(
        self, sandbox: str, key: str, old: bytes | None, new: bytes, *, expected_state: bytes | None
    ) -> bool:
        def step(connection: Connection) -> bool:
            if select_values(connection, sandbox, (STATE, key)) != [expected_state, old]:
                return False
            upsert(connection, sandbox, key, new)
            self._note_change(sandbox)
            return True

        return await self._change(step)

    async def page(
        self, sandbox: str, kind: str, *, limit: int, before: int | None = None
    ) -> list[tuple[int, bytes]]:
        def step(connection: Connection) -> list[tuple[int, bytes]]:
            return connection.execute(
                f"SELECT position, value FROM entry WHERE sandbox = {SANDBOX_ID} "  # noqa: S608
                "AND kind = ? AND position < ? ORDER BY position DESC LIMIT ?",
                (sandbox, kind, _MAX_POSITION if before is None else before, limit),
            ).fetchall()

        return await self._read(step)

    async def increment(self, sandbox: str, key: str) -> int:
        def step(connection: Connection) -> int:
            self._note_change(sandbox, minor=True)
            return queries.increment(connection, sandbox, key)

        return await self._change(step, durable=False)

    async def append(self, sandbox: str, log: str, entry: bytes, *, keep: int) -> None:
        await self._changes.submit(Append(sandbox, log, keep, (entry,)), deferrable=True)

    async def tail(self, sandbox: str, log: str, limit: int) -> list[bytes]:
        await self._changes.flush()
        return await self._read(lambda connection: queries.tail(connection, sandbox, log, limit))

    async def clear_log(self, sandbox: str, log: str) -> None:
        def step(connection: Connection) -> None:
            connection.execute(f"DELETE FROM log WHERE sandbox = {SANDBOX_ID} AND log = ?", (sandbox, log))  # noqa: S608
            self._note_change(sandbox, minor=True)

        await self._change(step, durable=False)

    async def reset(self, sandbox: str, new_state: bytes, *, expected_state: bytes | None) -> bool:
        def step(connection: Connection) -> bool:
            if select_values(connection, sandbox, (STATE,)) != [expected_state]:
                return False
            connection.execute(
                "UPDATE total SET number = number - "
                "(SELECT count(*) FROM entry WHERE sandbox = ? AND kind = total.kind)",
                (sandbox_id(connection, sandbox),),
            )
            connection.execute("UPDATE sandbox SET name = NULL WHERE name = ?", (sandbox,))
            upsert(connection, sandbox, STATE, new_state)
            self._note_change(sandbox)
            return True

        return await self._change(step)

    async def ping(self) -> None:
        def step(connection: Connection) -> None:
            write_header(connection)
            connection.execute("SELECT 1 FROM entry LIMIT 1").fetchall()

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
        outcome: T = await self._reads.submit(step)
        return outcome

    async def _change(self, step: Callable[[Connection], T], *, durable: bool = True) -> T:
        outcome: T = await self._changes.submit(_Change(step, durable))
        return outcome

    def _run_changes(self, connection: Connection, changes: Sequence[_Change | Append]) -> list[Any]:
        durable = any(isinstance(change, _Change) and change.durable for change in changes)
        connection.execute(f"PRAGMA synchronous = {self.synchronous if durable else 'normal'}")
        begin_immediate(connection)
        merged, indexes = merge_appends(changes)
        self._changed.clear()
        outcomes = [_run(connection, self._step(change)) for change in merged]
        queries.record_changes(connection, self._changed)
        queries.purge(connection)
        connection.execute("COMMIT")
        return [outcomes[index] for index in indexes]

    def _step(self, change: _Change | Append) -> _Step:
        if not isinstance(change, Append):
            return change.run
        self._note_change(change.sandbox, minor=True)
        return partial(queries.append, step=change)

    def _note_change(self, sandbox: str, *, minor: bool = False) -> None:
        """Note that the current commit writes to a sandbox."""
        self._changed[sandbox] = minor and self._changed.get(sandbox, True)


def _run_reads(connection: Connection, steps: Sequence[_Step]) -> list[Any]:
    connection.execute("BEGIN")
    outcomes = [_run(connection, step) for step in steps]
    connection.execute("COMMIT")
    return outcomes


def _run(connection: Connection, step: _Step) -> Any:
    """Return the result of the step, or the exception that it raises: the other steps of its batch go on."""
    try:
        return step(connection)
    except sqlite3.Error:
        raise
    except Exception as error:  # noqa: BLE001 - raised to the caller of this step
        return error
