"""The rules: what the service makes of the transfers that it observes.

`timeline` is a small agenda: it takes the earliest event, the event's rule answers with a new state and
follow-up events, until nothing is left. The result is every state that a payment goes through, with the
moment at which each begins; `state_at` picks the one that holds. All times are milliseconds since the
payment's creation, all amounts raw units. Specification: "States and transitions"; what it leaves open is
decided in docs/decisions.md.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum, auto
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from paymock.rules.scenarios import (
    CONFIRMATION_STEPS,
    CONFIRMATIONS_REQUIRED,
    MISMATCH_REJECTED_AFTER,
    SETTLEMENT_OUTCOME_AFTER,
    SETTLEMENT_PENDING_AFTER,
    SETTLEMENT_SUBMITTED_AFTER,
    WINDOW,
    DepositStatus,
    PaymentStatus,
    Scenario,
)


class Transfer(NamedTuple):
    """Funds that reach the invoice address: when, how much, and in which asset, unless in that of the
    instructions.
    """

    at: int
    amount: int
    other_asset: str | None = None

    @property
    def matches(self) -> bool:
        """Whether the funds came in the asset of the instructions."""
        return self.other_asset is None


class World(NamedTuple):
    """What the outside world does to one payment: the transfers, the payout's fate, a reviewer's hold."""

    transfers: tuple[Transfer, ...]
    payout_succeeds: bool = True
    review_hold: bool = False


class Deposit(NamedTuple):
    """What the service knows of one transfer."""

    transfer: Transfer
    status: DepositStatus = DepositStatus.PENDING
    confirmations: int = 0

    @property
    def unsettled(self) -> bool:
        """Whether finality or a rejection is still to come."""
        return self.status in (DepositStatus.PENDING, DepositStatus.CONFIRMING)


class State(NamedTuple):
    """A payment from the moment `at` on."""

    at: int
    status: PaymentStatus
    deposits: tuple[Deposit, ...] = ()

    @property
    def received_pending(self) -> int:
        """Raw units received in the right asset and not yet final."""
        return sum(
            deposit.transfer.amount
            for deposit in self.deposits
            if deposit.transfer.matches and deposit.unsettled
        )

    @property
    def received_finalized(self) -> int:
        """Raw units received and final."""
        return sum(
            deposit.transfer.amount for deposit in self.deposits if deposit.status is DepositStatus.FINALIZED
        )


CREATED = State(0, PaymentStatus.AWAITING_PAYMENT)
"""Every payment begins here."""


def timeline(due: int, world: World) -> tuple[State, ...]:
    """Every state of a payment of `due` raw units in `world`, in order; the first is `CREATED`."""
    agenda = [Event(WINDOW, Kind.WINDOW_CLOSES)]
    agenda += [
        Event(transfer.at, Kind.TRANSFER_OBSERVED, number) for number, transfer in enumerate(world.transfers)
    ]
    heapify(agenda)
    states = [CREATED]
    while agenda:
        event = heappop(agenda)
        state, follow_ups = _RULES[event.kind](states[-1], event, due, world)
        if state is not states[-1]:
            states.append(state)
        for follow_up in follow_ups:
            heappush(agenda, follow_up)
    return tuple(states)


def play(
    scenario: Scenario, due: int, other_asset: str, extra: tuple[Transfer, ...] = ()
) -> tuple[State, ...]:
    """Every state of a payment of `due` raw units in `scenario`, with `extra` transfers beside the
    scenario's own; `other_asset` is what a mistaken customer pays in.
    """
    scripted = tuple(
        Transfer(sent.at, sent.share.of(due), other_asset if sent.other_asset else None)
        for sent in scenario.sendings
    )
    return timeline(due, World(scripted + extra, scenario.payout_succeeds, scenario.review_hold))


def state_at(states: Sequence[State], elapsed: int) -> State:
    """The state that holds `elapsed` milliseconds after creation: the last that begins at or before then."""
    return states[max(0, bisect_right(states, elapsed, key=lambda state: state.at) - 1)]


def deposit_between(before: State, after: State) -> int | None:
    """The number, from 0, of the deposit that something happened to between two neighboring states, if it
    happened to one.
    """
    return next(
        (
            number
            for number, deposit in enumerate(after.deposits)
            if number >= len(before.deposits) or before.deposits[number] != deposit
        ),
        None,
    )


def event_between(before: State, after: State) -> str:
    """What happened between two neighboring states, in words."""
    changed = deposit_between(before, after)
    if changed is None:
        return f"`{after.status}`"
    deposit = after.deposits[changed]
    what = "Confirmations" if changed < len(before.deposits) else "Deposit observed, confirmations"
    moved = f": `{after.status}`" if after.status is not before.status else ""
    return f"{what} {deposit.confirmations}/{CONFIRMATIONS_REQUIRED}, `{deposit.status}`{moved}"


class Kind(IntEnum):
    """What can happen, in the order in which events of one moment are taken: funds that become final just
    as the window closes were in time, a transfer that is observed just then was not.
    """

    DEPOSIT_CONFIRMED = auto()
    DEPOSIT_REJECTED = auto()
    SETTLEMENT_DUE = auto()
    PAYOUT_SENT = auto()
    PAYOUT_DECIDED = auto()
    WINDOW_CLOSES = auto()
    TRANSFER_OBSERVED = auto()


class Event(NamedTuple):
    """Something that happens at a moment, to a transfer or deposit by its number."""

    at: int
    kind: Kind
    number: int = 0
    confirmations: int = 0


_Answer = tuple[State, Iterable[Event]]


def _transfer_observed(state: State, event: Event, due: int, world: World) -> _Answer:
    transfer = world.transfers[event.number]
    number = len(state.deposits)
    if state.status is PaymentStatus.AWAITING_PAYMENT:
        status = PaymentStatus.PAYMENT_DETECTED
    elif event.at >= WINDOW and state.status in (PaymentStatus.EXPIRED, *_FUNDING):
        status = PaymentStatus.MANUAL_REVIEW
    else:
        status = state.status
    if transfer.matches:
        ahead = [
            Event(event.at + delay, Kind.DEPOSIT_CONFIRMED, number, confirmations)
            for delay, confirmations in CONFIRMATION_STEPS
        ]
    else:
        ahead = [Event(event.at + MISMATCH_REJECTED_AFTER, Kind.DEPOSIT_REJECTED, number)]
    return State(event.at, status, (*state.deposits, Deposit(transfer))), ahead


def _deposit_confirmed(state: State, event: Event, due: int, world: World) -> _Answer:
    final = event.confirmations == CONFIRMATIONS_REQUIRED
    status = DepositStatus.FINALIZED if final else DepositStatus.CONFIRMING
    state = _with_deposit(state, event, status)
    if final and state.status in _FUNDING:
        return _funds_finalized(state, event.at, due)
    return state, ()


def _funds_finalized(state: State, at: int, due: int) -> _Answer:
    received = state.received_finalized
    if received > due:
        return _moved(state, at, PaymentStatus.OVERPAID_REVIEW), ()
    if received == due:
        return _moved(state, at, PaymentStatus.PAYMENT_FINALIZED), (
            Event(at + SETTLEMENT_PENDING_AFTER, Kind.SETTLEMENT_DUE),
            Event(at + SETTLEMENT_SUBMITTED_AFTER, Kind.PAYOUT_SENT),
            Event(at + SETTLEMENT_OUTCOME_AFTER, Kind.PAYOUT_DECIDED),
        )
    return (_underpaid(state, at) if at >= WINDOW else state), ()


def _deposit_rejected(state: State, event: Event, due: int, world: World) -> _Answer:
    state = _with_deposit(state, event, DepositStatus.REJECTED)
    if state.status in _FUNDING:
        state = _moved(state, event.at, PaymentStatus.MANUAL_REVIEW)
    return state, ()


def _window_closes(state: State, event: Event, due: int, world: World) -> _Answer:
    if state.status is PaymentStatus.AWAITING_PAYMENT:
        return _moved(state, event.at, PaymentStatus.EXPIRED), ()
    if state.status is PaymentStatus.PAYMENT_DETECTED:
        return _underpaid(state, event.at), ()
    return state, ()


def _settlement_due(state: State, event: Event, due: int, world: World) -> _Answer:
    if state.status is not PaymentStatus.PAYMENT_FINALIZED:  # an excess or a wrong asset came in between
        return state, ()
    held = world.review_hold
    return _moved(
        state, event.at, PaymentStatus.MANUAL_REVIEW if held else PaymentStatus.SETTLEMENT_PENDING
    ), ()


def _payout_sent(state: State, event: Event, due: int, world: World) -> _Answer:
    if state.status is not PaymentStatus.SETTLEMENT_PENDING:
        return state, ()
    return _moved(state, event.at, PaymentStatus.SETTLEMENT_SUBMITTED), ()


def _payout_decided(state: State, event: Event, due: int, world: World) -> _Answer:
    if state.status is not PaymentStatus.SETTLEMENT_SUBMITTED:
        return state, ()
    return _moved(
        state, event.at, PaymentStatus.COMPLETED if world.payout_succeeds else PaymentStatus.FAILED
    ), ()


def _underpaid(state: State, at: int) -> State:
    """After the window has closed: deposits that are still confirming are waited for, then what is final
    decides.
    """
    if any(deposit.unsettled for deposit in state.deposits):
        return state
    return _moved(state, at, PaymentStatus.UNDERPAID_EXPIRED)


def _moved(state: State, at: int, status: PaymentStatus) -> State:
    return state._replace(at=at, status=status)


def _with_deposit(state: State, event: Event, status: DepositStatus) -> State:
    deposits = list(state.deposits)
    deposits[event.number] = deposits[event.number]._replace(status=status, confirmations=event.confirmations)
    return state._replace(at=event.at, deposits=tuple(deposits))


_FUNDING = (PaymentStatus.PAYMENT_DETECTED, PaymentStatus.PAYMENT_FINALIZED)
"""While a payment is here, its funds decide what comes next. A settlement that has begun is not stopped,
and a payment that has ended stays ended, whatever arrives.
"""

_RULES: Mapping[Kind, Callable[[State, Event, int, World], _Answer]] = {
    Kind.DEPOSIT_CONFIRMED: _deposit_confirmed,
    Kind.DEPOSIT_REJECTED: _deposit_rejected,
    Kind.SETTLEMENT_DUE: _settlement_due,
    Kind.PAYOUT_SENT: _payout_sent,
    Kind.PAYOUT_DECIDED: _payout_decided,
    Kind.WINDOW_CLOSES: _window_closes,
    Kind.TRANSFER_OBSERVED: _transfer_observed,
}
