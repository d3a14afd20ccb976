"""Which fault a request gets: of its header, or of the rules of its sandbox. See docs/faults.md."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from paymock.rules.faults import Fault, FaultRule, FaultTarget, parse_fault

Rules = tuple[FaultRule, ...]
"""The rules of a sandbox, in their order."""


class Decision(NamedTuple):
    """The fault of a request, of its header or of the rule `rule_id`, and the rules after counting it."""

    target: FaultTarget
    rules: Rules = ()
    fault: Fault | None = None
    rule_id: str | None = None


class NeedsAttemptNumber(NamedTuple):
    """In place of a decision: the number of this attempt with a header (its text) or a rule (its id) is
    needed first, since the fault is limited to the first attempts of a request.
    """

    key: str


def decide(
    rules: Rules, target: FaultTarget, attempts: Mapping[str, int], header: str | None = None
) -> Decision | NeedsAttemptNumber:
    """Decide which fault a request gets: of its header, otherwise of the first rule that is due. Every rule
    counts the requests that it selects. `attempts`: the numbers of this attempt, as far as it was counted.
    """
    due = (rule for rule in rules if rule.selects(target) and rule.is_due)
    candidates = [(rule.fault, rule) for rule in due] if header is None else [(header, None)]
    for text, rule in candidates:
        fault, key = parse_fault(text), rule.id if rule else text
        if fault and fault.times:
            if key not in attempts:
                return NeedsAttemptNumber(key)
            if attempts[key] > fault.times:
                continue
        return Decision(target, _counted(rules, target, rule), fault, rule.id if rule else None)
    return Decision(target, _counted(rules, target))


def _counted(rules: Rules, target: FaultTarget, applied: FaultRule | None = None) -> Rules:
    """The rules after counting a request with the fault of `applied`; the same object if none selects it."""
    if not any(rule.selects(target) for rule in rules):
        return rules
    return tuple(
        replace(rule, seen=rule.seen + 1, applied=rule.applied + (rule is applied))
        if rule.selects(target)
        else rule
        for rule in rules
    )


def with_waiting(rules: Rules, rule_id: str | None, request: str, until: int, now: int) -> Rules:
    """The rules while one holds the request with this token, `until` then; until `now`: no longer.

    A request that is not let go, since its process was killed, ends by the time.
    """

    def holding(rule: FaultRule) -> FaultRule:
        ends = {**rule.waiting, request: until}
        return replace(rule, waiting={token: end for token, end in ends.items() if end > now})

    return tuple(holding(rule) if rule.id == rule_id else rule for rule in rules)
