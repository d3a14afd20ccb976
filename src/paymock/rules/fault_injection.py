"""What a request gets of all that waits in its sandbox: the fault of a rule or of an override, and the
scenario of an override. It is decided once, and stored with what the request adds. See docs/faults.md.
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
    next creations, and the fault rules of its requests, in order.
    """

    generation: int = 0
    clock: ClockSetting | None = None
    scenarios: tuple[Override, ...] = ()
    faults: tuple[Override, ...] = ()
    rules: tuple[FaultRule, ...] = ()

    @property
    def has_faults(self) -> bool:
        return bool(self.rules or self.faults)

    def rule(self, rule_id: str | None) -> FaultRule | None:
        return next((rule for rule in self.rules if rule.id == rule_id), None)


class Decision(NamedTuple):
    """The sandbox after a request, and what the request gets. `rule_id`: of the rule that has the fault."""

    record: SandboxRecord
    fault: Fault | None = None
    scenario: Override | None = None
    rule_id: str | None = None


class UncountedAttempt(NamedTuple):
    """In place of a decision: the number of this attempt with the rule (its id) or the override (its text) is
    needed first, since its fault is limited to the first attempts of an operation.
    """

    key: str


def decide(
    record: SandboxRecord, target: FaultTarget, attempts: Mapping[str, int], *, takes_overrides: bool
) -> Decision | UncountedAttempt:
    """What the request of this target gets: of the first rule that is due, otherwise of overrides.

    Every rule counts the requests that it selects. `takes_overrides`: it is an accepted creation without
    headers of its own. `attempts` are the numbers of this attempt, as far as they have been counted.
    """
    rule = _due_rule(record.rules, target, attempts)
    if isinstance(rule, UncountedAttempt):
        return rule
    record = counted(record, target, rule)
    fault, rule_id = (None, None) if rule is None else (parse_fault(rule.fault), rule.id)
    if not takes_overrides:
        return Decision(record, fault, rule_id=rule_id)
    if rule is None:
        overridden = _take_fault(record, target.order_id, attempts)
        if isinstance(overridden, UncountedAttempt):
            return overridden
        record, fault, *_ = overridden
    if fault is not None and not fault.after:  # nothing is created, or not yet
        return Decision(record, fault, rule_id=rule_id)
    return take_scenario(record, target.order_id)._replace(fault=fault, rule_id=rule_id)


def _due_rule(
    rules: Sequence[FaultRule], target: FaultTarget, attempts: Mapping[str, int]
) -> FaultRule | UncountedAttempt | None:
    """The first rule that is due and whose fault is not limited to earlier attempts."""
    for rule in rules:
        if rule.selects(target) and rule.is_due:
            fault = parse_fault(rule.fault)
            if fault is None or fault.times is None:
                return rule
            if rule.id not in attempts:
                return UncountedAttempt(rule.id)
            if attempts[rule.id] <= fault.times:
                return rule
    return None


def _take_fault(
    record: SandboxRecord, order_id: str | None, attempts: Mapping[str, int]
) -> Decision | UncountedAttempt:
    """The first fault of the queue. One that prevents the first `times` attempts is taken with the last."""
    override = first_for(record.faults, order_id)
    if override is None:
        return Decision(record)
    fault, attempt = parse_fault(override.value), 1
    if fault and fault.times:
        if override.value not in attempts:
            return UncountedAttempt(override.value)
        attempt = attempts[override.value]
    last = (fault and fault.prevents and fault.times) or attempt
    if attempt == last:
        record = replace(record, faults=without(record.faults, override))
    return Decision(record, fault if attempt <= last else None)


def take_scenario(record: SandboxRecord, order_id: str | None) -> Decision:
    """The scenario alone, for a creation whose fault has been decided."""
    scenario = first_for(record.scenarios, order_id)
    if scenario is None:
        return Decision(record)
    return Decision(replace(record, scenarios=without(record.scenarios, scenario)), scenario=scenario)


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


def hold(record: SandboxRecord, rule_id: str | None, request: str, until: int, now: int) -> SandboxRecord:
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
    return next((override for override in queue if override.order_id in (None, order_id)), None)


def without(queue: tuple[Override, ...], taken: Override) -> tuple[Override, ...]:
    """The queue after a creation has taken this override of it once."""
    if taken.times is None:
        return queue
    number = queue.index(taken)
    remaining = [replace(taken, times=taken.times - 1)] if taken.times > 1 else []
    return (*queue[:number], *remaining, *queue[number + 1 :])
