"""The SQL of the SQLite store. Functions run within a transaction of their caller. Raises sqlite3.Error."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from sqlite3 import Connection

import msgspec

from paymock.rules.errors import PaymockError
from paymock.stores.base import MAX_COUNTERS, MAX_EMPTY, METADATA, SANDBOX_RECORD, Change, companion_key

SANDBOX_ID = "(SELECT id FROM sandbox WHERE name = ?)"
LISTED = f"SELECT 1 FROM entry WHERE sandbox = {SANDBOX_ID} AND kind IS NOT NULL LIMIT 1"  # noqa: S608

MAX_KEYS = 16
"""Most values that one statement reads. Prepared statements are cached, at 2 KiB per value, and a long one
takes far longer to prepare than to run.
"""

PURGE_LIMIT = 200
"""Most rows of deleted sandboxes that are deleted with one commit."""

WATERMARKS = 24
"""How many watermarks a retention has: a part of it as large passes until values that are due go."""

EXPIRED_SANDBOXES = 10
"""Most sandboxes without recent changes that lose their names with one commit."""

_entries = msgspec.msgpack.Decoder(list[bytes])


def select_values(connection: Connection, sandbox: str, keys: Sequence[str]) -> list[bytes | None]:
    """Return the values under `keys`, None where there is none."""
    values: list[bytes | None] = []
    for start in range(0, len(keys), MAX_KEYS):
        chunk = keys[start : start + MAX_KEYS]
        rows = connection.execute(_select(len(chunk)), (*chunk, sandbox)).fetchall()
        values += rows[0] if rows else [None] * len(chunk)
    return values


def look(connection: Connection) -> None:
    """Read what was committed last, which is in the log, and what was added first."""
    connection.execute(
        "SELECT max(version), (SELECT min(position) FROM entry), "
        "(SELECT value FROM entry ORDER BY position DESC LIMIT 1) FROM sandbox"
    ).fetchall()


def count(connection: Connection, sandbox: str, kind: str) -> int:
    [(number,)] = connection.execute(
        f"SELECT count(*) FROM entry WHERE sandbox = {SANDBOX_ID} AND kind = ?",  # noqa: S608 - constants
        (sandbox, kind),
    ).fetchall()
    return int(number)


def revision(connection: Connection, sandbox: str) -> tuple[bytes | None, bytes]:
    """Return the sandbox record, and the number of the last commit that has written to the sandbox."""
    rows = connection.execute(
        "SELECT (SELECT value FROM entry WHERE sandbox = sandbox.id AND key = ?), version "
        "FROM sandbox WHERE name = ?",
        (SANDBOX_RECORD, sandbox),
    ).fetchall()
    return (rows[0][0], b"%d" % (rows[0][1] or 0)) if rows else (None, b"")


class Transaction:
    """A write transaction of the steps of a batch. What concerns many of them is read and written once."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._ids: dict[str, int] = {}
        self._states: dict[str, bytes | None] = {}
        self._totals: dict[str, int] = {}
        self._added: Counter[str] = Counter()
        self._changed: dict[str, bool] = {}

    def _note_change(self, sandbox: str, *, minor: bool = False) -> None:
        """Note that this transaction writes to a sandbox. `minor`: it adds to a list or changes a log."""
        self._changed[sandbox] = minor and self._changed.get(sandbox, True)

    def sandbox_id(self, sandbox: str) -> int:
        """Return the id of a sandbox in the file, which is created if missing. Of the sandbox that was
        created MAX_EMPTY before it nothing is kept if it has no values: the file has few of those.
        """
        if sandbox in self._ids:
            return self._ids[sandbox]
        run = self.connection.execute
        if rows := run("SELECT id FROM sandbox WHERE name = ?", (sandbox,)).fetchall():
            number = int(rows[0][0])
        else:
            [(number,)] = run("INSERT INTO sandbox (name) VALUES (?) RETURNING id", (sandbox,)).fetchall()
            run(
                "UPDATE sandbox SET name = NULL WHERE id = ? - ? "
                "AND NOT EXISTS (SELECT 1 FROM entry WHERE sandbox = sandbox.id)",
                (number, MAX_EMPTY),
            )
            self._ids.clear()  # that of a sandbox that was deleted must not be used again
        self._ids[sandbox] = number
        return number

    def state(self, sandbox: str) -> bytes | None:
        if sandbox not in self._states:
            [self._states[sandbox]] = select_values(self.connection, sandbox, (SANDBOX_RECORD,))
        return self._states[sandbox]

    def add(self, sandbox: str, key: str, value: bytes, kind: str) -> bool:
        """Store a value that is in the list of its kind. Return False if the key is taken."""
        inserted = self.connection.execute(
            "INSERT INTO entry (sandbox, key, kind, value) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (self.sandbox_id(sandbox), key, kind, value),
        )
        if inserted.rowcount != 1:
            return False
        self._added[kind] += 1
        self._note_change(sandbox, minor=True)
        return True

    def upsert(self, sandbox: str, key: str, value: bytes) -> None:
        """Store a value that is in no list, or replace the existing one."""
        self.connection.execute(
            "INSERT INTO entry (sandbox, key, value) VALUES (?, ?, ?) "
            "ON CONFLICT (sandbox, key) DO UPDATE SET value = excluded.value",
            (self.sandbox_id(sandbox), key, value),
        )
        self._states.pop(sandbox, None)
        self._note_change(sandbox)

    def is_full(self, sandbox: str, kind: str, limit: int | None, total_limit: int | None) -> bool:
        """Whether the sandbox has `limit` values of a kind, or all have `total_limit`; None is no limit."""
        if limit is not None and count(self.connection, sandbox, kind) >= limit:
            return True
        if total_limit is None:
            return False
        if kind not in self._totals:
            rows = self.connection.execute("SELECT number FROM total WHERE kind = ?", (kind,)).fetchall()
            self._totals[kind] = rows[0][0] if rows else 0
        return self._totals[kind] + self._added[kind] >= total_limit

    def delete(self, sandbox: str) -> None:
        """Delete a sandbox: it loses its name at once, and `purge` deletes its rows."""
        counts = self.connection.execute(
            "SELECT kind, count(*) FROM entry WHERE sandbox = ? AND kind IS NOT NULL GROUP BY kind",
            (self.sandbox_id(sandbox),),
        ).fetchall()
        self._added.subtract(dict(counts))
        self.connection.execute("UPDATE sandbox SET name = NULL WHERE name = ?", (sandbox,))
        del self._ids[sandbox]
        self._states.pop(sandbox, None)

    def increment(self, sandbox: str, key: str) -> int:
        """Increment a counter and return its new value. A new one beyond MAX_COUNTERS replaces any other."""
        self._note_change(sandbox, minor=True)
        counter = (self.sandbox_id(sandbox), key)
        [(number,)] = self.connection.execute(
            "INSERT INTO counter VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET number = number + 1 "
            "RETURNING number",
            counter,
        ).fetchall()
        if number == 1:
            self.connection.execute(
                "DELETE FROM counter WHERE sandbox = ?1 "
                "AND (SELECT count(*) FROM counter WHERE sandbox = ?1) > ?3 "
                "AND key = coalesce((SELECT min(key) FROM counter WHERE sandbox = ?1 AND key > ?2), "
                "(SELECT min(key) FROM counter WHERE sandbox = ?1))",
                (*counter, MAX_COUNTERS),
            )
        return int(number)

    def append(self, sandbox: str, log: str, keep: int, entries: Sequence[bytes]) -> None:
        """Insert the entries as one row, numbered by the last, and delete rows without the last `keep`."""
        self._note_change(sandbox, minor=True)
        place = (self.sandbox_id(sandbox), log)
        [(last,)] = self.connection.execute(
            "INSERT INTO log SELECT ?1, ?2, coalesce(max(number), 0) + ?3, ?4 FROM log "
            "WHERE sandbox = ?1 AND log = ?2 RETURNING number",
            (*place, len(entries), msgspec.msgpack.encode(entries)),
        ).fetchall()
        if last > keep:
            self.connection.execute(
                "DELETE FROM log WHERE sandbox = ? AND log = ? AND number <= ?", (*place, last - keep)
            )

    def clear_log(self, sandbox: str, log: str) -> None:
        self._note_change(sandbox, minor=True)
        self.connection.execute(
            f"DELETE FROM log WHERE sandbox = {SANDBOX_ID} AND log = ?",  # noqa: S608 - constants
            (sandbox, log),
        )

    def expire(self, now: float, retention: float, scanned: int) -> int:
        """Delete some of what was committed `retention` seconds ago: values in lists, beyond the position
        `scanned`, and sandboxes. Return the position up to which no such value is left.

        Commits have no times. A watermark is the time, the number and the last position of one commit, in a
        table that servers without a retention ignore.
        """
        run, before = self.connection.execute, now - retention
        run("CREATE TABLE IF NOT EXISTS watermark (time REAL, version INTEGER, position INTEGER)")
        run("DELETE FROM watermark WHERE time < (SELECT max(time) FROM watermark WHERE time <= ?)", (before,))
        run(
            "INSERT INTO watermark "
            "SELECT ?1, (SELECT max(version) FROM sandbox), (SELECT max(position) FROM entry) "
            "WHERE NOT EXISTS (SELECT 1 FROM watermark WHERE time BETWEEN ?1 - ?2 AND ?1)",
            (now, retention / WATERMARKS),
        )
        marked = run("SELECT version, position FROM watermark WHERE time <= ?", (before,)).fetchall()
        if not marked:
            return scanned
        version, position = marked[0]
        for (name,) in run(  # the last commit of the file must keep its number
            "SELECT name FROM sandbox WHERE version <= ? AND version < (SELECT max(version) FROM sandbox) "
            "AND name != ? LIMIT ?",
            (version, METADATA, EXPIRED_SANDBOXES),
        ).fetchall():
            if name not in self._changed:
                self.delete(name)
        rows = run(
            "SELECT position, iif(name IS NULL, NULL, kind), sandbox, key FROM entry "
            "JOIN sandbox ON id = sandbox WHERE position > ? AND position <= ? ORDER BY position LIMIT ?",
            (scanned, position, PURGE_LIMIT),
        ).fetchall()
        listed = [row[1:] for row in rows if row[1] is not None]  # others are in no list, or being purged
        self._added.subtract(kind for kind, _, _ in listed)
        self.connection.executemany(
            "DELETE FROM entry WHERE sandbox = ? AND key IN (?, ?)",
            [(sandbox, key, companion_key(key)) for _, sandbox, key in listed],
        )
        return rows[-1][0] if len(rows) == PURGE_LIMIT else position or 0

    def finish(self) -> None:
        """Write the totals, number this transaction, and record it for the sandboxes that it wrote to."""
        if self._added:
            self.connection.executemany(
                "INSERT INTO total VALUES (?1, ?2) ON CONFLICT DO UPDATE SET number = number + ?2",
                self._added.items(),
            )
        [(number,)] = self.connection.execute("SELECT coalesce(max(version), 0) + 1 FROM sandbox").fetchall()
        self.connection.executemany(
            "UPDATE sandbox SET version = ?1, changed = iif(?2, changed, ?1) WHERE name = ?3",
            [(number, is_minor, sandbox) for sandbox, is_minor in self._changed.items()],
        )


def changes_since(connection: Connection, version: int | None) -> tuple[int, list[Change]]:
    """Return the number of the last commit, and the changes since `version`: any, if that is None."""
    if version is None:
        [(last,)] = connection.execute("SELECT coalesce(max(version), 0) FROM sandbox").fetchall()
        return last, [Change(None)]
    rows = connection.execute(
        "SELECT version, name, changed <= ?1 FROM sandbox WHERE version > ?1 ORDER BY version", (version,)
    ).fetchall()
    changes = [Change(name, bool(minor)) for _, name, minor in rows if name is not None]
    return (rows[-1][0] if rows else version), changes


def tail(connection: Connection, sandbox: str, log: str, limit: int) -> list[bytes]:
    """Return the newest entries of a log, newest first. Raises PaymockError for damaged ones."""
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
    """Delete some rows of deleted sandboxes: a large one in one step would block every other change."""
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
    column = "(SELECT value FROM entry WHERE entry.sandbox = sandbox.id AND key = ?)"
    return f"SELECT {', '.join([column] * count)} FROM sandbox WHERE name = ?"  # noqa: S608 - constants
