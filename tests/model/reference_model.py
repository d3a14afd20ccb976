"""A second statement of the rules, to hold the server against.

It is written from docs/specification.md ("spec") and docs/decisions.md ("decisions") alone, and imports
nothing of paymock. A payment lives forward through time, from moment to moment. At each, all rules apply in
one order to the state that the moments before have left. Times are in milliseconds, amounts in raw units.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

Json = dict[str, Any]

SECOND = 1000

WINDOW = 30 * SECOND
"""Spec, "Happy-path timing": expiry scenarios expire at 30 s."""

CONFIRMATIONS = {2 * SECOND: 4, 4 * SECOND: 8, 6 * SECOND: 12, 8 * SECOND: 16}
"""Spec, "Happy-path timing": observed at 5 s, then 7, 9, 11 and 13 s. Decisions: T+2, T+4, T+6, T+8."""

REJECTION = 2 * SECOND
"""Decisions, "Payment timeline": another asset is rejected at T+2."""

SETTLEMENT = (12 * SECOND, 17 * SECOND, 32 * SECOND)
"""Spec, "Happy-path timing": final at 13 s, then 25, 30 and 45 s. Decisions: F+12, F+17, F+32."""

REQUIRED = 16
"""Spec, "Deposit object": `confirmations_required` is 16 in the mock."""

BEFORE_SETTLEMENT = ("payment_detected", "payment_finalized")
"""Decisions: an excess, another asset or a late transfer has an effect until the settlement begins."""


class Scenario(NamedTuple):
    """What the outside world does: decisions, "Payment timeline", "Amounts sent"."""

    sent: Callable[[int], int] | None = lambda due: due
    observed: int = 5 * SECOND
    other_asset: bool = False
    review: bool = False
    payout: str = "completed"


SCENARIOS = {
    "happy_path": Scenario(),
    "no_payment_expired": Scenario(sent=None),
    "underpaid_expired": Scenario(sent=lambda due: due // 2),
    "overpaid_review": Scenario(sent=lambda due: due + max(1, due // 10)),
    "asset_mismatch": Scenario(other_asset=True),
    "late_payment": Scenario(observed=35 * SECOND),
    "settlement_failed": Scenario(payout="failed"),
    "manual_review": Scenario(review=True),
}
"""Spec, "Scenarios"."""


class Change(NamedTuple):
    """An entry of the timeline: `deposit` is the number of the deposit that it happened to, from 1."""

    at: int
    status: str
    deposit: int | None = None
    confirmations: int | None = None
    deposit_status: str | None = None


@dataclass
class Deposit:
    """A transfer that was observed."""

    number: int
    asset: str
    amount: int
    matches: bool
    observed_at: int
    status: str = "pending"
    confirmations: int = 0

    @property
    def is_open(self) -> bool:
        """Whether it can still become finalized or rejected."""
        return self.status in ("pending", "confirming")


class Unreachable(Exception):
    """Decisions, "Time and control": the status does not lie ahead, 409 `status_unreachable`."""


def fee_of(amount: int, fee_bps: int) -> int:
    """Decisions, "Fee": the larger of 1 and `amount * fee_bps / 10000`, rounded up."""
    whole, rest = divmod(amount * fee_bps, 10_000)
    return max(1, whole + (1 if rest else 0))


@dataclass
class Payment:
    """One payment: what was requested, and its state at `now`, on its own clock."""

    body: Json
    name: str
    other_asset: str
    fee: int
    created: int
    now: int
    status: str = "awaiting_payment"
    attempt_status: str = "awaiting_payment"
    deposits: list[Deposit] = field(default_factory=list)
    timeline: list[Change] = field(default_factory=list)
    funded_at: int | None = None

    @classmethod
    def create(cls, body: Json, name: str, other_asset: str, fee_bps: int, now: int) -> Self:
        """Spec, "Payment transitions": accepted, so `awaiting_payment`."""
        fee = fee_of(int(body["receive"]["amount"]), fee_bps)
        payment = cls(body, name, other_asset, fee, created=now, now=now)
        payment._record()
        return payment

    @property
    def scenario(self) -> Scenario:
        return SCENARIOS[self.name]

    @property
    def asset(self) -> str:
        return str(self.body["receive"]["asset"])

    @property
    def due(self) -> int:
        """Spec, "What the service does": `due` = `settlement` + `fee`."""
        return int(self.body["receive"]["amount"]) + self.fee

    @property
    def window_closed(self) -> bool:
        """Decisions, "Exactly at the close": from that moment on."""
        return self.now >= self.created + WINDOW

    @property
    def finalized(self) -> int:
        return sum(one.amount for one in self.deposits if one.matches and one.status == "finalized")

    def live(self, until: int) -> None:
        """Go through every moment up to and including `until`."""
        while (moment := self._next_moment()) is not None and moment <= until:
            self.now = moment
            self._apply_rules()
        self.now = until

    def ahead(self) -> list[Change]:
        """What will change if nobody interferes."""
        twin = replace(self, deposits=[replace(deposit) for deposit in self.deposits], timeline=[])
        while (moment := twin._next_moment()) is not None:
            twin.live(moment)
        return twin.timeline

    def moment_of(self, target: str) -> int:
        """When `next`, `end` or a status comes. Raises Unreachable. Decisions, "Time and control"."""
        ahead = self.ahead()
        if target == "end":
            return ahead[-1].at if ahead else self.now
        if target == "next" and ahead:
            return ahead[0].at
        shown = {
            change.at: change.status for change in ahead
        }  # at each moment, the last is what a client sees
        for at, status in shown.items():
            if status == target != self.status:
                return at
        raise Unreachable(target)

    def _next_moment(self) -> int | None:
        """When a rule may apply again; None: never."""
        moments = [self.created + WINDOW, self.created + self.scenario.observed]
        moments += [one.observed_at + delay for one in self.deposits for delay in (*CONFIRMATIONS, REJECTION)]
        if self.funded_at is not None:
            moments += [self.funded_at + delay for delay in SETTLEMENT]
        return min((moment for moment in moments if moment > self.now), default=None)

    def _apply_rules(self) -> None:
        """Decisions, "The same millisecond": the order of what happens."""
        for deposit in self.deposits:
            self._confirm(deposit)
        for deposit in self.deposits:
            self._reject(deposit)
        self._settle()
        self._close_window()
        self._observe_sent()

    def _observe_sent(self) -> None:
        """Spec, "Payment transitions", trigger "Mock observes a transfer"."""
        scenario = self.scenario
        if scenario.sent is not None and self.now == self.created + scenario.observed:
            self.observe(self.other_asset if scenario.other_asset else self.asset, scenario.sent(self.due))

    def observe(self, asset: str, amount: int) -> None:
        """A transfer now. Spec, "Deposit statuses": `pending`, 0 of 16. Decisions, "Late transfer"."""
        deposit = Deposit(len(self.deposits) + 1, asset, amount, asset == self.asset, self.now)
        self.deposits.append(deposit)
        if self.window_closed and self.status in ("expired", *BEFORE_SETTLEMENT):
            self._set_status("manual_review")
        elif self.status == "awaiting_payment":
            self._set_status("payment_detected")
        self._record(deposit)

    def _confirm(self, deposit: Deposit) -> None:
        """Spec, "Deposit statuses": `confirming` at 4, 8 and 12, `finalized` at 16."""
        confirmations = CONFIRMATIONS.get(self.now - deposit.observed_at)
        if not deposit.matches or confirmations is None:
            return
        deposit.confirmations = confirmations
        deposit.status = "finalized" if confirmations == REQUIRED else "confirming"
        if deposit.status == "finalized" and self.status in BEFORE_SETTLEMENT:
            self._weigh_funds()
        self._record(deposit)

    def _weigh_funds(self) -> None:
        """Spec, "Payment transitions", trigger "Finality"; decisions, "Excess" and "Top-up"."""
        if self.finalized > self.due:
            self._set_status("overpaid_review")
        elif self.finalized == self.due:
            self._set_status("payment_finalized")
            self.funded_at = self.now
        elif self.window_closed:
            self._give_up_waiting()

    def _reject(self, deposit: Deposit) -> None:
        """Spec, "Payment transitions": a transfer in another supported asset."""
        if deposit.matches or self.now - deposit.observed_at != REJECTION:
            return
        deposit.status = "rejected"
        if self.status in BEFORE_SETTLEMENT:
            self._set_status("manual_review")
        self._record(deposit)

    def _close_window(self) -> None:
        """Spec, "Payment transitions", trigger "Expiry"."""
        before = self.status
        if self.now != self.created + WINDOW:
            return
        if self.status == "awaiting_payment":
            self._set_status("expired")
        elif self.status == "payment_detected":
            self._give_up_waiting()
        if self.status != before:
            self._record()

    def _give_up_waiting(self) -> None:
        """Decisions, "Unconfirmed funds at the close", "Another asset at the close": wait for all."""
        if not any(deposit.is_open for deposit in self.deposits):
            self._set_status("underpaid_expired")

    def _settle(self) -> None:
        """Spec, "Payment transitions", from `payment_finalized`; decisions: in a review, hold instead."""
        if self.funded_at is None or self.now - self.funded_at not in SETTLEMENT:
            return
        course = ("payment_finalized", "settlement_pending", "settlement_submitted", self.scenario.payout)
        step = SETTLEMENT.index(self.now - self.funded_at)
        if self.status == course[step]:
            self._set_status("manual_review" if self.scenario.review and step == 0 else course[step + 1])
            self._record()

    def _set_status(self, status: str) -> None:
        """Decisions, "Attempt status": the attempt has the payment's status until the settlement begins."""
        self.status = status
        if status not in ("settlement_pending", "settlement_submitted", "completed", "failed"):
            self.attempt_status = status

    def _record(self, deposit: Deposit | None = None) -> None:
        of_deposit = (deposit.number, deposit.confirmations, deposit.status) if deposit else ()
        self.timeline.append(Change(self.now, self.status, *of_deposit))
