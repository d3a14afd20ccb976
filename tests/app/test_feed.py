"""What those are told who follow a sandbox."""

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from paymock.app import feed, notifier
from paymock.app.sandboxes import new_metadata
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import sandbox_of
from paymock.schemas.control import Notice
from paymock.stores.base import Change
from paymock.stores.memory import MemoryStore
from tests.support.clock import NOON
from tests.support.stores import LateStore, SharedStore, TellingStore
from tests.support.use_cases import SANDBOX, SOON, UseCases, leave_amid_a_change, line
from tests.support.virtual_time import run

GAP = 0.02
"""Seconds between two looks, at least, in these tests."""


Notices = AsyncGenerator[Notice, None]


Step = Callable[[UseCases], Awaitable[object]]


@pytest.fixture(autouse=True)
def short_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MIN_GAP_SECONDS", GAP)


@asynccontextmanager
async def following(app: UseCases, payment_id: str | None = None) -> AsyncIterator[Notices]:
    """The notices after the one at the beginning."""
    async with aclosing(app.control.feed.follow(SANDBOX, payment_id)) as notices, asyncio.timeout(SOON):
        assert (await anext(notices)).changed == ["payments", "requests"]
        yield notices


async def nothing_comes(notices: Notices) -> None:
    """Asserts that no notice comes for longer than the gap, and gives the notices up."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(notices), 10 * GAP)


async def create(app: UseCases) -> None:
    await app.create("order-1002-payment")


async def deposit(app: UseCases) -> None:
    payment, _ = await app.create()
    await app.control.deposit(SANDBOX, payment.id, {"amount": "1"}, None, b"")


async def move(app: UseCases) -> None:
    payment, _ = await app.create()
    await app.control.advance_payment(SANDBOX, payment.id, {"to": "next"})


STEPS: dict[str, tuple[Step, str]] = {
    "a payment is created": (create, "payments"),
    "a deposit is made": (deposit, "payments"),
    "a payment is moved ahead": (move, "payments"),
    "the sandbox is moved ahead": (lambda app: app.control.advance(SANDBOX, {"seconds": 1}), "payments"),
    "the speed is changed": (lambda app: app.control.set_clock(SANDBOX, {"speed": 9}), "payments"),
    "something is pending": (
        lambda app: app.control.overrides.add(SANDBOX, {"scenario": "late_payment"}),
        "payments",
    ),
    "a fault rule is added": (
        lambda app: app.control.fault_rules.add(SANDBOX, {"fault": "drop"}),
        "payments",
    ),
    "the sandbox is reset": (lambda app: app.control.reset(SANDBOX), "payments"),
    "a request is noted": (lambda app: app.control.journal.add(SANDBOX, line()), "requests"),
    "the journal is emptied": (lambda app: app.control.journal.clear(SANDBOX), "requests"),
}


@pytest.mark.parametrize("step", STEPS)
def test_whatever_happens_is_told_with_what_to_read_again(step: str) -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        await app.create()
        noted = step == "the journal is emptied"
        if noted:
            await app.control.journal.add(SANDBOX, line())
        async with following(app) as notices:
            do, changed = STEPS[step]
            await do(app)
            assert (await anext(notices)).changed == [changed]
            await nothing_comes(notices)

    run(check())


@pytest.mark.parametrize("step", STEPS)
def test_what_another_process_does_is_told_too(step: str) -> None:
    async def check() -> None:
        store = TellingStore()
        one, other = UseCases(store), UseCases(store)
        await other.create()
        await other.control.journal.add(SANDBOX, line())
        await other.control.journal.newest(SANDBOX, 1)  # so that it is stored
        async with following(one) as notices:
            do, changed = STEPS[step]
            await do(other)
            store.told.put_nowait(
                Change(SANDBOX, minor=step in ("a payment is created", "a request is noted"))
            )
            while changed not in (await anext(notices)).changed:
                pass  # of several steps, the first may be told alone

    run(check())


def test_what_happens_in_another_sandbox_is_not_told() -> None:
    async def check() -> None:
        app, other = UseCases(MemoryStore()), sandbox_of("mk_test_other")
        async with following(app) as notices:
            await app.control.advance(other, {"seconds": 1})
            await app.control.journal.add(other, line())
            await nothing_comes(notices)

    run(check())


def test_a_change_somewhere_in_the_store_is_no_change_here() -> None:
    async def check() -> None:
        store = TellingStore()
        app = UseCases(store)
        async with following(app) as notices:
            store.told.put_nowait(Change(None))
            await nothing_comes(notices)

    run(check())


@pytest.mark.parametrize(("named", "notified"), [(False, False), (True, True)])
def test_a_payment_beyond_the_newest_is_followed_when_it_is_named(
    monkeypatch: pytest.MonkeyPatch, *, named: bool, notified: bool
) -> None:
    """The scripted deposit of the older one comes after 5 ms; nothing of the newest for 30."""
    monkeypatch.setattr(feed, "NEWEST", 1)

    async def check() -> None:
        app = UseCases(MemoryStore(), new_metadata(NOON, 1000, "tests"))
        old, _ = await app.create("order-1001-payment")
        await app.create("order-1002-payment", "no_payment_expired")
        async with following(app, old.id if named else None) as notices:
            app.clock.advance(0.005)
            if notified:
                assert (await anext(notices)).changed == ["payments"]
            else:
                await nothing_comes(notices)

    run(check())


@pytest.mark.parametrize("payment_id", ["", "pay_unknown", f"pay_{'a' * 40}", f"we_{'a' * 40}"])
def test_the_id_of_no_payment_changes_nothing(payment_id: str) -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        async with following(app, payment_id) as notices:
            await create(app)
            assert (await anext(notices)).changed == ["payments"]

    run(check())


def test_each_scripted_change_is_told_when_it_comes() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore(), new_metadata(NOON, 1000, "tests"))
        await app.create()
        async with following(app) as notices:
            for real in (0.005, 0.002, 0.002, 0.002, 0.002, 0.012, 0.005, 0.015):
                app.clock.advance(real)
                notice = await anext(notices)
                assert notice.changed == ["payments"]
            assert notice.clock.now == "2030-01-31T12:00:45.000Z"
            await nothing_comes(notices)

    run(check())


def test_many_creations_are_told_in_few_notices() -> None:
    async def check() -> None:
        app = UseCases(SharedStore())
        async with following(app) as notices:
            loop = asyncio.get_running_loop()
            began, notified = loop.time(), 0
            creating = asyncio.gather(*(app.create(f"order-{number:04d}-payment") for number in range(100)))
            creating.add_done_callback(lambda _: loop.call_later(5 * GAP, app.sandboxes.notifier.stop))
            async for notice in notices:
                assert notice.changed == ["payments"]
                notified += 1
            assert 1 <= notified <= (loop.time() - began) / GAP + 1

    run(check())


def test_no_change_is_missed_while_the_store_answers() -> None:
    async def check() -> None:
        store = LateStore()
        app = UseCases(store)
        async with following(app) as notices:
            coming = asyncio.create_task(anext(notices))
            store.holding = True
            await asyncio.sleep(0)
            app.sandboxes.notifier.notify(SANDBOX)
            await store.held.wait()
            await app.control.advance(SANDBOX, {"seconds": 5})
            store.let_go.set()
            assert (await coming).clock.now == "2030-01-31T12:00:05.000Z"

    run(check())


def test_the_time_is_told_now_and_then_though_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "RESYNC_SECONDS", 0.05)

    async def check() -> None:
        app = UseCases(MemoryStore(), new_metadata(NOON, 1, "tests"))
        async with following(app) as notices:
            for second in range(1, 4):
                app.clock.advance(1)
                notice = await anext(notices)
                assert notice.changed == []
                assert notice.clock.now == f"2030-01-31T12:00:0{second}.000Z"
                assert notice.clock.speed == 1

    run(check())


def test_who_comes_later_is_told_at_once_what_holds_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MIN_GAP_SECONDS", 60)

    async def check() -> None:
        app = UseCases(MemoryStore())
        async with following(app):
            await app.control.advance(SANDBOX, {"seconds": 1})
            async with aclosing(app.control.feed.follow(SANDBOX)) as notices:
                assert (await anext(notices)).clock.now == "2030-01-31T12:00:01.000Z"

    run(check())


@pytest.mark.parametrize("turns", range(6))
def test_who_leaves_just_when_something_changes_is_not_followed_any_more(turns: int) -> None:
    async def check() -> None:
        app = UseCases(SharedStore())
        async with following(app) as notices:
            await leave_amid_a_change(app, notices, after=2 * GAP, turns=turns)
            assert app.sandboxes.notifier.subscribers == 0

    run(check())


def test_a_stop_does_not_wait_for_the_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MIN_GAP_SECONDS", 60)

    async def check() -> None:
        app = UseCases(MemoryStore())
        async with following(app) as notices:
            coming = asyncio.create_task(anext(notices, None))
            await create(app)
            await asyncio.sleep(0.01)
            app.sandboxes.notifier.stop()
            await coming
            assert [notice async for notice in notices] == []

    run(check())


def test_it_ends_when_the_server_stops() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        async with following(app) as notices:
            app.sandboxes.notifier.stop()
            assert [notice async for notice in notices] == []
        assert app.sandboxes.notifier.subscribers == 0

    run(check())


def test_it_ends_when_the_store_is_gone_and_nobody_is_left_behind() -> None:
    class FailingStore(MemoryStore):
        failing = False

        async def page(self, *args: Any, **options: Any) -> list[tuple[int, bytes]]:
            if self.failing:
                raise PaymockError("store_unavailable")
            return await super().page(*args, **options)

    async def check() -> None:
        store = FailingStore()
        app = UseCases(store)
        async with following(app) as notices:
            store.failing = True
            app.sandboxes.notifier.notify(None)
            with pytest.raises(PaymockError):
                await anext(notices)
            assert app.sandboxes.notifier.subscribers == 0

    run(check())


def test_who_has_left_is_not_missed_when_the_store_fails() -> None:
    class HeldStore(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.holding, self.held, self.let_go = False, asyncio.Event(), asyncio.Event()

        async def page(self, *args: Any, **options: Any) -> list[tuple[int, bytes]]:
            if self.holding:
                self.held.set()
                await self.let_go.wait()
                raise PaymockError("store_unavailable")
            return await super().page(*args, **options)

    async def check() -> None:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))
        store = HeldStore()
        app = UseCases(store)
        async with following(app) as notices:
            store.holding = True
            app.sandboxes.notifier.notify(None)
            coming = asyncio.ensure_future(anext(notices))
            await store.held.wait()
            coming.cancel()
            await asyncio.wait([coming])
            del coming  # it holds on to what it has waited for
        store.let_go.set()
        await asyncio.sleep(0.01)
        gc.collect()
        assert complaints == []

    run(check())
