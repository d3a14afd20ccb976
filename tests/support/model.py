"""What a client that remembers everything expects of a sandbox. It knows the specification's tables, and none
of the code that serves.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from paymock.rules.times import parse_rfc3339
from tests.support.contract import Json
from tests.support.specification import COURSES, DEPOSIT_TRANSITIONS, TRANSITIONS

DERIVED = ("id", "invoice_address", "from_address", "tx_hash", "secret")
"""Members that differ between two sandboxes in which the same was done."""

BASIS_POINTS = 100
"""The fee of a server that was not told another."""

_ORDERED = ("updated_at", "status", "attempts")
"""Members of a payment that change, each in one direction."""


def closure(transitions: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """The pairs of statuses of which the second can be seen some time after the first."""
    pairs = {*transitions} | {(status, status) for status in chain.from_iterable(transitions)}
    while longer := {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs:
        pairs |= longer
    return pairs


LATER, DEPOSIT_LATER = closure(TRANSITIONS), closure(DEPOSIT_TRANSITIONS)


def milliseconds(time: str) -> int:
    """A time of a reply, in milliseconds since the epoch."""
    parsed = parse_rfc3339(time)
    assert parsed is not None, time
    return parsed


def plain(value: Any) -> Any:
    """A reply without what differs from sandbox to sandbox."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items() if name not in DERIVED}
    return [plain(item) for item in value] if isinstance(value, list) else value


@dataclass(eq=False)
class Remembered:
    """A payment: its ids, by sandbox, its scenario, how far it is ahead of its sandbox in milliseconds, what
    was paid beside the scenario, as (amount, asset), and how it was seen last.
    """

    ids: tuple[str, ...]
    scenario: str
    seen: Json
    time_offset: int = 0
    paid: list[tuple[str, str]] = field(default_factory=list)

    @property
    def due(self) -> int:
        """What the customer owes, in raw units."""
        return int(self.seen["attempts"][0]["instructions"]["amounts"]["due"])

    def see(self, payment: Json, now: int) -> None:
        """Asserts that the payment can be so at `now`, the sandbox's time in milliseconds; remembers it."""
        before, [attempt] = self.seen, payment["attempts"]
        for name, value in before.items():
            assert name in _ORDERED or payment[name] == value, f"{name} of {payment['id']} has changed"
        [earlier] = before["attempts"]
        assert attempt["instructions"] == earlier["instructions"]
        assert (before["status"], payment["status"]) in LATER
        assert before["updated_at"] <= payment["updated_at"]
        age = now + self.time_offset - milliseconds(payment["created_at"])
        assert milliseconds(payment["updated_at"]) <= now + self.time_offset
        if not self.paid:
            assert payment["status"] == _scripted(self.scenario, age)
        _check_deposits(earlier.get("deposits", []), attempt.get("deposits", []), self.paid)
        check_money(payment)
        self.seen = payment


def check_money(payment: Json) -> None:
    """Asserts that the amounts of a payment add up. Specification: "Funding object"."""
    [attempt] = payment["attempts"]
    due, settlement, fee = (
        int(attempt["instructions"]["amounts"][name]) for name in ("due", "settlement", "fee")
    )
    assert due == settlement + fee
    assert str(settlement) == payment["receive"]["amount"]
    assert fee == max(1, -(-settlement * BASIS_POINTS // 10_000))
    assert ("deposits" in attempt) == ("funding" in attempt) == (payment["status"] not in _UNPAID)
    if "funding" in attempt:
        asset, funding = attempt["instructions"]["asset"], attempt["funding"]
        counted = [deposit for deposit in attempt["deposits"] if deposit["asset"] == asset]
        final = sum(int(deposit["amount"]) for deposit in counted if deposit["status"] == "finalized")
        assert funding["amount_received_finalized"] == str(final)
        assert int(funding["amount_received_pending"]) + final == sum(int(one["amount"]) for one in counted)
        assert funding.get("overpaid_amount") == (str(final - due) if final > due else None)


_UNPAID = ("awaiting_payment", "expired")


def _scripted(scenario: str, age: int) -> str:
    """The status of a payment that nobody has paid anything beside its scenario."""
    return [status for second, status in COURSES[scenario] if second * 1000 <= age][-1]


def _check_deposits(before: list[Json], after: list[Json], paid: Iterable[tuple[str, str]]) -> None:
    assert len(before) <= len(after)
    for was, now in zip(before, after, strict=False):
        for name in ("id", "amount", "asset", "chain", "from_address", "tx_hash", "observed_at"):
            assert was[name] == now[name], f"{name} of a deposit has changed"
        assert (was["status"], now["status"]) in DEPOSIT_LATER
        assert was["confirmations"] <= now["confirmations"] <= now["confirmations_required"] == 16
    shown = [(deposit["amount"], deposit["asset"]) for deposit in after]
    for one in paid:
        shown.remove(one)  # raises ValueError when a deposit that was made is not shown
    assert len(shown) <= 1, "more than the scenario and the test have paid"


@dataclass
class Queue:
    """What the next creations take: (scenario, times), those that stand for good last."""

    pending: list[tuple[str, int | None]] = field(default_factory=list)

    def add(self, scenario: str, times: int | None) -> None:
        """One more; of those that stand for good, there is one."""
        limited = [one for one in self.pending if one[1] is not None]
        standing = [one for one in self.pending if one[1] is None and times is not None]
        self.pending = [*limited, (scenario, times), *standing]

    def take(self) -> str | None:
        """The next scenario, if there is one."""
        if not self.pending:
            return None
        (scenario, times), *rest = self.pending
        if times is not None:
            self.pending = [(scenario, times - 1), *rest] if times > 1 else rest
        return scenario

    def __iter__(self) -> Iterator[tuple[str, int | None]]:
        return iter(self.pending)
