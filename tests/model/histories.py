"""Random histories of a sandbox, and the operations that they come to."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.model.reference_model import SCENARIOS, WINDOW, Payment

MAX_AMOUNT = 2**256 - 1
ASSETS = ("USDT", "USDC")
"""Tokens of one chain: the other asset of each is the other one."""

# Steps: what a history consists of. Times are in milliseconds. `payment` counts through those that exist.


class Create(NamedTuple):
    scenario: str
    amount: int
    asset: str = "USDT"


class CreateAgain(NamedTuple):
    """The same request with the same idempotency key."""

    payment: int


class MakeDeposits(NamedTuple):
    """Simulated deposits at one moment: each is `plus` and one of `due`, `half`, `rest` (what is missing)
    or `none`.
    """

    payment: int
    base: str
    plus: int
    other_asset: bool = False
    times: int = 1


class AdvanceSandbox(NamedTuple):
    """The whole sandbox."""

    milliseconds: int


class AdvancePayment(NamedTuple):
    payment: int
    milliseconds: int


class AdvanceTo(NamedTuple):
    """A status, `next` or `end`."""

    payment: int
    target: str


class AdvanceBefore(NamedTuple):
    """Go to `lead` milliseconds before something to come: the close of the window, the next step of the
    settlement, or a change of the payment, by its number.
    """

    payment: int
    goal: str | int
    lead: int
    whole_sandbox: bool = False


class SetSpeed(NamedTuple):
    speed: float


class AdvanceServerClock(NamedTuple):
    """On the server's own clock."""

    milliseconds: int


PaymentStep = CreateAgain | MakeDeposits | AdvancePayment | AdvanceTo | AdvanceBefore
Step = Create | AdvanceSandbox | SetSpeed | AdvanceServerClock | PaymentStep
History = list[Step]

