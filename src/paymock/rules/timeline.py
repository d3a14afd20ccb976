"""The state machine of a payment: how the service reacts to the transfers that it observes.

`timeline` is a discrete-event simulation: it takes the earliest event from an agenda, and the rule for that
kind of event returns a new state and follow-up events, until the agenda is empty. The result is every state
of a payment with the time at which it begins; `state_at` finds the state at a given time. All times are
milliseconds since the payment's creation, all amounts raw units. Specification: "States and transitions";
what it leaves open is decided in docs/decisions.md.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from enum import IntEnum, auto
from functools import cache, lru_cache
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from msgspec import Struct

from paymock.rules.scenarios import (
    CONFIRMATION_STEPS,
    CONFIRMATIONS_REQUIRED,
    MISMATCH_REJECTED_AFTER,
    PAYMENT_WINDOW,
    SCENARIOS,
    SETTLEMENT_OUTCOME_AFTER,
    SETTLEMENT_PENDING_AFTER,
    SETTLEMENT_SUBMITTED_AFTER,
    DepositStatus,
    PaymentStatus,
    Scenario,
    Sending,
)


class Transfer(Struct, frozen=True, gc=False):
    """Funds that arrive `at` milliseconds after creation; `other_asset`: None if that of the instructions."""

    at: int
    amount: int
    other_asset: str | None = None

    @property
    def matches(self) -> bool:
        return self.other_asset is None


class World(NamedTuple):
    """What happens to one payment outside the service: the transfers, the payout's outcome, a review hold."""

    transfers: tuple[Transfer, ...]
    payout_succeeds: bool = True
    review_hold: bool = False


class Deposit(Struct, frozen=True, gc=False):
    """An observed transfer and its confirmations."""

    transfer: Transfer
    status: DepositStatus = DepositStatus.PENDING
    confirmations: int = 0

    @property
    def unsettled(self) -> bool:
        return self.status in (DepositStatus.PENDING, DepositStatus.CONFIRMING)


class State(NamedTuple):
    """The state of a payment from the time `at` on."""

    at: int
    status: PaymentStatus
    deposits: tuple[Deposit, ...] = ()

    @property
    def received_pending(self) -> int:
        """Raw units received in the asset of the instructions and not yet final."""
        return sum(one.transfer.amount for one in self.deposits if one.transfer.matches and one.unsettled)

    @property
    def received_finalized(self) -> int:
        finalized = DepositStatus.FINALIZED
        return sum([deposit.transfer.amount for deposit in self.deposits if deposit.status is finalized])


CREATED = State(0, PaymentStatus.AWAITING_PAYMENT)
"""The initial state of every payment."""


def timeline(due: int, world: World) -> tuple[State, ...]:
    """Every state of a payment of `due` raw units in `world`, in order. The first is `CREATED`."""
    agenda = [Event(PAYMENT_WINDOW, EventKind.PAYMENT_WINDOW_CLOSED)]
    agenda += [
        Event(transfer.at, EventKind.TRANSFER_OBSERVED, number)
        for number, transfer in enumerate(world.transfers)
    ]
    heapify(agenda)
    states = [CREATED]
    while agenda:
        event = heappop(agenda)
        state, follow_ups = _TRANSITIONS[event.kind](states[-1], event, due, world)
        if state is not states[-1]:
            states.append(state)
        for follow_up in follow_ups:
            heappush(agenda, follow_up)
    return tuple(states)


def simulate(
    scenario: Scenario, due: int, other_asset: str, extra: tuple[Transfer, ...] = ()
) -> tuple[State, ...]:
    """Every state of a payment of `due` raw units in `scenario`, in order, with `extra` transfers in addition
    to the scripted ones. `other_asset` is the asset of a mismatched transfer.
    """
    scripted = tuple(_transfer(sending, due, other_asset) for sending in scenario.sending)
    return timeline(due, World(scripted + extra, scenario.payout_succeeds, scenario.review_hold))


def _transfer(sending: Sending, due: int, other_asset: str) -> Transfer:
    return Transfer(sending.at_ms, sending.amount(due), other_asset if sending.other_asset else None)


