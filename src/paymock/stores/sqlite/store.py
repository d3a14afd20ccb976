"""The durable store of one machine: an SQLite file, which several processes can share.

What is committed survives the end of the process; with `synchronous=FULL` (the default) it survives a loss of
power, too. Changes that arrive while a commit is under way share the next one. What is merely noted (the
journal, the tries of a fault) does not wait for the disk. See docs/stores.md.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from paymock.rules.clock import LEAD
from paymock.rules.errors import PaymockError
from paymock.stores.base import STATE, AddResult, Change
from paymock.stores.batching import Append, Batches, joined
from paymock.stores.sqlite import rows as sqlite_rows
from paymock.stores.sqlite.file import Connector, begin_change, prepare
from paymock.stores.sqlite.rows import OF, Rows, number_of, put, values

NOTICE_SECONDS = 0.1
"""How often a process looks whether others have changed something, while somebody waits for that."""

PATIENCE_SECONDS = 0.005
"""So long entries of a log wait for others to share a commit with: nobody waits for them, and at 10,000
requests a second their commits would cost as much as the reads.
"""

_LAST = 2**63 - 1
"""More than every position."""

T = TypeVar("T")

_Step = Callable[[Rows], Any]


class _Change(NamedTuple):
    """A step that changes something: for good, or merely notes it."""

    run: _Step
    lasting: bool


class SqliteStore:
    """A `Store` in the file at `path`. `synchronous` is full or normal; `limits` says how many values of a
    kind it has room for, in all sandboxes together.
    """

    never_suspends = False
    propagation_ms = LEAD

    def __init__(
        self, path: Path, synchronous: str = "full", limits: Mapping[str, int] | None = None
    ) -> None:
        self._path = path
        self.synchronous = synchronous
        self._limits = limits or {}
        self._sweeps = True
        self._reader, self._writer = Connector(path), Connector(path)
        self._reads: Batches[_Step] = Batches(partial(self._reader.run, _read))
        self._changes: Batches[_Change | Append] = Batches(
            partial(self._writer.run, self._write), PATIENCE_SECONDS
        )

    @property
    def connections(self) -> int:
        return self._reader.connections + self._writer.connections

    async def initialize(self) -> str | None:
        await asyncio.to_thread(prepare, self._path)
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
        def step(rows: Rows) -> AddResult:
            found = AddResult(*values(rows, sandbox, (STATE, key)))
            if found == (expected_state, None):
                sqlite_rows.take_room(rows, sandbox, kind, limit, self._limits.get(kind))
                rows.execute(
                    "INSERT INTO entry (sandbox, key, kind, value) VALUES (?, ?, ?, ?)",
                    (number_of(rows, sandbox), key, kind, value),
                )
                if new_state is not None:
                    put(rows, sandbox, STATE, new_state)
            return found

        return await self._change(step)

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        return await self._read(lambda rows: values(rows, sandbox, keys))

    async def replace(
        self, sandbox: str, key: str, old: bytes | None, new: bytes, *, expected_state: bytes | None
    ) -> bool:
        def step(rows: Rows) -> bool:
            if values(rows, sandbox, (STATE, key)) != [expected_state, old]:
                return False
            put(rows, sandbox, key, new)
            return True

        return await self._change(step)

    async def page(
        self, sandbox: str, kind: str, *, limit: int, before: int | None = None
    ) -> list[tuple[int, bytes]]:
        def step(rows: Rows) -> list[tuple[int, bytes]]:
            return rows.execute(
                f"SELECT position, value FROM entry WHERE sandbox = {OF} AND kind = ? AND position < ? "  # noqa: S608
                "ORDER BY position DESC LIMIT ?",
                (sandbox, kind, _LAST if before is None else before, limit),
            ).fetchall()

        return await self._read(step)

    async def increment(self, sandbox: str, key: str) -> int:
        def step(rows: Rows) -> int:
            [(number,)] = rows.execute(
                "INSERT INTO counter VALUES (?, ?, 1) "
                "ON CONFLICT DO UPDATE SET number = number + 1 RETURNING number",
                (number_of(rows, sandbox), key),
            ).fetchall()
            return int(number)

        return await self._change(step, lasting=False)

    async def append(self, sandbox: str, log: str, entry: bytes, *, keep: int) -> None:
        await self._changes.do(Append(sandbox, log, keep, (entry,)), patient=True)

    async def tail(self, sandbox: str, log: str, limit: int) -> list[bytes]:
        return await self._change(lambda rows: sqlite_rows.tail(rows, sandbox, log, limit), lasting=False)

    async def clear_log(self, sandbox: str, log: str) -> None:
        def step(rows: Rows) -> None:
            rows.execute(f"DELETE FROM log WHERE sandbox = {OF} AND log = ?", (sandbox, log))  # noqa: S608

        await self._change(step, lasting=False)

    async def reset(self, sandbox: str, new_state: bytes, *, expected_state: bytes | None) -> bool:
        def step(rows: Rows) -> bool:
            if values(rows, sandbox, (STATE,)) != [expected_state]:
                return False
            rows.execute(
                "UPDATE total SET number = number - "
                "(SELECT count(*) FROM entry WHERE sandbox = ? AND kind = total.kind)",
                (number_of(rows, sandbox),),
            )
            rows.execute("UPDATE sandbox SET name = NULL WHERE name = ?", (sandbox,))
            put(rows, sandbox, STATE, new_state)
            self._sweeps = True
            return True

        return await self._change(step)

    async def ping(self) -> None:
        await self._read(lambda rows: rows.execute("SELECT 1 FROM entry LIMIT 1").fetchall())

    async def changes(self) -> AsyncIterator[Change]:
        version = None
        while True:
            before = version
            try:
                version = await self._read(_version)
            except PaymockError:
                version = None
            if version != before:
                yield Change(None)
            await asyncio.sleep(NOTICE_SECONDS)

    async def close(self) -> None:
        for connector in (self._reader, self._writer):
            await connector.close()

    async def _read(self, step: Callable[[Rows], T]) -> T:
        outcome: T = await self._reads.do(step)
        return outcome

    async def _change(self, step: Callable[[Rows], T], *, lasting: bool = True) -> T:
        outcome: T = await self._changes.do(_Change(step, lasting))
        return outcome

    def _write(self, rows: Rows, steps: Sequence[_Change | Append]) -> list[Any]:
        lasting = any(isinstance(step, _Change) and step.lasting for step in steps)
        rows.execute(f"PRAGMA synchronous = {self.synchronous if lasting else 'normal'}")
        begin_change(rows)
        kept, places = joined(steps)
        outcomes = [_outcome(rows, _run_of(step)) for step in kept]
        if self._sweeps:
            self._sweeps = sqlite_rows.sweep(rows)
        rows.execute("COMMIT")
        return [outcomes[place] for place in places]


def _run_of(step: _Change | Append) -> _Step:
    return partial(sqlite_rows.append, step=step) if isinstance(step, Append) else step.run


def _outcome(rows: Rows, step: _Step) -> Any:
    """What the step answers, or why it is refused; the others of its batch go on."""
    try:
        return step(rows)
    except sqlite3.Error:
        raise
    except Exception as refusal:  # noqa: BLE001 - raised to whoever asked for this step
        return refusal


def _read(rows: Rows, steps: Sequence[_Step]) -> list[Any]:
    rows.execute("BEGIN")
    outcomes = [_outcome(rows, step) for step in steps]
    rows.execute("COMMIT")
    return outcomes


def _version(rows: Rows) -> int:
    return int(rows.execute("PRAGMA data_version").fetchone()[0])
