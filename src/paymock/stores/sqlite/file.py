"""The file of an SQLite store: created atomically, checked before use, opened on demand."""

import asyncio
import os
import secrets
import sqlite3
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar

from paymock.rules.errors import PaymockError
from paymock.stores.base import METADATA, SANDBOX_RECORD, Check, StoreError
from paymock.stores.sqlite.queries import select_values

if sys.platform != "win32":
    import fcntl

APPLICATION_ID = int.from_bytes(b"paym")
"""Distinguishes the files of paymock from other SQLite files."""

SCHEMA_VERSION = 2
"""The version of the tables. What the values mean is another matter: see `paymock.payments.records`."""

LOCK_SECONDS = 0.9
"""How long a transaction waits for a lock: one that is queued behind it fails within two seconds, too."""

_START_SECONDS = 5.0
"""How long a start waits for the same."""

_RETRY_SECONDS = 0.0005
"""How long to wait between two attempts to lock the file: about as long as a commit takes."""

_MAX_CHECKED_BYTES = 64 * 1024 * 1024
"""A larger file is not checked for corruption before use: that would take seconds."""

_MODE = 0o600

_MIN_PAGE_BYTES = 512
"""A file of SQLite consists of pages of a multiple of this size."""

_LOG_SUFFIXES = ("-wal", "-shm")
"""The suffixes of the files of the write-ahead log, while the file is in use."""

_SUFFIXES = ("", *_LOG_SUFFIXES, "-journal")

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR_SHORT_READ)
"""What SQLite reports of a file, or of its log, that others have overwritten."""

_SCHEMA = f"""
CREATE TABLE sandbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE,
    version INTEGER NOT NULL DEFAULT 0, changed INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX sandbox_by_version ON sandbox (version);
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
"""Commits are numbered: `version` is the last one that wrote to the sandbox, `changed` the last one that did
more than add to a list or a log. A sandbox whose name is NULL was reset; its rows are deleted in parts.
"""

T = TypeVar("T")

_FileId = tuple[int, int]


class _FileDamaged(StoreError):
    """Another program has deleted, replaced or overwritten a file that is in use. The connection stays open:
    it still has a deleted write-ahead log, with what was committed last, and saves it when the server stops.
    """


class _FileIds(NamedTuple):
    """The ids of a file and of its logs, None for those that do not exist."""

    file: _FileId | None
    logs: tuple[_FileId | None, ...]


class StoreFile:
    """The file at `path`, and what its open connections know of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = str(path)
        self._logs = [f"{path}{suffix}" for suffix in _LOG_SUFFIXES]
        self._lock = Lock()
        self._ids: _FileIds | None = None
        self._connections = 0  # to the file with these ids
        self._log_blocks = 0
        self._size = 0  # the least that the file has: it never shrinks
        self.damage: str | None = None  # of the content: nothing is written to it any more

    def open(self) -> tuple[sqlite3.Connection, _FileIds]:
        """Connect to the file. Raises sqlite3.Error, StoreError, OSError."""
        with self._lock:
            file_id = _file_id(self.path.stat())
            ids = self._ids
            if ids and not self._connections:  # its logs have gone with the last one: others may be shorter
                ids, self._log_blocks = _FileIds(ids.file, (None,)), 0
            if ids:
                self.check(ids)
            connection = connect(self.path, lock_seconds=LOCK_SECONDS)
            try:
                check_schema(connection)  # from now on its logs exist
                ids = _FileIds(file_id, tuple(map(_file_id, self._find_logs())))
                connection.execute("PRAGMA busy_timeout = 0")
            except BaseException:
                connection.close()
                raise
            self._connections = self._connections + 1 if ids == self._ids else 1
            self._ids = ids
            return connection, ids

    def close(self, connection: sqlite3.Connection, ids: _FileIds) -> None:
        with self._lock, suppress(sqlite3.Error):
            self._connections -= ids == self._ids
            connection.close()

    def check(self, ids: _FileIds, *, at_once: bool = False) -> None:
        """Raise StoreError or OSError if the files with these ids are no longer there, or damaged, or, if it
        has to be known `at_once`, that may be so.
        """
        if self.damage is not None:
            raise _FileDamaged(self.damage)
        known_blocks, known_size = self._log_blocks, self._size
        status = os.stat(self._name)  # noqa: PTH116 - for speed
        if ids.file != _file_id(status):
            raise _FileDamaged(f"{self.path.name} was replaced by another file: restart the server")
        logs = self._find_logs()
        if all(ids.logs) and ids.logs != tuple(map(_file_id, logs)):
            raise _FileDamaged(f"{self.path.name}-wal or -shm was deleted or replaced: restart the server")
        if status.st_size < max(known_size, 1) or status.st_size % _MIN_PAGE_BYTES:
            raise _FileDamaged(f"{self.path.name} was overwritten: stop the server and restore it")
        self._size = status.st_size
        # A checkpoint of another program may truncate the log, and ext4 takes back blocks that it had kept
        # for a process that ended. Otherwise it is damaged: a commit would make it as long as before, but
        # with a hole.
        blocks = logs[0].st_blocks if logs[0] else 0
        if blocks < known_blocks:
            if at_once:
                raise StoreError(f"{self.path.name}-wal was truncated")
            try:
                with closing(connect(self.path, LOCK_SECONDS)) as connection:
                    check_content(self.path, connection)
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            except (sqlite3.Error, StoreError) as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                    raise
                self.damage = f"{self.path.name}-wal was truncated: stop the server and restore it"
                raise _FileDamaged(self.damage) from error
        self._log_blocks = blocks

    def _find_logs(self) -> tuple[os.stat_result | None, ...]:
        logs: list[os.stat_result | None] = [None, None]
        for index, log in enumerate(self._logs):
            with suppress(FileNotFoundError):
                logs[index] = os.stat(log)  # noqa: PTH116
        return tuple(logs)


