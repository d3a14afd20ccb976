import os
import sqlite3
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from paymock.rules.errors import PaymockError
from paymock.stores.base import StoreError
from paymock.stores.sqlite.file import SCHEMA_VERSION, StoreFile, initialize
from paymock.stores.sqlite.store import SqliteStore
from tests.stores.contract import add, run

NOBODY = 65534


@pytest.fixture
def created(path: Path) -> Path:
    create_store(path)
    return path


def create_store(path: Path) -> None:
    store = SqliteStore(path)
    run(store, add(store, "sandbox", "key", b"value"))


def values(path: Path, *keys: str) -> list[bytes | None]:
    store = SqliteStore(path)
    return run(store, store.get("sandbox", *keys))


def refusal(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        initialize(path)
    reason = str(caught.value)
    assert str(path) in reason
    assert "\n" not in reason
    return reason


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")


def newer(path: Path) -> None:
    create_store(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")


def damaged(path: Path, start: int, end: int | None, new: bytes) -> None:
    create_store(path)
    content = bytearray(path.read_bytes())
    content[start:end] = new
    path.write_bytes(content)


UNUSABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "not an SQLite file": (
        lambda path: path.write_bytes(b"these are not the payments" * 100),
        "not a database",
    ),
    "of another program": (foreign, "not a file of paymock"),
    "of a newer version": (newer, f"schema {SCHEMA_VERSION + 1}"),
    "damaged in the middle": (lambda path: damaged(path, 4096, 4096 + 2048, b"\xff" * 2048), ""),
    "damaged at the end": (lambda path: damaged(path, -4096, None, bytes(range(256)) * 16), ""),
    "truncated": (lambda path: damaged(path, 8192, None, b""), ""),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_file_is_refused_and_left_as_it_is(path: Path, name: str) -> None:
    make, reason = UNUSABLE[name]
    make(path)
    content = path.read_bytes()
    assert reason in refusal(path)
    assert path.read_bytes() == content


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing" / "store.db"):
        refusal(folder)
    assert list(tmp_path.iterdir()) == []
    for name in ("store.db", "store.db-wal", "store.db-shm", "store.db-journal"):
        os.mkfifo(tmp_path / name)
        assert f"{name} is not a regular file" in refusal(tmp_path / "store.db")
        (tmp_path / name).unlink()


@pytest.mark.parametrize("is_empty", [False, True])
def test_concurrent_creations_share_it_and_leave_no_temporary_file(path: Path, *, is_empty: bool) -> None:
    """Also in place of an empty file, as of `mktemp`."""
    if is_empty:
        path.touch()
    with ThreadPoolExecutor(8) as threads:
        assert [*threads.map(initialize, [path] * 8)] == [None] * 8
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_file_is_opened_again_beside_a_shorter_log_of_another_process(created: Path) -> None:
    file = StoreFile(created)
    connection, ids = file.open()
    connection.execute("CREATE TABLE any (x)")
    file.check(ids)
    file.close(connection, ids)  # the last one, so the log goes
    with closing(sqlite3.connect(created)) as other:
        other.execute("SELECT * FROM sandbox")
        file.close(*file.open())


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        (["store.db-wal"], "store.db-wal of a deleted file is left"),
        (["store.db-wal", "store.db-shm"], "store.db-wal, store.db-shm of a deleted file are left"),
        (["store.db-journal"], "store.db-journal of a deleted file is left"),
    ],
)
def test_files_of_a_deleted_store_prevent_a_new_one(path: Path, left: list[str], reason: str) -> None:
    """SQLite would apply them to the new one."""
    for name in left:
        path.with_name(name).write_bytes(b"what was committed last")
    assert reason in refusal(path)
    assert {entry.name for entry in path.parent.iterdir()} == {*left}
    path.touch()
    assert reason in refusal(path)
    path.unlink()
    for name in left:
        path.with_name(name).unlink()
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


def test_an_existing_file_keeps_its_mode(created: Path) -> None:
    created.chmod(0o640)
    store = SqliteStore(created)

    async def modes() -> set[int]:
        await add(store, "sandbox", "other", b"value")
        return {entry.stat().st_mode & 0o777 for entry in created.parent.iterdir()}

    assert run(store, modes()) == {0o640}


async def refused(store: SqliteStore) -> None:
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


