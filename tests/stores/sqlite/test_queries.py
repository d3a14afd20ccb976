import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from paymock.stores.base import MAX_EMPTY
from paymock.stores.sqlite import queries
from paymock.stores.sqlite.file import initialize
from paymock.stores.sqlite.queries import Transaction


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    initialize(path)
    with closing(sqlite3.connect(path)) as connection:
        yield connection


def test_a_deleted_sandbox_is_purged_in_steps_and_no_other(connection: sqlite3.Connection) -> None:
    for sandbox in ("deleted", "kept"):
        for number in range(queries.PURGE_LIMIT + 1):
            Transaction(connection).upsert(sandbox, f"key {number}", b"")
        Transaction(connection).append(sandbox, "log", 9, (b"entry",))
    connection.execute("UPDATE sandbox SET name = NULL WHERE name = 'deleted'")
    queries.purge(connection)
    assert connection.execute("SELECT count(*) FROM entry").fetchone() == (queries.PURGE_LIMIT + 2,)
    queries.purge(connection)
    assert connection.execute("SELECT name FROM sandbox").fetchall() == [("kept",)]
    assert connection.execute("SELECT count(*) FROM entry").fetchone() == (queries.PURGE_LIMIT + 1,)
    assert queries.tail(connection, "kept", "log", 9) == [b"entry"]


def test_the_number_of_sandboxes_without_values_is_bounded(connection: sqlite3.Connection) -> None:
    Transaction(connection).upsert("used", "key", b"value")
    for sandbox in ("used", *(f"sandbox {number}" for number in range(MAX_EMPTY + 10))):
        Transaction(connection).append(sandbox, "log", 9, (b"entry",))
        assert Transaction(connection).increment(sandbox, "key") == 1
        queries.purge(connection)
    for table in ("sandbox", "counter", "log"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (MAX_EMPTY + 1,)  # noqa: S608
    assert queries.tail(connection, "used", "log", 9) == [b"entry"]
    assert queries.tail(connection, f"sandbox {MAX_EMPTY}", "log", 9) == [b"entry"]
