"""What is done with the rows of an SQLite store, within a transaction that its caller begins and ends. Each
function may raise sqlite3.Error.
"""

import sqlite3
from collections.abc import Sequence
from functools import cache

import msgspec

from paymock.rules.errors import PaymockError
from paymock.stores.batching import Append

Rows = sqlite3.Connection

OF = "(SELECT id FROM sandbox WHERE name = ?)"
"""The number of a sandbox in the file."""

AT_ONCE = 16
"""How many values a statement reads at most. Every statement is kept ready, at 2 KiB for each value, and a
long one takes far longer to get ready than it takes to run.
"""

SWEPT = 200
"""How many rows of those that resets have forgotten go with a commit."""

_entries = msgspec.msgpack.Decoder(list[bytes])


def values(rows: Rows, sandbox: str, keys: Sequence[str]) -> list[bytes | None]:
    """The values under `keys`, each or None."""
    found: list[bytes | None] = []
    for start in range(0, len(keys), AT_ONCE):
        some = keys[start : start + AT_ONCE]
        row = rows.execute(_look_up(len(some)), (*some, sandbox)).fetchall()
        found += row[0] if row else [None] * len(some)
    return found


def number_of(rows: Rows, sandbox: str) -> int:
    """The number of a sandbox in the file, which it gets now if it has none."""
    found = rows.execute("SELECT id FROM sandbox WHERE name = ?", (sandbox,)).fetchall()
    if not found:
        found = rows.execute("INSERT INTO sandbox (name) VALUES (?) RETURNING id", (sandbox,)).fetchall()
    return int(found[0][0])


def put(rows: Rows, sandbox: str, key: str, value: bytes) -> None:
    """Stores a value that is on no list, in the place of the one that there may be."""
    rows.execute(
        "INSERT INTO entry (sandbox, key, value) VALUES (?, ?, ?) "
        "ON CONFLICT (sandbox, key) DO UPDATE SET value = excluded.value",
        (number_of(rows, sandbox), key, value),
    )


def take_room(rows: Rows, sandbox: str, kind: str, limit: int | None, most: int | None) -> None:
    """Counts one more of this kind. Raises PaymockError `capacity_exceeded` when the sandbox has `limit` of
    it already, or all sandboxes together have `most`; None is no limit.
    """
    if limit is not None:
        [(own,)] = rows.execute(
            f"SELECT count(*) FROM entry WHERE sandbox = {OF} AND kind = ?",  # noqa: S608 - our own names
            (sandbox, kind),
        ).fetchall()
        if own >= limit:
            raise PaymockError("capacity_exceeded")
    [(total,)] = rows.execute(
        "INSERT INTO total VALUES (?, 1) ON CONFLICT DO UPDATE SET number = number + 1 RETURNING number",
        (kind,),
    ).fetchall()
    if most is not None and total > most:
        rows.execute("UPDATE total SET number = number - 1 WHERE kind = ?", (kind,))
        raise PaymockError("capacity_exceeded")


def append(rows: Rows, step: Append) -> None:
    """Stores what was appended as one row, numbered by its last entry, and forgets the rows of which all
    entries are older than those that are kept.
    """
    of = (number_of(rows, step.sandbox), step.log)
    [(last,)] = rows.execute(
        "SELECT coalesce(max(number), 0) FROM log WHERE sandbox = ? AND log = ?", of
    ).fetchall()
    last += len(step.entries)
    rows.execute("INSERT INTO log VALUES (?, ?, ?, ?)", (*of, last, msgspec.msgpack.encode(step.entries)))
    rows.execute("DELETE FROM log WHERE sandbox = ? AND log = ? AND number <= ?", (*of, last - step.keep))


def tail(rows: Rows, sandbox: str, log: str, limit: int) -> list[bytes]:
    """The newest entries of a log, newest first."""
    newest: list[bytes] = []
    for (entries,) in rows.execute(
        f"SELECT entries FROM log WHERE sandbox = {OF} AND log = ? ORDER BY number DESC",  # noqa: S608
        (sandbox, log),
    ):
        newest += reversed(_entries.decode(entries))
        if len(newest) >= limit:
            break
    return newest[:limit]


def sweep(rows: Rows) -> bool:
    """Deletes some of what resets have forgotten, and says whether there may be more: to delete all of a
    large sandbox at once would keep everybody waiting.
    """
    forgotten = rows.execute("SELECT id FROM sandbox WHERE name IS NULL LIMIT 1").fetchall()
    if not forgotten:
        return False
    for table, row in (("entry", "key"), ("counter", "key"), ("log", "number")):
        if rows.execute(
            f"DELETE FROM {table} WHERE sandbox = ?1 AND {row} IN "  # noqa: S608 - our own names
            f"(SELECT {row} FROM {table} WHERE sandbox = ?1 LIMIT {SWEPT})",
            forgotten[0],
        ).rowcount:
            return True
    rows.execute("DELETE FROM sandbox WHERE id = ?", forgotten[0])
    return True


@cache
def _look_up(keys: int) -> str:
    """What reads the values of so many keys as one row."""
    one = "(SELECT value FROM entry WHERE entry.sandbox = sandbox.id AND key = ?)"
    return f"SELECT {', '.join([one] * keys)} FROM sandbox WHERE name = ?"  # noqa: S608 - our own names
