"""The rules: what an application must not do with money, and what it should not do to the service.

They are pure functions of what a trial has shown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from paymock.analysis.lint import MAX_READS_AFTER_END, LintWarning, lint
from paymock.client.http import Json
from paymock.rules.faults import parse_fault
from paymock.rules.scenarios import TERMINAL_STATUSES, PaymentStatus
from paymock.schemas.public import CREATE_PAYMENT

MANY_READS = MAX_READS_AFTER_END + 1
"""So many reads after a terminal status are polling forever."""


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


RULES = {
    rule.name: rule
    for rule in (
        Rule(
            "free_goods",
            Severity.MONEY,
            "Delivered, though the payment never reached the status at which goods are due",
            "Deliver only after a read of the payment has shown that status: no other status, error or "
            "missing reply means paid.",
        ),
        Rule(
            "lost_sale",
            Severity.MONEY,
            "The payment reached that status, and nothing was delivered once the faults had ended",
            "Store each open order, and read its payment until that shows a terminal status, whatever error "
            "a read meets.",
        ),
        Rule(
            "double_delivery",
            Severity.MONEY,
            "The goods of one order went out more than once",
            "Record the delivery under the order id, in one transaction or with a unique key, so that a "
            "second attempt finds it.",
        ),
        Rule(
            "double_payment",
            Severity.MONEY,
            "Two payments were created for one order",
            "Store an idempotency key with the order before its first creation, and repeat the creation with "
            "this key and the same body until its outcome is known.",
        ),
        Rule(
            "lost_order",
            Severity.MONEY,
            "Acknowledged, and no payment was ever created, though the application went on with other orders",
            "Tell the customer of a failure, or store the order and go on to create its payment.",
        ),
        Rule(
            "stays_down",
            Severity.MONEY,
            "The application did not start again after a crash",
            "Let nothing that a killed process leaves behind, such as a lock file, prevent the next start.",
        ),
        Rule(
            "key_not_reused",
            Severity.ADVICE,
            "A retry of a creation had another idempotency key",
            "Store the idempotency key with the order, and send the same one with each retry.",
        ),
        Rule(
            "key_conflict",
            Severity.ADVICE,
            "An idempotency key was sent again with another body: 409",
            "Derive the idempotency key from the order, and build the body of a retry from what was stored.",
        ),
        Rule(
            "polls_forever",
            Severity.ADVICE,
            f"A payment was read {MANY_READS} times more after a terminal status",
            "Close the order when a read shows a terminal status, and read its payment no more.",
        ),
        Rule(
            "ignores_retry_after",
            Severity.ADVICE,
            "A retry came earlier than `Retry-After` asked for",
            "Wait as many seconds as `Retry-After` says before the next attempt.",
        ),
        Rule(
            "gives_up",
            Severity.ADVICE,
            "The application sent no more requests after a fault had ended",
            "Retry with growing pauses until the outcome is known, also after a restart.",
        ),
        Rule(
            "breaks_on_new_fields",
            Severity.ADVICE,
            "An order went wrong only because the replies to a read had members that are not documented",
            "Ignore members of a reply that you do not know: the service may add some at any time.",
        ),
    )
}
"""All rules. The order is that of a report."""


@dataclass(eq=False)
class Observation:
    """What an order has shown: the requests about it, and for each the tick or order that it belongs to, if
    the application does not poll by itself; `statuses` that its payment has been in; the status at which the
    first delivery was seen, if that was asked for.

    `gave_up`: it was silent for longer than its patience. `reordered`: the customer was told of a failure
    and ordered again. `acknowledged`: the last time, the customer was told of no failure, and the
    application has created payments for others. `faults_left`: some of its faults were still to come.
    `incident`: what befell the application as a whole meanwhile, as the end of a sentence. `stays_down`:
    why it did not start again after that. `is_excused`: that no goods are known is no loss, since nobody
    was asked to pay, or the application forgets at a crash what it has delivered. `marks` are crashes,
    each by the index of the request that came before; -1: none did. `has_unknown_members`: replies had
    members that the application does not know.
    """

    entries: list[Json] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    payments: list[str] = field(default_factory=list)
    deliveries: int = 0
    delivered_at: str | None = None
    gave_up: bool = False
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


def final_statuses(fulfil_at: str) -> frozenset[str]:
    """The statuses after which an application may lose its interest in a payment."""
    return TERMINAL_STATUSES | {PaymentStatus.EXPIRED, fulfil_at}


def check(observation: Observation, fulfil_at: str) -> list[Violation]:
    """The rules that a trial has broken, in the order of RULES."""
    found = [*_money(observation, fulfil_at), *_advice(observation)]
    order = list(RULES)
    found.sort(key=lambda violation: order.index(violation.rule))
    if found and observation.has_unknown_members:
        text = observation.incident or found[0].explanation[0].lower() + found[0].explanation[1:]
        return [Violation("breaks_on_new_fields", f"With unknown members in replies, {text}")]
    return found


def _money(seen: Observation, fulfil_at: str) -> Iterator[Violation]:
    is_due = fulfil_at in seen.statuses
    last = seen.statuses[-1] if seen.statuses else "never created"
    if seen.deliveries and not is_due:
        at = f" when the payment was `{seen.delivered_at}`" if seen.delivered_at else ""
        yield Violation(
            "free_goods",
            f"The goods went out{at}; the payment ended as `{last}` and was never `{fulfil_at}`.",
        )
    elif (
        seen.delivered_at
        and seen.delivered_at in seen.statuses[: [*seen.statuses, fulfil_at].index(fulfil_at)]
    ):
        yield Violation(
            "free_goods",
            f"The goods went out when the payment was `{seen.delivered_at}`, before it was `{fulfil_at}`.",
        )
    if is_due and not (seen.deliveries or seen.is_excused):
        was_read = any(entry["shown"] == fulfil_at for entry in seen.entries)
        reason = _silence(seen) if seen.gave_up else "read that" if was_read else "never read that"
        ended = ", though the faults had ended" if _was_faulted(seen) and not seen.faults_left else ""
        told = f"the application {reason}{f', after {seen.incident}' if seen.incident else ''}"
        if seen.marks and was_read:
            told = f"the application read that, and {seen.incident} came before they were out"
        yield Violation(
            "lost_sale", f"The payment was `{fulfil_at}`, and the goods did not go out{ended}: {told}."
        )
    if seen.deliveries > 1:
        yield Violation("double_delivery", f"The goods of one order went out {seen.deliveries} times.")
    if len(seen.payments) > 1:
        yield Violation(
            "double_payment",
            f"{len(seen.payments)} payments were created for one order: the customer may pay twice.",
        )
    if seen.stays_down:
        yield Violation("stays_down", f"After {seen.incident}, {seen.stays_down}")
    if seen.acknowledged and not seen.payments:
        yield Violation(
            "lost_order",
            "The customer was told that all is well, and no payment was created for the order: the "
            f"application {_silence(seen)} about it.",
        )


def _silence(seen: Observation) -> str:
    last = seen.entries[-1]["operation"] if seen.entries else None
    return f"sent nothing more after its `{last}`" if last else "sent nothing"


def _advice(seen: Observation) -> Iterator[Violation]:
    """What `lint` says, where it is the application that sets the pace."""
    if seen.gave_up and _was_faulted(seen) and not seen.faults_left:
        yield Violation(
            "gives_up",
            f"The fault had ended, and the application {_silence(seen)}, though it knew no outcome.",
        )
    hurt = [number for number, entry in enumerate(seen.entries) if hides_outcome(entry["fault"])]
    after = seen.entries[hurt[-1] + 1 :] if hurt else seen.entries  # reads that failed are made again
    warnings = _lint("polls_forever", after)
    warnings += _lint("key_not_reused", seen.entries) + _lint("key_conflict", seen.entries)
    calls: dict[int, list[Json]] = {}
    for entry, call in zip(seen.entries, seen.calls, strict=True):
        if not (entry["operation"] == CREATE_PAYMENT and seen.reordered):  # the customer has tried again
            calls.setdefault(call, []).append(entry)
    for entries in calls.values():  # between two ticks, the pauses are those of the judge
        warnings += _lint("ignores_retry_after", entries)
    for warning in warnings:
        yield Violation(warning.rule, f"{warning.explanation[0].upper()}{warning.explanation[1:]}.")


def _was_faulted(seen: Observation) -> bool:
    return any(hides_outcome(entry["fault"]) for entry in seen.entries)


def hides_outcome(text: str | None) -> bool:
    """Whether a request with this fault tells the application nothing."""
    fault = parse_fault(text) if text else None
    return fault is not None and not fault.keeps_reply


def _lint(rule: str, entries: Sequence[Json]) -> list[LintWarning]:
    return [warning for warning in lint(reversed(entries)) if warning.rule == rule]
