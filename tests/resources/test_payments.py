"""The record of a create request, and the reply bodies of a record."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from paymock.app.catalog_file import load_catalog
from paymock.resources import payments
from paymock.resources.payments import NO_SIMULATION
from paymock.resources.records import DepositRecord, PaymentRecord, SimulationRecord, decode, encode
from paymock.rules.amounts import MAX_FEE_BPS, MAX_RAW
from paymock.rules.errors import PaymockError
from paymock.rules.scenarios import SCENARIOS
from paymock.schemas.public import Funding
from paymock.schemas.validation import checker_for
from tests.support.client import order
from tests.support.clock import NOON

CATALOG = load_catalog(None)
TOKEN = "aabbccddeeffgghhiijjkkllmmnnooppqqrrsstt"


def create(body: Any = None, scenario: str = "happy_path", fee_bps: int = 100) -> PaymentRecord:
    creation = payments.Creation(TOKEN, b"fingerprint", SCENARIOS[scenario], NOON)
    return payments.create_record(order() if body is None else body, creation, CATALOG, fee_bps)


def problems(body: Any) -> dict[str, str]:
    with pytest.raises(PaymockError) as caught:
        create(body)
    assert caught.value.kind.code == "validation_failed"
    return dict(caught.value.details or {})


@given(st.integers(1, MAX_RAW // 3), st.integers(0, MAX_FEE_BPS))
def test_due_is_settlement_plus_fee(amount: int, fee_bps: int) -> None:
    payment = payments.render(create(order(receive__amount=str(amount)), fee_bps=fee_bps), NOON)
    amounts = payment.attempts[0].instructions.amounts
    assert int(amounts.due) == int(amounts.settlement) + int(amounts.fee)
    assert int(amounts.settlement) == amount


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


@pytest.mark.parametrize("body", [None, 1, "x", [], True])
def test_a_body_that_is_not_an_object_is_one_problem(body: Any) -> None:
    assert list(problems([] if body is None else body)) == ["body"]


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


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_record_survives_encoding(scenario: str) -> None:
    record = create(order(metadata={"a": [1, 2.5, None, {"é": "💸"}]}), scenario)
    assert decode(encode(record)) == record


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


@given(st.sampled_from(list(SCENARIOS)), st.lists(st.integers(0, 100_000), min_size=2, max_size=6))
def test_updated_at_never_goes_back(scenario: str, moments: list[int]) -> None:
    record = create(scenario=scenario)
    times = [payments.render(record, NOON + at).updated_at for at in sorted(moments)]
    assert times == sorted(times)


def test_a_simulated_transfer_tops_up_an_underpaid_payment() -> None:
    record = create(scenario="underpaid_expired")
    rest = int(record.due) - int(record.due) // 2
    deposit = DepositRecord("token", b"", TOKEN, 20_000, str(rest), None)
    topped_up = SimulationRecord(deposits=(deposit,))
    assert payments.render(record, NOON + 30_000).status == "underpaid_expired"
    payment = payments.render(record, NOON + 28_000, topped_up)
    assert payment.status == "payment_finalized"
    deposits = payment.attempts[0].deposits
    assert isinstance(deposits, list)
    assert [deposit.status for deposit in deposits] == ["finalized", "finalized"]
    assert len({deposit.id for deposit in deposits} | {deposit.tx_hash for deposit in deposits}) == 4


def test_the_rejected_deposit_is_in_another_asset_of_the_chain() -> None:
    attempt = payments.render(create(scenario="asset_mismatch"), NOON + 7_000).attempts[0]
    assert isinstance(attempt.deposits, list)
    assert (attempt.deposits[0].status, attempt.deposits[0].asset) == ("rejected", "USDC")
    assert attempt.instructions.asset == "USDT"


def test_the_excess_is_shown_once_it_is_final() -> None:
    record = create(scenario="overpaid_review")
    before, after = (payments.render(record, NOON + at).attempts[0].funding for at in (12_999, 13_000))
    assert isinstance(before, Funding)
    assert isinstance(after, Funding)
    assert (before.amount_received_pending, before.overpaid_amount) == ("1111000000000000000", UNSET)
    assert (after.amount_received_finalized, after.overpaid_amount) == (
        "1111000000000000000",
        "101000000000000000",
    )


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
