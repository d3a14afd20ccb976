"""What waits in a sandbox for requests: the fault of a rule or of an override, decided once, before a request
is carried out; and the scenario of an override, taken by a creation. See docs/faults.md.
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

    def has_rule_for(self, operation: str) -> bool:
        return bool(self.rules) and any(rule.operation in (None, operation) for rule in self.rules)

    def rule(self, rule_id: str | None) -> FaultRule | None:
        return next((rule for rule in self.rules if rule.id == rule_id), None)


class Decision(NamedTuple):
    """The sandbox before and after a request is counted, and the fault that the request gets: of the rule
    with this id or, without one, of an override.
    """

    before: SandboxRecord
    after: SandboxRecord
    fault: Fault | None = None
    rule_id: str | None = None

    @property
    def prevents(self) -> bool:
        """Whether the fault applies before the request is carried out."""
        return self.fault is not None and not self.fault.after


class NeedsAttemptNumber(NamedTuple):
    """In place of a decision: the number of this attempt with the rule (its id) or the override (its text) is
    needed first, since its fault is limited to the first attempts of an operation.
    """

    key: str


def decide(
    record: SandboxRecord, target: FaultTarget, attempts: Mapping[str, int], *, takes_override: bool
) -> Decision | NeedsAttemptNumber:
    """The fault of the request of this target: of the first rule that is due, otherwise of the first override
    for its order, if it `takes_override`. `attempts` are the numbers of this attempt, as far as they have
    been counted.
    """
    for rule in record.rules:
        if rule.selects(target) and rule.is_due:
            fault = parse_fault(rule.fault)
            limit = fault and fault.times
            if limit and rule.id not in attempts:
                return NeedsAttemptNumber(rule.id)
            if not limit or attempts[rule.id] <= limit:
                return Decision(record, counted(record, target, rule), fault, rule.id)
    after = counted(record, target)
    override = first_for(record.faults, target.order_id) if takes_override else None
    fault = parse_fault(override.value) if override else None
    if override is None or fault is None:
        return Decision(record, after)
    if fault.times and override.value not in attempts:
        return NeedsAttemptNumber(override.value)
    attempt = attempts[override.value] if fault.times else 1
    # What prevents the first attempts is taken with the last of them.
    last = (fault.prevents and fault.times) or attempt
    if attempt == last:
        after = replace(after, faults=without(after.faults, override))
    return Decision(record, after, fault if attempt <= last else None)


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
