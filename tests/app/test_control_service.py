"""The use cases of the control API, without HTTP."""

from typing import Any

import pytest

from paymock.app.payment_lookup import PaymentFilter
from paymock.resources.payments import MAX_DEPOSITS
from paymock.resources.records import DepositRecord
from paymock.rules.errors import PaymockError
from paymock.schemas.json_decoding import fingerprint
from paymock.schemas.public import Payment
from paymock.stores.base import AddResult
from paymock.stores.memory import MemoryStore
from tests.support.client import DUE
from tests.support.specification import COURSES
from tests.support.use_cases import SANDBOX, UseCases
from tests.support.virtual_time import run


@pytest.mark.parametrize("scenario", COURSES)
def test_a_payment_advances_from_status_to_status(scenario: str) -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create(scenario=scenario)
        for _, status in COURSES[scenario][1:]:
            moved = await app.control.advance_payment(SANDBOX, payment.id, {"to": status})
            assert isinstance(moved, Payment)
            assert moved.status == status
        detail = await app.control.payment(SANDBOX, payment.id)
        reached = {entry.status for entry in detail.timeline if entry.reached}
        assert reached == {status for _, status in COURSES[scenario]}

    run(check())


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "validation_failed"),
        ({"seconds": 1, "to": "next"}, "validation_failed"),
        ({"to": "awaiting_payment"}, "status_unreachable"),
        ({"to": "failed"}, "status_unreachable"),
    ],
)
def test_an_advance_that_leads_nowhere_is_refused(body: dict[str, Any], code: str) -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create()
        with pytest.raises(PaymockError) as caught:
            await app.control.advance_payment(SANDBOX, payment.id, body)
        assert caught.value.kind.code == code

    run(check())


def test_the_detail_of_a_payment_shows_what_it_was_and_what_comes() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create(scenario="no_payment_expired")
        detail = await app.control.payment(SANDBOX, payment.id)
        assert detail.before is None
        assert [(entry.offset_seconds, entry.status, entry.reached) for entry in detail.timeline] == [
            (0, "awaiting_payment", True),
            (30, "expired", False),
        ]
        await app.control.advance(SANDBOX, {"seconds": 30})
        detail = await app.control.payment(SANDBOX, payment.id)
        assert detail.before is not None
        assert (detail.before.status, detail.payment.status) == ("awaiting_payment", "expired")

    run(check())


def test_a_repeated_deposit_shows_the_payment_as_it_was_just_after_it() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create(scenario="no_payment_expired")
        arguments = (SANDBOX, payment.id, {"amount": str(DUE)}, "deposit-key-1", b"fingerprint")
        made = await app.control.deposit(*arguments)
        await app.control.advance(SANDBOX, {"seconds": 60})
        assert made[1] is False
        assert made[0].status == "payment_detected"
        assert await app.control.deposit(*arguments) == (made[0], True)

    run(check())


@pytest.mark.parametrize(
    ("status", "reached", "possible"),
    [("awaiting_payment", True, True), ("completed", False, True), ("failed", False, False)],
)
def test_a_wait_says_whether_its_status_was_reached_and_still_can_be(
    status: str, *, reached: bool, possible: bool
) -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create()
        result = await app.control.waits.payment(SANDBOX, payment.id, status, timeout=30)
        assert (result.reached, result.possible) == (reached, possible)

    run(check())


def test_a_reset_leaves_no_payment_and_a_new_clock() -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        clock = await app.control.clock(SANDBOX)
        await app.create()
        await app.control.advance(SANDBOX, {"seconds": 60})
        await app.control.reset(SANDBOX)
        assert (await app.control.payments(SANDBOX, PaymentFilter(), 9, None)).data == []
        assert await app.control.clock(SANDBOX) == clock

    run(check())


@pytest.mark.parametrize(("is_reset", "total"), [(False, 2), (True, 1)])
def test_the_total_is_never_less_than_what_is_listed(*, is_reset: bool, total: int) -> None:
    """Though the list and the total are two steps of the store."""

    class ChangingStore(MemoryStore):
        async def count(self, sandbox: str, kind: str) -> int:
            await (app.control.reset(SANDBOX) if is_reset else app.create("key-number-2"))
            return await super().count(sandbox, kind)

    app = UseCases(ChangingStore())

    async def check() -> None:
        await app.create("key-number-1")
        page = await app.control.payments(SANDBOX, PaymentFilter(), 9, None)
        assert (len(page.data), page.total) == (1, total)

    run(check())


def test_a_deposit_that_is_refused_leaves_its_key_free() -> None:
    async def deposit(app: UseCases, payment: Payment, key: str | None, amount: str = "1") -> bool:
        body = {"amount": amount}
        path = f"/_mock/payments/{payment.id}/deposits"
        mark = fingerprint("POST", path, body)
        _, replayed = await app.control.deposit(SANDBOX, payment.id, body, key, mark)
        return replayed

    async def check() -> None:
        class FullStore(MemoryStore):
            """When a key is stored, other deposits have just taken all room."""

            async def add(self, sandbox: str, key: str, value: bytes, **more: Any) -> AddResult:
                result = await super().add(sandbox, key, value, **more)
                if more["kind"] == DepositRecord.KIND:
                    for _ in range(MAX_DEPOSITS):
                        await deposit(app, payment, None)
                return result

        app = UseCases(FullStore())
        payment, _ = await app.create()
        another, _ = await app.create("order-1002-payment")
        assert not await deposit(app, payment, "the-first-key")
        assert await deposit(app, payment, "the-first-key")
        with pytest.raises(PaymockError) as caught:
            await deposit(app, payment, "the-second-key")
        assert caught.value.kind.code == "capacity_exceeded"
        with pytest.raises(PaymockError) as caught:
            await deposit(app, another, "the-second-key", "0")
        assert caught.value.kind.code == "validation_failed"
        await app.create("the-second-key")

    run(check())