class ScenarioTimeline:
    """The states of all payments of one of SCENARIOS to which no test has added deposits. They differ in
    amounts and assets only, since its share of `due` compares with `due` in the same way whatever that is. So
    the rules are applied once for each scenario.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.outline = simulate(scenario, due=100, other_asset="")
        """The states, of which only the times and the statuses are those of every payment."""
        self._starts = [state.at for state in self.outline]
        self._sending = sorted(scenario.sending, key=lambda sending: sending.at)  # as they are observed

    def index_at(self, elapsed: int) -> int:
        """The index of the state that holds `elapsed` milliseconds after creation."""
        return bisect_right(self._starts, elapsed) - 1

    def period(self, index: int) -> tuple[float, float]:
        """When the state with this index begins, and the next one: milliseconds after creation."""
        return self._starts[index], self._starts[index + 1] if index + 1 < len(self._starts) else math.inf

    def state(self, index: int, due: int, other_asset: str) -> State:
        state = self.outline[index]
        if not state.deposits:
            return state
        observed = zip(self._sending, state.deposits, strict=False)  # some transfers are later
        deposits = [
            Deposit(_transfer(sending, due, other_asset), deposit.status, deposit.confirmations)
            for sending, deposit in observed
        ]
        return State(state.at, state.status, tuple(deposits))

    def states(self, due: int, other_asset: str) -> tuple[State, ...]:
        return tuple([self.state(index, due, other_asset) for index in range(len(self.outline))])


@cache
def scenario_timeline(name: str) -> ScenarioTimeline:
    return ScenarioTimeline(SCENARIOS[name])


def state_at(states: Sequence[State], elapsed: int) -> State:
    """The state `elapsed` milliseconds after creation: the last of `states` that begins at or before then."""
    return states[max(0, bisect_right(states, elapsed, key=lambda state: state.at) - 1)]


def visible(states: Sequence[State]) -> list[State]:
    """The states that a read can show: the last of those that begin in the same millisecond."""
    return [*{state.at: state for state in states}.values()]


class EventKind(IntEnum):
    """Kinds of events, in the order in which simultaneous events are handled: funds that become final exactly
    when the payment window closes are in time, a transfer that is observed exactly then is late.
    """

    DEPOSIT_CONFIRMED = auto()
    DEPOSIT_REJECTED = auto()
    SETTLEMENT_DUE = auto()
    PAYOUT_SENT = auto()
    PAYOUT_DECIDED = auto()
    PAYMENT_WINDOW_CLOSED = auto()
    TRANSFER_OBSERVED = auto()


class Event(NamedTuple):
    """An event of the agenda; `number` is that of the transfer or deposit, from 0."""

    at: int
    kind: EventKind
    number: int = 0
    confirmations: int = 0


_Outcome = tuple[State, Iterable[Event]]
"""The state after an event, and the events that follow from it."""


def transfer_observed(state: State, event: Event, due: int, world: World) -> _Outcome:
    transfer = world.transfers[event.number]
    number = len(state.deposits)
    if state.status is PaymentStatus.AWAITING_PAYMENT:
        status = PaymentStatus.PAYMENT_DETECTED
    elif event.at >= PAYMENT_WINDOW and state.status in (PaymentStatus.EXPIRED, *_FUNDING):
        status = PaymentStatus.MANUAL_REVIEW
    else:
        status = state.status
    if transfer.matches:
        follow_ups = [
            Event(event.at + delay, EventKind.DEPOSIT_CONFIRMED, number, confirmations)
            for delay, confirmations in CONFIRMATION_STEPS
        ]
    else:
        follow_ups = [Event(event.at + MISMATCH_REJECTED_AFTER, EventKind.DEPOSIT_REJECTED, number)]
    return State(event.at, status, (*state.deposits, Deposit(transfer))), follow_ups


def deposit_confirmed(state: State, event: Event, due: int, world: World) -> _Outcome:
    final = event.confirmations == CONFIRMATIONS_REQUIRED
    status = DepositStatus.FINALIZED if final else DepositStatus.CONFIRMING
    state = _with_deposit(state, event, status)
    if not final or state.status not in _FUNDING:
        return state, ()
    received = state.received_finalized
    if received > due:
        return State(event.at, PaymentStatus.OVERPAID_REVIEW, state.deposits), ()
    if received == due:
        return State(event.at, PaymentStatus.PAYMENT_FINALIZED, state.deposits), (
            Event(event.at + SETTLEMENT_PENDING_AFTER, EventKind.SETTLEMENT_DUE),
            Event(event.at + SETTLEMENT_SUBMITTED_AFTER, EventKind.PAYOUT_SENT),
            Event(event.at + SETTLEMENT_OUTCOME_AFTER, EventKind.PAYOUT_DECIDED),
        )
    return (_underpaid(state, event.at) if event.at >= PAYMENT_WINDOW else state), ()


def deposit_rejected(state: State, event: Event, due: int, world: World) -> _Outcome:
    state = _with_deposit(state, event, DepositStatus.REJECTED)
    if state.status in _FUNDING:
        state = State(event.at, PaymentStatus.MANUAL_REVIEW, state.deposits)
    return state, ()


def payment_window_closed(state: State, event: Event, due: int, world: World) -> _Outcome:
    if state.status is PaymentStatus.AWAITING_PAYMENT:
        return State(event.at, PaymentStatus.EXPIRED, state.deposits), ()
    if state.status is PaymentStatus.PAYMENT_DETECTED:
        return _underpaid(state, event.at), ()
    return state, ()


def settlement_advanced(state: State, event: Event, due: int, world: World) -> _Outcome:
    if event.kind is EventKind.SETTLEMENT_DUE:
        before = PaymentStatus.PAYMENT_FINALIZED
        after = PaymentStatus.MANUAL_REVIEW if world.review_hold else PaymentStatus.SETTLEMENT_PENDING
    elif event.kind is EventKind.PAYOUT_SENT:
        before, after = PaymentStatus.SETTLEMENT_PENDING, PaymentStatus.SETTLEMENT_SUBMITTED
    else:
        before = PaymentStatus.SETTLEMENT_SUBMITTED
        after = PaymentStatus.COMPLETED if world.payout_succeeds else PaymentStatus.FAILED
    if state.status is not before:  # an excess or another asset arrived in between
        return state, ()
    return State(event.at, after, state.deposits), ()


def _underpaid(state: State, at: int) -> State:
    """The state after the payment window has closed: underpaid, once no deposit is unsettled any more."""
    if any(deposit.unsettled for deposit in state.deposits):
        return state
    return State(at, PaymentStatus.UNDERPAID_EXPIRED, state.deposits)


def _with_deposit(state: State, event: Event, status: DepositStatus) -> State:
    deposits = list(state.deposits)
    deposits[event.number] = Deposit(deposits[event.number].transfer, status, event.confirmations)
    return State(event.at, state.status, tuple(deposits))


_FUNDING = (PaymentStatus.PAYMENT_DETECTED, PaymentStatus.PAYMENT_FINALIZED)
"""The statuses in which funds decide the next one. A transfer neither stops a settlement that has begun nor
changes a final status.
"""

_TRANSITIONS: Mapping[EventKind, Callable[[State, Event, int, World], _Outcome]] = {
    EventKind.DEPOSIT_CONFIRMED: deposit_confirmed,
    EventKind.DEPOSIT_REJECTED: deposit_rejected,
    EventKind.SETTLEMENT_DUE: settlement_advanced,
    EventKind.PAYOUT_SENT: settlement_advanced,
    EventKind.PAYOUT_DECIDED: settlement_advanced,
    EventKind.PAYMENT_WINDOW_CLOSED: payment_window_closed,
    EventKind.TRANSFER_OBSERVED: transfer_observed,
}


# What leads where, for people


def example_states(scenario: Scenario) -> tuple[State, ...]:
    """The states of the payment that stands for all of a scenario: of 1,000,000 raw units."""
    return simulate(scenario, 1_000_000, "USDC")


def scenario_hint(name: str, scenarios: Collection[str]) -> str:
    """What was probably meant by a name that is none of `scenarios`, or the empty string."""
    word = name.lower()[:64]
    word = "happy_path" if word in ("success", "paid", "ok") else word
    for scenario in SCENARIOS.values():
        if any(state.status == word for state in example_states(scenario)):
            return f"a payment becomes `{word}` in {scenario.name}"
    nearest = [name for name in scenarios if word in name] if len(word) > 2 else []
    nearest = nearest or get_close_matches(word, scenarios, 1, cutoff=0.5)
    return f"the nearest is {' or '.join(nearest)}" if nearest else ""


class ScenarioSummary(NamedTuple):
    """What a scenario leads to."""

    name: str
    final_status: str
    after_seconds: float
    description: str

    @property
    def after(self) -> str:
        return f"{self.after_seconds} s"


@lru_cache(maxsize=256)  # those of a server; a long one takes milliseconds
def summarize(scenario: Scenario) -> ScenarioSummary:
    """A row of the scenario table. Specification: "Scenarios"."""
    states = example_states(scenario)
    final = next(state for state in states if state.status is states[-1].status)
    seconds = final.at / 1000 if final.at % 1000 else final.at // 1000
    return ScenarioSummary(scenario.name, final.status, seconds, scenario.simulates)
