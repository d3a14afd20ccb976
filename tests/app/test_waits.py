"""Waiting for an order, for the requests of the application, and until it has observed a change."""

import asyncio
import random
from typing import Any

import pytest
from msgspec.structs import replace

from paymock.app import journal
from paymock.app.journal import JournalReader, RequestFilter
from paymock.resources.timelines import RenderedPayment
from paymock.rules.errors import PaymockError
from paymock.rules.faults import parse_fault
from paymock.schemas.control import ObservedPayment
from paymock.stores.base import Store
from paymock.stores.memory import MemoryStore
from paymock.web.http.requests import Body, Request
from paymock.web.http.responses import Response
from paymock.web.telemetry.access_log import RequestLog
from paymock.web.telemetry.journal_entry import entry_for
from tests.support.specification import COURSES
from tests.support.stores import SharedStore
from tests.support.use_cases import SANDBOX, UseCases, line
from tests.support.virtual_time import run

LOG = RequestLog(None)
ORDER = "order-1001"


async def read(app: UseCases, payment_id: str, fault: str = "") -> RenderedPayment:
    """A poll by the application, with its entry in the journal."""
    payment = await app.service.payment(SANDBOX, payment_id)
    request = Request("GET", "/v1/payments/x", {}, Body(b""), operation="getPayment")
    response = Response(200, payment=payment, fault=parse_fault(fault))
    entry = entry_for(request, response, line().request_id, app.clock(), app.clock(), 0.0, LOG)
    await app.control.journal.add(SANDBOX, entry)
    return payment


class Poller:
    """An application that polls a payment until it is told to stop, and remembers what it saw."""

    def __init__(self, app: UseCases, payment_id: str, pause: float, faults: tuple[str, ...] = ()) -> None:
        self.seen: list[tuple[str, int]] = []
        self._faults = iter(faults)
        self._task = asyncio.create_task(self._poll(app, payment_id, pause))

    async def _poll(self, app: UseCases, payment_id: str, pause: float) -> None:
        while True:
            await asyncio.sleep(pause)
            fault = next(self._faults, "")
            payment = await read(app, payment_id, fault)
            if not fault and self.seen[-1:] != [(payment.status, payment.at)]:
                self.seen.append((payment.status, payment.at))

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


async def advance(app: UseCases, payment_id: str, **body: Any) -> ObservedPayment:
    result = await app.control.advance_payment(SANDBOX, payment_id, {"until_observed": True, **body})
    assert isinstance(result, ObservedPayment)
    return result


@pytest.mark.parametrize("scenario", COURSES)
@pytest.mark.parametrize("store", [MemoryStore, SharedStore])
def test_a_poller_sees_every_change_in_order(scenario: str, store: type[Store]) -> None:
    async def check() -> None:
        app = UseCases(store())
        payment, _ = await app.create(scenario=scenario)
        visible = (await app.control.payment(SANDBOX, payment.id)).timeline
        expected = [(entry.status, round(entry.offset_seconds * 1000)) for entry in visible]
        poller = Poller(app, payment.id, 0.05)
        result = await advance(app, payment.id, to="end")
        await poller.stop()
        assert result.observed
        assert poller.seen == [*{at: (status, at) for status, at in expected}.values()][1:]
        assert result.payment.status == expected[-1][0]

    run(check())


def test_a_thousand_pollers_of_any_pace_see_every_status_in_order() -> None:
    generator = random.Random(16)  # noqa: S311 - not for secrets
    statuses = [status for _, status in COURSES["happy_path"]][1:]

    async def one(number: int) -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create(key=f"order-{number:08}")
        poller = Poller(app, payment.id, generator.uniform(0.001, 0.2))
        result = await advance(app, payment.id, to="completed")
        await poller.stop()
        assert result.observed
        assert [
            *dict.fromkeys(status for status, _ in poller.seen if status != "awaiting_payment")
        ] == statuses

    async def check() -> None:
        for batch in range(10):
            await asyncio.gather(*(one(batch * 100 + number) for number in range(100)))

    run(check())


def test_a_reply_that_got_a_fault_shows_nothing_and_a_late_one_does() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create()
        poller = Poller(app, payment.id, 0.1, ("status=503; after", "drop", "truncate=5", "delay=5; after"))
        loop = asyncio.get_running_loop()
        started = loop.time()
        result = await advance(app, payment.id, to="payment_detected")
        await poller.stop()
        assert result.observed
        assert loop.time() - started == pytest.approx(0.4)

    run(check())


def test_time_stands_at_the_change_that_nobody_has_read() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create()
        started = asyncio.get_running_loop().time()
        result = await advance(app, payment.id, to="completed", timeout=7)
        assert asyncio.get_running_loop().time() - started == pytest.approx(7)
        assert (result.observed, result.payment.status) == (False, "payment_detected")
        detail = await app.control.payment(SANDBOX, payment.id)
        assert [entry.offset_seconds for entry in detail.timeline if entry.reached][-1] == 5

    run(check())


