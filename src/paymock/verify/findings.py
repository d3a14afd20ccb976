"""Findings: violations by their kind, each with the smallest plan that shows it. None about money without
its token having been run again and seen. A fault is blamed only if the journal of the order shows it, and
if orders side by side without it do not break the rule as well.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import to_builtins

from paymock.client.sandbox import Sandbox
from paymock.schemas.public import OPERATION_IDS
from paymock.text import shell_word, without_key
from paymock.verify.batches import SIDE_BY_SIDE, run_batches
from paymock.verify.oracle import RULES, Severity, Violation
from paymock.verify.order import Order
from paymock.verify.plans import BYSTANDERS, NEAR_DUE, Plan, parse_token
from paymock.verify.report import Finding
from paymock.verify.runner import Runner
from paymock.verify.story import cause_of, mixed_up_with, neighbors_of, payment_of, story_of

_APPLICATION = "application"
"""In place of an operation: the application as a whole was hit, since a fault ended or silenced it."""

_FACTS = ("key_not_reused", "key_conflict", "polls_forever")
"""Advice that needs no repetition: the requests are in the journal."""

_BY_SILENCE = ("lost_sale", "lost_order", "gives_up", "late_money_unseen")
"""What silence proves, as long as it lasts."""

_TIMES_CHANCE = 3  # so many times more often than without a fault must a batch break a rule to be its cause
TRIES = 3  # how often a violation is tried to be seen again
_NO_FAULT = Plan("*", batch=SIDE_BY_SIDE)


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


Sighting = tuple[Order, Violation]
"""An order that broke a rule, and how."""


async def repeat(
    runner: Runner, plan: Plan, record: Callable[[Order], object] = lambda _: None, *, is_patient: bool = True
) -> list[Order]:
    """Run what the token of a plan stands for, with a close look and all patience; return all orders."""
    runner.revive()
    if plan.batch:
        earlier = len(runner.ledger.orders)
        await run_batches(runner, [plan.batch])
        orders = runner.ledger.orders[earlier:]
        runner.recount(orders)
        return orders
    beside = [] if plan.is_exclusive or not plan.injections else BYSTANDERS
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
        self._shown: dict[str, set[tuple[str, str]]] = {}
        """By rule, the operations and faults of what has become a finding."""

    async def find(self) -> None:
        """Make a finding of each group: of the smallest plan that shows it, when that was seen once more."""
        runner, options = self._runner, self._runner.options
        if options.only is None and any(one.costs_money and one.hit for one in self._pending()):
            await run_batches(runner, [SIDE_BY_SIDE])
        while groups := self._pending():
            smallest = {group: await self._smallest_plan(group, plans) for group, plans in groups.items()}
            once: dict[Plan, Order] = {}
            for is_patient in (False, True):
                single = dict.fromkeys(
                    plan
                    for group, plan in smallest.items()
                    if group.is_requests and self._needs_patience(plan, group.rule) == is_patient
                    and not (plan.is_exclusive or group.rule in _FACTS or options.only)
                )  # fmt: skip
                orders = await runner.run_once(single, is_watched=True, is_patient=is_patient)
                once |= {order.plan: order for order in orders}
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
        rules = [*RULES]
        left = [group for group in groups if group not in self._examined]
        left.sort(key=lambda one: (rules.index(one.rule), len(one.hit), not one.is_requests))
        return {group: groups[group] for group in left}

    def _hit_by(self, plan: Plan, rule: str) -> tuple[str, ...]:
        """What may have broken the rule: only faults that the journal of the order shows."""
        order = self._ledger.trials[plan]
        if order.culprit:  # whose fault has hit other orders, too
            return (_APPLICATION,)
        if plan.batch == SIDE_BY_SIDE or self._ledger.breaks(Plan(plan.scenario), rule):
            return ()
        if plan.batch:
            return (plan.batch.kind,)
        hit = [one for one in plan.injections if one not in order.missed]
        return tuple(sorted({one.request.operation for one in hit}))

    def _chance(self, rule: str) -> float:
        """The share of orders side by side, without a fault, that break the rule where one alone does not."""
        ledger = self._ledger
        beside = [one for one in ledger.violations if one.batch == SIDE_BY_SIDE]
        alone = {one.scenario for one in beside if ledger.breaks(Plan(one.scenario), rule)}
        broken = sum(ledger.breaks(one, rule) and one.scenario not in alone for one in beside)
        return broken / (len(beside) or 1)

    def _is_hidden(self, group: Group, plans: Sequence[Plan]) -> bool:
        """Whether it needs no finding: advice, chance or a shown fault of each of its orders explains it."""
        shown = self._shown.get(group.rule, set())
        if group.is_requests or not group.costs_money:
            return bool(shown) and not group.is_requests
        kinds = [one for one in self._ledger.trials if one.batch and (one.batch.kind,) == group.hit]
        if len(plans) <= _TIMES_CHANCE * self._chance(group.rule) * len(kinds):
            return True
        for order in (self._ledger.trials[plan] for plan in plans):
            batch = (order.culprit or order.plan).batch
            is_shown = any((entry.operation, entry.fault) in shown for entry in order.entries)
            if batch is None or batch.kind != "outage" or not is_shown:
                return False
        return True

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
            counts = Counter(filter(None, (self._ledger.trials[plan].culprit for plan in plans)))
            return min(counts, key=lambda plan: (plan.batch is not None, -counts[plan]))
        else:
            plan = self._best(plans, group.rule)
            if not group.hit:
                return _NO_FAULT if plan.injections or plan.batch else plan
        left = [*plan.smaller]
        while left:
            smaller = left.pop(0)
            if smaller not in self._ledger.trials:
                await self._runner.run([smaller], exclusive=smaller.is_exclusive)
            if self._ledger.breaks(smaller, group.rule):
                plan, left = smaller, [*smaller.smaller]
        return plan

    def _needs_patience(self, plan: Plan, rule: str) -> bool:
        """Whether the rule rests on a silence that has not been waited for up to `settle` yet."""
        return rule in _BY_SILENCE and self._ledger.trials[plan].waited < self._runner.options.settle

    async def _seen_again(
        self, group: Group, plan: Plan, plans: Sequence[Plan], first: Order | None
    ) -> tuple[Plan, Sighting | None]:
        """Run the token of a plan again, until it has broken the rule, or if that happens by chance as well,
        each time. If it has not, run what other orders suffered at the same time, beside orders without a
        fault. Returns the plan whose token has shown it.
        """
        rule, ledger, runner = group.rule, self._ledger, self._runner
        best = self._best(plans, rule)
        if runner.options.only or rule in _FACTS:  # this run repeats a finding; or the journal proves it
            return plan, (ledger.trials[best], ledger.violation(best, rule))
        of_any = group.is_application or plan.batch is not None
        is_chance = bool(group.hit) and self._chance(rule) > 0
        seen = self._seen([first] if first else [], rule)
        is_patient = self._needs_patience(best, rule)
        for tries in range(TRIES):
            if runner.pacing.is_gone or (seen and not is_chance) or (tries and not group.costs_money):
                break
            orders = await repeat(runner, plan, is_patient=is_patient)
            seen = self._seen(orders if of_any else [one for one in orders if one.plan == plan], rule)
            if not seen and is_chance:
                break
        if seen or is_chance or not group.costs_money or (of_any and group.hit):
            return plan, seen
        order = ledger.trials[best]
        meanwhile = [one for one in ledger.orders if order.placed_at <= one.faulted_at <= order.ended_at]
        meanwhile.sort(key=lambda one: -one.faulted_at)
        hurt = dict.fromkeys(one.plan for one in meanwhile if one.plan.injections and one.plan != best)
        for suspect in [*[_NO_FAULT] * (not of_any), *hurt][:TRIES]:
            orders = await repeat(runner, suspect, is_patient=is_patient)
            if seen := self._seen([one for one in orders if one.plan != suspect], rule):
                return suspect, seen
        return best, None

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
        if seen is None and not runner.pacing.is_gone:
            if (
                group.costs_money
                and not (group.hit and self._chance(rule))
                and not self._is_back(plans, rule)
            ):
                ended = runner.seconds_left() <= 0
                again = "not repeated within the budget" if ended else "not seen again"
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
        also = dict.fromkeys(
            one.rule
            for one in order.check(ledger.fulfil_at)
            if one.rule != rule
            and RULES[one.rule].severity is Severity.ADVICE
            and Group(one.rule, group.hit) not in self._examined
        )
        self._examined.update(Group(name, group.hit) for name in also)
        hit = ((one.request.operation, one.parsed.text) for each in plans for one in each.injections)
        self._shown.setdefault(rule, set()).update(hit)
        told = {"also": [*also], "repeated": seen is not None, "occurrences": len(plans), "tried": len(tried)}
        violation = violation._replace(explanation=explanation)
        self.confirmed.append(self._finding(order, violation, plan, **told))

    def _is_back(self, plans: Sequence[Plan], rule: str) -> bool:
        """Whether silence was no loss: the application has come back to each order since."""
        orders = [self._ledger.trials[plan] for plan in plans] if rule in _BY_SILENCE else []
        created = [bool(self._sandbox.payments(order_id=one.order_id)) for one in orders]
        delivered = [one for one in self._runner.recount(orders) if one.deliveries]
        is_back = all(created) if rule == "lost_order" else len(delivered) == len(orders)
        return bool(orders) and is_back

    def in_order(self) -> list[Finding]:
        """What was confirmed: by rules, and what has been shown most often first."""
        ranks = {rule: rank for rank, rule in enumerate(RULES)}
        return sorted(self.confirmed, key=lambda one: (ranks[one.rule], -one.occurrences / (one.tried or 1)))

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
            neighbors=neighbors_of(order, self._ledger.orders),
            **told,
        )


def _hits(plan: Plan) -> tuple[object, ...]:
    """What a plan hits, and with which faults: the same of batches of one kind."""
    return plan.batch and plan.batch.kind, *((one.request.operation, one.fault) for one in plan.injections)