class ThreadedConnection:
    """A connection to a file, in a thread of its own, so that the event loop does not wait for it."""

    def __init__(self, file: StoreFile) -> None:
        self._file = file
        self._thread: ThreadPoolExecutor | None = None
        self._connection: tuple[sqlite3.Connection, _FileIds] | None = None
        self._in_use = Lock()  # held by the thread that uses the connection
        self.opened = 0
        """How many times the file has been opened."""

    def try_now(self, transaction: Callable[[sqlite3.Connection], T]) -> T | None:
        """Run a short transaction, which does not wait for locks, in the thread of the event loop: waking the
        other one would take as long as the transaction. Return None if `run` has to: its thread is busy, or
        the file is not open, locked, or damaged.
        """
        if not self._in_use.acquire(blocking=False):
            return None
        try:
            if self._connection is None:
                return None
            connection, ids = self._connection
            try:
                self._file.check(ids, at_once=True)
                return transaction(connection)
            except (sqlite3.Error, StoreError, OSError):
                with suppress(sqlite3.Error):
                    connection.rollback()
                return None
        finally:
            self._in_use.release()

    async def run(self, transaction: Callable[[sqlite3.Connection], T]) -> T:
        """Run `transaction` on the connection, in its thread. Raises what `run_here` does."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="paymock-sqlite")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self.run_here, transaction)

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        await asyncio.get_running_loop().run_in_executor(thread, self._close)
        if thread is not None:
            thread.shutdown()

    def run_here(self, transaction: Callable[[sqlite3.Connection], T]) -> T:
        """Run `transaction` on the connection. Raises PaymockError `store_unavailable` with the reason;
        nothing of the transaction is then stored, unless only the confirmation of the commit was lost.
        """
        with self._in_use:  # also when nobody waits for the outcome any more
            try:
                if self._connection is None:
                    self._connection = self._file.open()
                    self.opened += 1
                else:
                    self._file.check(self._connection[1])
                return transaction(self._connection[0])
            except (sqlite3.Error, StoreError, OSError) as error:
                code = getattr(error, "sqlite_errorcode", 0)
                if code in _DAMAGE or code & 0xFF in _DAMAGE:
                    error = _FileDamaged(f"{error}: stop the server and restore {self._file.path.name}")
                    self._file.damage = str(error)
                # While a deleted file is open, no other gets its inode.
                if isinstance(error, _FileDamaged | FileNotFoundError) and self._connection is not None:
                    with suppress(sqlite3.Error):
                        self._connection[0].rollback()
                else:
                    self._disconnect()
                message = f"The store reported: {_reason(error)}. No change was partially stored."
                raise PaymockError("store_unavailable", message) from None
            except BaseException:
                self._disconnect()  # an open transaction would lock out every other process
                raise

    def _close(self) -> None:
        with self._in_use:
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._file.close(*connection)


def connect(path: Path, lock_seconds: float) -> sqlite3.Connection:
    """Connect to an existing file, without implicit transactions. Raises sqlite3.Error."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=lock_seconds,
        isolation_level=None,
        check_same_thread=False,
    )


