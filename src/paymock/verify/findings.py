"""Findings: violations by kind, each with the smallest plan that shows it, run again and seen. A fault is
blamed if the journal of the order shows it, and if orders side by side without it do not break the rule.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import to_builtins

from paymock.client.sandbox import Sandbox
from paymock.schemas.public import OPERATION_IDS
from paymock.text import shell_word, without_key
from paymock.verify.batches import HALF_OUTAGE, SIDE_BY_SIDE, run_batches
from paymock.verify.oracle import RANK, RULES, Severity, Violation
from paymock.verify.order import Order
from paymock.verify.plans import BYSTANDERS, NEAR_DUE, Plan, parse_token
from paymock.verify.report import Finding
from paymock.verify.runner import Record, Runner
from paymock.verify.story import cause_of, mixed_up_with, neighbors_of, payment_of, story_of

_APPLICATION = "application"  # in place of an operation: a fault has ended or silenced it
_FACTS = ("key_not_reused", "key_conflict", "polls_forever")  # advice that the journal proves
_BY_SILENCE = ("lost_sale", "lost_order", "gives_up", "late_money_unseen")  # as long as it lasts
_TIMES_CHANCE = 3  # so many times more often than without a fault must a batch break a rule to be its cause
TRIES = 3  # how often a violation is tried to be seen again
_NO_FAULT, _HALF = Plan("*", batch=SIDE_BY_SIDE), Plan("*", batch=HALF_OUTAGE)


class Group(NamedTuple):
    """A kind of violation: the rule, and what was hit: operations, a kind of batch or the application."""

    rule: str
    hit: tuple[str, ...]

    @property
    def is_application(self) -> bool:
        return self.hit == (_APPLICATION,)

    @property
    def is_requests(self) -> bool:
        return bool(self.hit) and {*self.hit} <= {*OPERATION_IDS}

    @property
    def costs_money(self) -> bool:
        return RULES[self.rule].severity is Severity.MONEY


Sighting = tuple[Order, Violation]  # an order that broke a rule, and how


async def repeat(
    runner: Runner,
    plan: Plan,
    record: Record = lambda _: None,
    *,
    is_patient: bool = True,
    alone: bool = False,
) -> list[Order]:
    """Run what the token of a plan stands for, with a close look and all patience; return all orders."""
    runner.revive()
    if plan.batch:
        earlier = len(runner.ledger.orders)
        await run_batches(runner, [plan.batch])
        orders = runner.ledger.orders[earlier:]
        runner.recount(orders)
        return orders
    beside = [] if alone or plan.is_exclusive or not plan.injections else BYSTANDERS
    return await runner.run_once(
        [plan, *beside], exclusive=plan.is_exclusive, record=record,
        is_watched=True, is_patient=is_patient, is_held=True,
    )  # fmt: skip


class Findings:
    """What the trials of `runner` have shown."""

    def __init__(self, sandbox: Sandbox, runner: Runner) -> None:
        self.confirmed: list[Finding] = []
        self._sandbox, self._runner, self._ledger = sandbox, runner, runner.ledger
        self._examined: set[Group] = set()
        self._shown: dict[str, set[tuple[str, str]]] = {}  # the operations and faults of findings, by rule

    async def find(self) -> None:
        """Make a finding of each group: of the smallest plan that shows it, when that was seen once more."""
        runner, options = self._runner, self._runner.options
        if options.only is None and any(one.costs_money and one.hit for one in self._pending()):
            await repeat(runner, _NO_FAULT)
        while groups := self._pending():
            smallest = {group: await self._smallest_plan(group, plans) for group, plans in groups.items()}
            again = {
                plan: self._needs_patience(plan, group.rule)
                for group, plan in smallest.items()
                if (plan.injections or not (plan.batch or group.costs_money))
                and not (plan.is_exclusive or self._is_proven(group.rule, groups[group]))
            }
            once: dict[Plan, Order] = {}
            for is_patient in (False, True):
                chosen = [plan for plan, needs_patience in again.items() if needs_patience == is_patient]
                ended = await runner.run_once(chosen, is_watched=True, is_patient=is_patient)
                once |= {order.plan: order for order in ended}
            for group, plans in groups.items():
                if group in self._examined:  # told with another rule
                    continue
                self._examined.add(group)
                if not self._is_hidden(group, plans):
                    first = once.get(smallest[group])
                    self._add(group, plans, *await self._seen_again(group, smallest[group], plans, first))
                if options.fail_fast and any(one.is_money for one in self.confirmed):
                    return

    def _pending(self) -> dict[Group, list[Plan]]:
        """The plans that broke a rule, by groups of which there is no finding yet, in the order of RULES."""
        groups: dict[Group, list[Plan]] = {}
        for plan, violations in self._ledger.violations.items():
            for rule in dict.fromkeys(violation.rule for violation in violations):
                groups.setdefault(Group(rule, self._hit_by(plan, rule)), []).append(plan)
        left = [group for group in groups if group not in self._examined]
        left.sort(key=lambda one: (RANK[one.rule], len(one.hit), not one.is_requests))
        return {group: groups[group] for group in left}

    def _hit_by(self, plan: Plan, rule: str) -> tuple[str, ...]:
        """What may have broken the rule: only faults that the journal of the order shows."""
        order = self._ledger.trials[plan]
        if order.culprit:  # whose fault has hit other orders, too
            return (_APPLICATION,)
        if plan.batch == SIDE_BY_SIDE or self._ledger.breaks(Plan(plan.scenario), rule):
            return ()
        if plan.batch:
            is_missed = plan.batch.kind == "hold" and not any(entry.fault for entry in order.entries)
            return () if is_missed else (plan.batch.kind,)
        hit = [one for one in plan.injections if one not in order.missed]
        return tuple(sorted({one.request.operation for one in hit}))

    def _by_chance(self, rule: str) -> list[bool]:
        """For each order side by side, without a fault, that breaks the rule: whether one alone does not."""
        beside = [one for one in self._ledger.violations if one.batch == SIDE_BY_SIDE]
        broken = [one for one in beside if self._ledger.breaks(one, rule)]
        return [not self._ledger.breaks(Plan(one.scenario), rule) for one in broken]

    def _is_hidden(self, group: Group, plans: Sequence[Plan]) -> bool:
        """Whether it needs no finding: advice, chance or a shown fault of each of its orders explains it."""
        shown = self._shown.get(group.rule, set())
        if group.is_requests or not group.costs_money:
            return bool(shown) and not group.is_requests
        kinds: list[tuple[str, ...]] = [(one.batch.kind,) for one in self._ledger.trials if one.batch]
        chance = sum(self._by_chance(group.rule)) / (kinds.count((SIDE_BY_SIDE.kind,)) or 1)
        if len(plans) <= _TIMES_CHANCE * chance * kinds.count(group.hit):
            return True
        orders = [self._ledger.trials[plan] for plan in plans]
        batches = [(order.culprit or order.plan).batch for order in orders]
        return all(batch and batch.kind == "outage" for batch in batches) and all(
            any((entry.operation, entry.fault) in shown for entry in order.entries) for order in orders
        )

    def _best(self, plans: Sequence[Plan], rule: str) -> Plan:
        """The best example: few faults, goods that are never due, and a fault in the last request."""

        def rank(plan: Plan) -> tuple[int, int, int, bool, bool, int]:
            order = self._ledger.trials[plan]
            times = sum(injection.times for injection in plan.injections)
            is_early = rule == "free_goods" and not order.reached.isdisjoint(self._ledger.fulfil_at)
            goes_on = bool(order.entries) and order.entries[-1].fault is None
            parked, crashes = (1 + plan.batch.is_parked, len(order.marks)) if plan.batch else (0, 0)
            return parked, crashes, times, is_early, goes_on, self._ledger.plans.index(plan)

        return min(plans, key=rank)

    async def _smallest_plan(self, group: Group, plans: Sequence[Plan]) -> Plan:
        """The smallest plan that breaks the rule, or the one that silences the application most often."""
        if self._runner.options.only:
            token = parse_token(self._runner.options.only)
            plan = token if isinstance(token, Plan) else Plan(token.scenario, batch=token)
        elif group.is_application:
            return self._ledger.trials[plans[0]].culprit or plans[0]
        else:
            plan = self._best(plans, group.rule)
            if not group.hit:
                return _NO_FAULT if plan.injections or plan.batch else plan
        left = [*plan.smaller]
        while smaller := left.pop(0) if left else None:
            if smaller not in self._ledger.trials:
                await self._runner.run([smaller], exclusive=smaller.is_exclusive)
            if self._ledger.breaks(smaller, group.rule):
                plan, left = smaller, [*smaller.smaller]
        return plan

    def _is_proven(self, rule: str, plans: Sequence[Plan]) -> bool:
        """Whether it is not run again: the run repeats it, or the journal proves it, advice by two orders."""
        if self._runner.options.only or rule in _FACTS:
            return True
        is_told = RULES[rule].severity is Severity.MONEY or rule in _BY_SILENCE
        orders = [] if is_told else [one for one in self._ledger.orders if one.plan in plans]
        rules = [violation.rule for one in orders for violation in one.check(self._ledger.fulfil_at)]
        return rules.count(rule) > 1

    def _needs_patience(self, plan: Plan, rule: str) -> bool:
        """Whether the rule rests on a silence that has not been waited for up to `settle` yet."""
        return rule in _BY_SILENCE and self._ledger.trials[plan].waited < self._runner.options.settle

    async def _seen_again(
        self, group: Group, plan: Plan, plans: Sequence[Plan], first: Order | None
    ) -> tuple[Plan, Sighting | None]:
        """Run its tokens again until one breaks the rule, each time if chance breaks it as well; else, what
        other orders suffered meanwhile. Returns the plan whose token has shown it.
        """
        rule, ledger, runner = group.rule, self._ledger, self._runner
        best = self._best(plans, rule)
        if self._is_proven(rule, plans):
            return plan, (ledger.trials[best], ledger.violation(best, rule))
        is_chance, is_patient = bool(group.hit and self._by_chance(rule)), self._needs_patience(best, rule)
        seen = self._seen([first] if first else [], rule)
        tokens = self._tokens(group, plan, plans)
        for tries in range(max(TRIES, len(tokens))):
            if runner.pacing.is_gone or (seen and not is_chance) or (tries and not group.costs_money):
                break
            plan = tokens[tries % len(tokens)]
            orders = await repeat(runner, plan, is_patient=is_patient, alone=is_chance)
            orders.sort(key=lambda one: one.plan != plan)  # its own order, or else one that it has cost
            seen = self._seen(orders, rule)
            if is_chance and not seen:
                break
        if seen or is_chance or not group.costs_money:
            return plan, seen
        order = ledger.trials[best]
        meanwhile = [one for one in ledger.orders if order.placed_at <= one.faulted_at <= order.ended_at]
        meanwhile.sort(key=lambda one: -one.faulted_at)
        hurt = dict.fromkeys(one.plan for one in meanwhile if one.plan.injections and one.plan != best)
        for suspect in [*[_NO_FAULT] * (plan != _NO_FAULT), *[_HALF] * bool(hurt), *hurt][:TRIES]:
            orders = await repeat(runner, suspect, is_patient=is_patient)
            if seen := self._seen([one for one in orders if one.plan != suspect], rule):
                return suspect, seen
        return best, None

    def _tokens(self, group: Group, plan: Plan, plans: Sequence[Plan]) -> list[Plan]:
        """What may show it: faults before the application ended, orders side by side, frequent batches."""
        hit = [one.batch for one in plans if one.batch and (group.hit or one.batch.kind != "hold")]
        batches = [Plan(batch.scenario, batch=batch) for batch, _ in Counter(hit).most_common(TRIES)]
        told = [plan, _NO_FAULT, *batches] if not group.hit else batches or [plan]
        first: dict[object, Plan] = {}
        for one in [plan, *self._ledger.suspects] if group.is_application else told:
            first.setdefault((one.batch, _hits(one)), one)
        return [*first.values()]

    def _seen(self, orders: Iterable[Order], rule: str) -> Sighting | None:
        """The first of these orders that breaks the rule. What a close look shows beside is kept."""
        found, ledger = None, self._ledger
        for order in orders:
            violations = order.check(ledger.fulfil_at)
            if order.plan in ledger.trials and not order.plan.batch:
                known = {one.rule for one in ledger.violations[order.plan]}
                ledger.violations[order.plan] += [one for one in violations if one.rule not in known]
            broken = next((one for one in violations if one.rule == rule), None)
            found = found or (broken and (order, broken))
        return found

    def _add(self, group: Group, plans: Sequence[Plan], plan: Plan, seen: Sighting | None) -> None:
        rule, runner, ledger = group.rule, self._runner, self._ledger
        if any((one.rule, one.token) == (rule, plan.token) for one in self.confirmed):
            return
        if seen is None and not runner.pacing.is_gone:
            is_told = group.hit and self._by_chance(rule) and rule in self._shown
            if group.costs_money and not (is_told or self._is_back(plans, rule)):
                again = "not repeated within the budget" if runner.seconds_left() <= 0 else "not seen again"
                ledger.undetermined[plan] = f"{plan.token}: {rule} was {again}"
            return
        best = self._best(plans, rule)
        order, violation = seen or (ledger.trials[best], ledger.violation(best, rule))
        if group.is_application:
            tried = [one for one, trial in ledger.trials.items() if trial.incident]
        else:
            same = {_hits(one) for one in plans}
            tried = [one for one in ledger.trials if _hits(one) in same]
        explanation = violation.explanation
        if plan == _NO_FAULT:
            tried = [one for one in ledger.trials if one.batch in (None, SIDE_BY_SIDE)]
            plans = [one for one in tried if ledger.breaks(one, rule)]
            if rule == "free_goods":
                explanation += mixed_up_with(order, ledger.orders, ledger.fulfil_at)
            explanation += f" This happened in {len(plans)} of {len(tried)} trials, with whatever fault."
        advice = {name for name, one in RULES.items() if one.severity is Severity.ADVICE} - {rule}
        left = {name for name in advice if Group(name, group.hit) not in self._examined}
        also = dict.fromkeys(one.rule for one in order.check(ledger.fulfil_at) if one.rule in left)
        self._examined.update(Group(name, group.hit) for name in also)
        hit = ((one.request.operation, one.parsed.text) for each in plans for one in each.injections)
        self._shown.setdefault(rule, set()).update(hit)
        told = {"also": [*also], "repeated": seen is not None, "occurrences": len(plans), "tried": len(tried)}
        self.confirmed.append(self._finding(order, violation._replace(explanation=explanation), plan, **told))

    def _is_back(self, plans: Sequence[Plan], rule: str) -> bool:
        """Whether silence was no loss: the application has come back to each order since."""
        orders = [self._ledger.trials[plan] for plan in plans] if rule in _BY_SILENCE else []
        created = [bool(self._sandbox.payments(order_id=one.order_id)) for one in orders]
        delivered = [one for one in self._runner.recount(orders) if one.deliveries]
        return bool(orders) and (all(created) if rule == "lost_order" else len(delivered) == len(orders))

    def in_order(self) -> list[Finding]:
        """What was confirmed: by rules, and what has been shown most often first."""
        return sorted(self.confirmed, key=lambda one: (RANK[one.rule], -one.occurrences))

    def unconfirmed(self) -> Iterator[Finding]:
        """What has been found when the run is interrupted."""
        for (rule, _), plans in self._pending().items():
            plan, count = self._best(plans, rule), len(plans)
            order, violation = self._ledger.trials[plan], self._ledger.violation(plan, rule)
            yield self._finding(order, violation, order.culprit or plan, occurrences=count, repeated=False)

    def _finding(self, order: Order, violation: Violation, plan: Plan, **told: Any) -> Finding:
        payments = [payment_of(self._sandbox.detail(payment_id)) for payment_id in order.payments]
        newest = payments[-1] if payments else {"payment_id": None, "timeline": []}
        token, command = plan.token, self._runner.options.command
        known = {one["name"]: one for one in self._sandbox.scenarios()} | {**NEAR_DUE}
        simulates = str(known.get(order.plan.scenario, {}).get("simulates", ""))
        return Finding(
            rule=violation.rule,
            scenario=order.plan.scenario,
            faults=[str(one) for one in filter(None, (plan.batch, *plan.injections))],
            token=token,
            explanation=violation.explanation,
            story=story_of(order, plan, violation, payments, simulates),
            requests=to_builtins(order.entries),
            timeline=newest["timeline"],
            order_id=order.order_id,
            payment_id=newest["payment_id"],
            command=command and f"{command} --only {shell_word(token)}",
            cause=cause_of(order, plan, violation),
            payments=payments,
            marks=order.marks,
            output=[without_key(line, self._sandbox.secret) for line in order.output],
            goods_at=order.delivered_at or "",
            neighbors=neighbors_of(order, self._ledger.orders),
            **told,
        )


def _hits(plan: Plan) -> tuple[object, ...]:
    """What a plan hits, and with which faults: the same of batches of one kind."""
    return plan.batch and plan.batch.kind, *((one.request.operation, one.fault) for one in plan.injections)
