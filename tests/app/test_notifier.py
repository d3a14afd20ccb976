"""Who is woken by a change of a sandbox, and who is not."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from paymock.app.notifier import MIN_GAP_SECONDS
from paymock.app.sandboxes import new_metadata
from paymock.rules.identifiers import sandbox_of
from paymock.stores.base import Change
from paymock.stores.memory import MemoryStore
from paymock.stores.sqlite.store import SqliteStore
from tests.support.clock import NOON
from tests.support.loop_time import within
from tests.support.stores import TellingStore
from tests.support.use_cases import SANDBOX, SOON, UseCases, line
from tests.support.virtual_time import run

ADDITIONS: dict[str, Callable[[UseCases], Awaitable[object]]] = {
    "a payment is created": lambda app: app.create("order-1002-payment"),
    "a request is noted": lambda app: app.control.journal.add(SANDBOX, line()),
    "the journal is emptied": lambda app: app.control.journal.clear(SANDBOX),
}
"""What changes no payment that anybody may wait for."""


@pytest.mark.parametrize("step", ADDITIONS)
def test_what_is_merely_added_wakes_those_who_follow_and_nobody_who_waits(step: str) -> None:
    """Of the waits of a sandbox, however many, none reads its payment again."""

    async def check() -> None:
        app = UseCases(MemoryStore())
        await app.create()
        with (
            app.sandboxes.notifier.subscribe(SANDBOX) as wait,
            app.sandboxes.notifier.subscribe(SANDBOX, additions=True) as follow,
        ):
            await ADDITIONS[step](app)
            assert (wait.is_set(), follow.is_set()) == (False, True)
            await app.control.advance(SANDBOX, {"seconds": 1})
            assert wait.is_set()

    run(check())


def test_what_another_process_merely_adds_wakes_nobody_who_waits() -> None:
    async def check() -> None:
        store = TellingStore()
        store.failures = 0
        app = UseCases(store)
        with (
            app.sandboxes.notifier.subscribe(SANDBOX) as wait,
            app.sandboxes.notifier.subscribe(SANDBOX, additions=True) as follow,
        ):
            async with asyncio.timeout(SOON):
                store.told.put_nowait(Change(SANDBOX, minor=True))
                await follow.wait()
                assert not wait.is_set()
                store.told.put_nowait(Change(SANDBOX))
                await wait.wait()

    run(check())


async def wait_for_detection(app: UseCases, payment_id: str) -> None:
    assert (await app.control.waits.payment(SANDBOX, payment_id, "payment_detected", 60)).reached


async def follow_checkout(app: UseCases, payment_id: str) -> None:
    async with aclosing(app.checkouts.follow(payment_id)) as checkouts:
        async for checkout in checkouts:
            if checkout.status == "payment_detected":
                return


async def follow_sandbox(app: UseCases, payment_id: str) -> None:
    async with aclosing(app.control.feed.follow(SANDBOX)) as notices:
        await anext(notices)
        await anext(notices)


@pytest.mark.parametrize("sleep", [wait_for_detection, follow_checkout, follow_sandbox])
def test_who_waits_is_woken_within_a_second_after_the_machine_was_suspended(
    sleep: Callable[[UseCases, str], Awaitable[None]],
) -> None:
    """The clock of the event loop stands still meanwhile. A deposit is observed 5 s after the creation."""

    async def check() -> None:
        app = UseCases(MemoryStore(), new_metadata(NOON, 1, "tests"))
        payment, _ = await app.create()
        sleeping = asyncio.ensure_future(sleep(app, payment.id))
        await asyncio.sleep(MIN_GAP_SECONDS * 2)
        assert not sleeping.done()
        app.clock.advance(7)
        async with asyncio.timeout(1):
            await sleeping

    run(check())


class CountingStore(SqliteStore):
    """Counts the reads of a sandbox."""

    reads = 0

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        self.reads += sandbox == SANDBOX
        return await super().get(sandbox, *keys)


def test_waits_read_nothing_until_their_sandbox_changes_in_a_file_that_processes_share(
    tmp_path: Path,
) -> None:
    """Changes elsewhere, by the same process and by another one, wake none of them."""
    store, elsewhere = CountingStore(tmp_path / "store.db"), sandbox_of("mk_test_elsewhere")

    async def check() -> None:
        await store.initialize()
        app, other = UseCases(store), UseCases(SqliteStore(tmp_path / "store.db"))
        payment, _ = await app.create()
        waits = [
            asyncio.create_task(app.control.waits.payment(SANDBOX, payment.id, "completed", 60))
            for _ in range(50)
        ]
        with app.sandboxes.notifier.subscribe(elsewhere) as changed:

            async def change_elsewhere() -> None:
                """Return when this process has learned what the other one did last."""
                await app.control.advance(elsewhere, {"seconds": 1})
                await app.control.journal.add(elsewhere, line())
                await other.control.journal.add(SANDBOX, line())
                changed.clear()
                await other.control.advance(elsewhere, {"seconds": 1})
                await changed.wait()

            await change_elsewhere()  # the waits have begun
            before = store.reads
            for _ in range(3):
                await change_elsewhere()
            assert store.reads == before
        await other.control.advance(SANDBOX, {"seconds": 45})
        assert all([(await wait).reached for wait in waits])
        assert store.reads == before + len(waits)
        await app.sandboxes.close()
        await other.sandboxes.close()

    async def main() -> None:
        async with within(30):
            await check()

    asyncio.run(main())
