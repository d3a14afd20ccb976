import asyncio

import msgspec
import pytest

from paymock.app import journal
from paymock.rules.errors import PaymockError
from paymock.sandbox import log_buffer
from paymock.schemas.control import ListRequests
from paymock.stores.memory import MemoryStore
from tests.support.stores import SharedStore
from tests.support.use_cases import SANDBOX, UseCases, encoded, line


@pytest.mark.parametrize("members", [17, 16])
async def test_an_entry_of_an_earlier_version_lacks_the_last_members(members: int) -> None:
    app = UseCases(MemoryStore())
    earlier = msgspec.msgpack.encode(msgspec.structs.astuple(line())[:members])
    app.sandboxes.append(SANDBOX, "requests", lambda: earlier, keep=journal.LENGTH)
    [found] = (await app.control.journal.newest(SANDBOX, ListRequests(limit=2))).data
    assert (found.operation, found.fetch_site) == ("listChains", None)
    assert (found.virtual_at is None) == (members == 16)


async def test_entries_of_many_sandboxes_are_buffered_up_to_a_limit_and_read_by_their_owners() -> None:
    app = UseCases(MemoryStore())
    for number in range(log_buffer.MAX_UNWRITTEN // 2):
        app.control.journal.add(f"early-{number}", encoded(line()))
    for number in range(log_buffer.MAX_UNWRITTEN):
        app.control.journal.add(f"late-{number}", encoded(line()))
        if number % 50 == 0:
            assert len((await app.control.journal.newest(f"late-{number}", ListRequests(limit=9))).data) == 1
    assert len((await app.control.journal.newest("early-0", ListRequests(limit=9))).data) <= 1
    assert app.sandboxes._log_buffer._count == 0


class TestSharedStore:
    """Entries are written to a shared store a few milliseconds later, and together."""

    async def test_it_is_read_with_all_that_was_added_before_and_none_of_before_a_reset(self) -> None:
        app = UseCases(SharedStore())
        journal = app.control.journal
        for number in range(1, 4):
            journal.add(SANDBOX, encoded(line()))
            journal.add(SANDBOX, encoded(line()))
            assert len((await journal.newest(SANDBOX, ListRequests(limit=99))).data) == 2 * number
        journal.add(SANDBOX, encoded(line()))
        await journal.clear(SANDBOX)
        assert (await journal.newest(SANDBOX, ListRequests(limit=99))).data == []
        journal.add(SANDBOX, encoded(line()))
        await app.sandboxes.reset(SANDBOX)
        await asyncio.sleep(log_buffer.DELAY_SECONDS * 2)
        assert (await journal.newest(SANDBOX, ListRequests(limit=99))).data == []

    @pytest.mark.parametrize("closed", [False, True])
    async def test_it_is_written_soon_and_when_the_process_ends(self, *, closed: bool) -> None:
        store = SharedStore()
        app = UseCases(store)
        for _ in range(2):
            app.control.journal.add(SANDBOX, encoded(line()))
            await (app.sandboxes.close() if closed else asyncio.sleep(log_buffer.DELAY_SECONDS * 2))
        assert len((await UseCases(store).control.journal.newest(SANDBOX, ListRequests(limit=9))).data) == 2

    async def test_entries_are_lost_while_the_store_fails_and_later_ones_are_not(self) -> None:
        class Failing(SharedStore):
            fails = True

            async def append(self, sandbox: str, log: str, *entries: bytes, keep: int) -> None:
                if self.fails:
                    raise PaymockError("store_unavailable")
                await super().append(sandbox, log, *entries, keep=keep)

        store = Failing()
        journal = UseCases(store).control.journal
        journal.add(SANDBOX, encoded(line()))
        assert (await journal.newest(SANDBOX, ListRequests(limit=9))).data == []
        store.fails = False
        journal.add(SANDBOX, encoded(line()))
        assert len((await journal.newest(SANDBOX, ListRequests(limit=9))).data) == 1
