"""A payment's beginning and its view: `accept` turns a request into a record, `view` shows it in a state,
`render` at a moment.

Specification: "POST /v1/payments", "Payment object".
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

import msgspec

from paymock.resources.catalog import Catalog
from paymock.resources.records import PaymentRecord, SimulationRecord
from paymock.rules import identifiers
from paymock.rules.amounts import MAX_RAW, fee_for
from paymock.rules.scenarios import CONFIRMATIONS_REQUIRED, SCENARIOS, PaymentStatus
from paymock.rules.timeline import State, Transfer, simulate, state_at
from paymock.rules.times import LATEST, parse_rfc3339, to_rfc3339
from paymock.schemas.public import (
    INSTRUCTION_TYPE,
    Amounts,
    Attempt,
    CreatePayment,
    Deposit,
    Funding,
    Instructions,
    Payment,
)
from paymock.schemas.validation import Problems, acceptor_for, checker_for, validation_failed

DEFAULT_LIFETIME = 30 * 60_000
"""From creation to `expires_at` when the request names none, in milliseconds."""

_SETTLING = (
    PaymentStatus.SETTLEMENT_PENDING,
    PaymentStatus.SETTLEMENT_SUBMITTED,
    PaymentStatus.COMPLETED,
    PaymentStatus.FAILED,
)
_accept, _check = acceptor_for(CreatePayment), checker_for(CreatePayment)

UNTOUCHED = SimulationRecord()

MAX_DEPOSITS = 100
"""How many simulated deposits a payment can have: its course grows with the square of them."""


class Creation(msgspec.Struct, frozen=True):
    """Who creates a payment, and under which key: what a record holds beside the request itself."""

    token: str
    fingerprint: bytes
    scenario: str
    now: int


def accept(body: Any, creation: Creation, catalog: Catalog, fee_bps: int) -> PaymentRecord:
    """The record of the payment that `body`, a decoded JSON value, asks for.

    `creation.now` is in milliseconds since the epoch. Raises PaymockError `validation_failed` with every
    problem of the body. Specification: "Create-payment request body".
    """
    problems: Problems = {}
    request = _accept(body)
    if request is None:
        _check(body, "", problems)
    if request is None or not _route_is_known(request, catalog):
        _check_route(body, catalog, problems)
    if request is None:
        expires_at = _text_members(body).get("expires_at")
        amount = _text_members(body, "receive").get("amount")
    else:
        expires_at, amount = request.expires_at, request.receive.amount
    _check_expiry(expires_at, creation.now, problems)
    due = fee = ""
    if amount is not None and "receive.amount" not in problems:
        due, fee = _due_and_fee(amount, fee_bps)
        if not due:
            problems["receive.amount"] = "must fit in 256 bits together with the fee"
    if problems:
        raise validation_failed(problems)
    request = request or msgspec.convert(body, CreatePayment)
    return PaymentRecord(
        token=creation.token,
        fingerprint=creation.fingerprint,
        created_at=creation.now,
        scenario=creation.scenario,
        request=request,
        due=due,
        fee=fee,
        other_asset=catalog.another_asset(request.receive.chain, request.receive.asset),
    )


def render(record: PaymentRecord, now: int, simulation: SimulationRecord = UNTOUCHED) -> Payment:
    """The payment as it stands at `now`, milliseconds since the epoch. Specification: "Payment object"."""
    return view(record, state_at(course(record, simulation), elapsed(record, now, simulation)))


def view(record: PaymentRecord, state: State) -> Payment:
    """The payment as it stands in `state`. Specification: "Payment object"."""
    request, created_at = record.request, record.created_at
    created = to_rfc3339(created_at)
    return Payment(
        id=identifiers.PAYMENT_PREFIX + record.token,
        status=state.status,
        order_id=request.order_id,
        receive=request.receive,
        settlement=request.settlement,
        pay_with=[*request.pay_with],
        refund_to=request.refund_to,
        expires_at=request.expires_at or to_rfc3339(created_at + DEFAULT_LIFETIME),
        metadata=request.metadata or {},
        created_at=created,
        updated_at=to_rfc3339(created_at + state.at) if state.at else created,
        attempts=[_attempt(record, state)],
    )


def elapsed(record: PaymentRecord, now: int, simulation: SimulationRecord = UNTOUCHED) -> int:
    """How old the payment is at `now`, in milliseconds; a test may have moved it ahead of its sandbox."""
    return min(now + simulation.time_offset, LATEST) - record.created_at


def course(record: PaymentRecord, simulation: SimulationRecord = UNTOUCHED) -> tuple[State, ...]:
    """Every state that the payment goes through, in order. Specification: "Payment transitions"."""
    due, other = int(record.due), record.other_asset
    if not simulation.deposits:
        return _scripted_course(record.scenario, due, other)
    return simulate(SCENARIOS[record.scenario], due, other, simulation.transfers)


def could_come(record: PaymentRecord, simulation: SimulationRecord, age: int, status: str | None) -> bool:
    """Whether a payment of this age, in milliseconds, can still reach `status`, or without one any other
    status than it has: by itself, or since somebody pays something.
    """
    now = state_at(course(record, simulation), age)
    due, scenario = int(record.due), SCENARIOS[record.scenario]
    missing = due - now.received_pending - now.received_finalized
    worlds = [simulation.transfers] + [
        (*simulation.transfers, Transfer(age, amount, asset))
        for amount, asset in ((max(1, missing), None), (1, None), (due + 1, None), (1, record.other_asset))
    ]
    return any(
        state.status == status if status else state.status != now.status
        for world in worlds
        for state in simulate(scenario, due, record.other_asset, world)
        if state.at >= age
    )


@lru_cache(maxsize=512)  # of payments with the same amount, each of which is read many times
def _scripted_course(scenario: str, due: int, other_asset: str) -> tuple[State, ...]:
    return simulate(SCENARIOS[scenario], due, other_asset)


def _route_is_known(request: CreatePayment, catalog: Catalog) -> bool:
    """Whether `_check_route` has nothing to find: much quicker, and so of most requests."""
    receive, [pay_with], refund_to = request.receive, request.pay_with, request.refund_to
    return (
        catalog.knows(receive.chain, receive.asset)
        and pay_with.chain == receive.chain
        and pay_with.asset == receive.asset
        and (refund_to is None or refund_to.chain in catalog.chains)
    )


def _check_route(body: Any, catalog: Catalog, problems: Problems) -> None:
    receive, pay_with = _text_members(body, "receive"), _text_members(body, "pay_with", 0)
    refund_to = _text_members(body, "refund_to")
    for path, place in (("receive", receive), ("pay_with[0]", pay_with), ("refund_to", refund_to)):
        chain, asset = place.get("chain"), place.get("asset")
        assets = catalog.assets(chain) if chain is not None else None
        if chain is not None and assets is None:
            problems.setdefault(
                f"{path}.chain", f"is not a supported chain; known: {', '.join(catalog.chains)}"
            )
        if asset is not None and assets is not None and asset not in assets:
            problems.setdefault(f"{path}.asset", f"is not an asset of this chain; known: {', '.join(assets)}")
    for name in ("chain", "asset"):
        known = name in receive and name in pay_with
        if known and receive[name] != pay_with[name]:
            problems.setdefault(
                f"pay_with[0].{name}", f"must be the same as receive.{name}: there is no other route"
            )


def _check_expiry(expires_at: str | None, now: int, problems: Problems) -> None:
    moment = parse_rfc3339(expires_at) if expires_at is not None else None
    if moment is not None and moment <= now:
        problems.setdefault("expires_at", f"must be in the future; the mock's clock says {to_rfc3339(now)}")


@lru_cache(maxsize=512)  # many payments of a test suite have the same amount
def _due_and_fee(amount: str, fee_bps: int) -> tuple[str, str]:
    """What is due for the settlement of `amount`, and the fee in it, in raw units; nothing where that is more
    than a token can express.
    """
    settlement = int(amount)
    fee = fee_for(settlement, fee_bps)
    return (str(settlement + fee), str(fee)) if settlement + fee <= MAX_RAW else ("", "")


def _text_members(body: Any, *path: str | int) -> Mapping[str, str]:
    """The members of the object at `path` that are strings; empty where there is no such object."""
    for step in path:
        try:
            body = body[step]
        except (KeyError, IndexError, TypeError):
            return {}
    return (
        {name: value for name, value in body.items() if isinstance(value, str)}
        if isinstance(body, dict)
        else {}
    )


def _attempt(record: PaymentRecord, state: State) -> Attempt:
    receive = record.request.receive
    status = PaymentStatus.PAYMENT_FINALIZED if state.status in _SETTLING else state.status
    attempt = Attempt(
        id=identifiers.attempt_id(record.token),
        status=cast(Any, status),
        instructions=Instructions(
            type=INSTRUCTION_TYPE,
            chain=receive.chain,
            asset=receive.asset,
            invoice_address=identifiers.invoice_address(record.token),
            amounts=Amounts(due=record.due, settlement=receive.amount, fee=record.fee),
        ),
    )
    if state.deposits:
        attempt.funding = _funding(int(record.due), state)
        attempt.deposits = [_deposit(record, state, number) for number in range(len(state.deposits))]
    return attempt


def _funding(due: int, state: State) -> Funding:
    finalized = state.received_finalized
    funding = Funding(
        amount_received_pending=str(state.received_pending),
        amount_received_finalized=str(finalized),
    )
    if finalized > due:
        funding.overpaid_amount = str(finalized - due)
    return funding


def _deposit(record: PaymentRecord, state: State, number: int) -> Deposit:
    deposit, receive = state.deposits[number], record.request.receive
    return Deposit(
        id=identifiers.deposit_id(record.token, number),
        status=deposit.status,
        confirmations=deposit.confirmations,
        confirmations_required=CONFIRMATIONS_REQUIRED,
        chain=receive.chain,
        asset=deposit.transfer.other_asset or receive.asset,
        amount=str(deposit.transfer.amount),
        from_address=identifiers.sender_address(record.token),
        tx_hash=identifiers.transaction_hash(record.token, number),
        observed_at=to_rfc3339(record.created_at + deposit.transfer.at),
    )
