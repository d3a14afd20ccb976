"""Stores of earlier formats: files as earlier versions left them, each with one payment."""

import asyncio
import gzip
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from paymock.payments.records import READABLE_FORMATS, RECORD_FORMAT, PaymentRecord, decode_as
from paymock.sandbox.metadata import decode_metadata, load_metadata
from paymock.stores.base import StoreError
from paymock.stores.sqlite.store import SqliteStore
from tests.stores.contract import run
from tests.support.use_cases import check_noted_store

STORED = {int(path.name.split(".")[0]): path for path in (Path(__file__).parent / "formats").iterdir()}


def unpacked(number: int, folder: Path) -> Path:
    path = folder / "store.db"
    path.write_bytes(gzip.decompress(STORED[number].read_bytes()))
    return path


def killed(path: Path) -> Path:
    copy = path.with_name("killed.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE last (x)")
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    return copy


def contents(folder: Path) -> dict[str, bytes]:
    """Return what the files contain, but for the index of a log, which SQLite makes anew."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}


@pytest.mark.parametrize("number", STORED.keys() - {*READABLE_FORMATS})
@pytest.mark.parametrize("after_a_kill", [False, True])
def test_a_store_of_another_format_is_refused(tmp_path: Path, number: int, *, after_a_kill: bool) -> None:
    path = unpacked(number, tmp_path)
    path = killed(path) if after_a_kill else path
    before = contents(tmp_path)
    store = SqliteStore(path)
    with pytest.raises(StoreError) as caught:
        asyncio.run(store.initialize(decode_metadata))
    assert str(caught.value) == (
        f"cannot use the store {path}: paymock 0.1.0 wrote it in format {number}, which this version cannot "
        "read: serve it with that version, or use an empty store"
    )
    assert contents(tmp_path) == before


@pytest.mark.parametrize("number", STORED.keys() & {*READABLE_FORMATS})
def test_a_store_of_a_readable_format_is_upgraded_with_its_payments(tmp_path: Path, number: int) -> None:
    store = SqliteStore(unpacked(number, tmp_path))
    metadata = run(store, load_metadata(store, 0, 1.0, "formats"))
    assert (metadata.format, metadata.version) == (RECORD_FORMAT, "0.4.0")
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        rows = connection.execute("SELECT name FROM sandbox WHERE name NOT GLOB 'origin*'").fetchall()
    for sandbox in [name for (name,) in rows if "." not in name]:
        [(_, stored)] = run(store, store.page(sandbox, PaymentRecord.KIND, limit=2))
        assert decode_as(PaymentRecord, stored).order_id == "1001"


def test_what_is_not_noted_any_more_is_ignored(tmp_path: Path) -> None:
    """Its servers noted the time, and the names of the sandboxes of a key."""
    store = SqliteStore(unpacked(5, tmp_path))
    run(store, check_noted_store(store))
