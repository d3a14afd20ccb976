"""The eight scenarios as eight rows of data, and the timing table. All times are milliseconds.

A row says what happens *outside* the service: which transfers reach the invoice address, whether the payout
succeeds, whether a reviewer holds the payment. How the *service* reacts is defined by `timeline`.
Specification: "Scenarios", "Happy-path timing".
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

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


class DepositStatus(StrEnum):
    """Where a deposit stands."""

    PENDING = "pending"
    CONFIRMING = "confirming"
    FINALIZED = "finalized"
    REJECTED = "rejected"


class Share(StrEnum):
    """How much of `due` the simulated customer sends."""

    FULL = "all of due"
    HALF = "half of due, rounded down"
    EXCESS = "due and a tenth more"

    def amount(self, due: int) -> int:
        """The raw units to send for a payment of `due` raw units."""
        if self is Share.FULL:
            return due
        return due // 2 if self is Share.HALF else due + max(1, due // 10)


class ScriptedTransfer(NamedTuple):
    """A transfer by the simulated customer, `at` milliseconds after creation; `other_asset`: not in the
    asset of the instructions.
    """

    at: int
    share: Share
    other_asset: bool = False


class Scenario(NamedTuple):
    """One row of the scenario table."""

    name: str
    final_status: PaymentStatus
    description: str
    transfers: tuple[ScriptedTransfer, ...] = (ScriptedTransfer(5_000, Share.FULL),)
    payout_succeeds: bool = True
    review_hold: bool = False


_ROWS = (
    Scenario(
        "happy_path",
        PaymentStatus.COMPLETED,
        "The customer pays the full `due` in the correct asset; the deposit finalizes; settlement completes.",
    ),
    Scenario(
        "no_payment_expired",
        PaymentStatus.EXPIRED,
        "No deposit before expiry.",
        transfers=(),
    ),
    Scenario(
        "underpaid_expired",
        PaymentStatus.UNDERPAID_EXPIRED,
        "The customer sends half of `due`; the funding finalizes and stays insufficient at expiry.",
        transfers=(ScriptedTransfer(5_000, Share.HALF),),
    ),
    Scenario(
        "overpaid_review",
        PaymentStatus.OVERPAID_REVIEW,
        "The customer sends more than `due`; the payment is held for review after finality.",
        transfers=(ScriptedTransfer(5_000, Share.EXCESS),),
    ),
    Scenario(
        "asset_mismatch",
        PaymentStatus.MANUAL_REVIEW,
        "A transfer in another supported asset of the chain arrives; the deposit is rejected for funding.",
        transfers=(ScriptedTransfer(5_000, Share.FULL, other_asset=True),),
    ),
    Scenario(
        "late_payment",
        PaymentStatus.MANUAL_REVIEW,
        "The payment expires first; a deposit is observed later.",
        transfers=(ScriptedTransfer(35_000, Share.FULL),),
    ),
    Scenario(
        "settlement_failed",
        PaymentStatus.FAILED,
        "The funding finalizes, the settlement is submitted and fails.",
        payout_succeeds=False,
    ),
    Scenario(
        "manual_review",
        PaymentStatus.MANUAL_REVIEW,
        "The funding finalizes, then the payment is held for review: risk, compliance, operations, support.",
        review_hold=True,
    ),
)

SCENARIOS: Mapping[str, Scenario] = {row.name: row for row in _ROWS}
