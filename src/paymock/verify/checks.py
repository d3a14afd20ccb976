"""The rules, as pure functions of an order that yield an explanation for each violation: what an application
must not do with money, and should not do. Goods are due at a status of `fulfil_at`.
"""

from collections.abc import Callable, Collection, Iterator
from enum import StrEnum
from functools import lru_cache, partial
from typing import NamedTuple

from msgspec.structs import asdict

from paymock.analysis.lint import MAX_READS_AFTER_END, LintWarning, lint
from paymock.rules.scenarios import PaymentStatus
from paymock.schemas.public import CREATE_PAYMENT
from paymock.text import format_seconds
from paymock.verify.order import Order, Traffic, hides_outcome

VISITED = PaymentStatus.AWAITING_PAYMENT, PaymentStatus.EXPIRED  # statuses at which a customer comes back
MANY_READS = MAX_READS_AFTER_END + 1  # reads after a terminal status that are polling forever

Explanations = Iterator[str]


class Severity(StrEnum):
    """What a violation costs."""

    MONEY = "money"
    ADVICE = "advice"


class Proof(StrEnum):
    """What proves a violation: the record of one order, or silence, as long as it lasts."""

    RECORD = "record"
    SILENCE = "silence"


class Violation(NamedTuple):
    """A check that has failed, and how."""

    rule: str
    explanation: str


def free_goods(order: Order, fulfil_at: Collection[str]) -> Explanations:
    history, outcome = order.history, order.outcome
    due, at, how = " or ".join(f"`{status}`" for status in fulfil_at), outcome.delivered_at, ""
    first_due = next((number for number, one in enumerate(history.statuses) if one in fulfil_at), 0)
    when = f" when the payment was `{at}`" if at else ""
    if history.visits and at in VISITED:
        when = f" when the customer had come back and the payment was `{at}`"
    if outcome.deliveries and history.reached.isdisjoint(fulfil_at):
        last = history.statuses[-1] if history.statuses else "never created"
        how = f"{when}; the payment ended as `{last}` and was never {due}"
    elif at in history.statuses[:first_due] and len(order.traffic.payments) == 1:  # an older one may be paid
        how = f"{when}, before it was {due}"
    if how:
        yield f"The goods went out{how}."


def lost_sale(order: Order, fulfil_at: Collection[str]) -> Explanations:
    traffic, history, outcome = order.traffic, order.history, order.outcome
    if outcome.deliveries or outcome.is_excused or not history.is_due(fulfil_at):
        return
    was_read = any(entry.shown in fulfil_at for entry in traffic.entries)
    ended = ", though the faults had ended" if traffic.was_hurt and not history.faults_left else ""
    if outcome.gave_up:
        reason = f"read no more after {outcome.patience}" if outcome.patience else order.silence()
    else:
        unread = f": it read no more at `{traffic.last_shown}`" if traffic.last_shown else ""
        reason = "read that status" if was_read else f"never read that status{unread}"
    told = f"the application {reason}{', after ' * bool(history.incident)}{history.incident}"
    if history.marks and was_read:
        told = f"the application read that status, and {history.incident} came before they were out"
    status = next(status for status in fulfil_at if status in history.stood)
    yield f"The payment was `{status}`, and the goods did not go out{ended}: {told}."


def double_delivery(order: Order, _: Collection[str]) -> Explanations:
    if order.outcome.deliveries > 1:
        yield f"The goods of one order went out {order.outcome.deliveries} times."


def double_payment(order: Order, _: Collection[str]) -> Explanations:
    """Two payments that could both be paid: the earlier one had not been read as `expired`."""
    payments, was_expired = len(order.traffic.payments), dict[str | None, bool]()
    for entry in order.traffic.entries:
        if entry.payment_id in order.traffic.payments:
            if entry.payment_id not in was_expired:
                payments -= bool(was_expired) and all(was_expired.values())
                was_expired[entry.payment_id] = False
            if entry.operation != CREATE_PAYMENT:  # a replay shows it as it was
                was_expired[entry.payment_id] |= entry.shown == PaymentStatus.EXPIRED
    if payments > 1:
        yield f"{payments} payments were created for one order: the customer may pay twice."


