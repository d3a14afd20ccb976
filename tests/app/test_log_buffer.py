"""Buffered entries of logs in shared stores."""

import asyncio

from paymock.app import log_buffer
from paymock.app.log_buffer import LogBuffer
from paymock.rules.errors import PaymockError
from tests.support.stores import SharedStore
from tests.support.use_cases import SANDBOX, UseCases, line
from tests.support.virtual_time import run


class Log:
    """Records what is written, and lets a test delay it."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, str, list[bytes]]] = []
        self.resumed = asyncio.Event()
        self.resumed.set()

    async def write(self, sandbox: str, log: str, keep: int, entries: list[bytes]) -> None:
        await self.resumed.wait()
        self.writes.append((sandbox, log, entries))


def test_the_entries_of_a_log_are_written_together_after_the_delay() -> None:
    async def check() -> None:
        log = Log()
        buffer = LogBuffer(log.write)
        for entry in (b"1", b"2"):
            buffer.add("one", "log", 9, entry)
            buffer.add("other", "log", 9, entry)
        await asyncio.sleep(log_buffer.DELAY_SECONDS * 2)
        assert log.writes == [("one", "log", [b"1", b"2"]), ("other", "log", [b"1", b"2"])]
        buffer.add("one", "log", 9, b"3")
        await asyncio.sleep(log_buffer.DELAY_SECONDS * 2)
        assert log.writes[2:] == [("one", "log", [b"3"])]

    run(check())


def test_a_flush_writes_at_once_and_waits_for_what_is_being_written() -> None:
    async def check() -> None:
        log = Log()
        buffer = LogBuffer(log.write)
        await buffer.flush()
        log.resumed.clear()
        buffer.add("sandbox", "log", 9, b"1")
        flushes = [asyncio.create_task(buffer.flush())]
        await asyncio.sleep(0)
        buffer.add("sandbox", "log", 9, b"2")
        flushes += [asyncio.create_task(buffer.flush()) for _ in range(2)]
        await asyncio.sleep(log_buffer.DELAY_SECONDS * 2)
        assert log.writes == []
        log.resumed.set()
        await asyncio.gather(*flushes)
        assert log.writes == [("sandbox", "log", [b"1"]), ("sandbox", "log", [b"2"])]

    run(check())


def test_what_is_added_during_a_write_is_written_later() -> None:
    async def check() -> None:
        log = Log()
        buffer = LogBuffer(log.write)
        log.resumed.clear()
        for entry in (b"1", b"2"):
            buffer.add("sandbox", "log", 9, entry)
            await asyncio.sleep(log_buffer.DELAY_SECONDS * 2)
        log.resumed.set()
        await asyncio.sleep(log_buffer.DELAY_SECONDS * 2)
        assert [entries for _, _, entries in log.writes] == [[b"1"], [b"2"]]

    run(check())


def test_the_room_of_a_buffer_is_bounded_while_the_store_does_not_answer() -> None:
    async def check() -> None:
        log = Log()
        buffer = LogBuffer(log.write)
        for number in range(100):
            buffer.add("sandbox", "log", 3, b"%d" % number)
        await buffer.flush()
        [(_, _, entries)] = log.writes
        assert entries[-3:] == [b"97", b"98", b"99"]
        assert len(entries) <= 6

    run(check())


def test_the_journal_is_read_with_all_that_was_added_before_and_none_of_before_a_reset() -> None:
    async def check() -> None:
        app = UseCases(SharedStore())
        journal = app.control.journal
        for number in range(1, 4):
            await journal.add(SANDBOX, line())
            await journal.add(SANDBOX, line())
            assert len((await journal.newest(SANDBOX, 99)).data) == 2 * number
        await journal.add(SANDBOX, line())
        await journal.clear(SANDBOX)
        assert (await journal.newest(SANDBOX, 99)).data == []
        await journal.add(SANDBOX, line())
        await app.sandboxes.reset(SANDBOX)
        await asyncio.sleep(log_buffer.DELAY_SECONDS * 2)
        assert (await journal.newest(SANDBOX, 99)).data == []

    run(check())


def test_the_end_of_the_process_writes_what_is_buffered() -> None:
    async def check() -> None:
        store = SharedStore()
        app = UseCases(store)
        await app.control.journal.add(SANDBOX, line())
        await app.sandboxes.close()
        assert len((await UseCases(store).control.journal.newest(SANDBOX, 9)).data) == 1

    run(check())


def test_entries_are_lost_while_the_store_fails_and_later_ones_are_not() -> None:
    class Failing(SharedStore):
        fails = True

        async def append(self, sandbox: str, log: str, *entries: bytes, keep: int) -> None:
            if self.fails:
                raise PaymockError("store_unavailable")
            await super().append(sandbox, log, *entries, keep=keep)

    async def check() -> None:
        store = Failing()
        journal = UseCases(store).control.journal
        await journal.add(SANDBOX, line())
        assert (await journal.newest(SANDBOX, 9)).data == []
        store.fails = False
        await journal.add(SANDBOX, line())
        assert len((await journal.newest(SANDBOX, 9)).data) == 1

    run(check())
