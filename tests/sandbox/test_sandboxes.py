"""What holds when other requests, or other processes, come between two steps of a use case."""

import asyncio
from typing import Any
from unittest import mock

import msgspec
import pytest

from paymock.payments import records
from paymock.payments.records import SandboxRecord
from paymock.rules.clock import ClockSetting
from paymock.rules.errors import PaymockError
from paymock.sandbox.clock import synchronize
from paymock.sandbox.metadata import SeedMismatch, load_metadata, new_metadata
from paymock.schemas.control import Advance, AdvancePayment, ListPayments, MakeDeposit, SetClock, SetNext
from paymock.stores.base import SANDBOX_RECORD, StoreError
from paymock.stores.memory import MemoryStore
from tests.support.clock import NOON
from tests.support.stores import SharedStore
from tests.support.use_cases import SANDBOX, UseCases, keyed, refusal


async def test_concurrent_advances_add_up() -> None:
    app = UseCases(SharedStore())
    payment, _ = await app.create()
    await asyncio.gather(*(app.control.advance(SANDBOX, Advance(seconds=1)) for _ in range(20)))
    assert (await app.control.clock(SANDBOX)).now == "2030-01-31T12:00:20.000Z"
    moves = (app.control.advance_payment(SANDBOX, payment.id, AdvancePayment(seconds=1)) for _ in range(10))
    await asyncio.gather(*moves)
    detail = await app.control.payment(SANDBOX, payment.id)
    assert detail.now == "2030-01-31T12:00:30.000Z"


async def test_a_creation_is_one_step_of_the_store_once_its_sandbox_is_known() -> None:
    store = SharedStore()
    app = UseCases(store)
    await app.create("order-1001-payment")
    assert store.steps == ["add"]
    await app.control.advance(SANDBOX, Advance(seconds=1))
    store.steps.clear()
    await app.create("order-1002-payment")
    await app.create("order-1002-payment")
    assert store.steps == ["add", "add", "get"]


async def test_a_creation_goes_by_what_another_process_has_done_to_the_sandbox() -> None:
    store = SharedStore()
    one, other = UseCases(store), UseCases(store)
    await one.create("order-1001-payment")
    await other.control.advance(SANDBOX, Advance(seconds=60))
    await other.control.overrides.add(SANDBOX, SetNext(scenario="no_payment_expired"))
    expired = one.create("order-1002-payment", expires_at="2030-01-31T12:00:30Z")
    one.clock.advance(30)  # past by the clock of the system, and, as the other knows, by that of the sandbox
    assert (await refusal(expired)).kind.code == "validation_failed"
    payment, _ = await one.create("order-1002-payment")
    assert payment.created_at == "2030-01-31T12:01:00.000Z"
    assert (await one.control.payment(SANDBOX, payment.id)).scenario == "no_payment_expired"
    assert (await one.control.overrides.pending(SANDBOX)).data == []


async def test_of_a_creation_and_a_reset_that_meet_one_comes_first() -> None:
    """So a key never has two payments in a sandbox."""
    for _ in range(20):
        app = UseCases(SharedStore())
        first, *_ = await asyncio.gather(app.create(), app.control.reset(SANDBOX))
        again, replayed = await app.create()
        stored = await app.sandboxes.page(SANDBOX, "payment", limit=9)
        assert len(stored) == 1
        assert replayed == (again == first[0])


async def test_resets_that_meet_never_bring_an_old_id_back() -> None:
    app = UseCases(SharedStore())
    seen = set()
    for _ in range(5):
        await asyncio.gather(app.control.reset(SANDBOX), app.control.reset(SANDBOX))
        seen.add((await app.create())[0].id)
    assert len(seen) == 5


