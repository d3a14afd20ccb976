"""The record of a create request, and the reply bodies of a record."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.payments import payment as payments
from paymock.payments.files import load_catalog
from paymock.payments.payment import NO_SIMULATION
from paymock.payments.records import DepositRecord, PaymentRecord, SimulationRecord
from paymock.rules.amounts import MAX_RAW
from paymock.rules.errors import PaymockError
from paymock.rules.scenarios import SCENARIOS
from paymock.schemas.validation import checker_for
from tests.support.client import order
from tests.support.clock import NOON

CATALOG = load_catalog(None)
TOKEN = "aabbccddeeffgghhiijjkkllmmnnooppqqrrsstt"


def create(body: Any = None, scenario: str = "happy_path") -> PaymentRecord:
    creation = payments.Creation(TOKEN, b"fingerprint", SCENARIOS[scenario], NOON)
    return payments.create_record(order() if body is None else body, creation, CATALOG, 100)


def problems(body: Any) -> dict[str, str]:
    with pytest.raises(PaymockError) as caught:
        create(body)
    assert caught.value.kind.code == "validation_failed"
    return dict(caught.value.details or {})


def test_due_must_fit_in_256_bits() -> None:
    assert problems(order(receive__amount=str(MAX_RAW))) == {
        "receive.amount": "must fit in 256 bits together with the fee"
    }


def test_every_problem_is_listed_at_once() -> None:
    body = order(
        order_id=...,
        receive__chain="narnia",
        receive__amount="1.5",
        receive__address="0x1",
        receive__memo="x",
        settlement={"mode": "swap"},
        pay_with=[{"chain": "bsc", "asset": "WOOF"}],
        refund_to={"chain": "bsc"},
        expires_at="tomorrow",
        metadata=[],
        extra=True,
    )
    assert list(problems(body)) == [
        "order_id",
        "receive.amount",
        "receive.address",
        "receive.memo",
        "settlement.mode",
        "refund_to.address",
        "expires_at",
        "metadata",
        "extra",
        "receive.chain",
        "pay_with[0].asset",
        "pay_with[0].chain",
    ]


def test_the_route_must_be_the_same_on_both_sides() -> None:
    body = order(pay_with=[{"chain": "ethereum", "asset": "USDC"}])
    assert list(problems(body)) == ["pay_with[0].chain", "pay_with[0].asset"]


def test_exactly_one_pay_with_and_a_future_expiry_are_required() -> None:
    assert problems(order(pay_with=[], expires_at="2030-01-31T12:00:00Z")) == {
        "pay_with": "must have exactly 1 item, not 0",
        "expires_at": "must be in the future; the mock's clock says 2030-01-31T12:00:00.000Z",
    }


def test_an_unsupported_type_has_no_checker() -> None:
    with pytest.raises(TypeError, match="no checker"):
        checker_for(bytes)


@pytest.mark.parametrize("name", ["refund_to", "expires_at", "metadata"])
def test_null_means_absent(name: str) -> None:
    absent, null = create(order(**{name: ...})), create(order(**{name: None}))
    assert absent == null
    assert payments.render(absent, NOON) == payments.render(null, NOON)


def test_the_default_expiry_is_thirty_minutes_after_creation() -> None:
    assert payments.render(create(order(expires_at=...)), NOON).expires_at == "2030-01-31T12:30:00.000Z"


@given(
    st.sampled_from(list(SCENARIOS)),
    st.lists(st.integers(0, 80_000), min_size=1, max_size=8),
    st.integers(0, 60_000),
)
def test_rendering_depends_on_the_time_alone(scenario: str, moments: list[int], offset: int) -> None:
    record = create(scenario=scenario)
    first = {at: payments.render(record, NOON + at) for at in moments}
    for at in reversed(moments):
        assert payments.render(record, NOON + at) == first[at]
        shifted = payments.render(record, NOON + at, SimulationRecord(time_offset=offset))
        assert shifted == payments.render(record, NOON + at + offset)


@pytest.mark.parametrize(
    ("age", "status", "reachable"),
    [
        (0, "completed", True),
        (0, "manual_review", True),
        (44_999, "failed", False),
        (44_999, None, True),
        (45_000, "completed", True),
        (45_001, "expired", False),
        (45_001, None, False),
    ],
)
def test_a_status_is_reachable_by_itself_or_with_one_more_deposit(
    age: int, status: str | None, *, reachable: bool
) -> None:
    assert payments.is_reachable(create(), NO_SIMULATION, age, status) == reachable


def test_a_status_that_lasts_no_millisecond_is_not_reachable() -> None:
    """The first deposit is `due`, the second makes it an excess, and both become final at once."""
    record = create(order(receive__amount="1"), "no_payment_expired")
    deposits = tuple(DepositRecord(amount, b"", TOKEN, 0, amount, None) for amount in ("2", "1"))
    simulation = SimulationRecord(deposits=deposits)
    for age in (0, 7_999, 8_000):
        assert not payments.is_reachable(record, simulation, age, "payment_finalized")
    assert payments.is_reachable(record, simulation, 0, "overpaid_review")
