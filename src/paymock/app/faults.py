"""The fault rules of sandboxes: which requests get which fault, counted exactly over all processes."""

import asyncio
import hashlib
import secrets
from weakref import WeakValueDictionary

from msgspec.structs import asdict, replace

from paymock.payments import records
from paymock.payments.records import SandboxRecord
from paymock.rules.errors import PaymockError
from paymock.rules.faults import FaultRule, FaultTarget, counted, first_due, parse_fault
from paymock.sandbox.retries import RetryDeadline
from paymock.sandbox.sandboxes import Sandboxes, SandboxSnapshot
from paymock.schemas import control as schemas
from paymock.schemas.public import PAYMENT_OPERATIONS
from paymock.schemas.validation import validation_failed
from paymock.stores.base import STATE

MAX_RULES = 100
"""The most rules of a sandbox."""

_PREFIX = "flt_"


class RulesDue(Exception):
    """The sandbox has fault rules. The caller counts the request before it is carried out."""


class FaultRules:
    """The fault rules of sandboxes."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One for each sandbox whose rules are being counted: the requests of a process take turns."""

    async def list(self, sandbox: str) -> schemas.FaultRuleList:
        record = (await self._sandboxes.snapshot(sandbox)).record
        return schemas.FaultRuleList(data=[_public(rule) for rule in record.rules])

    async def exist(self, sandbox: str) -> bool:
        return bool((await self._sandboxes.snapshot(sandbox)).record.rules)

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

        await self._sandboxes.change(sandbox, add)
        return _public(rule)

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

    async def count(self, sandbox: str, target: FaultTarget, operation: str, *, applies: bool) -> str | None:
        """Count a request in all rules that select it, and return the fault of the first one that is due, if
        any. With `applies` False, another fault has precedence, and no rule applies.

        `operation` tells the attempts of one operation from others: a fault may be limited to the first.
        """
        attempts: dict[str, int] = {}
        deadline = RetryDeadline()
        async with self._locks.setdefault(sandbox, asyncio.Lock()):
            while True:
                before = await self._sandboxes.snapshot(sandbox)
                rules = before.record.rules
                if not any(rule.selects(target) for rule in rules):
                    return None
                due = await self._first_due(sandbox, rules, target, operation, attempts) if applies else None
                after = replace(before.record, rules=counted(rules, target, due))
                if await self._sandboxes.replace(before, STATE, before.state, records.encode(after)):
                    return due.fault if due else None
                deadline.check()

    async def _first_due(
        self,
        sandbox: str,
        rules: tuple[FaultRule, ...],
        target: FaultTarget,
        operation: str,
        attempts: dict[str, int],
    ) -> FaultRule | None:
        """Return the first rule that is due and whose fault is not limited to earlier attempts.
        `attempts` are the numbers of this one, by the ids of rules that have counted it already.
        """
        exhausted: frozenset[str] = frozenset()
        while (rule := first_due(rules, target, exhausted)) is not None:
            fault = parse_fault(rule.fault)
            if fault is None or fault.times is None:
                break
            if rule.id not in attempts:
                attempts[rule.id] = await self.count_attempt(sandbox, operation, rule.id)
            if attempts[rule.id] <= fault.times:
                break
            exhausted |= {rule.id}
        return rule

    async def count_attempt(self, sandbox: str, operation: str, fault: str) -> int:
        """Return how often `operation` has been attempted with `fault`, this time included."""
        key = hashlib.blake2b(f"{operation}\n{fault}".encode(), digest_size=16).hexdigest()
        return await self._sandboxes.increment(sandbox, f"fault {key}")


def _public(rule: FaultRule) -> schemas.FaultRule:
    return schemas.FaultRule(**asdict(rule))
