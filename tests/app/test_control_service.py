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
from tests.support.stores import SharedStore
from tests.support.use_cases import SANDBOX, UseCases, refusal


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
async def test_an_invalid_advance_is_refused(body: dict[str, Any], field: str) -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create()
    error = await refusal(app.control.advance_payment(SANDBOX, payment.id, body))
    assert list(error.details or ()) == [field]


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

    async def deposit(payment: Payment, key: str | None, amount: str = "1") -> None:
        body = {"amount": amount}
        mark = fingerprint("POST", f"/_mock/payments/{payment.id}/deposits", body)
        await app.control.deposit(SANDBOX, payment.id, body, key, mark)

    class FullStore(MemoryStore):
        """When a key is stored, other deposits have just taken all room."""

        async def add(self, sandbox: str, key: str, value: bytes, **more: Any) -> AddResult:
            result = await super().add(sandbox, key, value, **more)
            if more["kind"] == DepositRecord.KIND:
                for _ in range(payments.MAX_DEPOSITS):
                    await deposit(payment, None)
            return result

    app = UseCases(FullStore())
    payment, _ = await app.create()
    another, _ = await app.create("order-1002-payment")
    await deposit(payment, "the-first-key")
    assert (await refusal(deposit(payment, "the-second-key"))).kind.code == "capacity_exceeded"
    assert (await refusal(deposit(another, "the-second-key", "0"))).kind.code == "validation_failed"
    await app.create("the-second-key")
