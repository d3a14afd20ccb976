"""The states of a payment, and the reply body of a state; webhook endpoints; and scenarios as the control API
shows them. Specification: "POST /v1/payments", "Payment object".
"""

from collections.abc import Iterator
from itertools import accumulate, zip_longest

from msgspec import UNSET
from msgspec.structs import asdict

from paymock.payments.creation import DEFAULT_LIFETIME
from paymock.payments.records import EndpointRecord, PaymentRecord, SimulationRecord
from paymock.rules import identifiers
from paymock.rules.scenarios import CONFIRMATIONS_REQUIRED, PaymentStatus, Scenario, scenario_of
from paymock.rules.timeline import State, Transfer, example_states, scenario_timeline, simulate, visible
from paymock.rules.times import to_rfc3339
from paymock.schemas.control import ListedScenario, ScenarioChange
from paymock.schemas.public import (
    INSTRUCTION_TYPE,
    SETTLEMENT_MODE,
    SETTLING,
    Amounts,
    Attempt,
    CreatedWebhookEndpoint,
    Deposit,
    Funding,
    Instructions,
    Payment,
    PayWithRequest,
    ReceiveRequest,
    RefundToRequest,
    SettlementRequest,
    WebhookEndpoint,
)
from paymock.schemas.scenarios import course_of

NO_SIMULATION = SimulationRecord()
"""What is stored of a payment that no test has changed."""

MAX_ENDPOINTS = 100
"""The maximum number of webhook endpoints in a sandbox."""

MAX_DEPOSITS = 100
"""The maximum number of simulated deposits of a payment: the size of its timeline is quadratic in it."""


def view(record: PaymentRecord, state: State) -> Payment:
    """The payment in `state`, as a reply body. Specification: "Payment object"."""
    created_at, token = record.created_at, record.token
    created = to_rfc3339(created_at)
    attempt = Attempt(
        id=identifiers.attempt_id(token),
        status=PaymentStatus.PAYMENT_FINALIZED if state.status in SETTLING else state.status,
        instructions=Instructions(
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


def states(record: PaymentRecord, simulation: SimulationRecord = NO_SIMULATION) -> tuple[State, ...]:
    """Every state of the payment, in order. Specification: "Payment transitions"."""
    due, other = int(record.due), record.other_asset
    if simulation.deposits or record.custom_scenario:
        scenario = scenario_of(record.scenario, record.custom_scenario)
        return simulate(scenario, due, other, simulation.transfers)
    return scenario_timeline(record.scenario).states(due, other)


def reachability(
    record: PaymentRecord, simulation: SimulationRecord, current: State, age: int, status: str | None
) -> Iterator[bool]:
    """Whether the payment, `age` milliseconds old, can still reach `status`: without another deposit, and
    with one of each kind. With None: whether it can reach any status other than its current one.

    A deposit now can complete what has been received, together with the next transfers of the scenario, any
    number of them.
    """
    due, scenario = int(record.due), scenario_of(record.scenario, record.custom_scenario)
    missing = due - current.received_pending - current.received_finalized
    sending = sorted((one.at_ms, one.amount(due)) for one in scenario.sending if not one.other_asset)
    ahead = accumulate((amount for at, amount in sending if at > age), initial=0)
    amounts = {1: None, due + 1: None, **{missing - later: None for later in ahead if missing > later}}
    deposits = [*(Transfer(age, amount) for amount in amounts), Transfer(age, 1, record.other_asset)]
    more = deposits if len(simulation.deposits) < MAX_DEPOSITS else []
    for transfers in (simulation.transfers, *((*simulation.transfers, deposit) for deposit in more)):
        yield any(
            state.status == status if status else state.status != current.status
            for state in visible(simulate(scenario, due, record.other_asset, transfers))
            if state.at >= age
        )


def listed_scenario(scenario: Scenario) -> ListedScenario:
    """The scenario with what it leads to."""
    states = example_states(scenario)
    return ListedScenario(
        **asdict(course_of(scenario)),
        final_status=states[-1].status,
        timeline=[change(previous, state) for previous, state in zip((None, *states), states, strict=False)],
    )


def change(previous: State | None, state: State) -> ScenarioChange:
    """What happens between two consecutive states; `previous` is None for the creation."""
    earlier, event = (previous.deposits, str(state.status)) if previous else ((), "Created")
    pairs = enumerate(zip_longest(earlier, state.deposits))
    number, deposit = next(((number, new) for number, (old, new) in pairs if old != new), (0, None))
    if deposit:
        event = "Confirmations" if number < len(earlier) else "Deposit observed, confirmations"
        event += f" {deposit.confirmations}/{CONFIRMATIONS_REQUIRED}, {deposit.status}"
        event += f": {state.status}" if previous and previous.status is not state.status else ""
    return ScenarioChange(
        offset_seconds=state.at / 1000,
        event=event,
        status=state.status,
        deposit=number + 1 if deposit else None,
        confirmations=deposit.confirmations if deposit else None,
        deposit_status=deposit.status if deposit else None,
    )


def render_endpoint(record: EndpointRecord) -> WebhookEndpoint:
    """An endpoint as a reply body, without its secret. Specification: "Events", "POST /v1/webhooks"."""
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
