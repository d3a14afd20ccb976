"""The SQLite store: the contract, commits that are shared, and how much room there is."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from paymock.rules.errors import PaymockError
from paymock.stores.base import STATE, Change
from paymock.stores.sqlite import rows
from paymock.stores.sqlite.store import SqliteStore
from tests.stores.contract import StoreContract, add, run


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> SqliteStore:
        return SqliteStore(tmp_path / "store.db")


def test_there_are_few_statements_however_many_values_are_read(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")

    async def check() -> None:
        for many in range(1, 100):
            await store.get("sandbox", *map(str, range(many)))
        assert rows._look_up.cache_info().currsize <= rows.AT_ONCE

    run(store, check())


def test_a_change_is_in_the_file_when_it_is_answered(path: Path) -> None:
    store = SqliteStore(path)

    async def check() -> None:
        await add(store, "sandbox", "key", b"value")
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("SELECT value FROM entry WHERE key = 'key'").fetchall() == [(b"value",)]

    run(store, check())


def test_changes_that_arrive_together_share_commits(path: Path) -> None:
    store = SqliteStore(path)

    async def check() -> None:
        with closing(sqlite3.connect(path)) as other:
            version = "PRAGMA data_version"
            before = other.execute(version).fetchone()
            seen = [before]
            creations = asyncio.gather(*(add(store, "sandbox", f"key {n}", b"") for n in range(200)))
            while not creations.done():
                await asyncio.sleep(0)
                if (now := other.execute(version).fetchone()) != seen[-1]:
                    seen.append(now)
            await creations
            assert len(seen) - 1 <= 5

    run(store, check())


def test_what_is_merely_noted_does_not_wait_for_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[str] = []

    class Traced(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if sql.startswith("PRAGMA synchronous"):
                chosen.append(sql.rpartition(" ")[2])
            return super().execute(sql, *parameters)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **more: connect(*args, **more, factory=Traced))
    store = SqliteStore(path)

    async def check() -> None:
        await store.append("sandbox", "log", b"entry", keep=9)
        await store.increment("sandbox", "counter")
        assert chosen == ["normal", "normal"]
        await add(store, "sandbox", "key", b"value")
        await store.replace("sandbox", STATE, None, b"state", expected_state=None)
        await store.reset("sandbox", b"other", expected_state=b"state")
        assert chosen[2:] == ["full", "full", "full"]

    run(store, check())


def test_several_stores_share_a_file(path: Path) -> None:
    one, other = SqliteStore(path), SqliteStore(path)

    async def check() -> None:
        try:
            creations = [
                add(store, "sandbox", "key", b"%d" % number) for number, store in enumerate([one, other])
            ]
            outcomes = await asyncio.gather(*creations)
            assert outcomes.count(None) == 1
            assert await one.get("sandbox", "key") == await other.get("sandbox", "key")
        finally:
            await other.close()

    run(one, check())


def test_a_process_sees_that_another_has_changed_something(path: Path) -> None:
    one, other = SqliteStore(path), SqliteStore(path)

    async def check() -> None:
        changes = one.changes()
        async with asyncio.timeout(5):
            await anext(changes)
            await add(other, "sandbox", "key", b"value")
            assert await anext(changes) == Change(None)
        await changes.aclose()  # type: ignore[attr-defined]
        await other.close()

    run(one, check())


def test_room_is_counted_over_all_sandboxes_and_across_restarts(path: Path) -> None:
    async def refused(store: SqliteStore, sandbox: str, given: bytes | None = None) -> None:
        with pytest.raises(PaymockError) as caught:
            await store.add(sandbox, "one more", b"", kind="a", expected_state=given)
        assert caught.value.kind.code == "capacity_exceeded"

    async def fill(store: SqliteStore) -> None:
        assert await add(store, "one", "key", b"") is None
        assert await add(store, "other", "key", b"") is None
        for sandbox in ("one", "third"):
            await refused(store, sandbox)
        assert await add(store, "one", "key", b"") == b""
        assert await add(store, "one", "key of another kind", b"", "b") is None

    async def go_on(store: SqliteStore) -> None:
        await refused(store, "third")
        assert await store.reset("one", b"fresh", expected_state=None)
        assert await add(store, "third", "key", b"") is None
        await refused(store, "one", b"fresh")

    for part in (fill, go_on):
        store = SqliteStore(path, limits={"a": 2})
        run(store, part(store))


def test_a_full_disk_is_told_and_nothing_is_half_written(path: Path) -> None:
    store = SqliteStore(path)

    async def check() -> None:
        await add(store, "sandbox", "before", b"value")
        with closing(sqlite3.connect(path)) as other:
            [pages] = other.execute("PRAGMA page_count").fetchone()
        await limit(pages)
        with pytest.raises(PaymockError) as caught:
            await asyncio.gather(*(add(store, "sandbox", f"key {n}", b"x" * 9000) for n in range(20)))
        assert (caught.value.kind.code, "full" in caught.value.message) == ("store_unavailable", True)
        assert await store.get("sandbox", "before", "key 0", "key 19") == [b"value", None, None]
        assert await add(store, "sandbox", "after", b"value") is None

    async def limit(pages: int) -> None:
        """The engine says the same of a file that must not grow and of a disk that cannot hold it."""

        def step(rows: sqlite3.Connection) -> None:
            rows.execute(f"PRAGMA max_page_count = {pages}")

        await store._change(step)

    run(store, check())


def test_two_servers_with_different_room_each_keep_to_their_own(path: Path) -> None:
    small, large = SqliteStore(path, limits={"a": 2}), SqliteStore(path)

    async def check() -> None:
        await large.initialize()
        for number in range(3):
            assert await add(large, "sandbox", f"key {number}", b"") is None
        with pytest.raises(PaymockError) as caught:
            await add(small, "sandbox", "key 3", b"")
        assert caught.value.kind.code == "capacity_exceeded"
        assert await add(large, "sandbox", "key 3", b"") is None
        await large.close()

    run(small, check())


def test_a_damaged_row_harms_its_own_step_alone(path: Path) -> None:
    store, other = SqliteStore(path), SqliteStore(path)

    async def check() -> None:
        await store.append("sandbox", "log", b"entry", keep=9)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE log SET entries = x'ff'")
        damaged, added = await asyncio.gather(
            store.tail("sandbox", "log", 9), add(store, "sandbox", "key", b""), return_exceptions=True
        )
        assert isinstance(damaged, Exception)
        assert added is None
        assert await add(other, "sandbox", "another key", b"") is None
        await other.close()

    run(store, check())


def test_a_reset_of_a_large_sandbox_keeps_nobody_waiting_and_its_rows_go(path: Path) -> None:
    store = SqliteStore(path)

    async def check() -> None:
        await asyncio.gather(*(add(store, "large", f"key {number}", b"x" * 100) for number in range(3000)))
        assert await store.reset("large", b"fresh", expected_state=None)
        assert await store.get("large", "key 0", STATE) == [None, b"fresh"]
        with closing(sqlite3.connect(path)) as other:
            count = "SELECT count(*) FROM entry"
            left = other.execute(count).fetchone()[0]
            assert 2000 < left < 3000
            while left > 1:
                await store.append("other", "log", b"", keep=9)
                before, left = left, other.execute(count).fetchone()[0]
                assert left < before
            await store.append("other", "log", b"", keep=9)
            assert other.execute("SELECT name FROM sandbox ORDER BY name").fetchall() == [
                ("large",),
                ("other",),
            ]

    run(store, check())
