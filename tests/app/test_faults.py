import asyncio
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from paymock.app.faults import MAX_RULES, RequestAttempt
from paymock.app.payments import PaymentCreation
from paymock.payments.records import EndpointRecord
from paymock.rules.errors import PaymockError
from paymock.rules.fault_rules import Decision
from paymock.rules.faults import MAX_HANG, FaultTarget
from paymock.sandbox import owner_limits
from paymock.sandbox.snapshot import KeyedRequest
from paymock.schemas.control import AddFault, Advance, SetNext
from paymock.schemas.json import fingerprint
from paymock.stores.base import AddResult, Change
from paymock.stores.memory import MemoryStore
from tests.support.client import order
from tests.support.stores import SharedStore, TellingStore
from tests.support.use_cases import SANDBOX, SOON, UseCases, refusal

READ = FaultTarget("getPayment", "order-1", "pay_" + "a" * 40)


async def fault_of(app: UseCases, identity: str = "GET /v1/payments/pay_1") -> str | None:
    """The fault of a read."""
    fault = (await decided(app, identity)).fault
    return fault and fault.text


async def decided(app: UseCases, identity: str = "") -> Decision:
    return await app.faults.decide(RequestAttempt(SANDBOX, READ, identity))


async def creation(app: UseCases, key: str, **changes: Any) -> tuple[str | None, PaymentCreation | None]:
    """The fault of a creation without headers of its own, and what was created, or found."""
    body = order(**changes)
    request = KeyedRequest(SANDBOX, key, fingerprint("POST", "/v1/payments", body), body)
    target = FaultTarget("createPayment", body["order_id"])
    fault = (await app.faults.decide(RequestAttempt(SANDBOX, target, key, None, key))).fault
    created = None if fault and not fault.after else await app.service.create_payment(request, None)
    return fault and fault.text, created


@pytest.mark.parametrize("about", [{"order_id": "order-1"}, {"payment_id": "pay_" + "a" * 40}])
async def test_a_rule_about_a_payment_selects_an_operation_on_payments(about: dict[str, Any]) -> None:
    rules = UseCases(MemoryStore()).control.fault_rules
    error = await refusal(rules.add(SANDBOX, AddFault(fault="drop", operation="listChains", **about)))
    assert (error.kind.code, list(error.details or ())) == ("validation_failed", ["operation"])
    assert (await rules.list(SANDBOX)).data == []


async def test_a_sandbox_has_at_most_a_hundred_rules_until_it_is_reset() -> None:
    control = UseCases(MemoryStore()).control
    for _ in range(MAX_RULES):
        await control.fault_rules.add(SANDBOX, AddFault(fault="drop"))
    before = await control.fault_rules.list(SANDBOX)
    error = await refusal(control.fault_rules.add(SANDBOX, AddFault(fault="drop")))
    assert error.kind.code == "capacity_exceeded"
    assert await control.fault_rules.list(SANDBOX) == before
    await control.reset(SANDBOX)
    assert (await control.fault_rules.list(SANDBOX)).data == []


async def test_concurrent_requests_to_several_processes_are_counted_exactly() -> None:
    first, second = processes(SharedStore(), 2)
    await first.control.fault_rules.add(SANDBOX, AddFault(fault="drop", skip=20, times=30))
    await second.control.fault_rules.add(SANDBOX, AddFault(fault="reset", operation="getPayment", times=5))
    faults = await asyncio.gather(*(fault_of(app) for _ in range(100) for app in (first, second)))
    assert (faults.count("drop"), faults.count("reset"), faults.count(None)) == (30, 5, 165)
    rules = (await first.control.fault_rules.list(SANDBOX)).data
    assert [(rule.seen, rule.applied) for rule in rules] == [(200, 30), (200, 5)]


async def waiting(app: UseCases) -> int:
    return sum(rule.waiting for rule in (await app.control.fault_rules.list(SANDBOX)).data)


async def held_request(app: UseCases) -> asyncio.Task[None]:
    """A request that the last rule holds, and that it counts."""
    before, decision = await waiting(app), await decided(app)
    request = asyncio.create_task(app.faults.hold(SANDBOX, decision.rule_id))
    while await waiting(app) == before:
        assert not request.done()
    return request


