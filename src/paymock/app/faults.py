"""The fault rules of sandboxes, and what a request gets of them, counted over all processes."""

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from paymock.payments.records import SandboxRecord
from paymock.rules.errors import PaymockError
from paymock.rules.fault_rules import Decision, NeedsAttemptNumber, decide, with_waiting
from paymock.rules.faults import MAX_HANG, FaultRule, FaultTarget
from paymock.rules.identifiers import PAYMENT_PREFIX
from paymock.sandbox.retries import RetryDeadline
from paymock.sandbox.sandboxes import Sandboxes
from paymock.sandbox.snapshot import SandboxSnapshot
from paymock.schemas import control as schemas
from paymock.schemas.public import PAYMENT_OPERATIONS
from paymock.schemas.validation import validation_failed
from paymock.stores.base import SANDBOX_RECORD

MAX_RULES = 100  # of a sandbox


class FaultRules:
    """The fault rules of sandboxes."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    async def list(self, sandbox: str) -> schemas.FaultRuleList:
        snapshot = await self._sandboxes.snapshot(sandbox)
        return schemas.FaultRuleList(data=[_public(rule, snapshot.real) for rule in snapshot.record.rules])

    async def add(self, sandbox: str, new: schemas.AddFault) -> schemas.FaultRule:
        """Add a rule after the others. Raises PaymockError `validation_failed`, `capacity_exceeded`."""
        if new.order_id is not None and new.order_id_prefix is not None:
            raise validation_failed({"order_id_prefix": "cannot be combined with order_id"})
        is_of_payment = new.order_id or new.order_id_prefix or new.payment_id
        if new.operation not in (None, *PAYMENT_OPERATIONS) and is_of_payment:
            known = ", ".join(PAYMENT_OPERATIONS)
            raise validation_failed({"operation": f"must be about a payment for this rule: one of {known}"})

        def add(snapshot: SandboxSnapshot) -> SandboxRecord:
            rules, number = snapshot.record.rules, snapshot.record.rules_made
            if len(rules) >= MAX_RULES:
                raise PaymockError("capacity_exceeded", f"The sandbox already has {MAX_RULES} fault rules.")
            token = self._sandboxes.token(snapshot, f"rule {number}")  # no Idempotency-Key has a space
            rule_id = "flt_" + hashlib.blake2b(token.encode(), digest_size=16).hexdigest()
            rules = (*rules, FaultRule(rule_id, **asdict(new)))
            record = replace(snapshot.record, rules=rules, rules_made=number + 1)
            return self._sandboxes.owner_limits.check_room(sandbox, SANDBOX_RECORD, record)

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


class RequestAttempt(Struct, frozen=True):
    """What decides about the fault of a request: what rules compare, what tells its attempts from those of
    other requests, the fault of its header, and the key of a payment that it creates.
    """

    sandbox: str
    target: FaultTarget
    identity: str
    header: str | None = None
    idempotency_key: str | None = None


class FaultInjection:
    """Decides which fault a request gets, by the rules of its sandbox, and carries out what takes time."""

    def __init__(self, sandboxes: Sandboxes, authenticate: Callable[[Any], None]) -> None:
        """`authenticate` raises PaymockError if the API key of a request has been removed."""
        self._sandboxes, self.authenticate = sandboxes, authenticate
        self.waiting_request = sandboxes.notifier.waiting_request
        self.sleep_until = sandboxes.notifier.sleep_until

    async def has_rule_for(self, sandbox: str, operation: str, *, is_known: bool = False) -> bool:
        """Whether a rule may select this operation, by the sandbox as this process has seen it last. Unless
        that `is_known`, it is read now, if the store can be: the catalog needs none.
        """
        if not is_known:
            with suppress(PaymockError):
                await self._sandboxes.snapshot(sandbox)
        return self._sandboxes.known_record(sandbox).has_rule_for(operation)

    async def decide(self, attempt: RequestAttempt) -> Decision:
        """Decide about a request, and count it. Raises PaymockError `store_unavailable`."""
        sandbox, target = attempt.sandbox, attempt.target
        numbers: dict[str, int] = {}
        deadline = RetryDeadline()
        async with self._sandboxes.exclusive(sandbox):
            while True:
                snapshot = await self._sandboxes.snapshot(sandbox)
                if attempt.idempotency_key is not None:
                    token = self._sandboxes.token(snapshot, attempt.idempotency_key)
                    target = target._replace(payment_id=PAYMENT_PREFIX + token)
                record = snapshot.record
                decision = decide(record.rules, target, numbers, attempt.header)
                if isinstance(decision, NeedsAttemptNumber):
                    text = f"{attempt.identity}\n{decision.key}"
                    key = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
                    numbers[decision.key] = await self._sandboxes.increment(sandbox, f"fault {key}")
                elif decision.rules is record.rules or await self._sandboxes.store(
                    snapshot, replace(record, rules=decision.rules)
                ):
                    return decision
                else:
                    deadline.check()

    async def hold(self, sandbox: str, rule_id: str | None) -> None:
        """Return when the rule has been deleted, after MAX_HANG seconds, or when the server stops. Until
        then, or until it is canceled, the rule counts the request as waiting. Raises PaymockError
        `store_unavailable`.
        """
        token, end = secrets.token_hex(8), asyncio.get_running_loop().time() + MAX_HANG

        async def set_waiting(seconds: float) -> None:
            def held(snapshot: SandboxSnapshot) -> SandboxRecord:
                record, until = snapshot.record, snapshot.real + round(seconds * 1000)
                if record.rule(rule_id) is None:
                    return record
                rules = with_waiting(record.rules, rule_id, token, until, snapshot.real)
                return replace(record, rules=rules)

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