async def test_a_sandbox_goes_by_the_clock_in_its_record_others_by_that_of_the_store() -> None:
    """Version 0.3 stored one with the first change of each sandbox, if it was started with `--now`."""
    app = UseCases(store := MemoryStore())
    begun = records.encode(SandboxRecord(clock=ClockSetting(NOON, NOON - 86_400_000, 1)))
    await store.replace(SANDBOX, SANDBOX_RECORD, None, begun, expected_state=None)
    app.clock.advance(5)
    assert (await app.create())[0].created_at == "2030-01-30T12:00:05.000Z"
    await app.control.reset(SANDBOX)
    for sandbox in (SANDBOX, "another"):
        assert (await app.control.clock(sandbox)).now == "2030-01-31T12:00:00.000Z"


async def test_a_slower_clock_begins_when_every_process_knows_of_it() -> None:
    """With a store on which a change takes time, nobody sees later times before it than after it."""
    store = SharedStore()
    store.propagation_ms = 20
    origin = new_metadata(NOON, 10_000, "tests")
    one, other = UseCases(store, origin), UseCases(store, origin)
    setting = asyncio.create_task(one.control.set_clock(SANDBOX, SetClock(speed=0)))
    for app in (one, other):
        app.clock.advance(0.010)  # while the change is on its way
    seen = (await other.control.clock(SANDBOX)).now
    for app in (one, other):
        await asyncio.sleep(0)
        app.clock.advance(0.020)
    async with asyncio.timeout(5):
        frozen = await setting
    assert seen <= frozen.now == (await other.control.clock(SANDBOX)).now


async def test_a_deposit_is_observed_when_every_process_knows_of_it() -> None:
    store = SharedStore()
    store.propagation_ms = 20
    app = UseCases(store, new_metadata(NOON, 1, "tests"))
    payment, _ = await app.create()
    making = asyncio.create_task(app.control.deposit(SANDBOX, payment.id, MakeDeposit(amount="1")))
    while not making.done():
        await asyncio.sleep(0.001)
        app.clock.advance(0.001)
    made, _ = await making
    assert (made.attempts[0].deposits or [])[0].observed_at == "2030-01-31T12:00:00.020Z"


async def test_no_time_comes_after_the_year_9999() -> None:
    app = UseCases(SharedStore(), new_metadata(NOON, 10_000, "tests"))
    early, _ = await app.create("order-1001-payment")
    app.clock.advance(10**9)
    assert (await app.control.clock(SANDBOX)).now == "9999-12-31T23:59:59.999Z"
    late, _ = await app.create("order-1002-payment", expires_at=None)
    for move in (
        app.control.advance(SANDBOX, Advance(seconds=1)),
        app.control.advance_payment(SANDBOX, early.id, AdvancePayment(seconds=1)),
    ):
        assert (await refusal(move)).details == {"seconds": "would lead beyond 9999-12-31T23:59:59.999Z"}
    assert b'"status":"completed"' in (await app.service.payment(SANDBOX, early.id)).json
    assert (await app.control.payment(SANDBOX, late.id)).timeline[-1].at == "9999-12-31T23:59:59.999Z"


class ForgettingStore(SharedStore):
    """Loses everything, as an engine does that keeps nothing on disk and starts again."""

    def lose_everything(self) -> None:
        self._sandboxes.clear()
        self.connections += 1


async def test_an_engine_that_lost_everything_leaves_all_processes_with_one_origin() -> None:
    """Concurrent requests wait for the one verification, or ids would depend on the secret that is gone."""
    store = ForgettingStore()
    origin = await load_metadata(store, NOON, 0, None)
    one, other = UseCases(store, origin), UseCases(store, origin)
    await one.create()
    store.lose_everything()
    newcomer = UseCases(store, await load_metadata(store, NOON, 0, None))
    created, replayed = await newcomer.create()
    assert not replayed
    assert await asyncio.gather(*(one.create() for _ in range(5))) == [(created, True)] * 5
    assert await other.create() == (created, True)


class ReconnectingStore(SharedStore):
    """Opens a connection for each step while it is `broken`, and then fails."""

    broken = True

    async def _step(self, name: str) -> None:
        await super()._step(name)
        if self.broken:
            assert len(self.steps) < 1_000, "the store is asked without end"
            self.connections += 1
            raise PaymockError("store_unavailable")


