"""The SQL of the SQLite store. Each function runs within a transaction that its caller begins and ends, and
may raise sqlite3.Error.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from sqlite3 import Connection

import msgspec

from paymock.rules.errors import PaymockError
from paymock.stores.base import MAX_COUNTERS, MAX_EMPTY, Change
from paymock.stores.batching import Append

SANDBOX_ID = "(SELECT id FROM sandbox WHERE name = ?)"

MAX_KEYS = 16
"""Most values that one statement reads. Prepared statements are cached, at 2 KiB per value, and a long one
takes far longer to prepare than to run.
"""

PURGE_LIMIT = 200
"""Most rows of deleted sandboxes that are deleted with one commit."""

_entries = msgspec.msgpack.Decoder(list[bytes])


def select_values(connection: Connection, sandbox: str, keys: Sequence[str]) -> list[bytes | None]:
    """Return the values under `keys`, None where there is none."""
    values: list[bytes | None] = []
    for start in range(0, len(keys), MAX_KEYS):
        chunk = keys[start : start + MAX_KEYS]
        rows = connection.execute(_select(len(chunk)), (*chunk, sandbox)).fetchall()
        values += rows[0] if rows else [None] * len(chunk)
    return values


def sandbox_id(connection: Connection, sandbox: str) -> int:
    """Return the id of a sandbox in the file, which is created if missing. Of the sandbox that was created
    MAX_EMPTY before it nothing is kept if it has no values: of those, the file has MAX_EMPTY at most.
    """
    rows = connection.execute("SELECT id FROM sandbox WHERE name = ?", (sandbox,)).fetchall()
    if not rows:
        rows = connection.execute("INSERT INTO sandbox (name) VALUES (?) RETURNING id", (sandbox,)).fetchall()
        connection.execute(
            "UPDATE sandbox SET name = NULL WHERE id = ? - ? "
            "AND NOT EXISTS (SELECT 1 FROM entry WHERE sandbox = sandbox.id)",
            (*rows[0], MAX_EMPTY),
        )
    return int(rows[0][0])


def upsert(connection: Connection, sandbox: str, key: str, value: bytes) -> None:
    """Store a value that is in no list, or replace the existing one."""
    connection.execute(
        "INSERT INTO entry (sandbox, key, value) VALUES (?, ?, ?) "
        "ON CONFLICT (sandbox, key) DO UPDATE SET value = excluded.value",
        (sandbox_id(connection, sandbox), key, value),
    )


def record_changes(connection: Connection, minor: Mapping[str, bool]) -> None:
    """Number the current commit, and record it for the sandboxes that it wrote to. `minor`: whether it only
    added to a list or changed a log of the sandbox.
    """
    [(number,)] = connection.execute("SELECT coalesce(max(version), 0) + 1 FROM sandbox").fetchall()
    connection.executemany(
        "UPDATE sandbox SET version = ?1, changed = iif(?2, changed, ?1) WHERE name = ?3",
        [(number, is_minor, sandbox) for sandbox, is_minor in minor.items()],
    )


def changes_since(connection: Connection, version: int | None) -> tuple[int, list[Change]]:
    """Return the number of the last commit, and the changes of sandboxes since the commit `version`; if that
    is None, any may have changed.
    """
    if version is None:
        [(last,)] = connection.execute("SELECT coalesce(max(version), 0) FROM sandbox").fetchall()
        return last, [Change(None)]
    rows = connection.execute(
        "SELECT version, name, changed <= ?1 FROM sandbox WHERE version > ?1 ORDER BY version", (version,)
    ).fetchall()
    changes = [Change(name, bool(minor)) for _, name, minor in rows if name is not None]
    return (rows[-1][0] if rows else version), changes


def reserve_capacity(
    connection: Connection, sandbox: str, kind: str, limit: int | None, total_limit: int | None
) -> None:
    """Count one more value of a kind. Raises PaymockError `capacity_exceeded` if the sandbox already has
    `limit` of them, or all sandboxes together have `total_limit`; None is no limit.
    """
    if limit is not None:
        [(count,)] = connection.execute(
            f"SELECT count(*) FROM entry WHERE sandbox = {SANDBOX_ID} AND kind = ?",  # noqa: S608 - constants
            (sandbox, kind),
        ).fetchall()
        if count >= limit:
            raise PaymockError("capacity_exceeded")
    [(total,)] = connection.execute(
        "INSERT INTO total VALUES (?, 1) ON CONFLICT DO UPDATE SET number = number + 1 RETURNING number",
        (kind,),
    ).fetchall()
    if total_limit is not None and total > total_limit:
        connection.execute("UPDATE total SET number = number - 1 WHERE kind = ?", (kind,))
        raise PaymockError("capacity_exceeded")


def increment(connection: Connection, sandbox: str, key: str) -> int:
    """Increment a counter and return its new value. A new one beyond MAX_COUNTERS replaces the next one in
    the order of the keys, which are hashes: any of them.
    """
    counter = (sandbox_id(connection, sandbox), key)
    [(number,)] = connection.execute(
        "INSERT INTO counter VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET number = number + 1 RETURNING number",
        counter,
    ).fetchall()
    if number == 1:
        connection.execute(
            "DELETE FROM counter WHERE sandbox = ?1 "
            "AND (SELECT count(*) FROM counter WHERE sandbox = ?1) > ?3 "
            "AND key = coalesce((SELECT min(key) FROM counter WHERE sandbox = ?1 AND key > ?2), "
            "(SELECT min(key) FROM counter WHERE sandbox = ?1))",
            (*counter, MAX_COUNTERS),
        )
    return int(number)


def append(connection: Connection, step: Append) -> None:
    """Insert the entries as one row, numbered by its last entry, and delete the rows that hold only entries
    older than the last `keep`.
    """
    log = (sandbox_id(connection, step.sandbox), step.log)
    [(last,)] = connection.execute(
        "SELECT coalesce(max(number), 0) FROM log WHERE sandbox = ? AND log = ?", log
    ).fetchall()
    last += len(step.entries)
    connection.execute(
        "INSERT INTO log VALUES (?, ?, ?, ?)", (*log, last, msgspec.msgpack.encode(step.entries))
    )
    connection.execute(
        "DELETE FROM log WHERE sandbox = ? AND log = ? AND number <= ?", (*log, last - step.keep)
    )


def tail(connection: Connection, sandbox: str, log: str, limit: int) -> list[bytes]:
    """Return the newest entries of a log, newest first. Raises PaymockError `store_unavailable` if they are
    damaged.
    """
    newest: list[bytes] = []
    for (entries,) in connection.execute(
        f"SELECT entries FROM log WHERE sandbox = {SANDBOX_ID} AND log = ? ORDER BY number DESC",  # noqa: S608
        (sandbox, log),
    ):
        try:
            newest += reversed(_entries.decode(entries))
        except (msgspec.DecodeError, TypeError):
            raise PaymockError("store_unavailable", "The store has returned a damaged log.") from None
        if len(newest) >= limit:
            break
    return newest[:limit]


def purge(connection: Connection) -> None:
    """Delete some rows of sandboxes that were deleted: deleting a large one in one step would block every
    other change.
    """
    left = PURGE_LIMIT
    while rows := connection.execute("SELECT id FROM sandbox WHERE name IS NULL LIMIT 1").fetchall():
        for table, column in (("entry", "key"), ("counter", "key"), ("log", "number")):
            left -= connection.execute(
                f"DELETE FROM {table} WHERE sandbox = ?1 AND {column} IN "  # noqa: S608 - constants
                f"(SELECT {column} FROM {table} WHERE sandbox = ?1 LIMIT ?2)",
                (*rows[0], left),
            ).rowcount
        if left <= 0:
            break
        connection.execute("DELETE FROM sandbox WHERE id = ?", rows[0])
        left -= 1


@cache
def _select(count: int) -> str:
    """Return a statement that reads the values under `count` keys as one row."""
    column = "(SELECT value FROM entry WHERE entry.sandbox = sandbox.id AND key = ?)"
    return f"SELECT {', '.join([column] * count)} FROM sandbox WHERE name = ?"  # noqa: S608 - constants
