"""The fault rules of sandboxes, and what one request gets of them, counted exactly over all processes."""

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from paymock.payments import records
from paymock.rules.errors import PaymockError
from paymock.rules.fault_injection import Decision, SandboxRecord, counted, decide, hold, take_scenario
from paymock.rules.faults import MAX_HANG, Fault, FaultRule, FaultTarget
from paymock.sandbox.retries import RetryDeadline
from paymock.sandbox.sandboxes import Created, Sandboxes, SandboxSnapshot
from paymock.schemas import control as schemas
from paymock.schemas.public import PAYMENT_OPERATIONS
from paymock.schemas.validation import validation_failed
from paymock.stores.base import STATE

MAX_RULES = 100
"""The most rules of a sandbox."""

_PREFIX = "flt_"


class Prevented(Exception):
    """The request was accepted, but its fault applies before it is carried out."""


class FaultRules:
    """The fault rules of sandboxes."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    async def list(self, sandbox: str) -> schemas.FaultRuleList:
        snapshot = await self._sandboxes.snapshot(sandbox)
        return schemas.FaultRuleList(data=[_public(rule, snapshot.real) for rule in snapshot.record.rules])

    async def add(
        self,
        sandbox: str,
        fault: str,
        *,
        operation: str | None = None,
        order_id: str | None = None,
        payment_id: str | None = None,
        skip: int = 0,
        times: int | None = 1,
    ) -> schemas.FaultRule:
        """Add a rule after the others. Raises PaymockError `validation_failed`, `capacity_exceeded`."""
        if operation not in (None, *PAYMENT_OPERATIONS) and (order_id or payment_id):
            known = ", ".join(PAYMENT_OPERATIONS)
            raise validation_failed({"operation": f"must be about a payment for this rule: one of {known}"})
        rule = FaultRule(
            _PREFIX + secrets.token_hex(16),
            fault,
            operation=operation,
            order_id=order_id,
            payment_id=payment_id,
            skip=skip,
            times=times,
        )

        def add(snapshot: SandboxSnapshot) -> SandboxRecord:
            rules = snapshot.record.rules
            if len(rules) >= MAX_RULES:
                raise PaymockError("capacity_exceeded", f"The sandbox has {MAX_RULES} fault rules already.")
            return replace(snapshot.record, rules=(*rules, rule))

        return _public(rule, (await self._sandboxes.change(sandbox, add)).real)

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


class Injection(Struct, eq=False):
    """What one request below `/v1` gets of the fault rules and overrides of its sandbox. It is decided once:
    with what the request adds or, if it adds nothing, after it was carried out.

    `attempt` tells the attempts of one operation from those of others. `rule_id` is that of the rule that has
    the `fault`, if it is not of a header or an override. `seen` is the own record of the sandbox as the
    request has read it.
    """

    sandboxes: Sandboxes
    sandbox: str
    attempt: Callable[[], str]
    decided: bool = False
    fault: Fault | None = None
    rule_id: str | None = None
    target: FaultTarget | None = None
    seen: SandboxRecord | None = None
    _decision: Decision | None = None
    _attempts: dict[str, int] = {}

    @property
    def is_before(self) -> bool:
        """Whether the fault applies before the request is carried out."""
        return self.fault is not None and not self.fault.after

    @property
    def is_without_fault(self) -> bool:
        """Whether the request gets no fault, as most requests."""
        if self.decided:
            return self.fault is None
        return self.seen is not None and not self.seen.rules

    @property
    def is_due(self) -> bool:
        """Whether there are rules that have not counted the request."""
        return not self.decided and self.seen is not None and bool(self.seen.rules)

    async def see(self) -> None:
        """Read the rules of the sandbox. Raises PaymockError `store_unavailable`."""
        self.seen = (await self.sandboxes.snapshot(self.sandbox)).record

    async def decide(
        self, snapshot: SandboxSnapshot, target: FaultTarget, *, takes_overrides: bool
    ) -> Decision | None:
        """Decide for an accepted request; the decision is to be stored with what it adds. None: the sandbox
        has changed meanwhile.

        Raises Prevented, with the decision stored, if the fault applies before the request is carried out.
        """
        record = snapshot.record
        self._decision = None  # what was decided for another record of the sandbox is forgotten
        if not (record.has_faults or record.scenarios):
            return Decision(record)
        if self.decided:
            return take_scenario(record, target.order_id) if takes_overrides else Decision(record)
        decision = await self._decide(record, target, takes_overrides=takes_overrides)
        if decision.fault is None or decision.fault.after:
            self._decision, self.target = decision, target
            return decision
        if not await self._store(snapshot, decision.record):
            return None
        self.settle(target, decision.fault, decision.rule_id)
        raise Prevented

    def added(self, created: Created[Any]) -> None:
        """Settle what was decided, if it was stored: a repeated request has added nothing."""
        self.seen = created.snapshot.record
        if not (created.replayed or self.decided):
            self.decided = True
            if self._decision is not None:
                self.fault, self.rule_id = self._decision.fault, self._decision.rule_id

    async def decide_alone(self, target: FaultTarget, *, has_fault: bool = False) -> None:
        """Decide for a request that adds nothing. One that has a fault of its own is only counted."""
        deadline = RetryDeadline()
        async with self.sandboxes.turn(self.sandbox):
            while True:
                snapshot = await self.sandboxes.snapshot(self.sandbox)
                if has_fault:
                    decision = Decision(counted(snapshot.record, target))
                else:
                    decision = await self._decide(snapshot.record, target, takes_overrides=False)
                if await self._store(snapshot, decision.record):
                    return self.settle(target, decision.fault, decision.rule_id)
                deadline.check()

    def settle(self, target: FaultTarget, fault: Fault | None, rule_id: str | None = None) -> None:
        self.decided, self.target, self.fault, self.rule_id = True, target, fault, rule_id

    async def hold(self) -> None:
        """Return when the rule of the fault has been deleted, after MAX_HANG seconds, or when the server
        stops. Until then, or until it is canceled, the rule counts the request as waiting.

        Raises PaymockError `store_unavailable`.
        """
        token, end = secrets.token_hex(8), asyncio.get_running_loop().time() + MAX_HANG
        with self.sandboxes.notifier.subscribe(self.sandbox) as changes:
            try:
                await self._set_waiting(token, MAX_HANG)
                while (await self.sandboxes.snapshot(self.sandbox)).record.rule(self.rule_id) is not None:
                    if not await changes.next(end):
                        break
            finally:
                await self._set_waiting(token, 0)

    async def _set_waiting(self, token: str, seconds: float) -> None:
        def held(snapshot: SandboxSnapshot) -> SandboxRecord:
            until = snapshot.real + round(seconds * 1000)
            return hold(snapshot.record, self.rule_id, token, until, snapshot.real)

        async with self.sandboxes.turn(self.sandbox):
            await self.sandboxes.change(self.sandbox, held)

    async def _decide(self, record: SandboxRecord, target: FaultTarget, *, takes_overrides: bool) -> Decision:
        while True:
            decision = decide(record, target, self._attempts, takes_overrides=takes_overrides)
            if isinstance(decision, Decision):
                return decision
            self._attempts[decision.key] = await self.count_attempt(decision.key)

    async def _store(self, snapshot: SandboxSnapshot, record: SandboxRecord) -> bool:
        if record is snapshot.record:
            return True
        return await self.sandboxes.replace(snapshot, STATE, snapshot.state, records.encode(record))

    async def count_attempt(self, fault: str) -> int:
        """Return how often the operation has been attempted with `fault`, this time included."""
        key = hashlib.blake2b(f"{self.attempt()}\n{fault}".encode(), digest_size=16).hexdigest()
        return await self.sandboxes.increment(self.sandbox, f"fault {key}")


def _public(rule: FaultRule, now: int) -> schemas.FaultRule:
    waiting = sum(end > now for end in rule.waiting.values())
    return schemas.FaultRule(**asdict(rule) | {"waiting": waiting})
