"""What scripts/release runs with the wheel and the source distribution."""

from paymock.testing import Sandbox


def test_a_payment_is_completed(paymock: Sandbox) -> None:
    payment = paymock.create(amount=5)
    paymock.advance(45)
    assert paymock.payment(payment["id"])["status"] == "completed"  # noqa: S101 - a test
