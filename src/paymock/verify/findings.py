"""Findings: violations by kind, each with the smallest plan that shows it and how certain it is. A fault is
blamed if the journal of the order shows it, and if orders side by side without it do not break the rule.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import to_builtins

from paymock.client.http import Json
from paymock.client.sandbox import Sandbox
from paymock.schemas.public import OPERATION_IDS
from paymock.text import shell_word, without_key
from paymock.verify.batches import SIDE_BY_SIDE, Batch, goods_due, parse_token, run_batches
from paymock.verify.checks import CHECKS, RANK, Proof, Violation, check, costs_money
from paymock.verify.coroutines import until
from paymock.verify.order import Order
from paymock.verify.plans import BYSTANDERS, NEAR_DUE, Hit, Plan
from paymock.verify.report import Certainty, Finding
from paymock.verify.runner import Record, Runner
from paymock.verify.story import cause_of, mixed_up_with, neighbors_of, payment_of, story_of

_APPLICATION = "application"  # in place of an operation: a fault has ended or silenced it
_TIMES_CHANCE = 3  # factor by which a batch must break a rule more often than chance to be its cause
TRIES = 3  # maximum number of tries to see a violation again
_NEXT_ORDER_SECONDS = 0.5  # between two orders that show whether the application still delivers
_MUCH = {"one_unit_short": "underpaid_expired", "one_unit_over": "overpaid_review"}
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
        return costs_money(self.rule)

    @property
    def rank(self) -> tuple[int, int, bool]:
        return RANK[self.rule], len(self.hit), not self.is_requests


Groups = dict[Group, list[Plan]]
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
        earlier = len(runner.results.orders)
        await run_batches(runner, [plan.batch])
        orders = runner.results.orders[earlier:]
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
        self.found: list[Finding] = []
        self._sandbox, self._runner, self._results = sandbox, runner, runner.results
        self._examined: set[Group] = set()
        self._shown: dict[str, set[Hit]] = {}  # the operations and faults of findings, by rule
        self._unseen: dict[str, list[Plan]] = {}  # what was not seen again, by rule
        self._tried_early: set[Group] = set()
        self._delivers = False  # a later order

    @property
    def is_certain(self) -> bool:
        return any(one.is_money and one.is_certain for one in self.found)

    @property
    def is_urgent(self) -> bool:
        """Whether a rule about money was broken in a way that `find_early` has not tried to confirm."""
        return any(one.costs_money and one not in self._tried_early for one in self._pending())

    async def find_early(self) -> None:
        """Confirm what has cost money so far; forget what was not confirmed: more of it may come."""
        self._tried_early |= self._pending().keys()
        await self.find()
        if not self.is_certain:
            for kept in (self.found, self._examined, self._shown):
                kept.clear()

    async def find(self) -> None:
        """Make a finding of each group: of the smallest plan that shows it, when that was seen once more."""
        only = self._runner.options.only
        if only is None and any(one.costs_money and one.hit for one in self._pending()):
            await repeat(self._runner, _NO_FAULT)
        while groups := self._pending():
            smallest = {group: await self._smallest_plan(group, plans) for group, plans in groups.items()}
            once = await self._run_side_by_side(groups, smallest)
            for number, (group, plans) in enumerate(groups.items(), 1):
                if group not in self._examined:  # told with another rule
                    self._results.begin(f"confirming {number} of {len(groups)}: {group.rule}")
                    await self._examine(group, plans, smallest[group], once.get(smallest[group]))
                    self._examined.add(group)  # not before: an interruption tells what is pending
                if self._runner.options.fail_fast and self.is_certain:
                    return
        for rule, plans in [*self._unseen.items()]:
            if not any(one.rule == rule for one in self.found):
                await self._wait_for_late_goods(rule, plans)
                self.found.append(self._unrepeated(rule, [*dict.fromkeys(plans)]))
            del self._unseen[rule]

    async def _run_side_by_side(self, groups: Groups, smallest: dict[Group, Plan]) -> dict[Plan, Order]:
        """Run the smallest plans once more that can run side by side; return their orders."""
        again = {
            plan: self._needs_patience(plan, group.rule)
            for group, plan in smallest.items()
            if (plan.injections or not (plan.batch or group.costs_money))
            and not (plan.is_exclusive or self._is_proven(group.rule, groups[group]))
            and CHECKS[group.rule].find  # what breaks on later replies may break others beside it
        }
        once: dict[Plan, Order] = {}
        for is_patient in (False, True):
            chosen = [plan for plan, needs_patience in again.items() if needs_patience == is_patient]
            ended = await self._runner.run_once(chosen, is_watched=True, is_patient=is_patient)
            once |= {order.plan: order for order in ended}
        return once

    def _pending(self) -> Groups:
        """The plans that broke a rule, by groups of which there is no finding yet, in the order of CHECKS."""
        groups: Groups = {}
        for plan, violations in self._results.violations.items():
            for rule in dict.fromkeys(violation.rule for violation in violations):
                groups.setdefault(Group(rule, self._hit_by(plan, rule)), []).append(plan)
        left = (group for group in groups if group not in self._examined)
        return {group: groups[group] for group in sorted(left, key=lambda one: one.rank)}

    def _hit_by(self, plan: Plan, rule: str) -> tuple[str, ...]:
        """What may have broken the rule: only faults that the journal of the order shows."""
        order, results = self._results.trials[plan], self._results
        if order.history.cause:  # whose fault has hit other orders, too
            return (_APPLICATION,)
        if plan.batch == SIDE_BY_SIDE or results.breaks(Plan(plan.scenario), rule):
            much = Plan(_MUCH.get(plan.scenario, ""))
            has_own_cause = much in results.trials and not results.breaks(much, rule)  # one of amounts
            return (plan.scenario,) if has_own_cause else ()
        if plan.batch:
            kind = plan.batch.kind.name
            return () if kind == "hold" and not any(one.fault for one in order.traffic.entries) else (kind,)
        hit = [one for one in plan.injections if one not in order.missed]
        return tuple(sorted({one.request.operation for one in hit}))

    def _by_chance(self, rule: str) -> list[bool]:
        """For each order side by side, without a fault, that breaks the rule: whether one alone does not."""
        beside = [one for one in self._results.violations if one.batch == SIDE_BY_SIDE]
        broken = [one for one in beside if self._results.breaks(one, rule)]
        return [not self._results.breaks(Plan(one.scenario), rule) for one in broken]

    def _is_hidden(self, group: Group, plans: Sequence[Plan]) -> bool:
        """Whether it needs no finding: advice, chance or a shown fault of each of its orders explains it."""
        shown = self._shown.get(group.rule, set())
        if group.is_requests or not group.costs_money:
            return bool(shown) and not group.is_requests
        kinds = [(one.batch.kind.name,) for one in self._results.trials if one.batch]
        chance = sum(self._by_chance(group.rule)) / (kinds.count((SIDE_BY_SIDE.kind.name,)) or 1)
        if len(plans) <= _TIMES_CHANCE * chance * kinds.count(group.hit):  # type: ignore[arg-type]
            return True
        for order in (self._results.trials[plan] for plan in plans):
            batch = (order.history.cause or order.plan).batch
            faults = {(entry.operation, entry.fault) for entry in order.traffic.entries}
            if batch is None or batch.kind.name != "outage" or shown.isdisjoint(faults):
                return False
        return True

    def _best(self, plans: Sequence[Plan], rule: str) -> Plan:
        """The best example: few faults, goods that are never due, and a fault in the last request."""

        def rank(plan: Plan) -> tuple[int, int, int, bool, bool, int]:
            order = self._results.trials[plan]
            entries, reached = order.traffic.entries, order.history.reached
            times = sum(injection.times for injection in plan.injections)
            is_early = rule == "free_goods" and not reached.isdisjoint(self._results.fulfil_at)
            goes_on = bool(entries) and entries[-1].fault is None
            is_batch = plan.batch is not None
            parked = is_batch + bool(plan.batch and plan.batch.is_parked)
            crashes = len(order.history.marks) * is_batch
            return parked, crashes, times, is_early, goes_on, self._results.plans.index(plan)

        return min(plans, key=rank)

    async def _smallest_plan(self, group: Group, plans: Sequence[Plan]) -> Plan:
        """The smallest plan that breaks the rule, or the one that silences the application most often."""
        if self._runner.options.only:
            token = parse_token(self._runner.options.only)
            plan = Plan(token.scenario, batch=token) if isinstance(token, Batch) else token
        elif group.is_application:
            return self._results.trials[plans[0]].history.cause or plans[0]
        else:
            plan = self._best(plans, group.rule)
            if not group.hit or group.hit == (plan.scenario,):
                return plan if self._results.trials[plan].is_plain else _NO_FAULT
        left = [*plan.smaller]
        while smaller := left.pop(0) if left else None:
            if smaller not in self._results.trials:
                await self._runner.run([smaller], exclusive=smaller.is_exclusive)
            if self._results.breaks(smaller, group.rule):
                plan, left = smaller, [*smaller.smaller]
        return plan

    def _is_proven(self, rule: str, plans: Sequence[Plan]) -> bool:
        """Whether it is not run again: the run repeats it, the record proves advice, or some orders without a
        fault prove each other, after all patience.
        """
        if self._runner.options.only or not (costs_money(rule) or CHECKS[rule].proof is Proof.SILENCE):
            return True
        alike = [
            one for one in plans if not one.injections and (not one.batch or one.batch.target == "patience")
        ]
        settle = self._runner.options.settle
        patient = [one for one in alike if self._results.trials[one].outcome.waited >= settle]
        return len(alike) >= TRIES and len(patient) > 1 and not self._is_back(patient, rule)

    def _needs_patience(self, plan: Plan, rule: str) -> bool:
        """Whether the rule rests on a silence that has not been waited for up to `settle` yet."""
        waited = self._results.trials[plan].outcome.waited
        return CHECKS[rule].proof is Proof.SILENCE and waited < self._runner.options.settle

    async def _examine(self, group: Group, plans: Sequence[Plan], plan: Plan, first: Order | None) -> None:
        """Make a finding of a group, unless another explains it. What is not seen again is kept for later."""
        if self._is_hidden(group, plans):
            return
        rule, best, certainty = group.rule, self._best(plans, group.rule), Certainty.REPEATED
        once = self._results.trials[best], self._results.violation(best, rule)
        if self._is_proven(rule, plans):
            seen: Sighting | None = once
            if not (group.costs_money or self._runner.options.only or CHECKS[rule].proof is Proof.SILENCE):
                certainty = Certainty.RECORDED
        else:
            plan, seen = await self._seen_again(group, plan, plans, first)
        if seen is None and self._runner.driver.is_gone:  # for good: it took no later order
            seen, certainty = once, Certainty.RECORDED
        if seen is not None:
            self._add(group, plans, plan, seen, certainty)
        elif group.costs_money:
            is_told = bool(group.hit and self._by_chance(rule) and rule in self._shown)
            if not is_told and not self._is_back(plans, rule):
                self._unseen.setdefault(rule, []).extend(plans)

    async def _seen_again(
        self, group: Group, plan: Plan, plans: Sequence[Plan], first: Order | None
    ) -> tuple[Plan, Sighting | None]:
        """Run its tokens again until one breaks the rule, each time if chance breaks it as well; return the
        plan whose token has shown it.
        """
        rule, driver, best = group.rule, self._runner.driver, self._best(plans, group.rule)
        is_chance, is_patient = bool(group.hit and self._by_chance(rule)), self._needs_patience(best, rule)
        seen = self._seen([first] if first else [], rule)
        tokens = self._tokens(group, plan, plans)
        for tries in range(max(TRIES, len(tokens))):
            if driver.is_gone or (seen and not is_chance) or (tries and not group.costs_money):
                break
            plan = tokens[tries % len(tokens)]
            orders = await repeat(self._runner, plan, is_patient=is_patient, alone=is_chance)
            orders.sort(key=lambda one: one.plan != plan)  # its own order, or else one that it has cost
            seen = self._seen(orders, rule)
            if is_chance and not seen:
                break
        return plan if seen else best, seen

    def _tokens(self, group: Group, plan: Plan, plans: Sequence[Plan]) -> list[Plan]:
        """What may show it: faults before the application ended, orders side by side, frequent batches."""
        hit = [one.batch for one in plans if one.batch and (group.hit or one.batch.kind.name != "hold")]
        batches = [Plan(batch.scenario, batch=batch) for batch, _ in Counter(hit).most_common(TRIES)]
        tokens = batches or [plan] if group.hit else [plan, _NO_FAULT, *batches]
        if group.is_application:
            tokens = [plan, *self._results.possible_causes]
        first: dict[object, Plan] = {}
        for one in tokens:
            first.setdefault((one.batch, one.hits), one)
        return [*first.values()]

    def _seen(self, orders: Iterable[Order], rule: str) -> Sighting | None:
        """The first of these orders that breaks the rule. What a close look shows beside is kept."""
        found, results = None, self._results
        for order in orders:
            violations = check(order, results.fulfil_at)
            if order.plan in results.trials and not order.plan.batch:
                known = {one.rule for one in results.violations[order.plan]}
                results.violations[order.plan] += [one for one in violations if one.rule not in known]
            broken = next((one for one in violations if one.rule == rule), None)
            found = found or (broken and (order, broken))
        return found

    def _add(
        self, group: Group, plans: Sequence[Plan], plan: Plan, seen: Sighting, certainty: Certainty
    ) -> None:
        rule, results, (order, violation) = group.rule, self._results, seen
        if (rule, plan.token) in [(one.rule, one.token) for one in self.found]:
            return
        tried = results.alike(plans)
        if plan == _NO_FAULT:
            tried = [one for one in results.trials if one.batch in (None, SIDE_BY_SIDE)]
            plans = [one for one in tried if results.breaks(one, rule)]
        elif group.is_application:
            tried = results.interrupted
        broken = (Group(one.rule, group.hit) for one in check(order, results.fulfil_at))
        left = (one.rule for one in broken if not (one.costs_money or one in {group, *self._examined}))
        also = [*dict.fromkeys(left)]
        self._examined.update(Group(name, group.hit) for name in also)
        self._shown.setdefault(rule, set()).update(*(one.faults for one in plans))
        explanation = violation.explanation + self._circumstances(group, plans, plan, order, len(tried))
        self.found.append(
            self._finding(
                order, violation._replace(explanation=explanation), plan, also=also, certainty=certainty,
                occurrences=len(plans), tried=len(tried),
            )
        )  # fmt: skip

    def _circumstances(
        self, group: Group, plans: Sequence[Plan], plan: Plan, order: Order, tried: int
    ) -> str:
        """Sentences about where else it happened, and with which order this one was mixed up."""
        told = ""
        if not group.hit and plan != _NO_FAULT:
            names = Counter(one.scenario for one in plans)
            where = ", ".join(f"`{name}` ({count})" for name, count in names.most_common())
            if names.keys() - {order.plan.scenario}:
                told = f" Without a fault, it happened in {where}."
        told += self._mixed_up(group.rule, order, by_chance=plan == _NO_FAULT)
        if plan == _NO_FAULT:
            told += f" This happened in {len(plans)} of {tried} trials, with whatever fault."
        return told

    def _mixed_up(self, rule: str, order: Order, *, by_chance: bool) -> str:
        """A sentence about the order with which this one was perhaps mixed up."""
        if rule == "lost_sale" and order.outcome.gave_up:
            return mixed_up_with(order, self._results.orders)
        if rule == "free_goods" and by_chance:
            return mixed_up_with(order, self._results.orders, self._results.fulfil_at, order.outcome.goods_at)
        return ""

    def _is_back(self, plans: Sequence[Plan], rule: str) -> bool:
        """Whether silence was no loss: the application has come back to each order since."""
        if CHECKS[rule].proof is not Proof.SILENCE:
            return False
        orders = [self._results.trials[plan] for plan in plans]
        if rule == "lost_order":
            return all(self._sandbox.payments(order_id=one.order_id) for one in orders)
        asked = self._runner.recount(orders)
        return len(asked) == len(orders) and all(one.outcome.deliveries for one in asked)

    async def _wait_for_late_goods(self, rule: str, plans: Sequence[Plan]) -> None:
        """Go on with other orders until goods of the first of these are later than `settle`, and note whether
        the goods of the last one went out: then the application does deliver.
        """
        if CHECKS[rule].proof is Proof.RECORD:
            return
        runner, plain = self._runner, Plan(goods_due(self._runner)[0])
        due = min(self._results.trials[plan].history.ended_at for plan in plans) + runner.options.settle
        ended = await runner.run_once([plain])
        while not runner.is_over and runner.driver.clock.now() < due:
            await until(lambda: False, _NEXT_ORDER_SECONDS)
            ended = await runner.run_once([plain])
        self._delivers = any(one.outcome.deliveries for one in ended)

    def _is_recorded(self, plan: Plan, rule: str) -> bool:
        """Whether one run proves it. Goods are lost that are later than `settle`, though the application
        polls on and delivers others.
        """
        order, driver = self._results.trials[plan], self._runner.driver
        if "clock" in self._results.undetermined:
            return False
        if CHECKS[rule].proof is Proof.RECORD:
            return True
        if order.traffic.has_gap or self._runner.is_unreachable:
            return False
        ended_at = order.history.ended_at
        is_late = ended_at <= driver.clock.now() - self._runner.options.settle
        polls_on = driver.feed.heard_at > ended_at and not order.history.marks
        return is_late and polls_on and self._delivers and not self._is_back([plan], rule)

    def _unrepeated(self, rule: str, plans: Sequence[Plan]) -> Finding:
        """A finding of what was seen once: recorded, or else suspected."""
        results = self._results
        recorded = [plan for plan in plans if self._is_recorded(plan, rule)]
        plans, certainty = recorded or plans, Certainty.RECORDED if recorded else Certainty.SUSPECTED
        best = self._best(plans, rule)
        if not recorded:
            is_late = self._runner.seconds_left() <= 0
            again = "not repeated within the budget" if is_late else "not seen again"
            results.undetermined[best] = f"{best.token}: {rule} was {again}"
        order, violation = results.trials[best], results.violation(best, rule)
        mixed_up = self._mixed_up(rule, order, by_chance=True)
        violation = violation._replace(explanation=violation.explanation + mixed_up)
        hits = Counter(plan.batch.token if plan.batch else plan.token for plan in plans)
        most = hits.most_common(1)[0][0] if len(plans) > 1 else ""
        told = (
            f"in {len(plans)} of {len(results.trials)} trials{f', most often with `{most}`' if most else ''}"
        )
        return self._finding(
            order, violation, order.history.cause or best, occurrences=len(plans), tried=len(results.trials),
            certainty=certainty, cause=told + "; the cause is not certain" * bool(recorded),
        )  # fmt: skip

    def in_order(self) -> list[Finding]:
        return sorted(self.found, key=lambda one: (RANK[one.rule], -one.occurrences))

    def unconfirmed(self) -> Iterator[Finding]:
        left = [*((group.rule, plans) for group, plans in self._pending().items()), *self._unseen.items()]
        for rule, plans in left:
            yield self._unrepeated(rule, plans)

    def _finding(self, order: Order, violation: Violation, plan: Plan, **told: Any) -> Finding:
        payments: list[Json] = []
        known = {**NEAR_DUE}
        if not self._runner.is_unreachable:
            payments = [payment_of(self._sandbox.detail(payment_id)) for payment_id in order.traffic.payments]
            known |= {one["name"]: one for one in self._sandbox.scenarios()}
        newest = payments[-1] if payments else {"payment_id": None, "timeline": []}
        token, command = plan.token, self._runner.options.command
        simulates = str(known.get(order.plan.scenario, {}).get("simulates", ""))
        told.setdefault("cause", cause_of(order, plan, violation))
        return Finding(
            rule=violation.rule,
            scenario=order.plan.scenario,
            faults=[str(one) for one in filter(None, (plan.batch, *plan.injections))],
            token=token,
            explanation=violation.explanation,
            story=story_of(order, plan, violation, payments, simulates),
            requests=to_builtins(order.traffic.entries),
            timeline=newest["timeline"],
            order_id=order.order_id,
            payment_id=newest["payment_id"],
            command=command and f"{command} --only {shell_word(token)}",
            payments=payments,
            marks=order.history.marks | order.history.visits,
            output=[without_key(line, self._sandbox.secret) for line in order.outcome.output],
            goods_at=order.outcome.delivered_at or "",
            neighbors=neighbors_of(order, self._results.orders),
            batch_fix=plan.batch.kind.fix if plan.batch else "",
            **told,
        )