async def test_a_rule_counts_the_requests_that_all_processes_hold_until_one_deletes_it() -> None:
    store = TellingStore()
    store.failures = 0
    first, second = processes(store, 2)
    rule = await first.control.fault_rules.add(SANDBOX, AddFault(fault="hold", times=None))
    *held, canceled = [await held_request(app) for app in (first, first, second)]
    assert await waiting(first) == await waiting(second) == 3
    canceled.cancel()
    await asyncio.wait([canceled])
    assert await waiting(first) == 2
    await second.control.fault_rules.delete(SANDBOX, rule.id)
    assert not any(request.done() for request in held)
    store.told.put_nowait(Change(SANDBOX))
    await asyncio.wait_for(asyncio.gather(*held), SOON)


async def test_what_a_killed_process_has_held_counts_for_a_minute() -> None:
    app = UseCases(SharedStore())
    await app.control.fault_rules.add(SANDBOX, AddFault(fault="hold"))
    request = await held_request(app)
    app.clock.advance(MAX_HANG - 0.001)
    assert await waiting(app) == 1
    app.clock.advance(0.001)
    assert await waiting(app) == 0
    request.cancel()


async def test_a_fault_for_the_first_attempts_leaves_the_others_to_the_next_rule() -> None:
    app = UseCases(MemoryStore())
    rules = app.control.fault_rules
    await rules.add(SANDBOX, AddFault(fault="status=503; times=1", times=None))
    await rules.add(SANDBOX, AddFault(fault="status=500; times=1", times=None))
    faults = [await fault_of(app, f"key-{number}") for number in (1, 1, 1, 2, 2)]
    assert faults == [
        "status=503; times=1",
        "status=500; times=1",
        None,
        "status=503; times=1",
        "status=500; times=1",
    ]
    assert [(rule.seen, rule.applied) for rule in (await rules.list(SANDBOX)).data] == [(5, 2), (5, 2)]


def processes(store: SharedStore, number: int) -> list[UseCases]:
    first = UseCases(store)
    return [first, *(UseCases(store, first.sandboxes.metadata.current) for _ in range(number - 1))]


async def test_an_override_and_a_rule_are_for_so_many_of_the_creations_that_come_together() -> None:
    apps = processes(SharedStore(), 6)
    await apps[0].control.overrides.add(SANDBOX, SetNext(scenario="late_payment"))
    await apps[0].control.fault_rules.add(SANDBOX, AddFault(fault="drop; before", times=2))
    outcomes = await asyncio.gather(
        *(creation(app, f"order-{number}-payment") for app in apps for number in range(10, 12))
    )
    assert [fault for fault, _ in outcomes].count("drop; before") == 2
    payments = {created.payment.id: created.scenario for _, created in outcomes if created}
    assert sorted(payments.values()) == ["happy_path", "late_payment"]
    assert (await apps[0].control.overrides.pending(SANDBOX)).data == []


async def test_equal_creations_that_come_together_take_one_override() -> None:
    apps = processes(SharedStore(), 6)
    await apps[0].control.overrides.add(SANDBOX, SetNext(scenario="late_payment", times=3))
    outcomes = await asyncio.gather(*(creation(app, "order-1001-payment") for app in apps * 3))
    assert [created.replayed for _, created in outcomes if created].count(False) == 1
    [pending] = (await apps[0].control.overrides.pending(SANDBOX)).data
    assert pending.times == 2


async def test_creations_that_a_rule_counts_do_not_overtake_each_other() -> None:
    store = SharedStore()
    app = UseCases(store)
    await app.control.fault_rules.add(SANDBOX, AddFault(fault="drop", skip=1_000))
    await asyncio.gather(*(creation(app, f"order-{number:04d}-payment") for number in range(50)))
    assert (await app.control.fault_rules.list(SANDBOX)).data[0].seen == 50
    assert store.steps.count("add") <= 50


