"""The SQL of the SQLite store, on a connection of its own."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from paymock.rules.errors import PaymockError
from paymock.stores.base import MAX_COUNTERS, MAX_EMPTY, STATE
from paymock.stores.sqlite import queries
from paymock.stores.sqlite.file import initialize
from paymock.stores.sqlite.queries import Transaction


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    initialize(path)
    with closing(sqlite3.connect(path)) as connection:
        yield connection


@pytest.mark.parametrize("number", [0, 1, queries.MAX_KEYS, queries.MAX_KEYS + 1, 3 * queries.MAX_KEYS])
def test_values_are_read_in_the_order_of_their_keys(connection: sqlite3.Connection, number: int) -> None:
    keys = [f"key {position}" for position in range(number)]
    assert queries.select_values(connection, "sandbox", keys) == [None] * number
    for key in keys[::2]:
        Transaction(connection).upsert("sandbox", key, key.encode())
    expected = [key.encode() if key in keys[::2] else None for key in keys]
    assert queries.select_values(connection, "sandbox", keys) == expected
    assert queries.select_values(connection, "another", keys) == [None] * number


def test_a_value_is_replaced(connection: sqlite3.Connection) -> None:
    for value in (b"old", b"new"):
        Transaction(connection).upsert("sandbox", "key", value)
    assert queries.select_values(connection, "sandbox", ["key"]) == [b"new"]


@pytest.mark.parametrize("keep", [1, 3, 4])
def test_a_log_returns_its_newest_entries_across_rows(connection: sqlite3.Connection, keep: int) -> None:
    for entries in ((b"1", b"2"), (b"3",), (b"4", b"5")):
        Transaction(connection).append("sandbox", "log", entries, keep)
    newest = queries.tail(connection, "sandbox", "log", keep)
    assert newest == [b"5", b"4", b"3", b"2"][:keep]
    assert queries.tail(connection, "sandbox", "log", 1) == [b"5"]
    assert queries.tail(connection, "sandbox", "other log", 1) == []


def test_capacity_counts_what_the_same_and_earlier_transactions_have_added(
    connection: sqlite3.Connection,
) -> None:
    for expected in (False, True):
        transaction = Transaction(connection)
        assert transaction.is_full("sandbox", "payment", None, 2) is False
        assert transaction.add("sandbox", f"key {expected}", b"", "payment")
        assert not transaction.add("sandbox", f"key {expected}", b"", "payment")
        assert transaction.is_full("sandbox", "payment", None, 2) is expected
        assert transaction.is_full("sandbox", "payment", 2, None) is expected
        transaction.finish()
    transaction = Transaction(connection)
    assert transaction.is_full("another", "payment", None, 2)
    assert not transaction.is_full("another", "payment", 2, 3)
    assert not transaction.is_full("another", "endpoint", None, 1)
    transaction.delete("sandbox")
    assert not transaction.is_full("another", "payment", None, 1)
    transaction.finish()
    assert not Transaction(connection).is_full("another", "payment", None, 1)


def test_a_step_sees_what_earlier_steps_of_its_transaction_have_done_to_the_sandbox(
    connection: sqlite3.Connection,
) -> None:
    transaction = Transaction(connection)
    assert transaction.state("sandbox") is None
    transaction.upsert("sandbox", STATE, b"one")
    assert transaction.state("sandbox") == b"one"
    transaction.add("sandbox", "key", b"value", "payment")
    transaction.delete("sandbox")
    assert transaction.state("sandbox") is None
    transaction.append("sandbox", "log", (b"entry",), 9)
    assert transaction.add("sandbox", "key", b"new", "payment")
    assert queries.select_values(connection, "sandbox", ["key"]) == [b"new"]
    assert queries.tail(connection, "sandbox", "log", 9) == [b"entry"]


def test_nothing_is_added_to_a_sandbox_that_another_of_the_same_transaction_has_replaced(
    connection: sqlite3.Connection,
) -> None:
    transaction = Transaction(connection)
    for number in range(MAX_EMPTY + 1):
        transaction.append(f"sandbox {number}", "log", (b"entry",), 9)
    transaction.append("sandbox 0", "log", (b"later",), 9)
    assert queries.tail(connection, "sandbox 0", "log", 9) == [b"later"]


def test_a_deleted_sandbox_is_purged_in_steps_and_no_other(connection: sqlite3.Connection) -> None:
    for sandbox in ("deleted", "kept"):
        for number in range(queries.PURGE_LIMIT + 1):
            Transaction(connection).upsert(sandbox, f"key {number}", b"")
        Transaction(connection).append(sandbox, "log", (b"entry",), 9)
    connection.execute("UPDATE sandbox SET name = NULL WHERE name = 'deleted'")
    queries.purge(connection)
    assert connection.execute("SELECT count(*) FROM entry").fetchone() == (queries.PURGE_LIMIT + 2,)
    queries.purge(connection)
    assert connection.execute("SELECT name FROM sandbox").fetchall() == [("kept",)]
    assert connection.execute("SELECT count(*) FROM entry").fetchone() == (queries.PURGE_LIMIT + 1,)
    assert queries.tail(connection, "kept", "log", 9) == [b"entry"]


def test_many_small_deleted_sandboxes_are_purged_in_one_step(connection: sqlite3.Connection) -> None:
    for number in range(queries.PURGE_LIMIT // 2):
        Transaction(connection).append(f"sandbox {number}", "log", (b"entry",), 9)
    connection.execute("UPDATE sandbox SET name = NULL")
    queries.purge(connection)
    for table in ("sandbox", "log"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)  # noqa: S608


def test_the_number_of_sandboxes_without_values_is_bounded(connection: sqlite3.Connection) -> None:
    Transaction(connection).upsert("used", "key", b"value")
    for sandbox in ("used", *(f"sandbox {number}" for number in range(MAX_EMPTY + 10))):
        Transaction(connection).append(sandbox, "log", (b"entry",), 9)
        assert Transaction(connection).increment(sandbox, "key") == 1
        queries.purge(connection)
    for table in ("sandbox", "counter", "log"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (MAX_EMPTY + 1,)  # noqa: S608
    assert queries.tail(connection, "used", "log", 9) == [b"entry"]
    assert queries.tail(connection, f"sandbox {MAX_EMPTY}", "log", 9) == [b"entry"]


def test_the_counters_of_a_sandbox_are_bounded(connection: sqlite3.Connection) -> None:
    assert Transaction(connection).increment("another", "key") == 1
    for number in range(MAX_COUNTERS + 10):
        assert Transaction(connection).increment("sandbox", f"{number}") == 1
        assert Transaction(connection).increment("sandbox", f"{number}") == 2
    assert connection.execute("SELECT count(*) FROM counter").fetchone() == (MAX_COUNTERS + 1,)
    assert Transaction(connection).increment("another", "key") == 2


@pytest.mark.parametrize("damaged", ["x'ff'", "'text'", "1"])
def test_a_damaged_log_is_a_failure_of_the_store(connection: sqlite3.Connection, damaged: str) -> None:
    Transaction(connection).append("sandbox", "log", (b"entry",), 9)
    connection.execute(f"UPDATE log SET entries = {damaged}")  # noqa: S608 - constants
    with pytest.raises(PaymockError) as caught:
        queries.tail(connection, "sandbox", "log", 9)
    assert caught.value.kind.code == "store_unavailable"
