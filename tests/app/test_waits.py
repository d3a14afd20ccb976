"""Waiting for an order, for the requests of the application, and until it has observed a change."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from msgspec import UNSET

from paymock.app import waits
from paymock.http.requests import Request
from paymock.payments.timelines import RenderedPayment
from paymock.rules.errors import PaymockError
from paymock.rules.faults import parse_fault
from paymock.rules.scenarios import PaymentStatus
from paymock.sandbox.metadata import new_metadata
from paymock.schemas.control import (
    Advance,
    AdvancePayment,
    ObservedPayment,
    OrderWaitResult,
    RequestWaitResult,
    WaitForOrder,
    WaitForPayment,
    WaitForRequests,
    WaitResult,
)
from paymock.stores.base import Change, Store
from paymock.stores.memory import MemoryStore
from paymock.web.responses import OperationResponse
from paymock.web.telemetry.access_log import RequestLog
from paymock.web.telemetry.exchange import Exchange
from paymock.web.telemetry.journal_entry import encoded_entry
from tests.support.clock import NOON
from tests.support.specification import COURSES
from tests.support.stores import LateStore, SharedStore, TellingStore
from tests.support.use_cases import SANDBOX, UseCases, encoded, line, refusal

LOG = RequestLog(None)
ORDER = "order-1001"


async def read(app: UseCases, payment_id: str, fault: str = "") -> RenderedPayment:
    payment = await app.service.payment(SANDBOX, payment_id)
    request = Request("GET", "/v1/payments/x", {}, operation="getPayment")
    response = OperationResponse(200, payment=payment, fault=parse_fault(fault))
    exchange = Exchange.of(request, response, line().request_id, 0.0)
    exchange.answered_at = app.clock()
    app.control.journal.add(SANDBOX, partial(encoded_entry, exchange, LOG, app.control.journal, SANDBOX))
    return payment


def order_wait(
    app: UseCases, status: str | None = None, timeout: float = 30, order_id: str = ORDER
) -> asyncio.Task[OrderWaitResult]:
    wanted = WaitForOrder(
        order_id=order_id, status=PaymentStatus(status) if status else None, timeout=timeout
    )
    return asyncio.create_task(app.control.waits.order(SANDBOX, wanted))


def payment_wait(
    app: UseCases, payment_id: str, status: str = "payment_detected"
) -> asyncio.Task[WaitResult]:
    wanted = WaitForPayment(status=PaymentStatus(status), timeout=30)
    return asyncio.create_task(app.control.waits.payment(SANDBOX, payment_id, wanted))


def requests_wait(
    app: UseCases, count: int, timeout: float = 60, **wanted: Any
) -> asyncio.Task[RequestWaitResult]:
    query = WaitForRequests(count=count, timeout=timeout, **wanted)
    return asyncio.create_task(app.control.waits.requests(SANDBOX, query))


async def advance(app: UseCases, payment_id: str, **body: Any) -> ObservedPayment:
    result = await app.control.advance_payment(
        SANDBOX, payment_id, AdvancePayment(until_observed=True, **body)
    )
    assert isinstance(result, ObservedPayment)
    return result


async def advance_while_polled(
    app: UseCases, payment_id: str, pause: float, faults: Iterable[str] = (), **body: Any
) -> tuple[ObservedPayment, list[tuple[str, int]]]:
    """Advances while an application polls the payment; also returns the statuses that it saw, with times."""
    seen: list[tuple[str, int]] = []
    upcoming = iter(faults)

    async def poll() -> None:
        while True:
            await asyncio.sleep(pause)
            fault = next(upcoming, "")
            payment = await read(app, payment_id, fault)
            if not fault and seen[-1:] != [(payment.status, payment.at)]:
                seen.append((payment.status, payment.at))

    polling = asyncio.create_task(poll())
    result = await advance(app, payment_id, **body)
    polling.cancel()
    return result, seen


@pytest.mark.parametrize("scenario", COURSES)
@pytest.mark.parametrize("store", [MemoryStore, SharedStore])
async def test_a_poller_of_any_pace_sees_every_change_in_order(scenario: str, store: type[Store]) -> None:
    for pause in (0.001, 0.05, 0.2):
        app = UseCases(store())
        payment, _ = await app.create(scenario=scenario)
        visible = (await app.control.payment(SANDBOX, payment.id)).timeline
        expected = [(entry.status, round(entry.offset_seconds * 1000)) for entry in visible]
        result, seen = await advance_while_polled(app, payment.id, pause, to="end")
        assert result.observed
        assert seen == [*{at: (status, at) for status, at in expected}.values()][1:]
        assert result.payment.status == expected[-1][0]


async def test_a_reply_that_got_a_fault_shows_nothing_and_a_late_one_does() -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create()
    faults = ("status=503; after", "drop", "truncate=5", "delay=5; after")
    result, _ = await advance_while_polled(app, payment.id, 0.1, faults, to="payment_detected")
    assert result.observed
    assert asyncio.get_running_loop().time() == pytest.approx(0.4)


async def test_time_stands_at_the_change_that_nobody_has_read() -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create()
    result = await advance(app, payment.id, to="completed", timeout=7)
    assert asyncio.get_running_loop().time() == pytest.approx(7)
    assert (result.observed, result.payment.status) == (False, "payment_detected")
    detail = await app.control.payment(SANDBOX, payment.id)
    assert [entry.offset_seconds for entry in detail.timeline if entry.reached][-1] == 5


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
async def test_an_observed_advance_goes_as_far(body: dict[str, Any], status: str, age: float) -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create()
    result, _ = await advance_while_polled(app, payment.id, 0.01, **body)
    assert (result.observed, result.payment.status) == (True, status)
    detail = await app.control.payment(SANDBOX, payment.id)
    assert detail.now == f"2030-01-31T12:00:{age:02}.000Z"
    if body == {"to": "end"}:
        assert (await advance(app, payment.id, **body)).observed  # nothing is left to observe


async def test_a_reset_ends_a_wait_and_an_observed_advance() -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create()
    other, _ = await app.create("order-1002-payment")
    waiting = payment_wait(app, other.id), asyncio.create_task(advance(app, payment.id, to="end"))
    await asyncio.sleep(1)
    await app.control.reset(SANDBOX)
    assert [(await refusal(one)).kind.code for one in waiting] == ["payment_not_found"] * 2
    assert asyncio.get_running_loop().time() < 2


@pytest.mark.parametrize("store", [MemoryStore, SharedStore])
async def test_a_wait_for_an_order_begins_before_its_payment_exists(store: type[Store]) -> None:
    app = UseCases(store())
    for number in range(40):  # more than one page of other orders
        await app.create(key=f"other-order-{number}", order_id=f"{ORDER}-{number}")
    waiting = order_wait(app, "payment_detected")
    created = order_wait(app)
    await asyncio.sleep(1)
    assert not waiting.done()
    payment, _ = await app.create()
    for exists in (await created, await order_wait(app, timeout=0)):
        assert (exists.reached, exists.payment and exists.payment.id) == (True, payment.id)
    await app.control.advance_payment(SANDBOX, payment.id, AdvancePayment(to="payment_detected"))
    result = await waiting
    assert (result.reached, result.payment and result.payment.status) == (True, "payment_detected")


async def test_a_wait_for_an_order_goes_by_its_newest_payment() -> None:
    app = UseCases(MemoryStore())
    first, _ = await app.create(key="first-payment", scenario="no_payment_expired")
    waiting = order_wait(app, "payment_detected")
    await asyncio.sleep(1)
    second, _ = await app.create(key="second-payment")
    await asyncio.sleep(1)
    await app.control.advance_payment(SANDBOX, second.id, AdvancePayment(to="payment_detected"))
    newest = (await waiting).payment
    assert newest
    assert newest.id == second.id
    await app.control.advance_payment(SANDBOX, first.id, AdvancePayment(to="expired"))
    expired = await order_wait(app, "expired", timeout=0)
    assert (expired.reached, expired.payment) == (False, newest)


async def test_a_wait_for_an_order_survives_a_reset() -> None:
    app = UseCases(MemoryStore())
    await app.create(key="before-the-reset")
    waiting = order_wait(app, "completed")
    await asyncio.sleep(1)
    await app.control.reset(SANDBOX)
    await asyncio.sleep(1)
    payment, _ = await app.create(key="after-the-reset")
    await app.control.advance_payment(SANDBOX, payment.id, AdvancePayment(to="completed"))
    result = (await waiting).payment
    assert result
    assert result.id == payment.id


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({}, 3),
        ({"operation": "getPayment"}, 2),
        ({"order_id": ORDER}, 2),
        ({"shown": "awaiting_payment"}, 1),
        ({"payment_id": "pay_other"}, 0),
        ({"operation": "listChains", "order_id": ORDER}, 0),
    ],
)
async def test_a_wait_for_requests_counts_those_that_match(wanted: dict[str, Any], count: int) -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create()
    await read(app, payment.id)
    await read(app, payment.id, "drop")
    app.control.journal.add(SANDBOX, encoded(line()))
    found = await requests_wait(app, count or 1, timeout=1, **wanted)
    assert (found.reached, len(found.data)) == (bool(count), count)
    assert not (await requests_wait(app, count + 1, timeout=1, **wanted)).reached


async def test_a_wait_for_requests_after_the_given_one_ends_with_the_last_of_them() -> None:
    app = UseCases(SharedStore())
    entries = [line() for _ in range(43)]
    for entry in entries[:2]:
        app.control.journal.add(SANDBOX, encoded(entry))
    after = entries[2].request_id  # not recorded yet
    waiting = requests_wait(app, 40, after=after, timeout=30)
    for entry in entries[2:]:
        await asyncio.sleep(0.1)
        assert not waiting.done()
        app.control.journal.add(SANDBOX, encoded(entry))
    found = await waiting
    assert found.reached
    assert [entry.request_id for entry in found.data] == [entry.request_id for entry in entries[:2:-1]]


@pytest.mark.parametrize(
    ("store", "timeout", "seconds", "found"),
    [(MemoryStore, 0, 0, 2), (SharedStore, 30, 1, 2), (SharedStore, 0.5, 0.5, 0), (SharedStore, 0, 0, 0)],
)
async def test_a_request_that_was_cleared_counts_as_passed_and_leaves_a_gap(
    store: type[Store], timeout: float, seconds: float, found: int
) -> None:
    """On a shared store, once another process cannot be about to record it any more, and not before."""
    app = UseCases(store())
    entries = [line() for _ in range(3)]
    app.control.journal.add(SANDBOX, encoded(entries[0]))
    await app.control.journal.clear(SANDBOX)
    for entry in entries[1:]:
        app.control.journal.add(SANDBOX, encoded(entry))
    after = entries[0].request_id
    reply = await requests_wait(app, 2, after=after, timeout=timeout)
    ids = [entry.request_id for entry in entries[:0:-1]]
    assert [entry.request_id for entry in reply.data] == ids[:found]
    assert asyncio.get_running_loop().time() == pytest.approx(seconds, abs=0.1)
    assert reply.gap is True
    assert (await requests_wait(app, 1, after=entries[1].request_id, timeout=0)).gap is UNSET


async def test_a_wait_counts_each_entry_of_a_full_or_cleared_journal_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waits, "_LIMITS", (16, 32))
    app = UseCases(MemoryStore())
    app.control.journal.length = 32
    counted: list[str] = []
    waiting = requests_wait(app, 86)
    for number in (1, 20, 32, 40, 1):
        await asyncio.sleep(1)
        assert not waiting.done()
        if number == 1:
            await app.control.journal.clear(SANDBOX)
        new = [line() for _ in range(number)]
        for entry in new:
            app.control.journal.add(SANDBOX, encoded(entry))
        counted += [entry.request_id for entry in new[-32:]]
    assert [entry.request_id for entry in (await waiting).data] == counted[::-1]


@pytest.mark.parametrize("store", [MemoryStore, SharedStore])
async def test_many_waits_for_requests_read_the_journal_as_often_as_one(store: type[Store]) -> None:
    """Once at each of 8 changes, whatever request they begin after, and not again while nothing changes."""
    reads: list[int] = []

    class CountingStore(store):  # type: ignore[valid-type, misc]
        async def tail(self, sandbox: str, log: str, limit: int) -> list[bytes]:
            entries: list[bytes] = await super().tail(sandbox, log, limit)
            reads.extend([len(entries)] * (sandbox == SANDBOX))
            return entries

    app = UseCases(CountingStore())
    known = [line() for _ in range(40)]
    for entry in known:
        app.control.journal.add(SANDBOX, encoded(entry))
    afters = (None, known[-1].request_id, "unknown")
    waiting = [requests_wait(app, 1, after=after, order_id=ORDER) for after in afters * 30]
    for _ in range(8):
        await asyncio.sleep(3)
        app.control.journal.add(SANDBOX, encoded(line()))
    await asyncio.sleep(3)
    buffered = store is SharedStore  # a change, too, while the unknown request may still come
    assert reads == [16, 40, *[16, 40] * buffered, *[16] * 8]
    payment, _ = await app.create()
    await read(app, payment.id)
    assert all(found.reached and len(found.data) == 1 for found in await asyncio.gather(*waiting))
    assert asyncio.get_running_loop().time() < 30


async def test_a_failure_of_the_store_ends_a_wait_for_requests() -> None:
    class FailingStore(MemoryStore):
        async def tail(self, sandbox: str, log: str, limit: int) -> list[bytes]:
            raise PaymockError("store_unavailable")

    assert (await refusal(requests_wait(UseCases(FailingStore()), 1))).kind.code == "store_unavailable"


async def test_many_waits_for_orders_look_for_new_payments_as_often_as_one() -> None:
    """And not at all for the payments of their orders, unless there is one."""

    class CountingStore(SharedStore):
        async def page(
            self, sandbox: str, kind: str, *, limit: int, before: int | None = None
        ) -> list[tuple[int, bytes]]:
            await self._step("page")
            return await super().page(sandbox, kind, limit=limit, before=before)

    store = CountingStore()
    app = UseCases(store)
    waiting = [order_wait(app, timeout=60, order_id=f"order-{number}") for number in range(50)]
    await asyncio.sleep(1)
    store.steps.clear()
    for number in range(8):
        await app.create(key=f"other-order-{number}", order_id=f"other-{number}")
        app.control.journal.add(SANDBOX, encoded(line()))
        await asyncio.sleep(1)
    assert Counter(store.steps) == {"add": 8, "page": 8 * 2}
    for number in range(60):  # more than one page
        await app.create(key=f"own-order-{number}", order_id=f"order-{number}")
    assert all(found.reached for found in await asyncio.gather(*waiting))


async def test_a_wait_reads_its_payment_again_only_when_that_may_have_changed() -> None:
    """What is added to the sandbox, and changes elsewhere, cost it nothing, whichever process makes them."""
    store = TellingStore()
    app, other = UseCases(store), UseCases(store)
    payment, _ = await app.create()
    waiting = payment_wait(app, payment.id)
    await asyncio.sleep(1)
    store.steps.clear()
    await app.create("order-1002-payment")
    app.control.journal.add(SANDBOX, encoded(line()))
    await app.control.journal.clear(SANDBOX)
    store.told.put_nowait(Change(SANDBOX, minor=True))
    store.told.put_nowait(Change("another"))
    await asyncio.sleep(1)
    assert store.steps == ["add"]
    await other.control.advance(SANDBOX, Advance(seconds=5))
    store.told.put_nowait(Change(SANDBOX))
    async with asyncio.timeout(5):
        assert (await waiting).reached


async def test_waits_that_end_together_let_others_in_between() -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create()
    ends = [payment_wait(app, payment.id) for _ in range(100)]
    await asyncio.sleep(1)
    await app.control.advance(SANDBOX, Advance(seconds=5))
    counts = [0]
    while counts[-1] < len(ends):
        await asyncio.sleep(0)
        counts.append(sum(end.done() for end in ends))
    assert max(later - earlier for earlier, later in pairwise(counts)) <= 20


async def test_a_change_by_another_process_ends_a_wait_even_after_the_store_has_failed_once() -> None:
    store = TellingStore()
    one, other = UseCases(store), UseCases(store)
    payment, _ = await one.create()
    waiting = payment_wait(one, payment.id)
    await other.control.advance(SANDBOX, Advance(seconds=5))
    store.told.put_nowait(Change(SANDBOX))
    assert (await waiting).reached


async def test_no_change_is_missed_while_the_store_answers() -> None:
    store = LateStore()
    app = UseCases(store)
    payment, _ = await app.create()
    waiting = payment_wait(app, payment.id)
    await asyncio.sleep(1)
    store.holding = True
    app.sandboxes.notifier.notify(SANDBOX)
    await store.held.wait()
    await app.control.advance(SANDBOX, Advance(seconds=5))
    store.let_go.set()
    assert (await waiting).reached


async def test_after_the_machine_was_suspended_a_wait_ends_soon() -> None:
    """The clock of the event loop stands still meanwhile. A deposit is observed after 5 seconds."""
    app = UseCases(MemoryStore(), new_metadata(NOON, 1, "tests"))
    payment, _ = await app.create()
    waiting = payment_wait(app, payment.id)
    await asyncio.sleep(1)
    app.clock.advance(7)
    assert (await waiting).reached
    assert asyncio.get_running_loop().time() < 2


async def test_who_leaves_amid_a_change_waits_no_more() -> None:
    for turns in range(6):
        app = UseCases(SharedStore())
        payment, _ = await app.create()
        leaving = payment_wait(app, payment.id)
        await asyncio.sleep(1)
        app.sandboxes.notifier.notify(SANDBOX)
        for _ in range(turns):
            await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.wait([leaving])
        assert leaving.cancelled()
        assert app.sandboxes.notifier.subscriptions == {}


async def test_a_stop_ends_all_waits_at_once() -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create()
    waiting = (
        payment_wait(app, payment.id, "completed"),
        order_wait(app, order_id="another-order"),
        requests_wait(app, 1),
        asyncio.create_task(advance(app, payment.id, to="end", timeout=60)),
    )
    await asyncio.sleep(1)
    app.sandboxes.notifier.stop()
    await asyncio.gather(*waiting)
    assert asyncio.get_running_loop().time() < 2
