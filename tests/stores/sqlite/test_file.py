"""The file of the SQLite store: creation, checks before use, and replacement while in use."""

import multiprocessing
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from paymock.rules.errors import PaymockError
from paymock.stores.base import StoreError
from paymock.stores.sqlite.file import SCHEMA_VERSION, initialize
from paymock.stores.sqlite.store import SqliteStore
from tests.stores.contract import add, run


def create_store(path: Path) -> None:
    """Create a store with one value."""
    store = SqliteStore(path)

    async def check() -> None:
        await add(store, "sandbox", "key", b"value")

    run(store, check())


def test_values_survive_a_restart(path: Path) -> None:
    create_store(path)
    store = SqliteStore(path)

    async def check() -> None:
        assert await store.get("sandbox", "key") == [b"value"]

    run(store, check())


def test_a_file_of_the_first_schema_is_upgraded(path: Path) -> None:
    create_store(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(
            "DROP INDEX sandbox_by_version; ALTER TABLE sandbox DROP COLUMN version;"
            "ALTER TABLE sandbox DROP COLUMN changed; PRAGMA user_version = 1"
        )
    store = SqliteStore(path)

    async def check() -> None:
        assert await store.get("sandbox", "key") == [b"value"]
        await add(store, "sandbox", "another key", b"value")

    run(store, check())


def refusal(path: Path) -> str:
    """Return why the file is refused. The reason names the file."""
    with pytest.raises(StoreError) as caught:
        initialize(path)
    reason = str(caught.value)
    assert str(path) in reason
    assert "\n" not in reason
    return reason


class TestFile:
    def test_a_file_that_is_not_an_sqlite_file_is_refused(self, path: Path) -> None:
        path.write_bytes(b"these are not the payments you are looking for" * 100)
        assert "not a database" in refusal(path)
        assert path.read_bytes().startswith(b"these are not")

    def test_an_empty_file_is_refused(self, path: Path) -> None:
        """It may be the remains of a store."""
        path.touch()
        assert "not a file of paymock" in refusal(path)

    def test_a_file_of_another_program_is_refused(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE theirs (x)")
        assert "not a file of paymock" in refusal(path)

    def test_a_file_of_a_newer_version_is_refused(self, path: Path) -> None:
        create_store(path)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        assert f"schema {SCHEMA_VERSION + 1}" in refusal(path)

    @pytest.mark.parametrize("damage", ["middle", "end", "truncated"])
    def test_a_corrupt_file_is_refused(self, path: Path, damage: str) -> None:
        create_store(path)
        content = bytearray(path.read_bytes())
        match damage:
            case "middle":
                content[4096 : 4096 + 2048] = b"\xff" * 2048
            case "end":
                content[-4096:] = os.urandom(4096)
            case "truncated":
                del content[len(content) // 2 :]
        path.write_bytes(content)
        refusal(path)
        assert path.read_bytes() == bytes(content)

    def test_a_folder_is_refused(self, tmp_path: Path) -> None:
        refusal(tmp_path)

    def test_a_file_in_a_missing_folder_is_refused(self, tmp_path: Path) -> None:
        refusal(tmp_path / "missing" / "store.db")
        assert list(tmp_path.iterdir()) == []

    def test_creation_leaves_no_temporary_file(self, path: Path) -> None:
        initialize(path)
        assert [entry.name for entry in path.parent.iterdir()] == [path.name]

    def test_processes_that_create_it_concurrently_share_it(self, path: Path) -> None:
        context = multiprocessing.get_context("fork")
        processes = [context.Process(target=initialize, args=(path,)) for _ in range(8)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(10)
        assert [process.exitcode for process in processes] == [0] * 8
        assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that is readable by all users and writable by its owner."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("exists", [True, False])
def test_a_path_without_write_permission_is_refused(public_folder: Path, *, exists: bool) -> None:
    path = public_folder / "store.db"
    if exists:
        create_store(path)
        path.chmod(0o444)
    public_folder.chmod(0o555)

    def initialize_unprivileged(pipe: Connection) -> None:
        if os.getuid() == 0:
            os.setuid(65534)  # nobody: permissions do not restrict the superuser
        try:
            initialize(path)
        except StoreError as error:
            pipe.send(str(error))
        else:
            pipe.send("it was accepted")

    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=initialize_unprivileged, args=(theirs,))
    process.start()
    reason = ours.recv()
    process.join(10)
    public_folder.chmod(0o755)
    assert str(path) in reason
    assert "readonly" in reason or "unable to open" in reason


@pytest.mark.parametrize("event", ["deleted", "replaced", "replaced by another program"])
def test_a_file_that_was_deleted_or_replaced_is_not_written_to(path: Path, event: str) -> None:
    store = SqliteStore(path)

    async def refused() -> None:
        for call in (add(store, "sandbox", "another", b""), store.get("sandbox", "key"), store.ping()):
            with pytest.raises(PaymockError) as caught:
                await call
            assert caught.value.kind.code == "store_unavailable"

    async def check() -> None:
        await add(store, "sandbox", "key", b"value")
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink()
        if event == "replaced by another program":
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("CREATE TABLE theirs (x)")
        if event == "replaced":
            initialize(path)
            connections = store.connections
            with pytest.raises(PaymockError):
                await add(store, "sandbox", "another", b"")
            assert await add(store, "sandbox", "another", b"") is None
            assert await store.get("sandbox", "key") == [None]
            assert store.connections > connections
        else:
            await refused()

    run(store, check())


def test_a_copy_without_a_write_ahead_log_gets_one(path: Path) -> None:
    create_store(path)
    copy = path.with_name("copy.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"VACUUM INTO '{copy}'")
    initialize(copy)
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
