"""What the trials of a run have shown so far. It calls nobody."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from paymock.verify.checks import Violation, check, costs_money
from paymock.verify.order import Order
from paymock.verify.plans import Baseline, Hit, Plan

if TYPE_CHECKING:
    from paymock.verify.batches import Batch


class Progress(NamedTuple):
    """Trials that have ended, that are planned and that cost money; the phase; what is awaited, in words."""

    done: int
    planned: int
    broken: int
    phase: str
    waiting: str = ""

    def __str__(self) -> str:
        broken = f"{self.broken} broke a rule about money" if self.broken else ""
        counts = f"{self.done} of {self.planned} trials so far"
        return "; ".join(filter(None, (self.phase, counts, broken, self.waiting)))


@dataclass
class Results:
    """What the trials have shown."""

    fulfil_at: tuple[str, ...]
    plans: list[Plan] = field(default_factory=list)  # all, in the order of reports
    trials: dict[Plan, Order] = field(default_factory=dict)  # the last order of each plan
    violations: dict[Plan, list[Violation]] = field(default_factory=dict)  # of these orders
    orders: list[Order] = field(default_factory=list)  # all that have ended
    baselines: dict[str, Baseline] = field(default_factory=dict)  # by scenario
    batches: "list[Batch]" = field(default_factory=list)  # that were run
    undetermined: dict[Plan | str, str] = field(default_factory=dict)  # why nothing can be said of a plan
    unstarted: list[str] = field(default_factory=list)  # tokens
    missed: set[Plan] = field(default_factory=set)  # whose fault no request got
    events: dict[str, list[str]] = field(default_factory=dict)  # of the application, with their causes
    notes: dict[str, None] = field(default_factory=dict)  # for the report
    fatal: set[Hit] = field(default_factory=set)  # operations and faults that ended it
    possible_causes: list[Plan] = field(default_factory=list)  # of that, the last first
    forgets: bool | None = None  # at a crash, what it has delivered; None: not known
    renews: bool = False  # it makes a new payment after one has expired
    phase: str = "scenarios"  # what is done at the moment
    news: deque[Progress] = field(default_factory=deque)

    def record(self, order: Order) -> None:
        plan, violations, problems = order.plan, check(order, self.fulfil_at), order.outcome.problems
        is_lost = any(costs_money(one.rule) for one in violations)
        self.undetermined.pop(plan, None)
        if problems:
            self.undetermined[plan] = f"{plan.token}: {problems[0]}"
        elif order.traffic.has_gap and not is_lost and order.may_lack_goods(self.fulfil_at):
            self.undetermined[plan] = f"{plan.token}: requests were lost, so that silence proves nothing"
        has_missed = order.missed and not (problems or is_lost)
        (self.missed.add if has_missed else self.missed.discard)(plan)
        self.plans += [] if plan in self.plans else [plan]
        self.trials[plan], self.violations[plan] = order, violations
        self.tell()

    def forget(self, plans: Iterable[Plan]) -> None:
        """Let plans say nothing about what was seen to its end: they may give advice."""
        for plan in plans:
            self.undetermined.pop(plan, None)
            self.missed.discard(plan)
        tokens = {plan.token for plan in plans}
        self.unstarted = [token for token in self.unstarted if token not in tokens]

    def begin(self, phase: str) -> None:
        self.phase = phase
        self.tell()

    def tell(self, waiting: str = "") -> None:
        broken = sum(any(costs_money(one.rule) for one in found) for found in self.violations.values())
        self.news.append(Progress(len(self.trials), len(self.plans), broken, self.phase, waiting))

    @property
    def costs_money(self) -> bool:
        return any(costs_money(one.rule) for one in chain(*self.violations.values()))

    @property
    def all_lost(self) -> bool:
        """Whether without a fault no goods went out that were due."""
        due = [one for one in self.trials.values() if one.is_plain and one.history.is_due(self.fulfil_at)]
        return bool(due) and all(self.breaks(one.plan, "lost_sale") for one in due)

    @property
    def patience(self) -> str:
        """How long an open payment stood still that was read all the time: the least of all statuses."""
        seen = [one.outcome.patience for one in self.trials.values() if not one.outcome.is_excused]
        whole = [one for one in seen if one and one.reads]
        if not whole:
            return ""
        seconds, reads = min(one.seconds for one in whole), min(one.reads for one in whole)
        return f"patience seen: {seconds:.0f} s, {reads:,} reads"

    def is_to_run_again(self, order: Order, *, is_only: bool) -> bool:
        """Whether nothing came of it: requests were lost, or none with the number 1 got its fault."""
        if order.traffic.has_gap and order.plan in self.undetermined:
            return True
        is_missed = order.plan in self.missed and (order.history.incident or not order.outcome.gave_up)
        return bool(is_missed) and (is_only or order.missed[0].request.number == 1)

    def alike(self, plans: Iterable[Plan]) -> list[Plan]:
        hits = {one.hits for one in plans}
        return [one for one in self.trials if one.hits in hits]

    def untried(self, plans: Iterable[Plan]) -> list[Plan]:
        return [plan for plan in plans if plan not in self.trials]

    @property
    def interrupted(self) -> list[Plan]:
        return [plan for plan, order in self.trials.items() if order.history.incident]

    def reasons(self, *, is_gone: bool, has_ended: bool) -> Iterator[str]:
        yield from self.undetermined.values()
        yield from self.never_hit()
        reason = "the application is gone" if is_gone else "the budget has ended"
        yield from (f"{token}: not begun, since {reason}" for token in self.unstarted)
        if not has_ended:
            yield f"interrupted: at least {max(0, len(self.plans) - len(self.trials))} trials did not run"

    def breaks(self, plan: Plan, rule: str) -> bool:
        return any(violation.rule == rule for violation in self.violations.get(plan, []))

    def violation(self, plan: Plan, rule: str) -> Violation:
        return next(one for one in self.violations[plan] if one.rule == rule)

    def is_fatal(self, plan: Plan) -> bool:
        """Whether a fault of the plan ends the application, which has cost money already."""
        return bool(plan.faults & self.fatal) and self.costs_money

    def told_events(self) -> list[str]:
        """What happened to the application as a whole, with how often and the first cause."""
        told = self.events.items()
        first = {event: f", {len(one)} times{', first' * bool(one[0])}" for event, one in told if one[1:]}
        return [f"{event}{first.get(event, '')}{causes[0]}" for event, causes in told]

    def incidents(self) -> Iterator[tuple[str, str]]:
        """What happened to the application, and the first violation of each rule, each with its name."""
        yield from ((event, event + causes[0]) for event, causes in self.events.items())
        for plan, violations in self.violations.items():
            for rule, explanation in violations:
                yield rule, f"{rule}, not confirmed yet: {plan.token}: {explanation}"

    def never_hit(self) -> list[str]:
        """The whole requests and the whole faults that no trial has hit, each by its first plan."""
        tried: dict[tuple[str, ...], list[Plan]] = {}
        for plan in self.trials:
            baseline = self.baselines.get(plan.scenario)
            for one in plan.injections:
                status = baseline.statuses.get(one.request.at or 0.0, "") if baseline else ""
                status = "" if one.request.at is None else status
                for kind in ((one.fault,), (one.request.operation, status)):
                    tried.setdefault(kind, []).append(plan)
        first = dict.fromkeys(plans[0] for plans in tried.values() if self.missed.issuperset(plans))
        return [f"{plan.scenario}: {plan.injections[0]} was never hit" for plan in first]
