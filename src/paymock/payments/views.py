"""Payments: the record that a create request makes, the states of that record, and the reply body of a state;
webhook endpoints; and scenarios as the control API shows them. Specification: "POST /v1/payments", "Payment
object".
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict, fields

from paymock.payments.files import Catalog
from paymock.payments.records import EndpointRecord, PaymentRecord, Record, SimulationRecord
from paymock.rules import identifiers
from paymock.rules.amounts import MAX_RAW, fee_for
from paymock.rules.scenarios import (
    CONFIRMATIONS_REQUIRED,
    PaymentStatus,
    Scenario,
    scenario_of,
    stored_scenario,
)
from paymock.rules.timeline import (
    State,
    Transfer,
    changed_deposit,
    describe_change,
    example_states,
    scenario_timeline,
    simulate,
    visible,
)
from paymock.rules.times import LATEST, parse_rfc3339, to_rfc3339
from paymock.schemas.control import ListedScenario, MakeDeposit, ScenarioChange
from paymock.schemas.fields import ANY_EVENT
from paymock.schemas.public import (
    INSTRUCTION_TYPE,
    SETTLEMENT_MODE,
    SETTLING,
    Amounts,
    Attempt,
    CreatedWebhookEndpoint,
    CreatePayment,
    CreateWebhookEndpoint,
    Deposit,
    EvmInvoiceInstructions,
    Funding,
    Payment,
    PayWithRequest,
    ReceiveRequest,
    RefundToRequest,
    SettlementRequest,
    WebhookEndpoint,
)
from paymock.schemas.scenarios import course_of
from paymock.schemas.validation import Problems, checker_for, converter_for, validate, validation_failed

DEFAULT_LIFETIME = 30 * 60_000
"""From creation to `expires_at` when the request has none, in milliseconds."""

_convert, _check = converter_for(CreatePayment), checker_for(CreatePayment)
_check_endpoint = checker_for(CreateWebhookEndpoint)

NO_SIMULATION = SimulationRecord()
"""What is stored of a payment that no test has changed."""

MAX_ENDPOINTS = 100
"""The maximum number of webhook endpoints in a sandbox."""

MAX_DEPOSITS = 100
"""The maximum number of simulated deposits of a payment: the size of its timeline is quadratic in it."""


class CreationContext(msgspec.Struct, frozen=True):
    """What a record contains besides the request. `now` is in milliseconds since the epoch, and so is `real`,
    the time of the system.
    """

    token: str
    fingerprint: bytes
    scenario: Scenario
    now: int
    real: int = LATEST


def create_record(body: Any, context: CreationContext, catalog: Catalog, fee_bps: int) -> PaymentRecord:
    """The record of a new payment for `body`, a decoded JSON value, with a fee of `fee_bps` basis points.

    Raises PaymockError `validation_failed` with every problem of the body. Specification: "Create-payment
    request body".
    """
    problems: Problems = {}
    request = _convert(body)
    if request is None:
        _check(body, "", problems)
        is_valid_route = False
    else:
        receive, [pay_with], refund_to = request.receive, request.pay_with, request.refund_to
        is_valid_route = (
            catalog.has_asset(receive.chain, receive.asset)
            and pay_with.chain == receive.chain
            and pay_with.asset == receive.asset
            and (refund_to is None or refund_to.chain in catalog.chains)
        )
    if not is_valid_route:
        _check_route(body, catalog, problems)
    expires_at = request.expires_at if request else _text_at(body, "expires_at")
    expiry = parse_rfc3339(expires_at) if expires_at is not None else None
    if expiry is not None and expiry <= min(context.now, context.real):  # a client may follow either clock
        now = to_rfc3339(context.now)
        problems.setdefault("expires_at", f"must be in the future; the mock's clock says {now}")
    amount = request.receive.amount if request else _text_at(body, "receive", "amount")
    due = fee = 0
    if amount is not None and "receive.amount" not in problems:
        fee = fee_for(int(amount), fee_bps)
        due = int(amount) + fee
        if due > MAX_RAW:
            problems["receive.amount"] = "must fit in 256 bits together with the fee"
    if problems:
        raise validation_failed(problems)
    request = request or msgspec.convert(body, CreatePayment)
    receive, refund_to = request.receive, request.refund_to
    return PaymentRecord(
        token=context.token,
        fingerprint=context.fingerprint,
        created_at=context.now,
        scenario=context.scenario.name,
        order_id=request.order_id,
        chain=receive.chain,
        asset=receive.asset,
        amount=receive.amount,
        address=receive.address,
        refund_to=(refund_to.chain, refund_to.address) if refund_to else None,
        expires_at=request.expires_at,
        metadata=request.metadata,
        due=str(due),
        fee=str(fee),
        other_asset=catalog.another_asset(receive.chain, receive.asset),
        custom_scenario=stored_scenario(context.scenario),
    )


def view(record: PaymentRecord, state: State) -> Payment:
    """The payment in `state`, as a reply body. Specification: "Payment object"."""
    created_at, token = record.created_at, record.token
    created = to_rfc3339(created_at)
    attempt = Attempt(
        id=identifiers.attempt_id(token),
        status=PaymentStatus.PAYMENT_FINALIZED if state.status in SETTLING else state.status,
        instructions=EvmInvoiceInstructions(
            type=INSTRUCTION_TYPE,
            chain=record.chain,
            asset=record.asset,
            invoice_address=identifiers.invoice_address(token),
            amounts=Amounts(due=record.due, settlement=record.amount, fee=record.fee),
        ),
    )
    if state.deposits:
        due, finalized = int(record.due), state.received_finalized
        attempt.funding = Funding(
            amount_received_pending=str(state.received_pending),
            amount_received_finalized=str(finalized),
            overpaid_amount=str(finalized - due) if finalized > due else UNSET,
        )
        attempt.deposits = [
            Deposit(
                id=identifiers.deposit_id(token, number),
                status=deposit.status,
                confirmations=deposit.confirmations,
                confirmations_required=CONFIRMATIONS_REQUIRED,
                chain=record.chain,
                asset=deposit.transfer.other_asset or record.asset,
                amount=str(deposit.transfer.amount),
                from_address=identifiers.sender_address(token),
                tx_hash=identifiers.transaction_hash(token, number),
                observed_at=to_rfc3339(created_at + deposit.transfer.at),
            )
            for number, deposit in enumerate(state.deposits)
        ]
    return Payment(
        id=identifiers.PAYMENT_PREFIX + token,
        status=state.status,
        order_id=record.order_id,
        receive=ReceiveRequest(
            chain=record.chain, asset=record.asset, amount=record.amount, address=record.address
        ),
        settlement=SettlementRequest(mode=SETTLEMENT_MODE),
        pay_with=[PayWithRequest(chain=record.chain, asset=record.asset)],
        refund_to=RefundToRequest(*record.refund_to) if record.refund_to else None,
        expires_at=record.expires_at or to_rfc3339(created_at + DEFAULT_LIFETIME),
        metadata=record.metadata or {},
        created_at=created,
        updated_at=to_rfc3339(created_at + state.at) if state.at else created,
        attempts=[attempt],
    )


def age_at(created_at: int, now: int, time_offset: int = 0) -> int:
    """The age of a payment in milliseconds when the clock of its sandbox shows `now`, and the payment is
    `time_offset` milliseconds ahead of it. `created_at` and `now` are in milliseconds since the epoch.
    """
    age = min(now + time_offset, LATEST) - created_at
    return age if age > 0 else 0


def states(record: PaymentRecord, simulation: SimulationRecord = NO_SIMULATION) -> tuple[State, ...]:
    """Every state of the payment, in order. Specification: "Payment transitions"."""
    due, other = int(record.due), record.other_asset
    if simulation.deposits or record.custom_scenario:
        return simulate(
            scenario_of(record.scenario, record.custom_scenario), due, other, simulation.transfers
        )
    return scenario_timeline(record.scenario).states(due, other)


def reachability(
    record: PaymentRecord, simulation: SimulationRecord, current: State, age: int, status: str | None
) -> Iterator[bool]:
    """Whether the payment, `age` milliseconds old, can still reach `status`: without another deposit, and
    with one of each kind. With None: whether it can reach any status other than its current one.
    """
    due, scenario = int(record.due), scenario_of(record.scenario, record.custom_scenario)
    missing = due - current.received_pending - current.received_finalized
    possible_transfers = [simulation.transfers] + [
        (*simulation.transfers, Transfer(age, amount, asset))
        for amount, asset in ((max(1, missing), None), (1, None), (due + 1, None), (1, record.other_asset))
    ]
    for transfers in possible_transfers:
        yield any(
            state.status == status if status else state.status != current.status
            for state in visible(simulate(scenario, due, record.other_asset, transfers))
            if state.at >= age
        )


def _check_route(body: Any, catalog: Catalog, problems: Problems) -> None:
    receive = _text_at(body, "receive", "chain"), _text_at(body, "receive", "asset")
    pay_with = _text_at(body, "pay_with", 0, "chain"), _text_at(body, "pay_with", 0, "asset")
    refund_to = _text_at(body, "refund_to", "chain"), None
    for path, (chain, asset) in (("receive", receive), ("pay_with[0]", pay_with), ("refund_to", refund_to)):
        if chain is None:
            continue
        assets = catalog.assets(chain)
        if assets is None:
            problem = f"is not a supported chain; known: {', '.join(catalog.chains)}"
            problems.setdefault(f"{path}.chain", problem)
        elif asset is not None and asset not in assets:
            problems.setdefault(f"{path}.asset", catalog.unknown_asset(chain))
    for name, received, paid in zip(("chain", "asset"), receive, pay_with, strict=True):
        if None not in (received, paid) and received != paid:
            problem = f"must be the same as receive.{name}: there is no other route"
            problems.setdefault(f"pay_with[0].{name}", problem)
    chain, asset = receive
    assets = catalog.assets(chain) if chain else None
    if assets and asset and asset in assets and "raw" in problems.get("receive.amount", ""):
        problems["receive.amount"] += f'; 1 {asset} on {chain} is "{10 ** assets[asset].decimals}"'


def _text_at(body: Any, *path: str | int) -> str | None:
    """The string at `path`, or None where there is none."""
    try:
        for step in path:
            body = body[step]
    except (KeyError, IndexError, TypeError):
        return None
    return body if isinstance(body, str) else None


def listed_scenario(scenario: Scenario) -> ListedScenario:
    """The scenario with what it leads to, for a due of EXAMPLE_DUE raw units."""
    states = example_states(scenario)
    return ListedScenario(
        **asdict(course_of(scenario)),
        final_status=states[-1].status,
        timeline=[change(previous, state) for previous, state in zip((None, *states), states, strict=False)],
    )


def change(previous: State | None, state: State) -> ScenarioChange:
    """What happens between two consecutive states; `previous` is None for the creation."""
    number = None if previous is None else changed_deposit(previous, state)
    deposit = None if number is None else state.deposits[number]
    return ScenarioChange(
        offset_seconds=state.at / 1000,
        event="Created" if previous is None else describe_change(previous, state),
        status=state.status,
        deposit=None if number is None else number + 1,
        confirmations=None if deposit is None else deposit.confirmations,
        deposit_status=None if deposit is None else deposit.status,
    )


def create_endpoint_record(body: Any, token: str, fingerprint: bytes, now: int) -> EndpointRecord:
    """The record of a new webhook endpoint for `body`, a decoded JSON value, at `now`, in milliseconds since
    the epoch. Raises PaymockError `validation_failed` with every problem of the body.
    """
    request = validate(_check_endpoint, body, CreateWebhookEndpoint)
    return EndpointRecord(
        token=token,
        fingerprint=fingerprint,
        created_at=now,
        url=request.url,
        events=request.events or [ANY_EVENT],
        description=request.description,
    )


def requests_of(record: Record, asset: str | None = None) -> tuple[str, Iterator[dict[str, Any]]]:
    """The path of the request that created a record, and all bodies that it can have had: optional members
    may have been given, null or absent. `asset` is that of the payment of a deposit.
    """
    shown: Any
    body: Any = CreatePayment
    if isinstance(record, PaymentRecord):
        path, shown = "/v1/payments", view(record, states(record)[0])
    elif isinstance(record, EndpointRecord):
        path, shown, body = "/v1/webhooks", render_endpoint(record), CreateWebhookEndpoint
    else:
        path = f"/_mock/payments/{identifiers.PAYMENT_PREFIX}{record.payment}/deposits"
        shown = body = MakeDeposit(amount=record.amount, asset=record.other_asset or asset)
    values: dict[str, Any] = msgspec.to_builtins(shown)
    choices = [
        [{field.name: values[field.name]}, *(() if field.required else ({field.name: None}, {}))]
        for field in fields(body)
    ]
    return path, ({name: one[name] for one in chosen for name in one} for chosen in product(*choices))


def render_endpoint(record: EndpointRecord) -> WebhookEndpoint:
    """A webhook endpoint as a reply body, without its secret. It is stored and listed, never called.
    Specification: "Events", "POST /v1/webhooks".
    """
    return WebhookEndpoint(
        id=identifiers.ENDPOINT_PREFIX + record.token,
        url=record.url,
        events=record.events,
        description=record.description,
        status="enabled",
        created_at=to_rfc3339(record.created_at),
    )


def render_created_endpoint(record: EndpointRecord) -> CreatedWebhookEndpoint:
    """The body of the create reply, the only one with the secret."""
    secret = identifiers.webhook_secret(record.token)
    return CreatedWebhookEndpoint(**asdict(render_endpoint(record)), secret=secret)
