"""What the followers of a sandbox and of a checkout are told, when, and how that ends."""

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from paymock.app import feed
from paymock.payments.checkout import Checkout
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import sandbox_of
from paymock.rules.scenarios import SCENARIOS
from paymock.sandbox import notifier
from paymock.sandbox.notifier import MIN_GAP_SECONDS
from paymock.sandbox.sandboxes import new_metadata
from paymock.schemas.control import Advance, AdvancePayment, MakeDeposit, SandboxChanged, SetClock, SetNext
from paymock.stores.base import Change
from paymock.stores.memory import MemoryStore
from tests.support.clock import NOON
from tests.support.stores import LateStore, SharedStore, TellingStore
from tests.support.use_cases import SANDBOX, SOON, UseCases, encoded, line

GAP = 0.02
"""The least number of seconds between two observations, in these tests."""

T = TypeVar("T")

FOLLOWED: dict[str, Callable[[UseCases, str], AsyncGenerator[Any, None]]] = {
    "sandbox": lambda app, _: app.control.feed.follow(SANDBOX),
    "checkout": lambda app, payment_id: app.checkouts.follow(payment_id),
}
each_followed = pytest.mark.parametrize("followed", FOLLOWED)


@pytest.fixture(autouse=True)
def short_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MIN_GAP_SECONDS", GAP)


@asynccontextmanager
async def after_the_first(told: AsyncGenerator[T, None]) -> AsyncIterator[AsyncGenerator[T, None]]:
    async with aclosing(told), asyncio.timeout(SOON):
        await anext(told)
        yield told


@asynccontextmanager
async def following(app: UseCases, followed: str) -> AsyncIterator[AsyncGenerator[Any, None]]:
    """What is told after the beginning of a sandbox, or of the checkout of a new payment."""
    payment, _ = await app.create()
    async with after_the_first(FOLLOWED[followed](app, payment.id)) as told:
        yield told


