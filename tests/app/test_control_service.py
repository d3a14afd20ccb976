"""The use cases of the control API, without HTTP."""

import asyncio
from typing import Any

import pytest

from paymock.app.payment_lookup import PaymentFilter
from paymock.resources import payments
from paymock.resources.records import DepositRecord
from paymock.rules.errors import PaymockError
from paymock.schemas.json_decoding import fingerprint
from paymock.schemas.public import Payment
from paymock.stores.base import AddResult
from paymock.stores.memory import MemoryStore
from tests.support.client import DUE
from tests.support.stores import SharedStore
from tests.support.use_cases import SANDBOX, UseCases, refusal


@pytest.mark.parametrize(
    "body",
    [
        {"to": "awaiting_payment"},
        {"to": "failed"},
        {"to": "expired", "until_observed": True},
    ],
)
async def test_a_status_that_does_not_lie_ahead_is_unreachable(body: dict[str, Any]) -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create()
    assert (
        await refusal(app.control.advance_payment(SANDBOX, payment.id, body))
    ).kind.code == "status_unreachable"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "seconds"),
        ({"seconds": 1, "to": "next"}, "seconds"),
        ({"to": "end", "timeout": -1}, "timeout"),
        ({"to": "end", "until_observed": 1}, "until_observed"),
        ({"to": "end", "until_observed": True, "timeout": 61}, "timeout"),
        ({"to": "end", "seconds": 1, "until_observed": True}, "seconds"),
        ({"until_observed": True}, "seconds"),
    ],
)
async def test_an_invalid_advance_is_refused(body: dict[str, Any], field: str) -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create()
    assert list((await refusal(app.control.advance_payment(SANDBOX, payment.id, body))).details or ()) == [
        field
    ]


async def test_the_detail_of_a_payment_shows_what_it_was_and_what_comes() -> None:
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


async def test_a_repeated_deposit_shows_the_payment_as_it_was_just_after_it() -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create(scenario="no_payment_expired")
    arguments = (SANDBOX, payment.id, {"amount": str(DUE)}, "deposit-key-1", b"fingerprint")
    made = await app.control.deposit(*arguments)
    await app.control.advance(SANDBOX, {"seconds": 60})
    assert made[1] is False
    assert made[0].status == "payment_detected"
    assert await app.control.deposit(*arguments) == (made[0], True)


@pytest.mark.parametrize(
    ("status", "reached", "possible"),
    [("awaiting_payment", True, True), ("completed", False, True), ("failed", False, False)],
)
async def test_a_wait_says_whether_its_status_was_reached_and_still_can_be(
    status: str, *, reached: bool, possible: bool
) -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create()
    result = await app.control.waits.payment(SANDBOX, payment.id, status, timeout=30)
    assert (result.reached, result.possible) == (reached, possible)


@pytest.mark.parametrize(("is_reset", "total"), [(False, 2), (True, 1)])
async def test_the_total_is_never_less_than_what_is_listed(*, is_reset: bool, total: int) -> None:
    """Though the list and the total are two steps of the store."""

    class ChangingStore(MemoryStore):
        async def count(self, sandbox: str, kind: str) -> int:
            await (app.control.reset(SANDBOX) if is_reset else app.create("key-number-2"))
            return await super().count(sandbox, kind)

    app = UseCases(ChangingStore())
    await app.create("key-number-1")
    page = await app.control.payments(SANDBOX, PaymentFilter(), 9, None)
    assert (len(page.data), page.total) == (1, total)


async def test_a_payment_takes_no_more_deposits_than_it_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payments, "MAX_DEPOSITS", 3)
    app = UseCases(SharedStore())
    payment, _ = await app.create(scenario="no_payment_expired")
    deposits = (app.control.deposit(SANDBOX, payment.id, {"amount": "1"}, None, b"") for _ in range(5))
    outcomes = await asyncio.gather(*deposits, return_exceptions=True)
    assert [isinstance(outcome, PaymockError) for outcome in outcomes].count(True) == 2
    shown = (await app.control.payment(SANDBOX, payment.id)).payment
    assert len(shown.attempts[0].deposits or ()) == 3


async def test_a_deposit_that_is_refused_leaves_its_key_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payments, "MAX_DEPOSITS", 3)

    async def deposit(app: UseCases, payment: Payment, key: str | None, amount: str = "1") -> bool:
        body = {"amount": amount}
        path = f"/_mock/payments/{payment.id}/deposits"
        mark = fingerprint("POST", path, body)
        _, replayed = await app.control.deposit(SANDBOX, payment.id, body, key, mark)
        return replayed

    class FullStore(MemoryStore):
        """When a key is stored, other deposits have just taken all room."""

        async def add(self, sandbox: str, key: str, value: bytes, **more: Any) -> AddResult:
            result = await super().add(sandbox, key, value, **more)
            if more["kind"] == DepositRecord.KIND:
                for _ in range(payments.MAX_DEPOSITS):
                    await deposit(app, payment, None)
            return result

    app = UseCases(FullStore())
    payment, _ = await app.create()
    another, _ = await app.create("order-1002-payment")
    assert not await deposit(app, payment, "the-first-key")
    assert await deposit(app, payment, "the-first-key")
    assert (await refusal(deposit(app, payment, "the-second-key"))).kind.code == "capacity_exceeded"
    assert (await refusal(deposit(app, another, "the-second-key", "0"))).kind.code == "validation_failed"
    await app.create("the-second-key")