class TestFilesInUse:
    @pytest.mark.parametrize("suffix", ["-wal", "-shm"])
    async def test_a_log_that_is_gone_costs_no_payment_and_is_used_again_when_it_is_back(
        self, store: SqliteStore, path: Path, suffix: str
    ) -> None:
        log = path.with_name(path.name + suffix)
        await add(store, "sandbox", "key", b"value")
        log.rename(path.with_name("moved"))
        await refused(store)
        path.with_name("moved").rename(log)
        assert await store.get("sandbox", "key", "another") == [b"value", None]
        assert await add(store, "sandbox", "another", b"") is None

    @pytest.mark.parametrize("suffix", ["-wal", "-shm"])
    def test_a_deleted_log_costs_no_payment(self, created: Path, suffix: str) -> None:
        store = SqliteStore(created)

        async def delete() -> None:
            await add(store, "sandbox", "another", b"value")
            created.with_name(created.name + suffix).unlink()
            await refused(store)

        run(store, delete())
        assert values(created, "key", "another") == [b"value", b"value"]

    @pytest.mark.parametrize("kept", [0, 10, 4096, 8192])
    async def test_an_overwritten_file_is_not_written_to(
        self, store: SqliteStore, path: Path, kept: int
    ) -> None:
        await add(store, "sandbox", "key", b"value")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        content = path.read_bytes()[:kept].ljust(path.stat().st_size if kept == 4096 else kept, b"\xff")
        path.write_bytes(content)
        await refused(store)
        assert path.read_bytes() == content

    @pytest.mark.parametrize("successor", [None, foreign])
    async def test_a_file_that_was_deleted_is_not_written_to(
        self, store: SqliteStore, path: Path, successor: Callable[[Path], None] | None
    ) -> None:
        await add(store, "sandbox", "key", b"value")
        delete(path)
        if successor:
            successor(path)
        await refused(store)

    async def test_a_new_store_in_place_of_a_deleted_one_is_used_after_a_restart(
        self, store: SqliteStore, path: Path
    ) -> None:
        await add(store, "sandbox", "key", b"value")
        delete(path)
        for _ in range(2):
            await refused(store)
            initialize(path)
        await store.close()
        assert await SqliteStore(path).get("sandbox", "key") == [None]

    async def test_a_damaged_file_takes_no_more_changes(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, (look_seconds, damage) in DAMAGE.items():
            monkeypatch.setattr("paymock.stores.sqlite.store.LOOK_SECONDS", look_seconds)
            file = path.with_name(f"{name}.db")
            store = SqliteStore(file)
            await store.initialize()
            for number in range(9):
                await add(store, "sandbox", f"key {number}", b"x" * 4096)
            damage(file, file.with_name(f"{file.name}-wal"))
            for _ in range(2):
                await refused(store)
            await store.close()

    async def test_after_a_read_of_a_damaged_page_nothing_is_changed(
        self, store: SqliteStore, path: Path
    ) -> None:
        for number in range(40):
            await add(store, "sandbox", f"key {number}", b"x" * 400)
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(FULL)")
        content = bytearray(path.read_bytes())
        page = content.index(b"key 20ax") // 4096 * 4096
        content[page : page + 4096] = b"\xff" * 4096
        path.write_bytes(content)
        with pytest.raises(PaymockError):
            await store.get("sandbox", *(f"key {number}" for number in range(40)))
        await refused(store)

    async def test_a_log_that_a_checkpoint_has_truncated_is_not_damaged(
        self, store: SqliteStore, path: Path
    ) -> None:
        for key in ("key", "another"):
            await add(store, "sandbox", key, b"value")
            with closing(sqlite3.connect(path)) as other:
                assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
            assert await store.get("sandbox", key) == [b"value"]

    def test_a_log_with_fewer_blocks_is_not_damaged_for_a_further_connection(self, created: Path) -> None:
        """As ext4 leaves it, which takes back blocks that it had reserved for a server that stopped."""
        file = StoreFile(created)
        connection, ids = file.open()
        connection.execute("INSERT INTO counter VALUES (1, 'key', 1)")
        file.check(ids)
        with closing(sqlite3.connect(created)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for each in (file.open(), (connection, ids)):
            file.close(*each)


def with_a_hole(path: Path, log: Path) -> None:
    """As a commit leaves it that was in progress when its log was truncated."""
    size = log.stat().st_size
    os.truncate(log, 0)
    os.truncate(log, size)


def overwritten(log: Path, kept: int = 0) -> None:
    log.write_bytes(log.read_bytes()[:kept].ljust(log.stat().st_size, b"\xff"))


DAMAGE: dict[str, tuple[float, Callable[[Path, Path], object]]] = {
    "truncated log": (3600, lambda path, log: os.truncate(log, 4096)),
    "empty log": (3600, lambda path, log: os.truncate(log, 0)),
    "log with a hole": (3600, with_a_hole),
    "overwritten log": (0, lambda path, log: overwritten(log)),
    "log with its head": (0, lambda path, log: overwritten(log, 32)),
}
"""How old a look at the file may be, and what damages it."""


def delete(path: Path) -> None:
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink()


@pytest.mark.parametrize("exists", [True, False])
def test_a_path_without_write_permission_is_refused(*, exists: bool) -> None:
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        if exists:
            create_store(path)
            path.chmod(0o444)
        path.parent.chmod(0o555)
        if user == 0:  # whom permissions do not restrict
            os.seteuid(NOBODY)
        try:
            reason = refusal(path)
        finally:
            os.seteuid(user)
            path.parent.chmod(0o755)
    assert ("readonly" if exists else "Permission denied") in reason


def test_a_copy_without_a_write_ahead_log_gets_one(created: Path) -> None:
    copy = created.with_name("copy.db")
    with closing(sqlite3.connect(created)) as connection:
        connection.execute(f"VACUUM INTO '{copy}'")
    initialize(copy)
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
