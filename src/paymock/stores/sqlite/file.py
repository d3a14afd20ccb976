"""The file of an SQLite store: begun whole or not at all, checked before it is used, opened when needed."""

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
"""What tells our files from other SQLite files."""

SCHEMA_VERSION = 1

BUSY_SECONDS = 5.0
"""How long a change waits for other processes before it is refused."""

_TURN_SECONDS = 0.0005
"""How long a process leaves the file to others before it tries again: about as long as a commit takes."""

_READ_THROUGH = 64 * 1024 * 1024
"""A larger file is not read through before it is used: that would take seconds."""

_SCHEMA = f"""
CREATE TABLE sandbox (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE);
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
"""A sandbox without a name is one that was reset: nobody finds it any more, and its rows go by and by."""

S = TypeVar("S")


class Connector:
    """One connection to the file, in a thread of its own, so that the event loop never waits for a disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread: ThreadPoolExecutor | None = None
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self.connections = 0

    async def run(
        self, work: Callable[[sqlite3.Connection, Sequence[S]], list[Any]], steps: Sequence[S]
    ) -> list[Any]:
        """Carries out `work`, which is one transaction. Raises PaymockError `store_unavailable` with the
        reason; nothing of the transaction is then stored, unless it was the reply of the disk that got lost.
        """
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="paymock-sqlite")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, work, steps)

    async def close(self) -> None:
        """Ends the connection and its thread."""
        if self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
            self._thread.shutdown()
            self._thread = None

    def _run(
        self, work: Callable[[sqlite3.Connection, Sequence[S]], list[Any]], steps: Sequence[S]
    ) -> list[Any]:
        try:
            return work(self._connected(), steps)
        except (sqlite3.Error, StoreError, OSError) as error:
            self._disconnect()
            raise PaymockError(
                "store_unavailable", f"The store says: {error}. Nothing was half-written."
            ) from None
        except BaseException:
            self._disconnect()  # with a transaction left open, it would lock out everybody
            raise

    def _connected(self) -> sqlite3.Connection:
        file = _identity(self._path)
        if self._connection is None:
            self._file, self._connection = file, connect(self._path)
            check_kind(self._connection)
            self.connections += 1
        elif self._file != file:
            raise StoreError("another file is in the place of its own")
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


def connect(path: Path) -> sqlite3.Connection:
    """A connection to an existing file; its user begins and ends transactions. Raises sqlite3.Error."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


def begin_change(connection: sqlite3.Connection) -> None:
    """Begins a transaction that changes something, as soon as other processes have ended theirs.

    SQLite itself would wait ever longer between two tries, up to a tenth of a second, and let others pass.
    Raises sqlite3.Error.
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
        time.sleep(_TURN_SECONDS)


def prepare(path: Path) -> None:
    """Begins the file if there is none, and makes sure that it is one of ours, whole, and can be written to.

    Raises StoreError, naming the file: it is corrupt, of a newer version, read-only, or its disk is full.
    """
    try:
        if not path.exists():
            _create(path)
        with closing(connect(path)) as connection:
            check_kind(connection)
            _check_whole(path, connection)
            if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
                raise StoreError("it cannot keep a write-ahead log beside it")
            begin_change(connection)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")  # can it be written to?
            connection.execute("COMMIT")
    except StoreError as error:
        raise StoreError(f"cannot use the store {path}: {error}") from None
    except (sqlite3.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StoreError(f"cannot use the store {path}: {reason}") from None


def _create(path: Path) -> None:
    """Makes the file aside and puts it in its place whole, unless another process has been faster."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.executescript(_SCHEMA)
        with suppress(FileExistsError):
            path.hardlink_to(draft)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # so that the file keeps its name when the power fails
        finally:
            os.close(folder)
    finally:
        for leftover in (draft, Path(f"{draft}-journal")):
            leftover.unlink(missing_ok=True)


def check_kind(connection: sqlite3.Connection) -> None:
    """Raises StoreError when the file is not one of ours, or of a newer version."""
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise StoreError("it is not a file of paymock")
    if version > SCHEMA_VERSION:
        raise StoreError(f"a newer paymock wrote it (schema {version}, not {SCHEMA_VERSION})")


def _check_whole(path: Path, connection: sqlite3.Connection) -> None:
    if path.stat().st_size <= _READ_THROUGH:
        [(first,), *_] = connection.execute("PRAGMA quick_check(1)").fetchall()
        if first != "ok":
            raise StoreError(f"it is corrupt: {first.splitlines()[-1]}")


def _identity(path: Path) -> tuple[int, int]:
    """What tells the file from another one of its name. Raises OSError."""
    found = path.stat()
    return found.st_dev, found.st_ino
