import asyncio

import msgspec
import pytest

from paymock.app import journal
from paymock.rules.errors import PaymockError
from paymock.sandbox import log_buffer
from paymock.stores.memory import MemoryStore
from tests.support.stores import SharedStore
from tests.support.use_cases import SANDBOX, UseCases, line


async def test_an_entry_of_an_earlier_version_has_no_virtual_time() -> None:
    app = UseCases(MemoryStore())
    earlier = msgspec.msgpack.encode(msgspec.structs.astuple(line())[:-1])
    await app.sandboxes.append(SANDBOX, "requests", earlier, keep=journal.LENGTH)
    [found] = (await app.control.journal.newest(SANDBOX, 2)).data
    assert (found.operation, found.virtual_at) == ("listChains", None)


class TestSharedStore:
    """Entries are written to a shared store a few milliseconds later, and together."""

    async def test_it_is_read_with_all_that_was_added_before_and_none_of_before_a_reset(self) -> None:
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

    @pytest.mark.parametrize("closed", [False, True])
    async def test_it_is_written_soon_and_when_the_process_ends(self, *, closed: bool) -> None:
        store = SharedStore()
        app = UseCases(store)
        for _ in range(2):
            await app.control.journal.add(SANDBOX, line())
            await (app.sandboxes.close() if closed else asyncio.sleep(log_buffer.DELAY_SECONDS * 2))
        assert len((await UseCases(store).control.journal.newest(SANDBOX, 9)).data) == 2

    async def test_entries_are_lost_while_the_store_fails_and_later_ones_are_not(self) -> None:
        class Failing(SharedStore):
            fails = True

            async def append(self, sandbox: str, log: str, *entries: bytes, keep: int) -> None:
                if self.fails:
                    raise PaymockError("store_unavailable")
                await super().append(sandbox, log, *entries, keep=keep)

        store = Failing()
        journal = UseCases(store).control.journal
        await journal.add(SANDBOX, line())
        assert (await journal.newest(SANDBOX, 9)).data == []
        store.fails = False
        await journal.add(SANDBOX, line())
        assert len((await journal.newest(SANDBOX, 9)).data) == 1
