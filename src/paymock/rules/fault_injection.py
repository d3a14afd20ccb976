"""What waits in a sandbox for requests: the faults of rules and overrides, decided once a read was carried
out, or a creation was tried undecided; and the scenarios of overrides. See docs/faults.md.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from paymock.rules.clock import ClockSetting
from paymock.rules.faults import Fault, FaultRule, FaultTarget, parse_fault
from paymock.rules.scenarios import StoredScenario


class Override(Struct, frozen=True, gc=False, array_like=True):
    """A scenario or a fault for the next `times` creations that have no header for it; None: for all of
    them. `custom_scenario` is the scenario, unless it is one of SCENARIOS. With an `order_id`, it is for the
    creations of that order only.
    """

    value: str
    times: int | None
    custom_scenario: StoredScenario | None = None
    order_id: str | None = None


class SandboxRecord(Struct, frozen=True, gc=False, array_like=True):
    """A sandbox: how often it was reset, its clock once that was changed, the scenarios and faults of its
    next creations, the fault rules of its requests, in order, and how many there have been.
    """

    generation: int = 0
    clock: ClockSetting | None = None
    scenarios: tuple[Override, ...] = ()
    faults: tuple[Override, ...] = ()
    rules: tuple[FaultRule, ...] = ()
    rules_made: int = 0

    def has_rule_for(self, operation: str) -> bool:
        return bool(self.rules) and any(rule.operation in (None, operation) for rule in self.rules)

    def rule(self, rule_id: str | None) -> FaultRule | None:
        return next((rule for rule in self.rules if rule.id == rule_id), None)


class Decision(NamedTuple):
    """The fault of a request, decided from its sandbox `before`, and the sandbox once the request is counted:
    the fault of its header, of the rule with the `rule_id`, or of an override.
    """

    target: FaultTarget
    before: SandboxRecord
    after: SandboxRecord
    fault: Fault | None = None
    rule_id: str | None = None


UNDECIDED = Decision(FaultTarget(""), SandboxRecord(), SandboxRecord())
"""The decision of a request that is tried without one, since few sandboxes have faults."""


class DecisionNeeded(Exception):
    """A creation is to be decided, or decided again: a fault may apply. It has stored nothing."""


def after_decision(
    decision: Decision | None, record: SandboxRecord, operation: str, *, is_replay: bool = False
) -> SandboxRecord:
    """The sandbox of a creation with what its `decision` counts; None: it has been counted, or faults are not
    injected. Raises DecisionNeeded if the decision was for another state of the sandbox, or for a new key.
    """
    if decision is None:
        return record
    if decision is UNDECIDED and not record.faults and not record.has_rule_for(operation):
        return record
    if decision.before is not record or is_replay:
        raise DecisionNeeded
    return decision.after


class NeedsAttemptNumber(NamedTuple):
    """In place of a decision: the number of this attempt with a header or an override (its text) or a rule
    (its id) is needed first, since the fault is limited to the first attempts of a request.
    """

    key: str


def decide(
    record: SandboxRecord,
    target: FaultTarget,
    attempts: Mapping[str, int],
    *,
    header: str | None = None,
    takes_override: bool = False,
) -> Decision | NeedsAttemptNumber:
    """Decide which fault a request gets: of its header, otherwise of the first rule that is due, otherwise of
    the first override for its order, if it takes one. Every rule counts the requests that it selects.
    `attempts` are the numbers of this attempt, as far as they have been counted.
    """
    candidates: list[tuple[str, FaultRule | None, Override | None]] = []
    if header is not None:
        candidates.append((header, None, None))
    else:
        due = (rule for rule in record.rules if rule.selects(target) and rule.is_due)
        candidates.extend((rule.fault, rule, None) for rule in due)
        override = first_for(record.faults, target.order_id) if takes_override else None
        if override is not None:
            candidates.append((override.value, None, override))
    for text, rule, override in candidates:
        fault, key, attempt = parse_fault(text), rule.id if rule else text, 1
        if fault and fault.times:
            if key not in attempts:
                return NeedsAttemptNumber(key)
            attempt = attempts[key]
            if attempt > fault.times and (override is None or fault.prevents):
                continue
        after = counted(record, target, rule)
        # An override that prevents the first attempts is taken with the last of them.
        is_kept = fault and fault.prevents and attempt < (fault.times or 1)
        if override is not None and not is_kept:
            after = replace(after, faults=without(after.faults, override))
        return Decision(target, record, after, fault, rule.id if rule else None)
    return Decision(target, record, counted(record, target))


def take_scenario(record: SandboxRecord, order_id: str | None) -> tuple[SandboxRecord, Override | None]:
    """The first scenario for a creation of this order, and the sandbox without it."""
    scenario = first_for(record.scenarios, order_id)
    if scenario is None:
        return record, None
    return replace(record, scenarios=without(record.scenarios, scenario)), scenario


def counted(record: SandboxRecord, target: FaultTarget, applied: FaultRule | None = None) -> SandboxRecord:
    """The sandbox after its rules have counted a request, which got the fault of the rule `applied`."""
    if not any(rule.selects(target) for rule in record.rules):
        return record
    rules = tuple(
        replace(rule, seen=rule.seen + 1, applied=rule.applied + (rule is applied))
        if rule.selects(target)
        else rule
        for rule in record.rules
    )
    return replace(record, rules=rules)


def with_waiting(
    record: SandboxRecord, rule_id: str | None, request: str, until: int, now: int
) -> SandboxRecord:
    """The sandbox while a rule holds the request with this token, `until` then; until `now`: no longer.

    A request that is not let go, since its process was killed, ends by the time. If the rule has been
    deleted, the same record is returned.
    """
    rule = record.rule(rule_id)
    if rule is None:
        return record
    waiting = {token: end for token, end in {**rule.waiting, request: until}.items() if end > now}
    holding = replace(rule, waiting=waiting)
    return replace(record, rules=tuple(holding if one is rule else one for one in record.rules))


def first_for(queue: Sequence[Override], order_id: str | None) -> Override | None:
    """The override for a creation of this order: the first of its own, otherwise the first for all."""
    matching = (override for override in queue if override.order_id in (None, order_id))
    return min(matching, key=lambda override: override.order_id is None, default=None)


def without(queue: tuple[Override, ...], taken: Override) -> tuple[Override, ...]:
    """The queue after a creation has taken this override of it once."""
    if taken.times is None:
        return queue
    number = queue.index(taken)
    remaining = [replace(taken, times=taken.times - 1)] if taken.times > 1 else []
    return (*queue[:number], *remaining, *queue[number + 1 :])
