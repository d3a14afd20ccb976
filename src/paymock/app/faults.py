"""The fault rules and overrides of sandboxes, and what a request gets of them, counted over all processes."""

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import asdict, replace

from paymock.app.payments import PaymentsService
from paymock.rules.errors import PaymockError
from paymock.rules.fault_injection import (
    Decision,
    DecisionNeeded,
    NeedsAttemptNumber,
    Override,
    SandboxRecord,
    decide,
    with_waiting,
)
from paymock.rules.faults import MAX_HANG, FaultKind, FaultRule, FaultTarget, parse_fault
from paymock.rules.identifiers import PAYMENT_PREFIX
from paymock.rules.scenarios import SCENARIOS, Scenario, scenario_of, stored_scenario
from paymock.rules.timeline import scenario_hint
from paymock.sandbox.notifier import in_slices
from paymock.sandbox.sandboxes import KeyedRequest, RetryDeadline, Sandboxes, SandboxSnapshot
from paymock.schemas import control as schemas
from paymock.schemas.public import PAYMENT_OPERATIONS
from paymock.schemas.scenarios import course_of
from paymock.schemas.validation import validation_failed
from paymock.stores.base import STATE

T = TypeVar("T")

MAX_RULES = 100
"""The most rules of a sandbox."""

MAX_OVERRIDES = 100
"""The most pending scenarios, and the most pending faults, of a sandbox."""

Queue = tuple[Override, ...]

_PREFIX = "flt_"


