"""The SQLite store: the contract, and what becomes of its file."""

import asyncio
import multiprocessing
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from paymock.core.errors import PaymockError
from paymock.stores import sqlite_rows
from paymock.stores.base import STATE, Change, StoreError
from paymock.stores.opening import open_store
from paymock.stores.sqlite import SqliteStore
from paymock.stores.sqlite_file import SCHEMA_VERSION, prepare
from tests.stores.contract import StoreContract, add, run


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> SqliteStore:
        return SqliteStore(tmp_path / "store.db")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def begin(path: Path) -> None:
    """Begins a store with one value."""
    store = SqliteStore(path)

    async def check() -> None:
        await add(store, "sandbox", "key", b"value")

    run(store, check())


def refusal(path: Path) -> str:
    """Why the file is refused, which names it."""
    with pytest.raises(StoreError) as caught:
        prepare(path)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    return text


def test_there_are_few_statements_however_many_values_are_read(path: Path) -> None:
    store = SqliteStore(path)

    async def check() -> None:
        for many in range(1, 100):
            await store.get("sandbox", *map(str, range(many)))
        assert sqlite_rows._look_up.cache_info().currsize <= sqlite_rows.AT_ONCE

    run(store, check())


def test_what_was_stored_is_there_after_a_restart(path: Path) -> None:
    begin(path)
    store = SqliteStore(path)

    async def check() -> None:
        assert await store.get("sandbox", "key") == [b"value"]

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
        await store.count("sandbox", "counter")
        assert chosen == ["normal", "normal"]
        await add(store, "sandbox", "key", b"value")
        await store.replace("sandbox", STATE, None, b"state", given=None)
        await store.reset("sandbox", b"other", given=b"state")
        assert chosen[2:] == ["full", "full", "full"]

    run(store, check())


@pytest.mark.parametrize(("option", "synchronous"), [("", "full"), ("?synchronous=NORMAL", "normal")])
def test_an_option_of_the_url_says_what_survives_a_loss_of_power(
    path: Path, option: str, synchronous: str
) -> None:
    store = open_store(f"sqlite://{path}{option}")
    assert isinstance(store, SqliteStore)
    assert store.synchronous == synchronous


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///x.db?synchronous=off", "sqlite:///x.db?mode=ro", "x://"]
)
def test_a_url_that_is_none_of_a_store_is_refused(url: str) -> None:
    with pytest.raises(StoreError):
        open_store(url)


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


class TestFile:
    def test_one_that_is_none_of_sqlite_is_refused(self, path: Path) -> None:
        path.write_bytes(b"these are not the payments you are looking for" * 100)
        assert "not a database" in refusal(path)
        assert path.read_bytes().startswith(b"these are not")

    def test_an_empty_one_is_refused(self, path: Path) -> None:
        """It may be what is left of a store."""
        path.touch()
        assert "not a file of paymock" in refusal(path)

    def test_one_of_another_program_is_refused(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE theirs (x)")
        assert "not a file of paymock" in refusal(path)

    def test_one_of_a_newer_version_is_refused(self, path: Path) -> None:
        begin(path)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        assert f"schema {SCHEMA_VERSION + 1}" in refusal(path)

    @pytest.mark.parametrize("where", ["middle", "end", "cut"])
    def test_a_corrupt_one_is_refused(self, path: Path, where: str) -> None:
        begin(path)
        content = bytearray(path.read_bytes())
        match where:
            case "middle":
                content[4096 : 4096 + 2048] = b"\xff" * 2048
            case "end":
                content[-4096:] = os.urandom(4096)
            case "cut":
                del content[len(content) // 2 :]
        path.write_bytes(content)
        refusal(path)
        assert path.read_bytes() == bytes(content)

    def test_a_folder_is_refused(self, tmp_path: Path) -> None:
        refusal(tmp_path)

    def test_one_in_a_folder_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        refusal(tmp_path / "nowhere" / "store.db")
        assert list(tmp_path.iterdir()) == []

    def test_nothing_but_the_file_is_left_when_it_is_begun(self, path: Path) -> None:
        prepare(path)
        assert [entry.name for entry in path.parent.iterdir()] == [path.name]

    def test_processes_that_begin_it_together_share_it(self, path: Path) -> None:
        context = multiprocessing.get_context("fork")
        processes = [context.Process(target=prepare, args=(path,)) for _ in range(8)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(10)
        assert [process.exitcode for process in processes] == [0] * 8
        assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that everybody may look into, and only its owner may write to."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("there", [True, False])
def test_what_must_not_be_written_to_is_refused(public_folder: Path, *, there: bool) -> None:
    path = public_folder / "store.db"
    if there:
        begin(path)
        path.chmod(0o444)
    public_folder.chmod(0o555)

    def try_as_somebody(answer: Connection) -> None:
        if os.getuid() == 0:
            os.setuid(65534)  # nobody: the superuser may write everywhere
        try:
            prepare(path)
        except StoreError as error:
            answer.send(str(error))
        else:
            answer.send("it was taken")

    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=try_as_somebody, args=(theirs,))
    process.start()
    text = ours.recv()
    process.join(10)
    public_folder.chmod(0o755)
    assert str(path) in text
    assert "readonly" in text or "unable to open" in text


def test_room_is_counted_over_all_sandboxes_and_across_restarts(path: Path) -> None:
    async def refused(store: SqliteStore, sandbox: str, given: bytes | None = None) -> None:
        with pytest.raises(PaymockError) as caught:
            await store.add(sandbox, "one more", b"", kind="a", given=given)
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
        assert await store.reset("one", b"fresh", given=None)
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
        await large.begin()
        for number in range(3):
            assert await add(large, "sandbox", f"key {number}", b"") is None
        with pytest.raises(PaymockError) as caught:
            await add(small, "sandbox", "key 3", b"")
        assert caught.value.kind.code == "capacity_exceeded"
        assert await add(large, "sandbox", "key 3", b"") is None
        await large.close()

    run(small, check())


@pytest.mark.parametrize("fate", ["gone", "replaced", "of another program"])
def test_a_file_that_is_no_longer_the_one_that_was_begun_is_not_written_to(path: Path, fate: str) -> None:
    store = SqliteStore(path)

    async def refused() -> None:
        for attempt in (add(store, "sandbox", "another", b""), store.get("sandbox", "key"), store.ping()):
            with pytest.raises(PaymockError) as caught:
                await attempt
            assert caught.value.kind.code == "store_unavailable"

    async def check() -> None:
        await add(store, "sandbox", "key", b"value")
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink()
        if fate == "of another program":
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("CREATE TABLE theirs (x)")
        if fate == "replaced":
            prepare(path)
            before = store.connections
            with pytest.raises(PaymockError):
                await add(store, "sandbox", "another", b"")
            assert await add(store, "sandbox", "another", b"") is None
            assert await store.get("sandbox", "key") == [None]
            assert store.connections > before
        else:
            await refused()

    run(store, check())


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
        assert await store.reset("large", b"fresh", given=None)
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


def test_a_copy_without_a_write_ahead_log_gets_one(path: Path) -> None:
    begin(path)
    copy = path.with_name("copy.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"VACUUM INTO '{copy}'")
    prepare(copy)
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_url_shows_nothing_but_its_scheme() -> None:
    for url in ("redis:/user:secret@host/0", "user:secret@host", "secret", "se-cret://host"):
        with pytest.raises(StoreError) as caught:
            open_store(url)
        assert "secret" not in str(caught.value).replace("se-cret", "secret")