async def test_creations_that_take_turns_are_refused_together_when_the_store_is_down() -> None:
    class DownStore(SharedStore):
        is_down = False

        async def _step(self, name: str) -> None:
            await asyncio.sleep(self.is_down)
            if self.is_down:
                raise PaymockError("store_unavailable")

    store = DownStore()
    app = UseCases(store)
    await app.control.fault_rules.add(SANDBOX, AddFault(fault="drop", skip=1_000))
    store.is_down = True
    await asyncio.gather(*(refusal(creation(app, f"order-{number:04d}-payment")) for number in range(10)))
    assert asyncio.get_running_loop().time() == pytest.approx(1, abs=0.1)
    store.is_down = False
    await creation(app, "order-1002-payment")


async def test_the_sandboxes_of_an_owner_hold_so_many_bytes_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_limits, "MAX_OWNER_BYTES", 3_000)
    app, names = UseCases(MemoryStore()), ("owner", "named")
    app.sandboxes.owner_limits.owners["named"] = "owner"

    async def endpoint(sandbox: str, number: int) -> None:
        body = {"url": "https://merchant.example"}
        await app.service.create_endpoint(KeyedRequest(sandbox, f"endpoint-{number}", b"", body))

    async def fill() -> int:
        """Add until each kind is refused, and return how many bytes are stored."""
        for add in (
            endpoint,
            lambda sandbox, _: app.control.fault_rules.add(sandbox, AddFault(fault="drop")),
            lambda sandbox, _: app.control.overrides.add(sandbox, SetNext(scenario="late_payment")),
        ):
            with suppress(PaymockError):
                for number in count():
                    await add(names[number % 2], number)
        states = [(await app.sandboxes.snapshot(name)).state or b"" for name in names]
        pages = [await app.sandboxes.page(name, EndpointRecord.KIND, limit=100) for name in names]
        return sum(map(len, states)) + sum(len(value) for page in pages for _, value in page)

    await app.control.fault_rules.add("owner", AddFault(fault="drop", order_id="o" * 128))
    assert 2_900 < await fill() <= 3_000
    await app.control.advance("owner", Advance(seconds=1))
    await endpoint("other", 0)
    await app.control.fault_rules.clear("owner")
    assert 2_900 < await fill() <= 3_000
    for name in (*names, "other"):
        await app.control.reset(name)
    assert not app.sandboxes.owner_limits._sizes
    app = UseCases(MemoryStore(), retention=60)
    app.sandboxes.owner_limits.owners["named"] = "owner"
    assert 2_900 < await fill() <= 3_000
    app.clock.advance(61)
    await endpoint("owner", 99)  # the store deletes the others


async def test_a_refusal_of_the_store_leaves_the_override_and_counts_the_request() -> None:
    class FullStore(SharedStore):
        async def add(self, *args: Any, **options: Any) -> AddResult:
            raise PaymockError("capacity_exceeded")

    app = UseCases(FullStore())
    await app.control.fault_rules.add(SANDBOX, AddFault(fault="drop", skip=5))
    pending = await app.control.overrides.add(SANDBOX, SetNext(scenario="late_payment"))
    assert (await refusal(creation(app, "order-1002-payment"))).kind.code == "capacity_exceeded"
    assert await app.control.overrides.pending(SANDBOX) == pending
    assert (await app.control.fault_rules.list(SANDBOX)).data[0].seen == 1


@pytest.mark.parametrize("fault", ["status=503", "drop"])
async def test_a_request_is_counted_once_though_the_reply_of_the_store_is_lost(fault: str) -> None:
    class LosingStore(SharedStore):
        loses = False

        async def replace(self, *args: Any, **options: Any) -> bool:
            replaced = await super().replace(*args, **options)
            if self.loses:
                raise PaymockError("store_unavailable")
            return replaced

        async def add(self, *args: Any, **options: Any) -> AddResult:
            added = await super().add(*args, **options)
            if self.loses:
                raise PaymockError("store_unavailable")
            return added

    store = LosingStore()
    app = UseCases(store)
    await app.control.fault_rules.add(SANDBOX, AddFault(fault=fault))
    store.loses = True
    assert (await refusal(creation(app, "order-1001-payment"))).kind.code == "store_unavailable"
    store.loses = False
    [rule] = (await app.control.fault_rules.list(SANDBOX)).data
    assert (rule.seen, rule.applied) == (1, 1)