@pytest.mark.parametrize("requests", [1, 20])
async def test_a_store_that_reconnects_and_fails_is_asked_once_a_request(requests: int) -> None:
    store = ReconnectingStore()
    store.broken = False
    app = UseCases(store)
    payment, _ = await app.create()
    store.broken = True
    store.connections += 1
    store.steps.clear()
    for _ in range(3):
        reads = (refusal(app.service.payment(SANDBOX, payment.id)) for _ in range(requests))
        assert {error.kind.code for error in await asyncio.gather(*reads)} == {"store_unavailable"}
    assert len(store.steps) == 3
    await refusal(app.create("order-1002-payment"))
    store.broken = False
    assert await app.create() == (payment, True)


async def test_a_damaged_record_is_an_error_of_the_store() -> None:
    store = SharedStore()
    app = UseCases(store)
    payment, _ = await app.create()
    values = store._sandboxes[SANDBOX].values
    token = payment.id.removeprefix("pay_")
    values[token] = b"\xff" + values[token][1:]
    for request in (app.service.payment(SANDBOX, payment.id), app.create()):
        assert (await refusal(request)).kind.code == "store_unavailable"


async def test_a_late_reply_of_the_store_does_not_show_later_times() -> None:
    class SlowStore(SharedStore):
        async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
            values = await super().get(sandbox, *keys)
            app.clock.advance(0.2)
            return values

    app = UseCases(SlowStore(), new_metadata(NOON, 10_000, "tests"))
    assert (await app.control.clock(SANDBOX)).now == "2030-01-31T12:00:00.000Z"


class TestMetadata:
    async def test_the_same_seed_gives_the_same_and_another_is_refused(self) -> None:
        store = MemoryStore()
        first = await load_metadata(store, NOON, 1, "one")
        for seed in ("one", None):
            assert await load_metadata(store, NOON, 1, seed) == first
        assert (await load_metadata(MemoryStore(), NOON, 1, "one")).secret == first.secret
        with pytest.raises(SeedMismatch):
            await load_metadata(store, NOON, 1, "two")

    async def test_that_of_another_version_is_not_taken_over_while_the_server_runs(self) -> None:
        """Another version has started on a store that lost its data."""
        store = SharedStore()
        app = UseCases(store)
        other = msgspec.structs.replace(new_metadata(NOON, 1, None), format=records.RECORD_FORMAT + 1)
        await store.replace("origin", SANDBOX_RECORD, None, records.encode(other), expected_state=None)
        store.connections = 1
        assert "which this version cannot read" in (await refusal(app.create())).message

    async def test_another_speed_counts_from_now_on(self) -> None:
        store = MemoryStore()
        await load_metadata(store, NOON, 60, None)
        slower = (await load_metadata(store, NOON + 1000, 1, None)).clock
        assert slower.at(NOON + 1000) == NOON + 60_000
        assert slower.at(NOON + 2000) == NOON + 61_000
        assert (await load_metadata(store, NOON - 5000, 60, None)).clock.speed == 60  # by an earlier clock

    async def test_processes_that_start_at_once_agree(self) -> None:
        store = SharedStore()
        speeds = (1, 60, 1, 60, 10)
        started = await asyncio.gather(*(load_metadata(store, NOON, speed, None) for speed in speeds))
        assert len({metadata.secret for metadata in started}) == 1

    async def test_a_store_that_cannot_be_written_to_is_refused(self) -> None:
        class ReadOnlyStore(SharedStore):
            async def replace(self, *args: Any, **options: Any) -> bool:
                raise PaymockError("store_unavailable", "it is read-only")

        with pytest.raises(PaymockError, match="read-only"):
            await load_metadata(ReadOnlyStore(), NOON, 1, None)


