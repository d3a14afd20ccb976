"""What those are told who follow a checkout."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise

import pytest

from paymock.app import notifier
from paymock.app.sandboxes import new_metadata
from paymock.resources.checkout import Checkout
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import sandbox_of
from paymock.rules.scenarios import SCENARIOS
from paymock.stores.base import Change
from paymock.stores.memory import MemoryStore
from tests.support.clock import NOON
from tests.support.stores import LateStore, SharedStore, TellingStore
from tests.support.use_cases import SANDBOX, SOON, UseCases, leave_amid_a_change
from tests.support.views import SHOWN
from tests.support.virtual_time import run

Events = AsyncGenerator[Checkout, None]


@asynccontextmanager
async def following(app: UseCases, payment_id: str) -> AsyncIterator[Events]:
    """The events after the one at the beginning."""
    async with aclosing(app.checkouts.follow(payment_id)) as events, asyncio.timeout(SOON):
        assert (await anext(events)).view == "pay"
        yield events


async def nothing_comes(events: Events) -> None:
    """Asserts that no event comes for a while, and gives the events up."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(events), 0.2)


class TestEvents:
    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_one_comes_at_each_scripted_change(self, scenario: str) -> None:
        async def check() -> None:
            app = UseCases(MemoryStore(), new_metadata(NOON, 1000, "tests"))
            payment, _ = await app.create(scenario=scenario)
            timeline = (await app.control.payment(SANDBOX, payment.id)).timeline
            async with following(app, payment.id) as events:
                seen = [SHOWN[scenario][0]]
                for before, entry in pairwise(timeline):
                    app.clock.advance((entry.offset_seconds - before.offset_seconds) / 1000)
                    event = await anext(events)
                    assert (event.now, event.status) == (entry.at, entry.status)
                    if (event.view, event.headline) != seen[-1][1:3]:
                        seen.append((round(entry.offset_seconds), event.view, event.headline, event.final))
                assert seen == SHOWN[scenario]
                await nothing_comes(events)

        run(check())

    def test_one_comes_at_each_change_that_somebody_makes(self) -> None:
        async def check() -> None:
            app = UseCases(SharedStore())
            payment, _ = await app.create(scenario="no_payment_expired")
            control = app.control
            async with following(app, payment.id) as events:
                await control.deposit(SANDBOX, payment.id, {"amount": "505000000000000000"}, None, b"")
                assert (await anext(events)).missing.tokens == "0.505"
                await control.advance(SANDBOX, {"seconds": 9})
                assert (await anext(events)).headline == "A part has arrived"
                await control.advance_payment(SANDBOX, payment.id, {"seconds": 1.5})
                assert (await anext(events)).seconds_left == 19.5
                await control.set_clock(SANDBOX, {"speed": 60})
                assert (await anext(events)).speed == 60
                await nothing_comes(events)

        run(check())

    def test_none_comes_when_nothing_changes_for_this_customer(self) -> None:
        async def check() -> None:
            app = UseCases(SharedStore())
            payment, _ = await app.create()
            async with following(app, payment.id) as events:
                other, _ = await app.create("order-1002-payment")
                await app.control.advance_payment(SANDBOX, other.id, {"to": "end"})
                await app.control.overrides.add(SANDBOX, {"scenario": "late_payment"})
                await app.control.advance(sandbox_of("mk_test_other"), {"seconds": 60})
                app.sandboxes.notifier.notify(None)
                await nothing_comes(events)

        run(check())

    def test_a_change_costs_one_look(self) -> None:
        async def check() -> None:
            store = SharedStore()
            app = UseCases(store)
            payment, _ = await app.create()
            async with following(app, payment.id) as events:
                await app.control.advance(SANDBOX, {"seconds": 1})
                assert (await anext(events)).seconds_left == 29
                store.steps.clear()
                await nothing_comes(events)
                assert store.steps in ([], ["get"])

        run(check())

    def test_what_another_process_does_is_told_too(self) -> None:
        async def check() -> None:
            store = TellingStore()
            one, other = UseCases(store), UseCases(store)
            payment, _ = await other.create()
            async with following(one, payment.id) as events:
                await other.control.advance(SANDBOX, {"seconds": 5})
                store.told.put_nowait(Change(SANDBOX))
                assert (await anext(events)).view == "detected"

        run(check())

    def test_no_change_is_missed_while_the_store_answers(self) -> None:
        async def check() -> None:
            store = LateStore()
            app = UseCases(store)
            payment, _ = await app.create()
            async with following(app, payment.id) as events:
                coming = asyncio.create_task(anext(events))
                store.holding = True
                await asyncio.sleep(0)
                app.sandboxes.notifier.notify(SANDBOX)
                await store.held.wait()
                await app.control.advance(SANDBOX, {"seconds": 5})
                store.let_go.set()
                assert (await coming).view == "detected"

        run(check())

    def test_the_time_is_told_now_and_then_though_nothing_changes(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(notifier, "RESYNC_SECONDS", 0.05)

        async def check() -> None:
            app = UseCases(MemoryStore(), new_metadata(NOON, 1, "tests"))
            payment, _ = await app.create()
            async with following(app, payment.id) as events:
                for second in range(1, 4):
                    app.clock.advance(1)
                    assert (await anext(events)).seconds_left == 30 - second

        run(check())

    def test_they_end_when_the_payment_is_forgotten(self) -> None:
        async def check() -> None:
            app = UseCases(SharedStore())
            payment, _ = await app.create()
            async with following(app, payment.id) as events:
                await app.control.reset(SANDBOX)
                assert [event async for event in events] == []
            assert app.sandboxes.notifier.subscribers == 0

        run(check())

    def test_they_end_when_the_server_stops(self) -> None:
        async def check() -> None:
            app = UseCases(SharedStore())
            payment, _ = await app.create()
            async with following(app, payment.id) as events:
                app.sandboxes.notifier.stop()
                assert [event async for event in events] == []
            assert app.sandboxes.notifier.subscribers == 0

        run(check())

    def test_they_end_when_the_store_is_gone(self) -> None:
        class FailingStore(MemoryStore):
            failing = False

            async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
                if self.failing:
                    raise PaymockError("store_unavailable")
                return await super().get(sandbox, *keys)

        async def check() -> None:
            store = FailingStore()
            app = UseCases(store)
            payment, _ = await app.create()
            async with following(app, payment.id) as events:
                store.failing = True
                app.sandboxes.notifier.notify(None)
                assert [event async for event in events] == []
                assert app.sandboxes.notifier.subscribers == 0
            with pytest.raises(PaymockError) as caught:
                await anext(app.checkouts.follow(payment.id))
            assert caught.value.kind.code == "store_unavailable"
            assert app.sandboxes.notifier.subscribers == 0

        run(check())

    @pytest.mark.parametrize("turns", range(6))
    def test_a_customer_who_leaves_just_when_something_changes_is_not_followed_any_more(
        self, turns: int
    ) -> None:
        async def check() -> None:
            app = UseCases(SharedStore())
            payment, _ = await app.create()
            async with following(app, payment.id) as events:
                await leave_amid_a_change(app, events, after=0.01, turns=turns)
                assert app.sandboxes.notifier.subscribers == 0

        run(check())
