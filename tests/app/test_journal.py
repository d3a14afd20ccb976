"""The journal of a sandbox."""

import msgspec
import pytest
from msgspec.structs import replace

from paymock.app import journal
from paymock.stores.memory import MemoryStore
from tests.support.use_cases import SANDBOX, UseCases, line
from tests.support.virtual_time import run


def test_the_last_requests_come_first_as_they_were_added() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        added = [line() for _ in range(3)]
        for entry in added:
            await app.control.journal.add(SANDBOX, entry)
        newest = (await app.control.journal.newest(SANDBOX, 2)).data
        assert [entry.request_id for entry in newest] == [added[2].request_id, added[1].request_id]
        assert (newest[0].method, newest[0].path, newest[0].status) == ("GET", "/v1/chains", 200)

    run(check())


def test_the_requests_about_one_payment_are_found_behind_others() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        for payment_id in ("pay_one", "pay_other", "pay_one", None, None):
            await app.control.journal.add(SANDBOX, replace(line(), payment_id=payment_id))
        for limit, number in ((1, 1), (9, 2)):
            found = (await app.control.journal.newest(SANDBOX, limit, "pay_one")).data
            assert [entry.payment_id for entry in found] == ["pay_one"] * number

    run(check())


def test_an_entry_of_an_earlier_version_has_no_virtual_time() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        earlier = msgspec.msgpack.encode(msgspec.structs.astuple(line())[:-1])
        await app.sandboxes.append(SANDBOX, "requests", earlier, keep=journal.LENGTH)
        [found] = (await app.control.journal.newest(SANDBOX, 2)).data
        assert (found.operation, found.virtual_at) == ("listChains", None)

    run(check())


def test_a_full_journal_forgets_its_oldest_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "LENGTH", 2)

    async def check() -> None:
        app = UseCases(MemoryStore())
        added = [line() for _ in range(3)]
        for entry in added:
            await app.control.journal.add(SANDBOX, entry)
        kept = (await app.control.journal.newest(SANDBOX, 9)).data
        assert [entry.request_id for entry in kept] == [added[2].request_id, added[1].request_id]

    run(check())


def test_the_mark_differs_after_each_request_and_is_none_when_the_journal_is_empty() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        marks = [await app.control.journal.mark(SANDBOX)]
        for _ in range(2):
            await app.control.journal.add(SANDBOX, line())
            marks.append(await app.control.journal.mark(SANDBOX))
        assert len(set(marks)) == 3
        await app.control.journal.clear(SANDBOX)
        assert await app.control.journal.mark(SANDBOX) is marks[0] is None
        assert (await app.control.journal.newest(SANDBOX, 9)).data == []

    run(check())