def begin(connection: sqlite3.Connection, mode: str, lock_seconds: float = LOCK_SECONDS) -> None:
    """Begin a transaction as soon as other processes have released their locks: an IMMEDIATE one, which
    writes, or a DEFERRED one, which reads. Raises sqlite3.Error, at the latest after `lock_seconds`.

    SQLite's own busy handler waits longer after each attempt, up to 0.1 seconds, so that others overtake.
    """
    deadline = time.monotonic() + lock_seconds
    while True:
        try:
            connection.execute(f"BEGIN {mode}")
            connection.execute("PRAGMA data_version")  # takes the lock of a reader
            return
        except sqlite3.OperationalError as error:
            connection.rollback()
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(_RETRY_SECONDS)


def initialize(path: Path, check: Check | None = None) -> None:
    """Create the file if missing, and check that it is a store of paymock, intact and writable. A file of
    another version is left as it is, byte for byte.

    Raises StoreError, which names the file, if it is corrupt, read-only, locked, of another program or
    version, if files of a deleted one are left, or the disk is full; and PaymockError, as `check` does.
    """
    try:
        for each in [path.with_name(f"{path.name}{suffix}") for suffix in _SUFFIXES]:
            if each.exists() and not each.is_file():  # SQLite would wait for the writer of a FIFO
                raise StoreError(f"{each.name} is not a regular file")
        if not path.exists() or path.stat().st_size == 0:
            _create(path.resolve())
        # Its version is read without writing anything, not even what a killed server left in the log.
        has_log = path.with_name(f"{path.name}-wal").exists()
        uri = f"{path.absolute().as_uri()}?mode=ro{'' if has_log else '&immutable=1'}"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            with suppress(sqlite3.OperationalError):  # a schema without these tables
                [stored] = select_values(connection, METADATA, (SANDBOX_RECORD,))
                if check is not None and stored is not None:
                    check(stored)  # names the version
            check_schema(connection)
        with closing(connect(path, _START_SECONDS)) as connection:
            check_content(path, connection)
            if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
                raise StoreError("SQLite cannot create a write-ahead log next to it")
            connection.execute("PRAGMA busy_timeout = 0")
            begin(connection, "IMMEDIATE", _START_SECONDS)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")  # fails if the file is read-only
            connection.execute("COMMIT")
    except (sqlite3.Error, StoreError, OSError) as error:
        raise StoreError(f"cannot use the store {path}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """Return the reason of a failure, without the path of the file."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _create(path: Path) -> None:
    """Create the file under a temporary name and link it to its own, or put it in the place of an empty one,
    such as of `mktemp`, unless another process was faster. Only its owner can read it; SQLite gives its other
    files the same mode.

    Raises StoreError if files of a deleted one are left: SQLite would apply them to a new one.
    """
    names = [f"{path.name}{suffix}" for suffix in _SUFFIXES if suffix]
    leftovers = [name for name in names if os.path.lexists(path.with_name(name))]
    is_empty = path.exists() and path.stat().st_size == 0
    if leftovers and (is_empty or not path.exists()):  # another process may have created it with its files
        raise StoreError(
            f"{', '.join(leftovers)} of a deleted file {'is' if len(leftovers) == 1 else 'are'} left in "
            f"{path.parent}: restore {path.name} beside, or delete what is left to create an empty store"
        )
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        draft.touch(_MODE, exist_ok=False)
        draft.chmod(_MODE)  # whatever the umask is
        with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
            connection.executescript(_SCHEMA)
        with suppress(FileExistsError):
            path.hardlink_to(draft)
        if is_empty and sys.platform != "win32":
            with path.open("rb") as empty:
                fcntl.flock(empty, fcntl.LOCK_EX)
                if path.stat().st_size == 0:  # it is still this file
                    draft.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # so that the new name survives a power failure
        finally:
            os.close(folder)
    finally:
        for leftover in (draft, Path(f"{draft}-journal")):
            leftover.unlink(missing_ok=True)


def check_schema(connection: sqlite3.Connection) -> None:
    """Raise StoreError if the file is not one of paymock, or of another version."""
    [application_id] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if application_id != APPLICATION_ID:
        raise StoreError("it is not a file of paymock")
    if version != SCHEMA_VERSION:
        raise StoreError(f"another version of paymock wrote it (schema {version}, not {SCHEMA_VERSION})")


def check_content(path: Path, connection: sqlite3.Connection) -> None:
    """Raise StoreError or sqlite3.Error if the file is corrupt, unless it is large."""
    if path.stat().st_size <= _MAX_CHECKED_BYTES:
        [(result,), *_] = connection.execute("PRAGMA quick_check(1)").fetchall()
        if result != "ok":
            raise StoreError(f"it is corrupt: {result.splitlines()[-1]}")


def _file_id(status: os.stat_result | None) -> _FileId | None:
    """Return the device and inode numbers, which change if the file is replaced."""
    return status and (status.st_dev, status.st_ino)
