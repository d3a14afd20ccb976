from collections.abc import Iterator
from decimal import Decimal

import pytest

from payments import PaymentError, Payments
from paymock.testing import Sandbox


@pytest.fixture
def payments(paymock: Sandbox) -> Iterator[Payments]:
    client = Payments(paymock.url, paymock.api_key, sleep=paymock.advance)
    yield client
    client.close()


def test_a_customer_is_asked_for_the_amount_and_the_fee(payments: Payments) -> None:
    payment = payments.create("order-1001", Decimal("12.50"))
    amounts = payment["attempts"][0]["instructions"]["amounts"]
    assert amounts["settlement"] == "12500000000000000000"
    assert amounts["due"] == "12625000000000000000"


def test_a_payment_is_followed_until_it_is_completed(payments: Payments, paymock: Sandbox) -> None:
    payment = payments.create("order-1001", Decimal(1))
    # The client polls every two seconds, for 45 seconds. The sandbox moves ahead whenever the client sleeps.
    assert list(payments.follow(payment["id"])) == [
        "awaiting_payment",
        "payment_detected",
        "payment_finalized",
        "settlement_pending",
        "settlement_submitted",
        "completed",
    ]


@pytest.mark.parametrize(
    ("scenario", "end"),
    [
        ("no_payment_expired", "expired"),
        ("underpaid_expired", "underpaid_expired"),
        ("overpaid_review", "overpaid_review"),
        ("asset_mismatch", "manual_review"),
        ("settlement_failed", "failed"),
    ],
)
def test_whatever_happens_following_comes_to_an_end(
    payments: Payments, paymock: Sandbox, scenario: str, end: str
) -> None:
    paymock.next(scenario)  # for the next payment, since the client sends no X-Mock-Scenario
    payment = payments.create("order-1001", Decimal(1))
    *_, last = payments.follow(payment["id"])
    assert last == end


def test_two_clicks_of_a_customer_are_one_payment(payments: Payments, paymock: Sandbox) -> None:
    assert payments.create("order-1001", Decimal(1)) == payments.create("order-1001", Decimal(1))
    assert len(paymock.payments()) == 1


def test_a_refusal_says_what_is_wrong(payments: Payments) -> None:
    with pytest.raises(PaymentError, match="must be") as refused:
        payments.create("order-1001", Decimal(0))
    assert refused.value.code == "validation_failed"
