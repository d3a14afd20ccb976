"""Scenarios as data: the eight of the specification, and the timing table. All times are milliseconds.

A scenario says what happens *outside* the service: which transfers reach the invoice address, whether the
payout succeeds, whether a reviewer holds the payment. How the *service* reacts, and so the final status, is
defined by `timeline`. Users can add scenarios of their own: see docs/scenarios.md.
Specification: "Scenarios", "Happy-path timing".
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, Self

from paymock.rules.amounts import MAX_RAW

CONFIRMATIONS_REQUIRED = 16
CONFIRMATION_STEPS = ((2_000, 4), (4_000, 8), (6_000, 12), (8_000, CONFIRMATIONS_REQUIRED))
"""(milliseconds after a transfer is observed, its confirmations from then on)."""

MISMATCH_REJECTED_AFTER = 2_000
"""From the observation of a transfer in another asset to its rejection."""

PAYMENT_WINDOW = 30_000
"""From the creation of a payment to the end of its payment window."""

SETTLEMENT_PENDING_AFTER = 12_000
SETTLEMENT_SUBMITTED_AFTER = 17_000
SETTLEMENT_OUTCOME_AFTER = 32_000
"""From finality of the funds to each step of the settlement."""

DEFAULT_SCENARIO = "happy_path"


class PaymentStatus(StrEnum):
    """Where a payment stands."""

    AWAITING_PAYMENT = "awaiting_payment"
    PAYMENT_DETECTED = "payment_detected"
    PAYMENT_FINALIZED = "payment_finalized"
    SETTLEMENT_PENDING = "settlement_pending"
    SETTLEMENT_SUBMITTED = "settlement_submitted"
    COMPLETED = "completed"
    EXPIRED = "expired"
    UNDERPAID_EXPIRED = "underpaid_expired"
    OVERPAID_REVIEW = "overpaid_review"
    MANUAL_REVIEW = "manual_review"
    FAILED = "failed"


TERMINAL_STATUSES = frozenset(
    {
        PaymentStatus.COMPLETED,
        PaymentStatus.UNDERPAID_EXPIRED,
        PaymentStatus.OVERPAID_REVIEW,
        PaymentStatus.MANUAL_REVIEW,
        PaymentStatus.FAILED,
    }
)
"""The statuses that nothing changes any more. `expired` is none of them: a late payment changes it."""


class DepositStatus(StrEnum):
    """Where a deposit stands."""

    PENDING = "pending"
    CONFIRMING = "confirming"
    FINALIZED = "finalized"
    REJECTED = "rejected"


class Share(NamedTuple):
    """How much the simulated customer sends: a fraction of `due`, rounded down, and `plus` raw units, which
    can be negative; but at least `due` and `least_excess` raw units more, if that is given. Both are text,
    since records cannot hold integers of 256 bits.
    """

    numerator: int = 1
    denominator: int = 1
    plus: str = "0"
    least_excess: str | None = None

    @classmethod
    def of(cls, fraction: str, plus: str = "0", least_excess: str | None = None) -> Self:
        """The share with this fraction, such as `1/2`."""
        numerator, denominator = map(int, fraction.split("/"))
        return cls(numerator, denominator, plus, least_excess)

    @property
    def fraction(self) -> str:
        return f"{self.numerator}/{self.denominator}"

    def amount(self, due: int) -> int:
        """The raw units to send for a payment of `due` raw units: at least 1, and at most MAX_RAW unless
        there is a `least_excess`.
        """
        amount = max(1, due * self.numerator // self.denominator + int(self.plus))
        if self.least_excess is None:
            return min(amount, MAX_RAW)
        return max(amount, due + int(self.least_excess))


FULL, HALF, EXCESS = Share(), Share(1, 2), Share(11, 10, least_excess="1")


class Sending(NamedTuple):
    """A transfer by the simulated customer, `at` milliseconds after creation; `other_asset`: not in the
    asset of the instructions.
    """

    at: int
    share: Share = FULL
    other_asset: bool = False


class Scenario(NamedTuple):
    """What happens outside the service, by the names of docs/scenarios.md. One of the eight is a row of the
    specification's table.
    """

    name: str
    simulates: str
    sending: tuple[Sending, ...] = (Sending(5_000),)
    payout_succeeds: bool = True
    review_hold: bool = False


_ROWS = (
    Scenario(
        "happy_path",
        "The customer pays the full `due` in the correct asset; the deposit finalizes; settlement completes.",
    ),
    Scenario(
        "no_payment_expired",
        "No deposit before expiry.",
        sending=(),
    ),
    Scenario(
        "underpaid_expired",
        "The customer sends half of `due`; the funding finalizes and stays insufficient at expiry.",
        sending=(Sending(5_000, HALF),),
    ),
    Scenario(
        "overpaid_review",
        "The customer sends more than `due`; the payment is held for review after finality.",
        sending=(Sending(5_000, EXCESS),),
    ),
    Scenario(
        "asset_mismatch",
        "A transfer in another supported asset of the chain arrives; the deposit is rejected for funding.",
        sending=(Sending(5_000, other_asset=True),),
    ),
    Scenario(
        "late_payment",
        "The payment expires first; a deposit is observed later.",
        sending=(Sending(35_000),),
    ),
    Scenario(
        "settlement_failed",
        "The funding finalizes, the settlement is submitted and fails.",
        payout_succeeds=False,
    ),
    Scenario(
        "manual_review",
        "The funding finalizes, then the payment is held for review: risk, compliance, operations, support.",
        review_hold=True,
    ),
)

SCENARIOS: Mapping[str, Scenario] = {row.name: row for row in _ROWS}
