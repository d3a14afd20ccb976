"""The file of the SQLite store: when it is begun, when it is refused, and what becomes of it meanwhile."""

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
from paymock.stores.sqlite.file import SCHEMA_VERSION, prepare
from paymock.stores.sqlite.store import SqliteStore
from tests.stores.contract import add, run


def begin(path: Path) -> None:
    """Begins a store with one value."""
    store = SqliteStore(path)

    async def check() -> None:
        await add(store, "sandbox", "key", b"value")

    run(store, check())


def test_what_was_stored_is_there_after_a_restart(path: Path) -> None:
    begin(path)
    store = SqliteStore(path)

    async def check() -> None:
        assert await store.get("sandbox", "key") == [b"value"]

    run(store, check())


def refusal(path: Path) -> str:
    """Why the file is refused, which names it."""
    with pytest.raises(StoreError) as caught:
        prepare(path)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    return text


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


def test_a_copy_without_a_write_ahead_log_gets_one(path: Path) -> None:
    begin(path)
    copy = path.with_name("copy.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"VACUUM INTO '{copy}'")
    prepare(copy)
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
