"""The rules, as pure functions: what an application must not do with money, and should not do."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import asdict

from paymock.analysis.lint import MAX_READS_AFTER_END, LintWarning, lint
from paymock.rules.faults import parse_fault
from paymock.rules.scenarios import TERMINAL_STATUSES, PaymentStatus
from paymock.schemas.control import JournalEntry
from paymock.schemas.public import CREATE_PAYMENT
from paymock.text import format_seconds

MANY_READS = MAX_READS_AFTER_END + 1  # so many reads after a terminal status are polling forever


class Severity(StrEnum):
    """What breaking a rule costs."""

    MONEY = "money"
    ADVICE = "advice"


class Rule(NamedTuple):
    """A rule, what breaking it costs, what breaks it, and how to fix that."""

    name: str
    severity: Severity
    meaning: str
    fix: str


class _Texts(NamedTuple):
    meaning: str
    fix: str


_RULES = {
    Severity.MONEY: {
        "free_goods": _Texts(
            "Delivered, though the payment never reached the status at which goods are due",
            "Deliver only after a read of the payment has shown that status: no other status, error or "
            "missing reply means paid.",
        ),
        "lost_sale": _Texts(
            "The payment reached that status, and nothing was delivered once the faults had ended",
            "Store each open order, and read its payment until that shows a terminal status, whatever error "
            "a read meets.",
        ),
        "double_delivery": _Texts(
            "The goods of one order went out more than once",
            "Record the delivery under the order id, in one transaction or with a unique key, so that a "
            "second attempt finds it.",
        ),
        "double_payment": _Texts(
            "Two payments were created for one order",
            "Store an idempotency key with the order before its first creation, and repeat the creation with "
            "this key and the same body until its outcome is known.",
        ),
        "lost_order": _Texts(
            "Acknowledged, and no payment was ever created, though the application went on with other orders",
            "Tell the customer of a failure, or store the order and go on to create its payment.",
        ),
        "stays_down": _Texts(
            "The application did not start again after a crash",
            "Let nothing that a killed process leaves behind, such as a lock file, prevent the next start.",
        ),
    },
    Severity.ADVICE: {
        "key_not_reused": _Texts(
            "A retry of a creation had another idempotency key",
            "Store the idempotency key with the order, and send the same one with each retry.",
        ),
        "key_conflict": _Texts(
            "An idempotency key was sent again with another body: 409",
            "Derive the idempotency key from the order, and build the body of a retry from what was stored.",
        ),
        "polls_forever": _Texts(
            f"A payment was read {MANY_READS} times more after a terminal status",
            "Close the order when a read shows a terminal status, and read its payment no more.",
        ),
        "ignores_retry_after": _Texts(
            "A retry came earlier than `Retry-After` asked for",
            "Wait as many seconds as `Retry-After` says before the next attempt.",
        ),
        "gives_up": _Texts(
            "The application sent no more requests after a fault had ended",
            "Retry with growing pauses until the outcome is known, also after a restart.",
        ),
        "late_money_unseen": _Texts(
            "A deposit came after a read had shown `expired`, and no reply that shows it was ever read",
            "Go on reading an expired payment, with growing pauses, and tell a person of late money.",
        ),
        "breaks_on_new_fields": _Texts(
            "An order went wrong only because the replies to a read had members that are not documented",
            "Ignore members of a reply that you do not know: the service may add some at any time.",
        ),
    },
}

RULES = {
    name: Rule(name, severity, *texts) for severity, rules in _RULES.items() for name, texts in rules.items()
}
"""All rules. The order is that of a report."""
RANK = {name: rank for rank, name in enumerate(RULES)}


@dataclass(eq=False)
class Observation:
    """What an order has shown: the requests about it, oldest first, and for each the tick or order that it
    belongs to: 0 if the application polls by itself, negative if the judge sets the pace. `payments`, oldest
    first; the `statuses` of the newest. The statuses that any of them has `reached`, jumped over or not;
    those at which one `stood`, so that a reply could have shown it; by payment, the age in seconds at which
    the first of its `deposits` came. The status at which the first delivery was seen, if that was asked for.

    `gave_up`: it was silent for longer than its patience, `waited` seconds. `reordered`: the customer was
    told of a failure and ordered again. `acknowledged`: the last time, the customer was told of no failure,
    and the application has created payments for others. `faults_left`: some of its faults were still to come.
    `incident`: what befell the application as a whole meanwhile, as the end of a sentence. `stays_down`: why
    it did not start again after that. `is_excused`: that no goods are known is no loss, since nobody was
    asked to pay, or the application forgets at a crash what it has delivered. `marks` are crashes, each by
    the index of the request that came before; -1: none did. `has_unknown_members`: replies had new members.
    """

    entries: list[JournalEntry] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    payments: list[str] = field(default_factory=list)
    reached: set[str] = field(default_factory=set)
    stood: set[str] = field(default_factory=set)
    deposits: dict[str, float] = field(default_factory=dict)
    deliveries: int = 0
    delivered_at: str | None = None
    gave_up: bool = False
    waited: float = 0.0
    reordered: bool = False
    acknowledged: bool = False
    faults_left: bool = False
    incident: str = ""
    stays_down: str = ""
    is_excused: bool = False
    marks: dict[int, str] = field(default_factory=dict)
    has_unknown_members: bool = False


class Violation(NamedTuple):
    """A rule that was broken, and how."""

    rule: str
    explanation: str


def final_statuses(fulfil_at: Collection[str]) -> frozenset[str]:
    """The statuses after which an application may lose its interest in a payment."""
    return TERMINAL_STATUSES | {PaymentStatus.EXPIRED, *fulfil_at}


def is_due(seen: Observation, fulfil_at: Collection[str]) -> bool:
    """Whether goods must go out: a reply could have shown that they are due."""
    return not seen.stood.isdisjoint(fulfil_at)


def check(observation: Observation, fulfil_at: Collection[str]) -> list[Violation]:
    """The rules that a trial has broken, in the order of RULES."""
    found = [*_money(observation, fulfil_at), *_advice(observation)]
    if any(violation.rule == "lost_sale" for violation in found):  # nothing of the order was followed up
        found = [violation for violation in found if violation.rule != "late_money_unseen"]
    found.sort(key=lambda violation: RANK[violation.rule])
    if found and observation.has_unknown_members:
        text = observation.incident or found[0].explanation[0].lower() + found[0].explanation[1:]
        return [Violation("breaks_on_new_fields", f"With unknown members in replies, {text}")]
    return found


def _money(seen: Observation, fulfil_at: Collection[str]) -> Iterator[Violation]:
    due, at, how = " or ".join(f"`{status}`" for status in fulfil_at), seen.delivered_at, ""
    first_due = next((number for number, one in enumerate(seen.statuses) if one in fulfil_at), 0)
    when = f" when the payment was `{at}`" if at else ""
    if seen.deliveries and seen.reached.isdisjoint(fulfil_at):
        last = seen.statuses[-1] if seen.statuses else "never created"
        how = f"{when}; the payment ended as `{last}` and was never {due}"
    elif at in seen.statuses[:first_due] and len(seen.payments) == 1:  # an older one may have been paid
        how = f"{when}, before it was {due}"
    if how:
        yield Violation("free_goods", f"The goods went out{how}.")
    if is_due(seen, fulfil_at) and not (seen.deliveries or seen.is_excused):
        was_read = any(entry.shown in fulfil_at for entry in seen.entries)
        reason = _silence(seen) if seen.gave_up else "read that" if was_read else "never read that"
        was_hurt = any(hides_outcome(entry.fault) for entry in seen.entries)
        ended = ", though the faults had ended" if was_hurt and not seen.faults_left else ""
        told = f"the application {reason}{f', after {seen.incident}' if seen.incident else ''}"
        if seen.marks and was_read:
            told = f"the application read that, and {seen.incident} came before they were out"
        status = next(status for status in fulfil_at if status in seen.stood)
        lost = f"The payment was `{status}`, and the goods did not go out{ended}: {told}."
        yield Violation("lost_sale", lost)
    if seen.deliveries > 1:
        yield Violation("double_delivery", f"The goods of one order went out {seen.deliveries} times.")
    payments = len(seen.payments) - _renewals(seen)
    if payments > 1:
        text = f"{payments} payments were created for one order: the customer may pay twice."
        yield Violation("double_payment", text)
    if seen.stays_down:
        yield Violation("stays_down", f"After {seen.incident}, {seen.stays_down}")
    if seen.acknowledged and not seen.payments:
        yield Violation(
            "lost_order",
            "The customer was told that all is well, and no payment was created for the order: the "
            f"application {_silence(seen)} about it.",
        )


def _renewals(seen: Observation) -> int:
    """How many payments were created after reads had shown each earlier one `expired`."""
    was_expired: dict[str | None, bool] = {}
    renewals = 0
    for entry in seen.entries:
        if entry.payment_id in seen.payments:
            if entry.payment_id not in was_expired:
                renewals += bool(was_expired) and all(was_expired.values())
                was_expired[entry.payment_id] = False
            if entry.operation != CREATE_PAYMENT:  # a replay shows it as it was
                was_expired[entry.payment_id] |= entry.shown == PaymentStatus.EXPIRED
    return renewals


def _silence(seen: Observation) -> str:
    last = f" after its `{seen.entries[-1].operation}`" if seen.entries else ""
    waited = f" for {seen.waited:.0f} s" if seen.waited else ""
    return f"sent nothing{' more' if last else ''}{waited}{last}"


def _advice(seen: Observation) -> Iterator[Violation]:
    """What `lint` says, where it is the application that sets the pace."""
    hurt = [number for number, entry in enumerate(seen.entries, 1) if hides_outcome(entry.fault)]
    if seen.gave_up and hurt and not seen.faults_left:
        yield Violation(
            "gives_up",
            f"The fault had ended, and the application {_silence(seen)}, though it knew no outcome.",
        )
    for payment_id, age in seen.deposits.items():
        shown = [one for one in seen.entries if one.payment_id == payment_id and one.shown]
        is_seen = any((one.shown_offset_seconds or 0.0) >= age for one in shown)
        if not is_seen and any(one.shown == PaymentStatus.EXPIRED for one in shown):
            yield Violation(
                "late_money_unseen",
                f"A deposit came {format_seconds(age)} s after the creation, after a read of `expired`, "
                "and no reply with it was ever read.",
            )
    warnings = _lint(["polls_forever"], seen.entries[max(hurt, default=0) :])  # what failed is read again
    warnings += _lint(["key_not_reused", "key_conflict"], seen.entries)
    calls: dict[int, list[JournalEntry]] = {}
    for entry, call in zip(seen.entries, seen.calls, strict=True):
        if call >= 0 and not (entry.operation == CREATE_PAYMENT and seen.reordered):  # the customer's retry
            calls.setdefault(call, []).append(entry)
    for entries in calls.values():  # between two ticks, the pauses are those of the judge
        warnings += _lint(["ignores_retry_after"], entries)
    for warning in warnings:
        yield Violation(warning.rule, f"{warning.explanation[0].upper()}{warning.explanation[1:]}.")


def hides_outcome(text: str | None) -> bool:
    """Whether a request with this fault tells the application nothing."""
    fault = parse_fault(text) if text else None
    return fault is not None and (not fault.keeps_reply or fault.part == "status")


def _lint(rules: Collection[str], entries: Sequence[JournalEntry]) -> list[LintWarning]:
    return [warning for warning in lint(map(asdict, reversed(entries))) if warning.rule in rules]