class TestServersWhoseClocksDiffer:
    """Two servers on one store, or one server before and after a restart."""

    def servers(
        self, ahead_seconds: float = 0, store: SharedStore | None = None
    ) -> tuple[UseCases, UseCases]:
        store, metadata = store or SharedStore(), new_metadata(NOON, 1, "tests")
        ahead, behind = UseCases(store, metadata), UseCases(store, metadata)
        ahead.clock.advance(ahead_seconds)
        return ahead, behind

    @pytest.mark.parametrize("seconds", [0.02, 50])
    async def test_a_payment_from_the_future_is_awaited(self, seconds: float) -> None:
        ahead, behind = self.servers(seconds)
        payment, _ = await ahead.create()
        detail = await behind.control.payment(SANDBOX, payment.id)
        assert detail.payment.status == "awaiting_payment"
        await ahead.control.deposit(
            SANDBOX, payment.id, MakeDeposit(amount="1"), request=keyed("deposit-1001")
        )
        [listed] = (await behind.control.payments(SANDBOX, ListPayments(limit=9))).data
        assert listed.age_seconds == 0
        assert (await behind.checkouts.show(payment.id)).checkout.seconds_left == 30
        assert await behind.create() == (payment, True)
        await behind.control.deposit(
            SANDBOX, payment.id, MakeDeposit(amount="1"), request=keyed("deposit-1002")
        )
        for _ in range(2):
            assert (await behind.control.payment(SANDBOX, payment.id)).payment.status == "payment_detected"
            behind.clock.advance(seconds)

    @pytest.mark.parametrize("seconds", [0.5, 30])
    async def test_a_clock_that_a_server_ahead_has_changed_runs_on_at_one_behind(
        self, seconds: float
    ) -> None:
        ahead, behind = self.servers(seconds)
        await ahead.control.set_clock(SANDBOX, SetClock(speed=10))
        stood = (await behind.control.clock(SANDBOX)).now
        behind.clock.advance(1)
        assert (await behind.control.clock(SANDBOX)).now > stood

    @pytest.mark.parametrize(("seconds", "later"), [(-60, 60), (-0.3, 0.3), (0, 0), (60, 0)])
    async def test_a_server_goes_on_from_the_later_time_of_the_store(
        self, seconds: float, later: float
    ) -> None:
        """It takes it when it starts, and again with each connection."""
        store = SharedStore()
        server, other = self.servers(store=store)
        with mock.patch.object(SharedStore, "time", mock.AsyncMock(return_value=NOON)):
            for each in (server, other):
                each.clock.advance(seconds)
            before = server.clock.now
            await synchronize(server.clock, store)
            store.connections += 1
            await other.create()
        assert server.clock.now == other.clock.now == before + later * 1000

    async def test_the_clock_of_each_engine_is_compared_with_that_of_the_system(self) -> None:
        """Not with one that has gone on from an engine which was ahead."""
        store = SharedStore()
        server, _ = self.servers(store=store)
        for seconds in (40, -40):
            with mock.patch.object(SharedStore, "time", mock.AsyncMock(return_value=NOON + seconds * 1000)):
                await synchronize(server.clock, store)
        assert server.clock.now == NOON + 40_000

    @pytest.mark.parametrize(("seconds", "order"), [(-61, "behind"), (61, "ahead of")])
    async def test_a_clock_that_differs_from_the_store_is_refused(self, seconds: float, order: str) -> None:
        store = SharedStore()
        server, _ = self.servers(store=store)
        with mock.patch.object(SharedStore, "time", mock.AsyncMock(return_value=NOON)):
            server.clock.advance(seconds)
            message = f"the clock of this machine is 61 s {order} that of the store"
            with pytest.raises(StoreError, match=message):
                await synchronize(server.clock, store)
            store.connections += 1
            for request in (server.create(), server.control.clock(SANDBOX), server.sandboxes.ping()):
                assert message in (await refusal(request)).message
            server.clock.advance(-seconds)
            await server.create()

    @pytest.mark.parametrize("speed", [0, 1, 10])
    async def test_a_speed_that_another_server_has_set_later_is_changed_at_once(self, speed: float) -> None:
        ahead, behind = self.servers(50)
        before = await ahead.control.set_clock(SANDBOX, SetClock(speed=5))
        async with asyncio.timeout(1):
            after = await behind.control.set_clock(SANDBOX, SetClock(speed=speed))
        assert after.now >= before.now