def lost_order(order: Order, _: Collection[str]) -> Explanations:
    if order.outcome.acknowledged and not order.traffic.payments:
        told = "The customer was told that all is well, and no payment was created for the order"
        refused = f"its creations were refused{order.refusal()}" if order.refusal() else ""
        yield f"{told}: {refused or f'the application {order.silence()} about it'}."


def stays_down(order: Order, _: Collection[str]) -> Explanations:
    if order.outcome.stays_down:
        yield f"After {order.history.incident}, {order.outcome.stays_down}"


def gives_up(order: Order, _: Collection[str]) -> Explanations:
    if order.outcome.gave_up and order.traffic.was_hurt and not order.history.faults_left:
        yield f"The fault had ended, and the application {order.silence()}, though it knew no outcome."


def late_money_unseen(order: Order, fulfil_at: Collection[str]) -> Explanations:
    if any(lost_sale(order, fulfil_at)):  # nothing of the order was followed up
        return
    for payment_id, age in order.history.deposits.items():
        shown = [one for one in order.traffic.entries if one.payment_id == payment_id and one.shown]
        is_seen = any((one.shown_offset_seconds or 0.0) >= age for one in shown)
        if not is_seen and any(one.shown == PaymentStatus.EXPIRED for one in shown):
            yield (
                f"A deposit came {format_seconds(age)} s after the creation, after a read of `expired`, "
                "and no reply with it was ever read."
            )


def polls_forever(order: Order, _: Collection[str]) -> Explanations:
    hurt = [number for number, one in enumerate(order.traffic.entries, 1) if hides_outcome(one.fault)]
    yield from _lint("polls_forever", order, since=max(hurt, default=0))


def ignores_retry_after(order: Order, _: Collection[str]) -> Explanations:
    """A retry comes in the tick or the round of the first try: after other orders, it is the next poll."""
    calls: dict[int, Traffic] = {}
    for entry, call in zip(order.traffic.entries, order.traffic.calls, strict=True):
        is_customer = entry.operation == CREATE_PAYMENT and bool(order.outcome.order_errors)
        if call >= 0 and not is_customer:
            calls.setdefault(call, Traffic()).entries.append(entry)
    for traffic in (one for one in calls.values() if one.entries[1:]):
        yield from _lint("ignores_retry_after", Order(traffic=traffic))


def _lint(rule: str, order: Order, _: Collection[str] = (), since: int = 0) -> Explanations:
    for warning in _warnings(order.traffic, since, len(order.traffic.entries)):
        if warning.rule == rule:
            yield f"{warning.explanation[0].upper()}{warning.explanation[1:]}."


@lru_cache(maxsize=256)
def _warnings(traffic: Traffic, first: int, last: int) -> list[LintWarning]:
    """What `paymock lint` says of these requests. A slow payment has thousands, and none changes."""
    return lint(map(asdict, reversed(traffic.entries[first:last])))


class Check(NamedTuple):
    """A rule: what a violation costs, what proves it, what finds it, what it means, and how to fix it."""

    name: str
    severity: Severity
    proof: Proof
    find: Callable[[Order, Collection[str]], Explanations] | None
    meaning: str
    fix: str


