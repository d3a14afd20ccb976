import asyncio
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from paymock.stores.base import SANDBOX_RECORD, Change, LogEntries, steady_clock
from paymock.stores.sqlite.file import LOCK_SECONDS, begin
from paymock.stores.sqlite.queries import Transaction
from paymock.stores.sqlite.store import SqliteStore
from tests.stores.contract import DAY, RetentionContract, StoreContract, add, reads_show_changes_of, run
from tests.support.clock import ManualClock
from tests.support.use_cases import refusal
from tests.support.virtual_time import within

FEW_COUNTERS = 1_000  # each is a commit


@pytest.fixture(autouse=True)
def few_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paymock.stores.sqlite.queries.MAX_COUNTERS", FEW_COUNTERS)


class TestSqliteStore(StoreContract):
    most_counters = FEW_COUNTERS


class TestSqliteStoreWithRetention(RetentionContract):
    most_counters = FEW_COUNTERS

    @pytest.fixture
    def store(self, path: Path, clock: ManualClock) -> SqliteStore:
        return SqliteStore(path, retention=DAY, clock=lambda: clock() / 1000)


async def test_concurrent_changes_share_commits(store: SqliteStore, path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        version = "PRAGMA data_version"
        versions = [other.execute(version).fetchone()]
        creations = asyncio.gather(*(add(store, "sandbox", f"key {n}", b"") for n in range(200)))
        while not creations.done():
            await asyncio.sleep(0)
            if (current := other.execute(version).fetchone()) != versions[-1]:
                versions.append(current)
        await creations
        assert len(versions) - 1 <= 5


async def test_logs_do_not_wait_for_the_disk(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[str] = []

    class Traced(sqlite3.Connection):
        def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
            if sql.startswith("PRAGMA synchronous"):
                modes.append(sql.rpartition(" ")[2])
            return super().execute(sql, *parameters)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **more: connect(*args, **more, factory=Traced))
    await store.append(LogEntries("sandbox", "log", 9, [b"entry"]))
    await store.increment("sandbox", "counter")
    assert modes == ["normal", "normal"]
    await add(store, "sandbox", "key", b"value")
    await store.replace("sandbox", SANDBOX_RECORD, None, b"state", expected_state=None)
    await store.reset("sandbox", b"other", expected_state=b"state")
    assert modes[2:] == ["full", "full", "full"]


@pytest.mark.parametrize("mode", ["IMMEDIATE", "EXCLUSIVE"])
async def test_while_another_process_holds_the_lock_reads_go_on_and_changes_are_refused_soon(
    store: SqliteStore, path: Path, mode: str
) -> None:
    async def refused(change: Awaitable[object]) -> None:
        error = await refusal(change)
        assert (error.kind.code, "locked" in error.message) == ("store_unavailable", True)

    await add(store, "sandbox", "key", b"value")
    await store.append(LogEntries("sandbox", "log", 9, [b"entry"]))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(f"BEGIN {mode}")
        async with within(4):
            first = asyncio.create_task(refused(add(store, "sandbox", "other", b"")))
            await asyncio.sleep(0.1)
            await asyncio.gather(first, refused(add(store, "sandbox", "third", b"")), refused(store.ping()))
        async with within(4):
            assert await store.get("sandbox", "key") == [b"value"]
            assert await store.tail("sandbox", "log", 9) == [b"entry"]
        waiting = asyncio.create_task(refused(store.append(LogEntries("sandbox", "log", 9, [b"lost"]))))
        await asyncio.sleep(0)
        async with within(4):
            assert await store.tail("sandbox", "log", 9) == [b"entry"]
        await waiting
        other.execute("ROLLBACK")
    await store.ping()
    assert await add(store, "sandbox", "other", b"") is None


async def test_a_read_shows_commits_of_other_processes(store: SqliteStore, path: Path) -> None:
    await reads_show_changes_of(SqliteStore(path), store)


async def test_a_short_read_that_finds_the_file_locked_is_repeated(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while another process recovers the write-ahead log after a crash."""
    attempts: list[float] = []

    def locked_once(connection: sqlite3.Connection, mode: str, lock_seconds: float = LOCK_SECONDS) -> None:
        attempts.append(lock_seconds)
        if len(attempts) == 1:
            raise sqlite3.OperationalError("database is locked")
        begin(connection, mode, lock_seconds)

    await add(store, "sandbox", "key", b"value")
    assert await store.get("sandbox", "key") == [b"value"]
    monkeypatch.setattr("paymock.stores.sqlite.store.begin", locked_once)
    assert await store.get("sandbox", "key") == [b"value"]
    assert attempts == [0, LOCK_SECONDS]


async def test_a_short_read_does_not_disturb_a_long_one(store: SqliteStore) -> None:
    started, released = threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection) -> int:
        started.set()
        released.wait(60)
        return len(connection.execute("SELECT 1").fetchall())

    await add(store, "sandbox", "key", b"value")
    reading = asyncio.create_task(store._read(slow))
    await asyncio.to_thread(started.wait, 5)
    getting = asyncio.create_task(store.get("sandbox", "key"))
    for _ in range(10):
        await asyncio.sleep(0)
    released.set()
    assert await getting == [b"value"]
    assert await reading == 1


def test_a_change_of_another_process_names_its_sandbox(path: Path) -> None:
    one, other = SqliteStore(path), SqliteStore(path)
    steps: dict[str, tuple[Callable[[], Awaitable[object]], bool]] = {
        "add": (lambda: add(other, "add", "key", b"value"), True),
        "add_state": (
            lambda: other.add("add_state", ("key", b"", "a"), expected_state=None, new_state=b"new"),
            False,
        ),
        "replace": (lambda: other.replace("replace", "key", None, b"new", expected_state=None), False),
        "append": (lambda: other.append(LogEntries("append", "log", 9, [b"entry"])), True),
        "clear_log": (lambda: other.clear_log("append", "log"), True),
        "reset": (lambda: other.reset("add_state", b"newer", expected_state=b"new"), False),
    }

    async def check() -> None:
        changes = one.changes()
        async with asyncio.timeout(30):
            assert await anext(changes) == Change(None)
            for name, (step, minor) in steps.items():
                await add(other, "taken", "key", b"value")
                await step()
                sandbox = {"clear_log": "append", "reset": "add_state"}.get(name, name)
                while (change := await anext(changes)).sandbox == "taken":
                    pass
                assert change == Change(sandbox, minor)
        await changes.aclose()  # type: ignore[attr-defined]
        await other.close()

    run(one, check())


def test_changes_go_on_after_a_failure(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = SqliteStore(path), SqliteStore(path)

    async def check() -> None:
        changes = one.changes()
        async with asyncio.timeout(30):
            await anext(changes)
            hidden = path.rename(path.with_name("hidden"))
            assert await anext(changes) == Change(None)
            hidden.rename(path)
            await add(other, "sandbox", "key", b"value")
            assert await anext(changes) == Change("sandbox", minor=True)
        await changes.aclose()  # type: ignore[attr-defined]
        await other.close()

    run(one, check())


def test_capacity_counts_all_sandboxes_and_survives_restarts(path: Path) -> None:
    async def refused(store: SqliteStore, sandbox: str, state: bytes | None = None) -> None:
        addition = store.add(sandbox, ("one more", b"", "a"), expected_state=state)
        assert (await refusal(addition)).kind.code == "capacity_exceeded"

    async def fill(store: SqliteStore) -> None:
        both = (add(store, sandbox, "key", b"") for sandbox in ("one", "other"))
        await asyncio.gather(*both, refused(store, "third"))
        for sandbox in ("one", "third"):
            await refused(store, sandbox)
        assert await add(store, "one", "key", b"") == b""
        assert await add(store, "one", "key of another kind", b"", "b") is None

    async def reuse(store: SqliteStore) -> None:
        await refused(store, "third")
        assert await store.reset("one", b"fresh", expected_state=None)
        assert await add(store, "third", "key", b"") is None
        await refused(store, "one", b"fresh")

    for part in (fill, reuse):
        store = SqliteStore(path, limits={"a": 2})
        run(store, part(store))


def test_retention_frees_capacity_and_another_server_can_have_none(path: Path, clock: ManualClock) -> None:
    async def check(store: SqliteStore) -> None:
        await add(store, "sandbox", "key", b"")
        await add(store, "sandbox", "another", b"", "b")
        for seconds in (3_600, DAY, 0):  # the last refusal deletes
            assert (await refusal(add(store, "other", "key", b""))).kind.code == "capacity_exceeded"
            clock.advance(seconds)
        assert await add(store, "other", "key", b"") is None
        assert (await refusal(add(store, "other", "more", b""))).kind.code == "capacity_exceeded"
        assert await store.reset("other", b"", expected_state=None)
        assert await add(store, "sandbox", "key", b"") is None

    retaining = SqliteStore(path, limits={"a": 1}, retention=DAY, clock=lambda: clock() / 1000)
    run(retaining, check(retaining))
    endless = SqliteStore(path)
    run(endless, add(endless, "sandbox", "more", b""))


async def test_a_clock_that_has_just_started_or_jumped_deletes_nothing(
    path: Path, clock: ManualClock
) -> None:
    count = ManualClock()

    def retaining(ahead: float = 0) -> SqliteStore:
        steady = steady_clock(lambda: clock() / 1000 + ahead, lambda: count() / 1000)
        return SqliteStore(path, retention=DAY, clock=steady)

    store = retaining()
    await store.initialize()
    await add(store, "sandbox", "key", b"value")
    steps = ((600, 0), (1, 40 * DAY), (599, 0), (1, -40 * DAY), (600, 0), (DAY + 3_600, 0))
    for number, (seconds, jump) in enumerate(steps):
        count.advance(seconds)
        clock.advance(seconds + jump)
        late = retaining(40 * DAY)
        for writer in (late, store):
            assert await store.get("sandbox", "key") == [b"value"]
            await add(writer, "other", f"key {number} {writer is store}", b"")
        await late.close()
    assert await store.get("sandbox", "key") == [None]
    await store.close()


async def test_a_full_disk_is_reported_and_nothing_is_partially_stored(
    store: SqliteStore, path: Path
) -> None:
    async def limit(pages: int) -> None:
        """Limit the size of the file: SQLite reports the same error as for a full disk."""

        def step(transaction: Transaction) -> None:
            transaction.connection.execute(f"PRAGMA max_page_count = {pages}")

        await store._change(step)

    await add(store, "sandbox", "before", b"value")
    with closing(sqlite3.connect(path)) as other:
        [pages] = other.execute("PRAGMA page_count").fetchone()
    await limit(pages)
    additions = (add(store, "sandbox", f"key {n}", b"x" * 9000) for n in range(20))
    error = await refusal(asyncio.gather(*additions))
    assert (error.kind.code, "full" in error.message) == ("store_unavailable", True)
    assert await store.get("sandbox", "before", "key 0", "key 19") == [b"value", None, None]
    assert await add(store, "sandbox", "after", b"value") is None
    await limit(pages)
    assert "full" in (await refusal(store.ping())).message
    await store.ping()  # by another connection, which has no limit


@pytest.mark.parametrize("entries", ["x'ff'", "'text'", "1"])
async def test_a_damaged_log_fails_only_its_own_step(store: SqliteStore, path: Path, entries: str) -> None:
    await store.append(LogEntries("sandbox", "log", 9, [b"entry"]))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE log SET entries = {entries}")  # noqa: S608 - constants
    damaged, added = await asyncio.gather(
        refusal(store.tail("sandbox", "log", 9)), add(store, "sandbox", "key", b"")
    )
    assert (damaged.kind.code, added) == ("store_unavailable", None)