@pytest.mark.parametrize(
    ("body", "status", "age"),
    [
        ({"to": "next"}, "payment_detected", 5),
        ({"to": "payment_finalized"}, "payment_finalized", 13),
        ({"seconds": 20}, "payment_finalized", 20),
        ({"seconds": 3}, "awaiting_payment", 3),
        ({"to": "end"}, "completed", 45),
    ],
)
def test_it_goes_as_far_as_without_an_observer(body: dict[str, Any], status: str, age: float) -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create()
        poller = Poller(app, payment.id, 0.01)
        result = await advance(app, payment.id, **body)
        await poller.stop()
        assert (result.observed, result.payment.status) == (True, status)
        detail = await app.control.payment(SANDBOX, payment.id)
        assert detail.now == f"2030-01-31T12:00:{age:02}.000Z"
        if body == {"to": "end"}:
            assert (await advance(app, payment.id, **body)).observed  # nothing is left to observe

    run(check())


def test_a_reset_ends_it() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create()
        advancing = asyncio.create_task(advance(app, payment.id, to="end"))
        await asyncio.sleep(1)
        await app.control.reset(SANDBOX)
        with pytest.raises(PaymockError) as refusal:
            await advancing
        assert refusal.value.kind.code == "payment_not_found"
        assert asyncio.get_running_loop().time() < 2

    run(check())


def test_a_deposit_on_the_way_is_observed_too() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create(scenario="no_payment_expired")
        poller = Poller(app, payment.id, 0.5)
        advancing = asyncio.create_task(advance(app, payment.id, seconds=29))
        await advancing
        await app.control.deposit(
            SANDBOX, payment.id, {"amount": payment.attempts[0].instructions.amounts.due}, None, b""
        )
        result = await advance(app, payment.id, to="payment_finalized")
        await poller.stop()
        assert result.observed
        assert [at for status, at in poller.seen if status == "payment_detected"][-3:] == [
            31_000,
            33_000,
            35_000,
        ]

    run(check())


def test_a_running_clock_that_passes_a_change_does_not_stop_the_observation() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create()
        await app.control.set_clock(SANDBOX, {"speed": 1})

        async def poll_late() -> None:
            for _ in range(9):
                await asyncio.sleep(1)
                app.clock.advance(60)
                await read(app, payment.id)

        polling = asyncio.create_task(poll_late())
        assert (await advance(app, payment.id, to="completed")).observed
        polling.cancel()

    run(check())


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"to": "end", "timeout": -1}, "timeout"),
        ({"to": "end", "until_observed": 1}, "until_observed"),
        ({"to": "end", "until_observed": True, "timeout": 61}, "timeout"),
        ({"to": "end", "seconds": 1, "until_observed": True}, "seconds"),
        ({"until_observed": True}, "seconds"),
    ],
)
def test_an_advance_that_makes_no_sense_is_refused(body: dict[str, Any], field: str) -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create()
        with pytest.raises(PaymockError) as caught:
            await app.control.advance_payment(SANDBOX, payment.id, body)
        assert list(caught.value.details or ()) == [field]

    run(check())


def test_a_status_that_does_not_lie_ahead_cannot_be_observed() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create()
        with pytest.raises(PaymockError) as caught:
            await advance(app, payment.id, to="expired")
        assert caught.value.kind.code == "status_unreachable"

    run(check())


@pytest.mark.parametrize("store", [MemoryStore, SharedStore])
def test_a_wait_for_an_order_begins_before_its_payment_exists(store: type[Store]) -> None:
    async def check() -> None:
        app = UseCases(store())
        for number in range(40):  # more than one page of other orders
            await app.create(key=f"other-order-{number}", order_id=f"{ORDER}-{number}")
        waiting = asyncio.create_task(app.control.waits.order(SANDBOX, ORDER, "payment_detected", 30))
        created = asyncio.create_task(app.control.waits.order(SANDBOX, ORDER, None, 30))
        await asyncio.sleep(1)
        assert not waiting.done()
        payment, _ = await app.create()
        exists = await created
        assert exists.payment
        assert (exists.reached, exists.payment.id) == (True, payment.id)
        await app.control.advance_payment(SANDBOX, payment.id, {"to": "payment_detected"})
        result = await waiting
        assert (result.reached, result.payment and result.payment.status) == (True, "payment_detected")

    run(check())


def test_a_wait_for_an_order_goes_by_its_newest_payment() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        first, _ = await app.create(key="first-payment", scenario="no_payment_expired")
        await app.control.advance_payment(SANDBOX, first.id, {"to": "expired"})
        waiting = asyncio.create_task(app.control.waits.order(SANDBOX, ORDER, None, 30))
        await asyncio.sleep(1)
        second, _ = await app.create(key="second-payment")
        newest = (await waiting).payment
        assert newest
        assert newest.id == second.id
        expired = await app.control.waits.order(SANDBOX, ORDER, "payment_finalized", 0)
        assert (expired.reached, expired.possible, expired.payment) == (False, True, newest)
        await app.control.advance_payment(SANDBOX, second.id, {"to": "end"})
        expired = await app.control.waits.order(SANDBOX, ORDER, "expired", 30)
        assert (expired.reached, expired.possible) == (False, False)

    run(check())


