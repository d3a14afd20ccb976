"""What holds when other requests, or other processes, come between two steps of a use case."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paymock.app.payment_lookup import PaymentFilter
from paymock.app.sandboxes import Sandboxes, SeedMismatch, catch_up, load_metadata, new_metadata
from paymock.resources import records
from paymock.rules.errors import PaymockError
from paymock.stores.base import STATE, Change, StoreError
from paymock.stores.memory import MemoryStore
from paymock.stores.sqlite.store import SqliteStore
from tests.support.clock import NOON, ManualClock
from tests.support.loop_time import within
from tests.support.stores import SharedStore, TellingStore
from tests.support.use_cases import SANDBOX, UseCases, line
from tests.support.virtual_time import run


def test_concurrent_advances_add_up() -> None:
    async def check() -> None:
        app = UseCases(SharedStore())
        payment, _ = await app.create()
        await asyncio.gather(*(app.control.advance(SANDBOX, {"seconds": 1}) for _ in range(20)))
        assert (await app.control.clock(SANDBOX)).now == "2030-01-31T12:00:20.000Z"
        moves = (app.control.advance_payment(SANDBOX, payment.id, {"seconds": 1}) for _ in range(10))
        await asyncio.gather(*moves)
        detail = await app.control.payment(SANDBOX, payment.id)
        assert detail.now == "2030-01-31T12:00:30.000Z"

    run(check())


def test_a_creation_is_one_step_of_the_store_once_its_sandbox_is_known() -> None:
    async def check() -> None:
        store = SharedStore()
        app = UseCases(store)
        await app.create("order-1001-payment")
        assert store.steps == ["add"]
        await app.control.advance(SANDBOX, {"seconds": 1})
        store.steps.clear()
        await app.create("order-1002-payment")
        await app.create("order-1002-payment")
        assert store.steps == ["add", "add"]

    run(check())


def test_a_creation_goes_by_what_another_process_has_done_to_the_sandbox() -> None:
    async def check() -> None:
        store = SharedStore()
        one, other = UseCases(store), UseCases(store)
        await one.create("order-1001-payment")
        await other.control.advance(SANDBOX, {"seconds": 60})
        await other.control.overrides.add(SANDBOX, {"scenario": "no_payment_expired"})
        payment, _ = await one.create("order-1002-payment")
        assert payment.created_at == "2030-01-31T12:01:00.000Z"
        assert (await one.control.payment(SANDBOX, payment.id)).scenario == "no_payment_expired"
        assert (await one.control.overrides.pending(SANDBOX)).data == []

    run(check())


def test_a_refusal_that_depends_on_time_goes_by_the_time_of_the_sandbox() -> None:
    async def check() -> None:
        store = SharedStore()
        one, other = UseCases(store), UseCases(store)
        await one.create("order-1001-payment")
        await other.control.advance(SANDBOX, {"seconds": 60})
        with pytest.raises(PaymockError) as caught:
            await one.create("order-1002-payment", expires_at="2030-01-31T12:00:30Z")
        assert caught.value.kind.code == "validation_failed"

    run(check())


def test_of_a_creation_and_a_reset_that_meet_one_comes_first() -> None:
    """So a key never has two payments in a sandbox."""

    async def check() -> None:
        for _ in range(20):
            app = UseCases(SharedStore())
            first, *_ = await asyncio.gather(app.create(), app.control.reset(SANDBOX))
            again, replayed = await app.create()
            stored = await app.sandboxes.page(SANDBOX, "payment", limit=9)
            assert len(stored) == 1
            assert replayed == (again == first[0])

    run(check())


def test_resets_that_meet_never_bring_an_old_id_back() -> None:
    async def check() -> None:
        app = UseCases(SharedStore())
        seen = set()
        for _ in range(5):
            await asyncio.gather(app.control.reset(SANDBOX), app.control.reset(SANDBOX))
            seen.add((await app.create())[0].id)
        assert len(seen) == 5

    run(check())


def test_a_wait_misses_no_change_between_its_look_and_its_sleep() -> None:
    async def check() -> None:
        app = UseCases(SharedStore())
        payment, _ = await app.create()
        waiting = asyncio.create_task(app.control.waits.payment(SANDBOX, payment.id, "payment_detected", 30))
        for _ in range(5):
            await asyncio.sleep(0)
            await app.control.advance(SANDBOX, {"seconds": 1})
        async with asyncio.timeout(5):
            assert (await waiting).reached

    run(check())


def test_a_stop_ends_waits_at_once() -> None:
    async def check() -> None:
        app = UseCases(SharedStore())
        payment, _ = await app.create()
        waiting = asyncio.create_task(app.control.waits.payment(SANDBOX, payment.id, "completed", 30))
        await asyncio.sleep(0.01)
        app.sandboxes.notifier.stop()
        async with asyncio.timeout(5):
            result = await waiting
        assert (result.reached, result.possible) == (False, True)

    run(check())


def test_a_wait_is_told_of_what_other_processes_do_even_after_the_store_has_failed() -> None:
    async def check() -> None:
        store = TellingStore()
        one, other = UseCases(store), UseCases(store)
        payment, _ = await one.create()
        waiting = asyncio.create_task(one.control.waits.payment(SANDBOX, payment.id, "payment_detected", 30))
        await asyncio.sleep(0.01)
        await other.control.advance(SANDBOX, {"seconds": 5})
        store.told.put_nowait(Change(SANDBOX))
        async with asyncio.timeout(5):
            assert (await waiting).reached

    run(check())


def test_a_slower_clock_begins_when_every_process_knows_of_it() -> None:
    """With a store on which a change takes time, nobody sees later times before it than after it."""

    async def check() -> None:
        store = SharedStore()
        store.propagation_ms = 20
        origin = new_metadata(NOON, 10_000, "tests")
        one, other = UseCases(store, origin), UseCases(store, origin)
        setting = asyncio.create_task(one.control.set_clock(SANDBOX, {"speed": 0}))
        for app in (one, other):
            app.clock.advance(0.010)  # while the change is on its way
        seen = (await other.control.clock(SANDBOX)).now
        for app in (one, other):
            await asyncio.sleep(0)
            app.clock.advance(0.020)
        async with asyncio.timeout(5):
            frozen = await setting
        assert seen <= frozen.now == (await other.control.clock(SANDBOX)).now

    run(check())


def test_a_deposit_is_observed_when_every_process_knows_of_it() -> None:
    async def check() -> None:
        store = SharedStore()
        store.propagation_ms = 20
        app = UseCases(store, new_metadata(NOON, 1, "tests"))
        payment, _ = await app.create()
        making = asyncio.create_task(app.control.deposit(SANDBOX, payment.id, {"amount": "1"}, None, b""))
        while not making.done():
            await asyncio.sleep(0.001)
            app.clock.advance(0.001)
        made, _ = await making
        assert (made.attempts[0].deposits or [])[0].observed_at == "2030-01-31T12:00:00.020Z"

    run(check())


def test_no_time_comes_after_the_year_9999() -> None:
    async def check() -> None:
        app = UseCases(SharedStore(), new_metadata(NOON, 10_000, "tests"))
        early, _ = await app.create("order-1001-payment")
        app.clock.advance(10**9)
        assert (await app.control.clock(SANDBOX)).now == "9999-12-31T23:59:59.999Z"
        late, _ = await app.create("order-1002-payment", expires_at=None)
        for move in (
            app.control.advance(SANDBOX, {"seconds": 1}),
            app.control.advance_payment(SANDBOX, early.id, {"seconds": 1}),
        ):
            with pytest.raises(PaymockError) as caught:
                await move
            assert caught.value.details == {"seconds": "leads beyond 9999-12-31T23:59:59.999Z"}
        assert b'"status":"completed"' in (await app.service.payment(SANDBOX, early.id)).json
        assert (await app.control.payment(SANDBOX, late.id)).timeline[-1].at == "9999-12-31T23:59:59.999Z"

    run(check())


class ForgettingStore(SharedStore):
    """Loses everything, as an engine does that keeps nothing on disk and starts again."""

    def lose_everything(self) -> None:
        self._sandboxes.clear()
        self.connections += 1


def test_an_engine_that_lost_everything_leaves_all_processes_with_one_origin() -> None:
    async def check() -> None:
        store = ForgettingStore()
        origin = await load_metadata(store, NOON, 0, None)
        one, other = UseCases(store, origin), UseCases(store, origin)
        await one.create()
        store.lose_everything()
        created, replayed = await other.create()
        assert not replayed
        newcomer = UseCases(store, await load_metadata(store, NOON, 0, None))
        for app in (one, newcomer):
            assert await app.create() == (created, True)

    run(check())


def test_a_newcomer_on_an_engine_that_lost_everything_is_followed() -> None:
    async def check() -> None:
        store = ForgettingStore()
        one = UseCases(store, await load_metadata(store, NOON, 0, None))
        await one.create()
        store.lose_everything()
        newcomer = UseCases(store, await load_metadata(store, NOON, 0, None))
        created, _ = await newcomer.create()
        assert await one.create() == (created, True)

    run(check())


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
def test_a_store_that_reconnects_and_fails_is_asked_once_a_request(requests: int) -> None:
    async def check() -> None:
        store = ReconnectingStore()
        store.broken = False
        app = UseCases(store)
        payment, _ = await app.create()
        store.broken = True
        store.connections += 1
        store.steps.clear()
        for _ in range(3):
            reads = (app.service.payment(SANDBOX, payment.id) for _ in range(requests))
            for outcome in await asyncio.gather(*reads, return_exceptions=True):
                assert isinstance(outcome, PaymockError)
                assert outcome.kind.code == "store_unavailable"
        assert len(store.steps) == 3
        with pytest.raises(PaymockError):
            await app.create("order-1002-payment")
        store.broken = False
        assert await app.create() == (payment, True)

    run(check())


def test_a_file_that_is_damaged_while_it_is_used_fails_every_request(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    def damage() -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        content = bytearray(path.read_bytes())
        content[4096:] = b"\xff" * (len(content) - 4096)
        path.write_bytes(content)

    async def check() -> None:
        store = SqliteStore(path)
        await store.initialize()
        sandboxes = Sandboxes(store, ManualClock(), await load_metadata(store, NOON, 0, None))
        await sandboxes.append(SANDBOX, "log", b"entry", keep=9)
        damage()
        for _ in range(5):
            for step in (sandboxes.snapshot(SANDBOX), sandboxes.tail(SANDBOX, "log", 9), sandboxes.ping()):
                async with within(20):
                    with pytest.raises(PaymockError) as caught:
                        await step
                assert caught.value.kind.code == "store_unavailable"
        await sandboxes.close()

    asyncio.run(check())


def test_a_damaged_record_is_an_error_of_the_store() -> None:
    async def check() -> None:
        store = SharedStore()
        app = UseCases(store)
        payment, _ = await app.create()
        values = store._sandboxes[SANDBOX].values
        [token] = values
        values[token] = b"\xff" + values[token][1:]
        for request in (app.service.payment(SANDBOX, payment.id), app.create()):
            with pytest.raises(PaymockError) as caught:
                await request
            assert caught.value.kind.code == "store_unavailable"

    run(check())


def test_no_request_goes_on_before_the_metadata_is_verified() -> None:
    """Concurrent requests wait for the one verification, or ids would depend on the secret that is gone."""

    async def check() -> None:
        store = ForgettingStore()
        one = UseCases(store, await load_metadata(store, NOON, 0, None))
        await one.create()
        store.lose_everything()
        newcomer = UseCases(store, await load_metadata(store, NOON, 0, None))
        created, _ = await newcomer.create()
        assert await asyncio.gather(*(one.create() for _ in range(5))) == [(created, True)] * 5

    run(check())


def test_a_late_reply_of_the_store_does_not_show_later_times() -> None:
    class SlowStore(SharedStore):
        async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
            values = await super().get(sandbox, *keys)
            app.clock.advance(0.2)
            return values

    app = UseCases(SlowStore(), new_metadata(NOON, 10_000, "tests"))
    assert run(app.control.clock(SANDBOX)).now == "2030-01-31T12:00:00.000Z"


class TestOrigin:
    def origin(self, store: MemoryStore, now: int = NOON, speed: float = 1, seed: str | None = None) -> Any:
        return run(load_metadata(store, now, speed, seed))

    def test_it_is_found_again(self) -> None:
        store = MemoryStore()
        first = self.origin(store)
        assert self.origin(store, NOON + 5000) == first

    def test_the_same_seed_gives_the_same_and_another_is_refused(self) -> None:
        store = MemoryStore()
        first = self.origin(store, seed="one")
        assert self.origin(store, seed="one") == self.origin(store) == first
        assert self.origin(MemoryStore(), seed="one").secret == first.secret
        with pytest.raises(SeedMismatch):
            self.origin(store, seed="two")

    @pytest.mark.parametrize("record_format", [records.RECORD_FORMAT - 1, records.RECORD_FORMAT + 1])
    def test_that_of_another_version_is_refused(self, record_format: int) -> None:
        store, origin = MemoryStore(), new_metadata(NOON, 1, None)
        other = records.encode(msgspec.structs.replace(origin, format=record_format))
        run(store.replace("origin", STATE, None, other, expected_state=None))
        with pytest.raises(
            StoreError, match=rf"another version .* \(format {record_format}, not {records.RECORD_FORMAT}\)"
        ):
            self.origin(store)

    def test_another_speed_counts_from_now_on(self) -> None:
        store = MemoryStore()
        self.origin(store, speed=60)
        slower = self.origin(store, NOON + 1000, speed=1).clock
        assert slower.at(NOON + 1000) == NOON + 60_000
        assert slower.at(NOON + 2000) == NOON + 61_000


class TestServersWhoseClocksDiffer:
    """Two servers on one store, or one server before and after a restart."""

    @pytest.mark.parametrize("behind", [0.02, 300])
    def test_nothing_is_younger_than_new(self, behind: float) -> None:
        async def check() -> None:
            store = SharedStore()
            origin = new_metadata(NOON, 1, "tests")
            ahead, app = UseCases(store, origin), UseCases(store, origin)
            ahead.clock.advance(behind)
            payment, _ = await ahead.create()
            await ahead.control.deposit(SANDBOX, payment.id, {"amount": "1"}, "deposit-1001", b"")
            detail = await app.control.payment(SANDBOX, payment.id)
            assert detail.payment.status == "payment_detected"
            [listed] = (await app.control.payments(SANDBOX, PaymentFilter(), 9, None)).data
            assert listed.age_seconds == 0
            assert (await app.checkouts.show(payment.id)).checkout.seconds_left == 30
            assert (app.clock.warned > 0) == (behind > 1)  # less is drift

        run(check())

    def test_payments_of_before_a_reset_are_no_reason_to_warn(self) -> None:
        class ResetBetween(SharedStore):
            """Another server resets the sandbox right after a list is read."""

            async def page(
                self, sandbox: str, kind: str, *, limit: int, before: int | None = None
            ) -> list[tuple[int, bytes]]:
                page = await super().page(sandbox, kind, limit=limit, before=before)
                await other.control.reset(sandbox)
                return page

        async def check() -> None:
            await app.control.advance(SANDBOX, {"seconds": 3600})
            await app.create()
            await app.control.payments(SANDBOX, PaymentFilter(), 9, None)
            assert not app.clock.warned

        store = ResetBetween()
        origin = new_metadata(NOON, 1, "tests")
        app, other = UseCases(store, origin), UseCases(store, origin)
        run(check())

    def test_a_server_that_is_behind_catches_up_when_it_reads(self) -> None:
        async def check() -> None:
            store = SharedStore()
            origin = new_metadata(NOON, 1, "tests")
            ahead, app = UseCases(store, origin), UseCases(store, origin)
            ahead.clock.advance(300)
            payment, _ = await ahead.create()
            await ahead.sandboxes.close()
            await app.control.payment(SANDBOX, payment.id)
            assert app.clock.now == ahead.clock.now

        run(check())

    def test_after_a_restart_with_an_earlier_clock_no_payment_and_no_clock_goes_back(self) -> None:
        async def check() -> None:
            store = SharedStore()
            origin = new_metadata(NOON, 1, "tests")
            before = UseCases(store, origin)
            payment, _ = await before.create()
            before.clock.advance(3600)
            shown = await before.control.payment(SANDBOX, payment.id)
            now = (await before.control.clock(SANDBOX)).now
            await before.sandboxes.close()
            after = UseCases(store, origin)
            await catch_up(store, after.clock)
            assert await after.control.payment(SANDBOX, payment.id) == shown
            assert (await after.control.clock(SANDBOX)).now == now

        run(check())

    def test_a_stop_notes_the_time_right_after_another_note(self) -> None:
        async def check() -> None:
            store = SharedStore()
            origin = new_metadata(NOON, 10, "tests")
            before = UseCases(store, origin)
            await before.control.journal.add(SANDBOX, line())
            await asyncio.sleep(0.1)
            before.clock.advance(0.3)
            now = (await before.control.clock(SANDBOX)).now
            await before.sandboxes.close()
            after = UseCases(store, origin)
            await catch_up(store, after.clock)
            assert (await after.control.clock(SANDBOX)).now == now

        run(check())

    def test_requests_tell_the_time_to_other_servers(self) -> None:
        async def check() -> None:
            store = SharedStore()
            origin = new_metadata(NOON, 1, "tests")
            ahead, app = UseCases(store, origin), UseCases(store, origin)
            ahead.clock.advance(300)
            for server in (ahead, app):
                await server.control.journal.add(SANDBOX, line())
                await asyncio.sleep(0.1)
            assert app.clock.now == ahead.clock.now

        run(check())

    @pytest.mark.parametrize("speed", [0, 1, 10])
    def test_a_speed_that_another_server_has_set_later_is_changed_at_once(self, speed: float) -> None:
        async def check() -> None:
            store = SharedStore()
            origin = new_metadata(NOON, 1, "tests")
            ahead, app = UseCases(store, origin), UseCases(store, origin)
            ahead.clock.advance(300)
            before = await ahead.control.set_clock(SANDBOX, {"speed": 5})
            async with asyncio.timeout(1):
                after = await app.control.set_clock(SANDBOX, {"speed": speed})
            assert after.now >= before.now

        run(check())
