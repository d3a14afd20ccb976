import asyncio
from collections import Counter
from functools import partial

import msgspec
import pytest

from paymock.app.journal import decoded
from paymock.cache import JOURNAL_LENGTH
from paymock.http.requests import Request
from paymock.http.responses import Response
from paymock.rules.errors import PaymockError
from paymock.sandbox import log_buffer, scheduler
from paymock.sandbox.log_buffer import Entry
from paymock.schemas.control import Journal, ListRequests
from paymock.stores.base import LogEntries
from paymock.stores.memory import MemoryStore
from paymock.web.telemetry.access_log import RequestLog
from paymock.web.telemetry.exchange import Exchange
from paymock.web.telemetry.journal_entry import encoded_entry
from tests.support.stores import SharedStore
from tests.support.use_cases import SANDBOX, UseCases, encoded, line


def counted(times: Counter[str]) -> Entry:
    def entry() -> bytes:
        times["encoded"] += 1
        return encoded(line())()

    return entry


@pytest.mark.parametrize(("length", "most"), [(100, 1_000), (20_000, 20_000)])
async def test_no_more_are_listed_than_a_journal_can_keep_but_all_may_ask_for_a_thousand(
    length: int, most: int
) -> None:
    journal = UseCases(MemoryStore()).control.journal
    journal.length = length
    assert await journal.newest(SANDBOX, ListRequests(limit=most)) == Journal(data=[])
    with pytest.raises(PaymockError, match=f"limit must be an integer from 1 to {most}."):
        await journal.newest(SANDBOX, ListRequests(limit=most + 1))


@pytest.mark.parametrize("members", [17, 16])
async def test_an_entry_of_an_earlier_version_lacks_the_last_members(members: int) -> None:
    app = UseCases(MemoryStore())
    earlier = msgspec.msgpack.encode(msgspec.structs.astuple(line())[:members])
    app.sandboxes.append(SANDBOX, "requests", lambda: earlier, keep=JOURNAL_LENGTH)
    [found] = (await app.control.journal.newest(SANDBOX, ListRequests(limit=2))).data
    assert (found.operation, found.fetch_site) == ("listChains", None)
    assert (found.virtual_at is None) == (members == 16)


async def test_a_burst_leaves_a_bounded_number_of_entries_to_be_encoded() -> None:
    app, times = UseCases(MemoryStore()), Counter[str]()
    burst = 3 * log_buffer.MAX_UNWRITTEN
    for number in range(burst):  # in one turn of the event loop, in which none can be written
        app.control.journal.add(f"{number}", counted(times))
    assert times.total() == burst - 2 * log_buffer.MAX_UNWRITTEN
    for sandbox in ("0", f"{burst - 1}"):
        assert len((await app.control.journal.newest(sandbox, ListRequests(limit=9))).data) == 1


async def test_a_read_encodes_the_entries_of_its_own_sandbox_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is cancelled takes none of them with it."""
    monkeypatch.setattr(scheduler, "SLICE_NS", 0)
    app, times = UseCases(MemoryStore()), Counter[str]()
    for number in range(log_buffer.MAX_UNWRITTEN):
        app.control.journal.add(f"{number % 100}", counted(times))
    cancelled = asyncio.create_task(app.control.journal.newest("7", ListRequests(limit=99)))
    while not times:
        await asyncio.sleep(0)
    cancelled.cancel()
    found = (await app.control.journal.newest("7", ListRequests(limit=99))).data
    assert len(found) == times.total() == log_buffer.MAX_UNWRITTEN // 100 + 1


async def test_keys_of_an_order_have_numbers_that_stay_and_that_servers_of_a_store_agree_on() -> None:
    store, request, keys = SharedStore(), Request("POST", "/v1/payments", {}, operation="createPayment"), []
    servers = UseCases(store), UseCases(store)
    for number, order_id, key, expected in (
        (0, "a", b"x", "1"), (0, "a", b"y", "2"), (0, "a", b"x", "1"), (0, "b", b"y", "1"),
        (1, "a", b"z", "3"), (1, "a", b"y", "2"), (0, "a", b"w", "4"), (0, "a", b"z", "3"),
    ):  # fmt: skip
        exchange = Exchange.of(request, Response(201), "req_1", 0.0)
        exchange.order_id, exchange.idempotency_key = order_id, key
        journal = servers[number].control.journal
        journal.add(SANDBOX, partial(encoded_entry, exchange, RequestLog(None), journal, SANDBOX))
        entries = (await journal.newest(SANDBOX, ListRequests(limit=1))).data
        keys.append(entries[0].key)
        assert keys[-1] == expected
    entries = (await servers[1].control.journal.newest(SANDBOX, ListRequests(limit=99))).data
    assert [entry.key for entry in reversed(entries)] == keys
    stored = await servers[1].control.journal.stored(SANDBOX, 99)
    left = await decoded(stored[-4:-1])  # of one server, when the oldest is no longer there
    assert [entry.key for entry in reversed(left)] == keys[1:4]


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

            async def append(self, *logs: LogEntries) -> None:
                if self.fails:
                    raise PaymockError("store_unavailable")
                await super().append(*logs)

        store = Failing()
        journal = UseCases(store).control.journal
        journal.add(SANDBOX, encoded(line()))
        assert (await journal.newest(SANDBOX, ListRequests(limit=9))).data == []
        store.fails = False
        journal.add(SANDBOX, encoded(line()))
        assert len((await journal.newest(SANDBOX, ListRequests(limit=9))).data) == 1