def test_a_wait_for_an_order_ends_with_its_timeout_and_survives_a_reset() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        nothing = await app.control.waits.order(SANDBOX, ORDER, "completed", 3)
        assert (nothing.reached, nothing.possible, nothing.payment) == (False, True, None)
        await app.create(key="before-the-reset")
        waiting = asyncio.create_task(app.control.waits.order(SANDBOX, ORDER, "completed", 30))
        await asyncio.sleep(1)
        await app.control.reset(SANDBOX)
        await asyncio.sleep(1)
        payment, _ = await app.create(key="after-the-reset")
        await app.control.advance_payment(SANDBOX, payment.id, {"to": "completed"})
        result = await waiting
        assert result.payment
        assert (result.reached, result.payment.id) == (True, payment.id)

    run(check())


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        (RequestFilter(), 3),
        (RequestFilter(operation="getPayment"), 2),
        (RequestFilter(order_id=ORDER), 2),
        (RequestFilter(shown="awaiting_payment"), 1),
        (RequestFilter(payment_id="pay_other"), 0),
        (RequestFilter(operation="listChains", order_id=ORDER), 0),
    ],
)
def test_a_wait_for_requests_counts_those_that_match(wanted: RequestFilter, count: int) -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create()
        await read(app, payment.id)
        await read(app, payment.id, "drop")
        await app.control.journal.add(SANDBOX, line())
        found = await app.control.waits.requests(SANDBOX, wanted, count or 1, None, 1)
        assert (found.reached, len(found.data)) == (bool(count), count)
        assert not (await app.control.waits.requests(SANDBOX, wanted, count + 1, None, 1)).reached

    run(check())


@pytest.mark.parametrize("store", [MemoryStore, SharedStore])
def test_a_wait_for_requests_ends_with_the_last_of_them(store: type[Store]) -> None:
    async def check() -> None:
        app = UseCases(store())
        payment, _ = await app.create()
        waits = app.control.waits
        waiting = asyncio.create_task(waits.requests(SANDBOX, RequestFilter("getPayment"), 40, None, 30))
        for number in range(40):
            assert not waiting.done(), number
            await read(app, payment.id)
            await asyncio.sleep(0.1)
        found = await waiting
        assert found.reached
        assert len({entry.request_id for entry in found.data}) == 40

    run(check())


def test_only_requests_after_the_given_one_count() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        entries = [line() for _ in range(4)]
        for entry in entries[:2]:
            await app.control.journal.add(SANDBOX, entry)
        after = entries[2].request_id  # not recorded yet
        waiting = asyncio.create_task(app.control.waits.requests(SANDBOX, RequestFilter(), 1, after, 30))
        for entry in entries[2:]:
            await asyncio.sleep(1)
            assert not waiting.done()
            await app.control.journal.add(SANDBOX, entry)
        assert [entry.request_id for entry in (await waiting).data] == [entries[3].request_id]

    run(check())


def test_a_reader_reads_each_entry_once_also_when_the_journal_is_full_or_cleared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "LENGTH", 32)

    async def check() -> None:
        app = UseCases(MemoryStore())
        reader = JournalReader(app.control.journal, SANDBOX)
        late = JournalReader(app.control.journal, SANDBOX, after="forgotten")
        await reader.skip()
        assert await reader.new() == await late.new() == []
        for number in (1, 20, 32, 40):
            entries = [replace(line(), duration_ms=1.0) for _ in range(number)]
            for entry in entries:
                await app.control.journal.add(SANDBOX, entry)
            assert await reader.new() == entries[-32:]
            assert await reader.new() == []
            if number == 1:
                assert await late.new() == []
        assert len(await late.new()) == 32  # the one that it waited for has been forgotten
        await app.control.journal.clear(SANDBOX)
        assert await reader.new() == []
        entry = line()
        await app.control.journal.add(SANDBOX, entry)
        assert await reader.new() == [entry]

    run(check())


def test_a_stop_ends_all_waits_at_once() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create()
        waiting = [
            asyncio.create_task(wait)
            for wait in (
                app.control.waits.order(SANDBOX, "another-order", None, 60),
                app.control.waits.requests(SANDBOX, RequestFilter(), 1, None, 60),
                advance(app, payment.id, to="end", timeout=60),
            )
        ]
        await asyncio.sleep(1)
        app.sandboxes.notifier.stop()
        await asyncio.gather(*waiting)
        assert asyncio.get_running_loop().time() < 2

    run(check())
