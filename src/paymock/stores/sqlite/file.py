"""The file of an SQLite store: created atomically, checked before use, opened on demand."""

import asyncio
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, TypeVar

from paymock.rules.errors import PaymockError
from paymock.stores.base import StoreError

APPLICATION_ID = int.from_bytes(b"paym")
"""Distinguishes the files of paymock from other SQLite files."""

SCHEMA_VERSION = 2

BUSY_SECONDS = 5.0
"""How long a change waits for a lock that another process holds, before it is refused."""

_RETRY_SECONDS = 0.0005
"""How long to wait between two attempts to lock the file: about as long as a commit takes."""

_MAX_CHECKED_BYTES = 64 * 1024 * 1024
"""A larger file is not checked for corruption before use: that would take seconds."""

_CHANGES = """
ALTER TABLE sandbox ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandbox ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sandbox_by_version ON sandbox (version);
"""
"""What schema 2 adds. Commits are numbered: `version` is the last one that wrote to the sandbox, `changed`
the last one that did more than add to a list or a log.
"""

_SCHEMA = f"""
CREATE TABLE sandbox (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE);
{_CHANGES}
CREATE TABLE entry (
    position INTEGER PRIMARY KEY AUTOINCREMENT, sandbox INTEGER NOT NULL, key TEXT NOT NULL, kind TEXT,
    value BLOB NOT NULL
);
CREATE UNIQUE INDEX entry_by_key ON entry (sandbox, key);
CREATE INDEX entry_by_kind ON entry (sandbox, kind, position) WHERE kind IS NOT NULL;
CREATE TABLE total (kind TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE counter (
    sandbox INTEGER, key TEXT, number INTEGER NOT NULL, PRIMARY KEY (sandbox, key)
) WITHOUT ROWID;
CREATE TABLE log (
    sandbox INTEGER, log TEXT, number INTEGER, entries BLOB NOT NULL, PRIMARY KEY (sandbox, log, number)
) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""
"""A sandbox whose name is NULL was reset. Its rows are deleted a few at a time."""

S = TypeVar("S")


class ThreadedConnection:
    """A connection to the file, in a thread of its own, so that the event loop never waits for the disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread: ThreadPoolExecutor | None = None
        self._connection: sqlite3.Connection | None = None
        self._file_id: tuple[int, int] | None = None
        self.opened = 0
        """How many times the file has been opened."""

    async def run(
        self, transaction: Callable[[sqlite3.Connection, Sequence[S]], list[Any]], steps: Sequence[S]
    ) -> list[Any]:
        """Run `transaction` on the connection. Raises PaymockError `store_unavailable` with the reason;
        nothing of the transaction is then stored, unless only the confirmation of the commit was lost.
        """
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="paymock-sqlite")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, transaction, steps)

    async def close(self) -> None:
        """Close the connection and end its thread."""
        if self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
            self._thread.shutdown()
            self._thread = None

    def _run(
        self, transaction: Callable[[sqlite3.Connection, Sequence[S]], list[Any]], steps: Sequence[S]
    ) -> list[Any]:
        try:
            return transaction(self._connect(), steps)
        except (sqlite3.Error, StoreError, OSError) as error:
            self._disconnect()
            raise PaymockError(
                "store_unavailable", f"The store reported: {error}. No change was partially stored."
            ) from None
        except BaseException:
            self._disconnect()  # an open transaction would lock out every other process
            raise

    def _connect(self) -> sqlite3.Connection:
        file_id = _file_id(self._path)
        if self._connection is None:
            self._file_id, self._connection = file_id, connect(self._path)
            check_schema(self._connection)
            self.opened += 1
        elif self._file_id != file_id:
            raise StoreError("the file was replaced by another one")
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


def connect(path: Path) -> sqlite3.Connection:
    """Connect to an existing file, without implicit transactions. Raises sqlite3.Error."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


def begin_immediate(connection: sqlite3.Connection) -> None:
    """Begin a write transaction as soon as other processes have ended theirs. Raises sqlite3.Error.

    SQLite's own busy handler waits longer after each attempt, up to a tenth of a second, so that others
    overtake.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    connection.execute("PRAGMA busy_timeout = 0")
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(_RETRY_SECONDS)


def initialize(path: Path) -> None:
    """Create the file if missing, and check that it is a store of paymock, intact and writable.

    Raises StoreError, which names the file, if it is corrupt, read-only, of another program or of a newer
    version, or the disk is full.
    """
    try:
        if not path.exists():
            _create(path)
        with closing(connect(path)) as connection:
            check_schema(connection)
            _check_integrity(path, connection)
            if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
                raise StoreError("SQLite cannot create a write-ahead log next to it")
            begin_immediate(connection)
            if connection.execute("PRAGMA user_version").fetchone() == (1,):
                for statement in _CHANGES.strip().splitlines():
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")  # fails if the file is read-only
            connection.execute("COMMIT")
    except StoreError as error:
        raise StoreError(f"cannot use the store {path}: {error}") from None
    except (sqlite3.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StoreError(f"cannot use the store {path}: {reason}") from None


def _create(path: Path) -> None:
    """Create the file under a temporary name and link it to its own, unless another process was faster."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.executescript(_SCHEMA)
        with suppress(FileExistsError):
            path.hardlink_to(draft)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # so that the new name survives a power failure
        finally:
            os.close(folder)
    finally:
        for leftover in (draft, Path(f"{draft}-journal")):
            leftover.unlink(missing_ok=True)


def check_schema(connection: sqlite3.Connection) -> None:
    """Raise StoreError if the file is not one of paymock, or of a newer version."""
    [application_id] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if application_id != APPLICATION_ID:
        raise StoreError("it is not a file of paymock")
    if version > SCHEMA_VERSION:
        raise StoreError(f"a newer paymock wrote it (schema {version}, not {SCHEMA_VERSION})")


def _check_integrity(path: Path, connection: sqlite3.Connection) -> None:
    if path.stat().st_size <= _MAX_CHECKED_BYTES:
        [(result,), *_] = connection.execute("PRAGMA quick_check(1)").fetchall()
        if result != "ok":
            raise StoreError(f"it is corrupt: {result.splitlines()[-1]}")


def _file_id(path: Path) -> tuple[int, int]:
    """Return the device and inode numbers, which change if the file is replaced. Raises OSError."""
    status = path.stat()
    return status.st_dev, status.st_ino