async def nothing_comes(told: AsyncGenerator[object, None]) -> None:
    """Asserts that nothing is told for longer than the gap, and gives up."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(told), 10 * GAP)


def now(told: SandboxChanged | Checkout) -> str:
    return told.clock.now if isinstance(told, SandboxChanged) else told.now


class TestEither:
    """A sandbox and a checkout alike."""

    @each_followed
    @pytest.mark.parametrize("scenario", SCENARIOS)
    async def test_each_scripted_change_is_told_when_it_comes(self, followed: str, scenario: str) -> None:
        app = UseCases(MemoryStore(), new_metadata(NOON, 1000, "tests"))
        payment, _ = await app.create(scenario=scenario)
        timeline = (await app.control.payment(SANDBOX, payment.id)).timeline
        async with after_the_first(FOLLOWED[followed](app, payment.id)) as told:
            for before, entry in pairwise(timeline):
                app.clock.advance((entry.offset_seconds - before.offset_seconds) / 1000)
                assert now(await anext(told)) == entry.at
            await nothing_comes(told)

    @each_followed
    async def test_a_change_by_another_process_is_told(self, followed: str) -> None:
        """Even after the store has failed once."""
        store = TellingStore()
        one, other = UseCases(store), UseCases(store)
        async with following(one, followed) as told:
            await other.control.advance(SANDBOX, Advance(seconds=5))
            store.told.put_nowait(Change(SANDBOX))
            assert now(await anext(told)) == "2030-01-31T12:00:05.000Z"

    @each_followed
    async def test_no_change_is_missed_while_the_store_answers(self, followed: str) -> None:
        store = LateStore()
        app = UseCases(store)
        async with following(app, followed) as told:
            coming = asyncio.create_task(anext(told))
            store.holding = True
            await asyncio.sleep(0)
            app.sandboxes.notifier.notify(SANDBOX)
            await store.held.wait()
            await app.control.advance(SANDBOX, Advance(seconds=5))
            store.let_go.set()
            assert now(await coming) == "2030-01-31T12:00:05.000Z"

    @each_followed
    async def test_the_time_is_told_now_and_then(
        self, monkeypatch: pytest.MonkeyPatch, followed: str
    ) -> None:
        monkeypatch.setattr(notifier, "RESYNC_SECONDS", 0.05)
        app = UseCases(MemoryStore(), new_metadata(NOON, 1, "tests"))
        async with following(app, followed) as told:
            for second in range(1, 4):
                app.clock.advance(1)
                assert now(await anext(told)) == f"2030-01-31T12:00:0{second}.000Z"

    @each_followed
    async def test_after_the_machine_was_suspended_a_change_is_told_soon(self, followed: str) -> None:
        """The clock of the event loop stands still meanwhile. A deposit is observed after 5 seconds."""
        app = UseCases(MemoryStore(), new_metadata(NOON, 1, "tests"))
        async with following(app, followed) as told:
            coming = asyncio.ensure_future(anext(told))
            await asyncio.sleep(MIN_GAP_SECONDS * 2)
            app.clock.advance(7)
            async with asyncio.timeout(1):
                await coming

    @each_followed
    async def test_a_stop_of_the_server_ends_it(self, followed: str) -> None:
        app = UseCases(MemoryStore())
        async with following(app, followed) as told:
            app.sandboxes.notifier.stop()
            assert [one async for one in told] == []
        assert app.sandboxes.notifier.subscriptions == {}

    @each_followed
    async def test_a_failure_of_the_store_ends_it(self, followed: str) -> None:
        store = FailingStore()
        app = UseCases(store)
        async with following(app, followed) as told:
            store.failing = True
            app.sandboxes.notifier.notify(None)
            with suppress(PaymockError):
                assert [one async for one in told] == []
            assert app.sandboxes.notifier.subscriptions == {}

    @each_followed
    async def test_who_leaves_amid_a_change_is_not_followed_any_more(self, followed: str) -> None:
        for turns in range(6):
            app = UseCases(SharedStore())
            async with following(app, followed) as told:
                leaving = asyncio.create_task(anext(told))
                await asyncio.sleep(2 * GAP)
                app.sandboxes.notifier.notify(SANDBOX)
                for _ in range(turns):
                    await asyncio.sleep(0)
                leaving.cancel()
                await asyncio.wait([leaving], timeout=1)
                assert leaving.cancelled()
                assert app.sandboxes.notifier.subscriptions == {}


class FailingStore(LateStore):
    """Fails to read when it is `failing`."""

    failing = False

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        values = await super().get(sandbox, *keys)
        if self.failing:
            raise PaymockError("store_unavailable")
        return values


async def note_request(app: UseCases) -> None:
    app.control.journal.add(SANDBOX, encoded(line()))


STEPS: dict[str, tuple[Callable[[UseCases, str], Awaitable[object]], str]] = {
    "a payment is created": (lambda app, _: app.create("order-1002-payment"), "payments"),
    "a deposit is made": (
        lambda app, payment_id: app.control.deposit(SANDBOX, payment_id, MakeDeposit(amount="1")),
        "payments",
    ),
    "a payment is moved ahead": (
        lambda app, payment_id: app.control.advance_payment(SANDBOX, payment_id, AdvancePayment(to="next")),
        "payments",
    ),
    "the sandbox is moved ahead": (
        lambda app, _: app.control.advance(SANDBOX, Advance(seconds=1)),
        "payments",
    ),
    "the speed is changed": (lambda app, _: app.control.set_clock(SANDBOX, SetClock(speed=9)), "payments"),
    "something is pending": (
        lambda app, _: app.control.overrides.add(SANDBOX, SetNext(fault="drop")),
        "payments",
    ),
    "the sandbox is reset": (lambda app, _: app.control.reset(SANDBOX), "both"),
    "a request is noted": (lambda app, _: note_request(app), "requests"),
    "the journal is emptied": (lambda app, _: app.control.journal.clear(SANDBOX), "requests"),
}


class TestSandbox:
    @pytest.mark.parametrize("step", STEPS)
    async def test_a_change_is_told_with_what_to_read_again(self, step: str) -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create()
        app.control.journal.add(SANDBOX, encoded(line()))
        async with after_the_first(app.control.feed.follow(SANDBOX)) as notices:
            do, changed = STEPS[step]
            await do(app, payment.id)
            told = ["payments", "requests"] if changed == "both" else [changed]
            assert (await anext(notices)).changed == told
            await nothing_comes(notices)

    async def test_additions_of_another_process_are_told(self) -> None:
        store = TellingStore()
        store.failures = 0
        one, other = UseCases(store), UseCases(store)
        async with after_the_first(one.control.feed.follow(SANDBOX)) as notices:
            await other.create()
            store.told.put_nowait(Change(SANDBOX, minor=True))
            assert (await anext(notices)).changed == ["payments"]

    @pytest.mark.parametrize("named", ["", "pay_unknown", f"we_{'a' * 40}", "the older one"])
    async def test_an_older_payment_is_followed_when_named(
        self, monkeypatch: pytest.MonkeyPatch, named: str
    ) -> None:
        """The scripted deposit of the older one comes after 5 ms; nothing of the newest for 30."""
        monkeypatch.setattr(feed, "NEWEST", 1)
        app = UseCases(MemoryStore(), new_metadata(NOON, 1000, "tests"))
        old, _ = await app.create("order-1001-payment")
        await app.create("order-1002-payment", "no_payment_expired")
        ids = {"the older one": old.id}
        async with after_the_first(app.control.feed.follow(SANDBOX, ids.get(named, named))) as notices:
            app.clock.advance(0.005)
            if named in ids:
                assert (await anext(notices)).changed == ["payments"]
            else:
                await nothing_comes(notices)

    async def test_many_creations_are_told_in_few_notices(self) -> None:
        app = UseCases(SharedStore())
        async with after_the_first(app.control.feed.follow(SANDBOX)) as notices:
            loop = asyncio.get_running_loop()
            began, notified = loop.time(), 0
            creating = asyncio.gather(*(app.create(f"order-{number:04d}-payment") for number in range(100)))
            creating.add_done_callback(lambda _: loop.call_later(5 * GAP, app.sandboxes.notifier.stop))
            async for notice in notices:
                assert notice.changed == ["payments"]
                notified += 1
            assert 1 <= notified <= (loop.time() - began) / GAP + 1

    async def test_a_later_follower_is_told_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(feed, "MIN_GAP_SECONDS", 60)
        app = UseCases(MemoryStore())
        async with after_the_first(app.control.feed.follow(SANDBOX)):
            await app.control.advance(SANDBOX, Advance(seconds=1))
            async with aclosing(app.control.feed.follow(SANDBOX)) as notices:
                assert (await anext(notices)).clock.now == "2030-01-31T12:00:01.000Z"

    async def test_a_stop_does_not_wait_for_the_gap(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(feed, "MIN_GAP_SECONDS", 60)
        app = UseCases(MemoryStore())
        async with after_the_first(app.control.feed.follow(SANDBOX)) as notices:
            coming = asyncio.create_task(anext(notices, None))
            await app.create()
            await asyncio.sleep(0.01)
            app.sandboxes.notifier.stop()
            await coming
            assert [notice async for notice in notices] == []

    async def test_a_failure_of_the_store_after_the_last_follower_has_left_is_not_logged(self) -> None:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))
        store = FailingStore()
        app = UseCases(store)
        async with after_the_first(app.control.feed.follow(SANDBOX)) as notices:
            store.holding = store.failing = True
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


class TestCheckout:
    async def test_no_event_comes_when_nothing_changes_for_this_customer(self) -> None:
        app = UseCases(SharedStore())
        payment, _ = await app.create()
        async with after_the_first(app.checkouts.follow(payment.id)) as events:
            other, _ = await app.create("order-1002-payment")
            await app.control.advance_payment(SANDBOX, other.id, AdvancePayment(to="end"))
            await app.control.overrides.add(SANDBOX, SetNext(scenario="late_payment"))
            await app.control.advance(sandbox_of("mk_test_other"), Advance(seconds=60))
            app.sandboxes.notifier.notify(None)
            await nothing_comes(events)