# fmt: off
_CHECKS = (
    Check("free_goods", Severity.MONEY, Proof.RECORD, free_goods,
          "Delivered, though the payment never reached the status at which goods are due",
          "Deliver only when a read shows a status at which goods are due (`completed`, unless --fulfil-at "
          "names others): no other status, error or missing reply means paid."),
    Check("lost_sale", Severity.MONEY, Proof.SILENCE, lost_sale,
          "The payment reached that status, and nothing was delivered once the faults had ended",
          "Store each open order, and read its payment until that shows a terminal status, whatever error "
          "a read meets, and however long it takes; deliver when goods are due."),
    Check("double_delivery", Severity.MONEY, Proof.RECORD, double_delivery,
          "The goods of one order went out more than once",
          "Record the delivery under the order id, in one transaction or with a unique key, so that a "
          "second attempt finds it."),
    Check("double_payment", Severity.MONEY, Proof.RECORD, double_payment,
          "Two payments were created for one order",
          "Store an idempotency key with the order before its first creation, and repeat the creation with "
          "this key and the same body until its outcome is known."),
    Check("lost_order", Severity.MONEY, Proof.SILENCE, lost_order,
          "Acknowledged, and no payment was ever created, though the application went on with other orders",
          "Tell the customer of a failure, or store the order and go on to create its payment."),
    Check("stays_down", Severity.MONEY, Proof.RECORD, stays_down,
          "The application did not start again after a crash",
          "Let nothing that a killed process leaves behind, such as a lock file, prevent the next start."),
    Check("key_not_reused", Severity.ADVICE, Proof.RECORD, partial(_lint, "key_not_reused"),
          "A retry of a creation had another idempotency key",
          "Store the idempotency key with the order, and send the same one with each retry."),
    Check("key_conflict", Severity.ADVICE, Proof.RECORD, partial(_lint, "key_conflict"),
          "An idempotency key was sent again with another body: 409",
          "Derive the idempotency key from the order, and build the body of a retry from what was stored."),
    Check("polls_forever", Severity.ADVICE, Proof.RECORD, polls_forever,
          f"A payment was read {MANY_READS} times more after a terminal status",
          "Close the order when a read shows a terminal status, and read its payment no more."),
    Check("ignores_retry_after", Severity.ADVICE, Proof.RECORD, ignores_retry_after,
          "A retry came earlier than `Retry-After` asked for",
          "Wait as long as `Retry-After` says, seconds or a date, before the next attempt."),
    Check("gives_up", Severity.ADVICE, Proof.SILENCE, gives_up,
          "The application sent no more requests after a fault had ended",
          "Retry with growing pauses until the outcome is known, also after a restart."),
    Check("late_money_unseen", Severity.ADVICE, Proof.SILENCE, late_money_unseen,
          "A deposit came after a read had shown `expired`, and no reply that shows it was ever read",
          "Go on reading an expired payment, with growing pauses, and tell a person of late money."),
    Check("breaks_on_new_fields", Severity.ADVICE, Proof.SILENCE, None,
          "An order went wrong only because the replies to a read had members that are not documented",
          "Ignore members of a reply that you do not know: the service may add some at any time."),
    Check("breaks_on_new_values", Severity.ADVICE, Proof.SILENCE, None,
          "An order went wrong only because a reply had a status or a type that is not documented",
          "Treat a status or a type that you do not know as one that changes nothing: go on reading."),
)
# fmt: on
CHECKS = {check.name: check for check in _CHECKS}
"""All checks by their names, which are the rules. The order is that of a report."""
RANK = {name: rank for rank, name in enumerate(CHECKS)}
_UNKNOWN = {"members": "breaks_on_new_fields", "values": "breaks_on_new_values"}


def costs_money(rule: str) -> bool:
    return CHECKS[rule].severity is Severity.MONEY


def check(order: Order, fulfil_at: Collection[str]) -> list[Violation]:
    """The rules that an order has broken, in the order of CHECKS; none if it says nothing. Where requests
    were lost, silence proves nothing, and a second payment may have followed a read of `expired`.
    """
    if order.outcome.problems:
        return []
    has_gap = order.traffic.has_gap
    found = [
        Violation(one.name, text)
        for one in CHECKS.values()
        if one.find and not (has_gap and (one.proof is Proof.SILENCE or one.find is double_payment))
        for text in one.find(order, fulfil_at)
    ]
    if found and order.history.unknown:
        text = order.history.incident or found[0].explanation[0].lower() + found[0].explanation[1:]
        what = f"With unknown {order.history.unknown} in replies, {text}"
        return [Violation(_UNKNOWN[order.history.unknown], what)]
    return found