_PAYMENTS = st.integers(0, 2)
_AMOUNTS = st.one_of(
    st.integers(1, 30),
    st.integers(1, 30_000),
    st.sampled_from(
        [10**18, MAX_AMOUNT, MAX_AMOUNT // 2, MAX_AMOUNT * 100 // 101, MAX_AMOUNT * 100 // 101 + 1]
    ),
    st.integers(1, MAX_AMOUNT),
)
_SPANS = st.one_of(
    st.sampled_from([1, 999, 1_000, 2_000, 5_000, 7_999, 8_000]),
    st.integers(1, 10_000),
    st.integers(1, 60_000),
)
_DELTAS = st.sampled_from([0, 0, 0, 0, 1, -1])
STATUSES = [
    *("awaiting_payment", "payment_detected", "payment_finalized"),
    *("settlement_pending", "settlement_submitted", "completed"),
    *("expired", "underpaid_expired", "overpaid_review", "manual_review", "failed"),
]
"""Spec, "Payment statuses"."""

_SCENARIOS = st.sampled_from([*SCENARIOS]) | st.just("no_payment_expired")  # in which steps can decide most
_CREATIONS = st.builds(Create, _SCENARIOS, _AMOUNTS, st.sampled_from(ASSETS))
_TRANSFERS = st.builds(
    MakeDeposits,
    _PAYMENTS,
    st.sampled_from(["rest", "rest", "rest", "due", "half", "none"]),
    st.sampled_from([0, 0, 0, 0, 0, -1, 1, 2, MAX_AMOUNT]),
    st.sampled_from([False, False, True]),
    st.sampled_from([1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 9]),
)


def _tie(
    goal: str | int, halves: int, delta: int, transfers: MakeDeposits, *, funded: bool, whole: bool
) -> tuple[Step, ...]:
    """MakeDeposits that are observed at the goal, are open then, or are rejected or final at it, `delta`
    milliseconds before; after the payment was funded, or not.
    """
    span = halves * (1_000 if transfers.other_asset else 4_000)
    tie = AdvanceBefore(transfers.payment, goal, span + delta, whole), transfers
    return (MakeDeposits(transfers.payment, "rest", 0), *tie) if funded else tie


def _ties(
    goals: st.SearchStrategy[str | int], *, funded: bool = False
) -> st.SearchStrategy[tuple[Step, ...]]:
    halves = st.integers(0, 2)
    return st.builds(_tie, goals, halves, _DELTAS, _TRANSFERS, funded=st.just(funded), whole=st.booleans())


_TARGETS = st.sampled_from(["next", "next", "end", *STATUSES])
_SPEEDS = st.sampled_from([0, 0.5, 1, 10, 10_000])
_TIMES = st.integers(1, 5_000).map(
    lambda half: AdvanceServerClock(2 * half)
)  # whole milliseconds at every speed
_STEPS = st.one_of(
    _ties(st.just("close")),
    _ties(st.just("close")),
    _ties(st.just("settlement")),
    _ties(st.just("settlement"), funded=True),
    _ties(st.just("settlement"), funded=True),
    _ties(st.integers(0, 4)),
    _ties(st.integers(0, 9)),
    st.tuples(_TRANSFERS),
    st.tuples(st.builds(AdvanceTo, _PAYMENTS, _TARGETS)),
    st.tuples(st.builds(AdvancePayment, _PAYMENTS, _SPANS) | st.builds(AdvanceSandbox, _SPANS)),
    st.tuples(_CREATIONS | st.builds(CreateAgain, _PAYMENTS)),
    st.tuples(st.builds(SetSpeed, _SPEEDS), _TIMES),
)

HISTORIES = st.tuples(st.tuples(_CREATIONS), st.lists(_STEPS, min_size=2, max_size=10)).map(
    lambda parts: [step for group in (parts[0], *parts[1]) for step in group]
)
"""Each begins with a creation. Pairs of an approach and transfers make ties at one millisecond frequent."""


class Operation(NamedTuple):
    """A call of a method that both sandboxes have. Of most, the first argument is the number of a payment."""

    name: str
    arguments: tuple[Any, ...]

    @property
    def payment(self) -> int:
        return int(self.arguments[0])


def operations(step: Step, payments: Mapping[int, Payment], number: int) -> Iterator[Operation]:
    """What a step comes to, as the payments stand. `number` is that of the next payment."""
    match step:
        case Create():
            yield Operation("create", (number, *step))
        case AdvanceSandbox():
            yield Operation("advance", tuple(step))
        case SetSpeed():
            yield Operation("set_speed", tuple(step))
        case AdvanceServerClock():
            yield Operation("pass_time", tuple(step))
        case _ if payments:
            chosen = [*payments][step.payment % len(payments)]
            yield from _operations_on(chosen, payments[chosen], step)


def _operations_on(number: int, payment: Payment, step: PaymentStep) -> Iterator[Operation]:
    match step:
        case CreateAgain():
            yield Operation("create_again", (number, payment.name, payment.due - payment.fee, payment.asset))
        case MakeDeposits():
            asset = payment.other_asset if step.other_asset else None
            yield from [Operation("deposit", (number, _amount(step, payment), asset))] * step.times
        case AdvancePayment():
            yield Operation("advance_payment", (number, step.milliseconds))
        case AdvanceTo():
            yield Operation("advance_to", (number, step.target))
        case AdvanceBefore() if (span := _milliseconds_to(step, payment)) > 0:
            whole = Operation("advance", (span,))
            yield whole if step.whole_sandbox else Operation("advance_payment", (number, span))


def _amount(step: MakeDeposits, payment: Payment) -> int:
    received = sum(deposit.amount for deposit in payment.deposits if deposit.matches)
    bases = {"due": payment.due, "half": payment.due // 2, "rest": payment.due - received, "none": 0}
    return min(max(1, bases[step.base] + step.plus), MAX_AMOUNT)


def _milliseconds_to(step: AdvanceBefore, payment: Payment) -> int:
    """How far away that is, in milliseconds; not above 0 when it is past, or does not lie ahead."""
    close = payment.created + WINDOW
    match step.goal:
        case "close":
            moments = [close]
        case "settlement":
            moments = [
                change.at for change in payment.ahead() if change.deposit is None and change.at != close
            ]
        case int(number):
            changes = [change.at for change in payment.ahead()]
            moments = changes[number % len(changes) :] if changes else []
    return moments[0] - step.lead - payment.now if moments else 0