class FaultRules:
    """The fault rules of sandboxes."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    async def list(self, sandbox: str) -> schemas.FaultRuleList:
        snapshot = await self._sandboxes.snapshot(sandbox)
        return schemas.FaultRuleList(data=[_public(rule, snapshot.real) for rule in snapshot.record.rules])

    async def add(self, sandbox: str, new: schemas.AddFault) -> schemas.FaultRule:
        """Add a rule after the others. Raises PaymockError `validation_failed`, `capacity_exceeded`."""
        if new.operation not in (None, *PAYMENT_OPERATIONS) and (new.order_id or new.payment_id):
            known = ", ".join(PAYMENT_OPERATIONS)
            raise validation_failed({"operation": f"must be about a payment for this rule: one of {known}"})

        def add(snapshot: SandboxSnapshot) -> SandboxRecord:
            rules, number = snapshot.record.rules, snapshot.record.rules_made
            if len(rules) >= MAX_RULES:
                raise PaymockError("capacity_exceeded", f"The sandbox has {MAX_RULES} fault rules already.")
            token = self._sandboxes.token(snapshot, f"rule {number}")  # no Idempotency-Key has a space
            rule_id = _PREFIX + hashlib.blake2b(token.encode(), digest_size=16).hexdigest()
            rules = (*rules, FaultRule(rule_id, **asdict(new)))
            record = replace(snapshot.record, rules=rules, rules_made=number + 1)
            return self._sandboxes.with_room(sandbox, STATE, record)

        after = await self._sandboxes.change(sandbox, add)
        return _public(after.record.rules[-1], after.real)

    async def delete(self, sandbox: str, fault_id: str) -> None:
        """Delete a rule. Raises PaymockError `not_found`."""

        def without(snapshot: SandboxSnapshot) -> SandboxRecord:
            rules = snapshot.record.rules
            left = tuple(rule for rule in rules if rule.id != fault_id)
            if left == rules:
                raise PaymockError("not_found", "This sandbox has no fault rule with that id.")
            return replace(snapshot.record, rules=left)

        await self._sandboxes.change(sandbox, without)

    async def clear(self, sandbox: str) -> None:
        await self._sandboxes.change(sandbox, lambda snapshot: replace(snapshot.record, rules=()))


class Overrides:
    """The pending overrides of sandboxes: the scenario and the fault of the next creations without headers of
    their own. They wait in separate queues, so that a fault that refuses a creation leaves the scenario to
    the retry, and does not replace a permanent scenario. `scenarios` are those of the server, by name.
    """

    def __init__(self, sandboxes: Sandboxes, scenarios: Mapping[str, Scenario] = SCENARIOS) -> None:
        self._sandboxes = sandboxes
        self._scenarios = scenarios

    async def pending(self, sandbox: str) -> schemas.PendingOverrideList:
        return await _pending(await self._sandboxes.snapshot(sandbox))

    async def add(self, sandbox: str, override: schemas.SetNext) -> schemas.PendingOverrideList:
        """Add a scenario, a fault, or both for the next creations. Raises PaymockError `validation_failed`,
        `invalid_fault`, `capacity_exceeded`.
        """
        name, fault, times, order_id = override.scenario, override.fault, override.times, override.order_id
        scenario: Scenario | None = override.course
        if scenario is not None and name is not None:
            raise validation_failed({"course": "give a scenario or a course, not both"})
        if name is not None:
            if name not in self._scenarios:
                hint = scenario_hint(name, self._scenarios)
                raise validation_failed(
                    {"scenario": f"must be one of {', '.join(self._scenarios)}{hint and f'; {hint}'}"}
                )
            scenario = self._scenarios[name]
        if scenario is None and fault is None:
            raise validation_failed({"scenario": "give a scenario or a course, a fault, or both"})
        parsed = parse_fault(fault or "")
        if parsed is not None and parsed.kind is FaultKind.HOLD:
            raise PaymockError("invalid_fault", "`hold` works in a rule only: POST /_mock/faults.")

        def add(snapshot: SandboxSnapshot) -> SandboxRecord:
            scenarios, faults = snapshot.record.scenarios, snapshot.record.faults
            if scenario is not None:
                added = Override(scenario.name, times, stored_scenario(scenario), order_id)
                scenarios = _enqueued(scenarios, added)
            if fault is not None:
                faults = _enqueued(faults, Override(fault, times, order_id=order_id))
            record = replace(snapshot.record, scenarios=scenarios, faults=faults)
            return self._sandboxes.with_room(sandbox, STATE, record)

        return await _pending(await self._sandboxes.change(sandbox, add))

    async def clear(self, sandbox: str, query: schemas.ClearNext) -> None:
        """Delete what is pending: all, or only for the creations of one order."""
        order_id = query.order_id

        def left(queue: Queue) -> Queue:
            return tuple(one for one in queue if order_id is not None and one.order_id != order_id)

        def cleared(snapshot: SandboxSnapshot) -> SandboxRecord:
            record = snapshot.record
            return replace(record, scenarios=left(record.scenarios), faults=left(record.faults))

        await self._sandboxes.change(sandbox, cleared)


class RequestAttempt(Struct, frozen=True):
    """What decides about the fault of a request: what rules compare, what tells its attempts from those of
    other requests, the fault of its header, and what it creates if it is valid.
    """

    sandbox: str
    target: FaultTarget
    identity: str
    header: str | None = None
    creation: KeyedRequest | None = None
    takes_override: bool = False


class FaultInjection:
    """Decides which fault a request gets, from its sandbox as it is before."""

    def __init__(self, sandboxes: Sandboxes, payments: PaymentsService) -> None:
        self._sandboxes = sandboxes
        self._payments = payments
        self.waiting_request = sandboxes.notifier.waiting_request
        self.sleep_until = sandboxes.notifier.sleep_until

    def has_rule_for(self, sandbox: str, operation: str) -> bool:
        """Whether a rule may select this operation, by the sandbox as this process has seen it last."""
        return self._sandboxes.known_record(sandbox).has_rule_for(operation)

    async def refresh(self, sandbox: str) -> None:
        """See what other processes have changed, if the store can be read: the catalog needs none."""
        with suppress(PaymockError):
            await self._sandboxes.snapshot(sandbox)

    async def decide(
        self, attempt: RequestAttempt, create: Callable[[Decision], Awaitable[T]]
    ) -> tuple[Decision, T | None]:
        """Decide about a request, and count it. A new payment that the fault does not prevent is created in
        the same step: `create` carries out the request. Raises PaymockError `store_unavailable`.
        """
        sandbox, target, takes_override = attempt.sandbox, attempt.target, attempt.takes_override
        numbers: dict[str, int] = {}
        deadline = RetryDeadline()
        async with self._sandboxes.exclusive(sandbox):
            while True:
                is_new = False
                if attempt.creation is None:
                    snapshot = await self._sandboxes.snapshot(sandbox)
                else:
                    token, snapshot = await self._sandboxes.find_key(
                        sandbox, attempt.creation.idempotency_key
                    )
                    target = target._replace(payment_id=PAYMENT_PREFIX + token)
                    if takes_override and snapshot.values == [None]:
                        is_new = self._payments.accepts(attempt.creation, snapshot)
                decision = decide(
                    snapshot.record, target, numbers, header=attempt.header, takes_override=is_new
                )
                if isinstance(decision, NeedsAttemptNumber):
                    text = f"{attempt.identity}\n{decision.key}"
                    key = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
                    numbers[decision.key] = await self._sandboxes.increment(sandbox, f"fault {key}")
                    continue
                if is_new and (decision.fault is None or decision.fault.after):
                    try:
                        return decision, await create(decision)
                    except DecisionNeeded:
                        pass
                    except PaymockError as error:
                        if error.kind.code == "store_unavailable":  # it may have been stored
                            raise
                        takes_override = False
                elif await self._sandboxes.store(snapshot, decision.after):
                    return decision, None
                deadline.check()

    async def hold(self, sandbox: str, rule_id: str | None) -> None:
        """Return when the rule has been deleted, after MAX_HANG seconds, or when the server stops. Until
        then, or until it is canceled, the rule counts the request as waiting. Raises PaymockError
        `store_unavailable`.
        """
        token, end = secrets.token_hex(8), asyncio.get_running_loop().time() + MAX_HANG

        async def set_waiting(seconds: float) -> None:
            def held(snapshot: SandboxSnapshot) -> SandboxRecord:
                until = snapshot.real + round(seconds * 1000)
                return with_waiting(snapshot.record, rule_id, token, until, snapshot.real)

            async with self._sandboxes.exclusive(sandbox):
                await self._sandboxes.change(sandbox, held)

        with self._sandboxes.notifier.subscribe(sandbox) as changes:
            try:
                await set_waiting(MAX_HANG)
                while (await self._sandboxes.snapshot(sandbox)).record.rule(rule_id) is not None:
                    if not await changes.next(end):
                        break
            finally:
                await set_waiting(0)


def _public(rule: FaultRule, now: int) -> schemas.FaultRule:
    waiting = sum(end > now for end in rule.waiting.values())
    return schemas.FaultRule(**asdict(rule) | {"waiting": waiting})


def _enqueued(queue: Queue, added: Override) -> Queue:
    """Return the queue with one more override. Last come the permanent ones, one for each order and all."""
    limited = [override for override in queue if override.times is not None]
    permanent = {override.order_id: override for override in queue if override.times is None}
    if added.times is None:
        permanent[added.order_id] = added
    else:
        limited.append(added)
    if max(len(limited), len(permanent)) > MAX_OVERRIDES:
        raise PaymockError("capacity_exceeded", f"{MAX_OVERRIDES} overrides are pending already.")
    last = sorted(permanent.values(), key=lambda override: override.order_id is None)
    return (*limited, *last)


async def _pending(snapshot: SandboxSnapshot) -> schemas.PendingOverrideList:
    scenarios, faults = snapshot.record.scenarios, snapshot.record.faults
    pending = [(one, one.value, None) for one in scenarios] + [(one, None, one.value) for one in faults]
    data = await in_slices(
        schemas.PendingOverride(
            scenario=scenario,
            fault=fault,
            times=one.times,
            course=course_of(scenario_of(one.value, one.custom_scenario)) if one.custom_scenario else UNSET,
            order_id=one.order_id or UNSET,
        )
        for one, scenario, fault in pending
    )
    return schemas.PendingOverrideList(data=data)
