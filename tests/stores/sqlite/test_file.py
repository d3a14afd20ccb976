"""The file of the SQLite store: creation, checks before use, and replacement while in use."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from paymock.rules.errors import PaymockError
from paymock.stores.base import StoreError
from paymock.stores.sqlite.file import SCHEMA_VERSION, initialize
from paymock.stores.sqlite.store import SqliteStore
from tests.stores.contract import add, run

INITIALIZE = """
import os, pathlib, sys
from paymock.stores.base import StoreError
from paymock.stores.sqlite.file import initialize

user, path = int(sys.argv[1]), pathlib.Path(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
if user:
    os.setuid(user)
try:
    initialize(path)
except StoreError as error:
    print(error, flush=True)
else:
    print("accepted", flush=True)
os._exit(0)
"""
NOBODY = 65534


def initialize_in_processes(path: Path, count: int, user: int = 0) -> list[str]:
    """What becomes of `initialize` in so many processes at the same time, as another user."""
    command = [sys.executable, "-c", INITIALIZE, str(user), str(path)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    return [process.communicate(timeout=60)[0].strip() for process in processes]


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
        assert initialize_in_processes(path, 8) == ["accepted"] * 8
        assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_files_of_a_deleted_store_prevent_a_new_one(path: Path, suffix: str) -> None:
    """SQLite would apply them to the new one."""
    leftover = path.with_name(path.name + suffix)
    leftover.write_bytes(b"what was committed last")
    assert f"{leftover.name} of a deleted file is left" in refusal(path)
    assert [entry.name for entry in path.parent.iterdir()] == [leftover.name]
    leftover.unlink()
    initialize(path)


def test_a_store_that_was_deleted_after_a_crash_does_not_come_back(path: Path) -> None:
    crashed = path.with_name("crashed.db")
    store = SqliteStore(crashed)

    async def check() -> None:
        await add(store, "sandbox", "key", b"value")
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).write_bytes(Path(f"{crashed}{suffix}").read_bytes())

    run(store, check())
    assert "store.db-wal, store.db-shm of a deleted file are left" in refusal(path)
    path.write_bytes(crashed.read_bytes())
    initialize(path)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_only_the_owner_can_read_the_files(path: Path, umask: int) -> None:
    store = SqliteStore(path)

    def modes() -> dict[str, int]:
        return {entry.name: entry.stat().st_mode & 0o777 for entry in path.parent.iterdir()}

    async def check() -> None:
        await add(store, "sandbox", "key", b"value")
        assert modes() == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600}

    previous = os.umask(umask)
    try:
        run(store, check())
    finally:
        os.umask(previous)


def test_an_existing_file_keeps_its_mode(path: Path) -> None:
    create_store(path)
    path.chmod(0o640)
    store = SqliteStore(path)

    async def check() -> None:
        await add(store, "sandbox", "other", b"value")
        assert {entry.stat().st_mode & 0o777 for entry in path.parent.iterdir()} == {0o640}

    run(store, check())


class TestFilesInUse:
    async def refused(self, store: SqliteStore) -> None:
        """Assert that every kind of step is refused."""
        for call in (
            add(store, "sandbox", "another", b""),
            store.get("sandbox", "key"),
            store.tail("sandbox", "log", 9),
            store.ping(),
        ):
            with pytest.raises(PaymockError) as caught:
                await call
            assert caught.value.kind.code == "store_unavailable"
            assert str(store._path) not in caught.value.message

    @pytest.mark.parametrize("suffix", ["-wal", "-shm"])
    def test_a_deleted_log_costs_no_payment(self, path: Path, suffix: str) -> None:
        store, log = SqliteStore(path), path.with_name(path.name + suffix)

        async def check() -> None:
            await add(store, "sandbox", "key", b"value")
            log.unlink()
            await self.refused(store)

        run(store, check())
        restarted = SqliteStore(path)

        async def check_again() -> None:
            assert await restarted.get("sandbox", "key", "another") == [b"value", None]

        run(restarted, check_again())

    def test_a_log_that_comes_back_is_used_again(self, path: Path) -> None:
        store, log = SqliteStore(path), path.with_name(f"{path.name}-wal")

        async def check() -> None:
            await add(store, "sandbox", "key", b"value")
            log.rename(path.with_name("moved"))
            await self.refused(store)
            path.with_name("moved").rename(log)
            assert await store.get("sandbox", "key") == [b"value"]
            assert await add(store, "sandbox", "another", b"") is None

        run(store, check())

    @pytest.mark.parametrize("content", [b"", b"these are not the payments you are looking for"])
    def test_a_file_that_was_overwritten_is_not_written_to(self, path: Path, content: bytes) -> None:
        store = SqliteStore(path)

        async def check() -> None:
            await add(store, "sandbox", "key", b"value")
            path.write_bytes(content)
            await self.refused(store)
            assert path.read_bytes() == content

        run(store, check())


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

    is_superuser = os.getuid() == 0  # whom permissions do not restrict
    [reason] = initialize_in_processes(path, 1, NOBODY if is_superuser else 0)
    public_folder.chmod(0o755)
    assert str(path) in reason
    assert ("readonly" if exists else "Permission denied") in reason


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
        assert await store.get("sandbox", "key") == [b"value"]
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
            with pytest.raises(PaymockError):
                await store.get("sandbox", "key")
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
