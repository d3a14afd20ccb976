"""Scenarios as data: the eight of the specification, and the timing table. All times are milliseconds, except
in a `Scenario`, which has the form that users write and read.

A scenario says what happens *outside* the service: which transfers reach the invoice address, whether the
payout succeeds, whether a reviewer holds the payment. How the *service* reacts, and so the final status, is
defined by `timeline`. Users can add scenarios of their own: see docs/scenarios.md.
Specification: "Scenarios", "Happy-path timing".
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import force_setattr

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


class Sending(Struct, frozen=True):
    """A transfer by the simulated customer, `at` seconds after creation: the fraction `share` of `due`,
    rounded down, and `plus` raw units, which can be negative; but at least `due` and `least_excess` raw units
    more, if that is given. `other_asset`: not in the asset of the instructions.

    Raw units become text, since records cannot hold integers of 256 bits.
    """

    at: float
    share: str = "1/1"
    plus: int | str = "0"
    least_excess: int | str | UnsetType = UNSET
    other_asset: bool = False

    def __post_init__(self) -> None:
        force_setattr(self, "plus", str(int(self.plus)))
        if self.least_excess is not UNSET:
            force_setattr(self, "least_excess", str(int(self.least_excess)))

    @property
    def at_ms(self) -> int:
        return round(self.at * 1000)

    def amount(self, due: int) -> int:
        """The raw units to send for `due` raw units: at least 1; without `least_excess`, at most MAX_RAW."""
        numerator, denominator = map(int, self.share.split("/"))
        amount = max(1, due * numerator // denominator + int(self.plus))
        if self.least_excess is UNSET:
            return min(amount, MAX_RAW)
        return max(amount, due + int(self.least_excess))


class Scenario(Struct, frozen=True):
    """What happens outside the service, by the names of docs/scenarios.md."""

    name: str
    simulates: str = ""
    payout_succeeds: bool = True
    review_hold: bool = False
    sending: tuple[Sending, ...] = ()


_PAID_IN_FULL = (Sending(5),)
_ROWS = (
    Scenario(
        "happy_path",
        "The customer pays the full `due` in the correct asset; the deposit finalizes; settlement completes.",
        sending=_PAID_IN_FULL,
    ),
    Scenario("no_payment_expired", "No deposit before expiry."),
    Scenario(
        "underpaid_expired",
        "The customer sends half of `due`; the funding finalizes and stays insufficient at expiry.",
        sending=(Sending(5, "1/2"),),
    ),
    Scenario(
        "overpaid_review",
        "The customer sends more than `due`; the payment is held for review after finality.",
        sending=(Sending(5, "11/10", least_excess=1),),
    ),
    Scenario(
        "asset_mismatch",
        "A transfer in another supported asset of the chain arrives; the deposit is rejected for funding.",
        sending=(Sending(5, other_asset=True),),
    ),
    Scenario(
        "late_payment", "The payment expires first; a deposit is observed later.", sending=(Sending(35),)
    ),
    Scenario(
        "settlement_failed",
        "The funding finalizes, the settlement is submitted and fails.",
        sending=_PAID_IN_FULL,
        payout_succeeds=False,
    ),
    Scenario(
        "manual_review",
        "The funding finalizes, then the payment is held for review: risk, compliance, operations, support.",
        sending=_PAID_IN_FULL,
        review_hold=True,
    ),
)

SCENARIOS: Mapping[str, Scenario] = {row.name: row for row in _ROWS}

StoredScenario = tuple[str, str, list[tuple[int, list[int | str | None], bool]], bool, bool]
"""A custom scenario in a record: `at` is in milliseconds, and a share is its numerator and denominator,
`plus`, and the least excess or None, which is absent in records of format 4.
"""


def stored_scenario(scenario: Scenario) -> StoredScenario | None:
    """What a record holds of its scenario besides the name: nothing of one of SCENARIOS."""
    if scenario.name in SCENARIOS:
        return None
    sending: list[tuple[int, list[int | str | None], bool]] = []
    for one in scenario.sending:
        least_excess = None if one.least_excess is UNSET else one.least_excess
        share = [*map(int, one.share.split("/")), one.plus, least_excess]
        sending.append((one.at_ms, share, one.other_asset))
    return scenario.name, scenario.simulates, sending, scenario.payout_succeeds, scenario.review_hold


def scenario_of(name: str, stored: StoredScenario | None) -> Scenario:
    """The scenario with this name of a record, whichever ones the server knows."""
    if stored is None:
        return SCENARIOS[name]
    name, simulates, transfers, payout_succeeds, review_hold = stored
    sending = []
    for at_ms, (numerator, denominator, plus, *least_excess), other_asset in transfers:
        excess = next((one for one in least_excess if one is not None), UNSET)
        sending.append(Sending(at_ms / 1000, f"{numerator}/{denominator}", plus or 0, excess, other_asset))
    return Scenario(name, simulates, payout_succeeds, review_hold, tuple(sending))
