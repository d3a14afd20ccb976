"""What a run has shown so far. It calls nobody."""

from collections import deque
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from paymock.verify.oracle import RULES, Severity, Violation
from paymock.verify.order import Order
from paymock.verify.plans import Baseline, Batch, Plan


class Progress(NamedTuple):
    """Trials that have ended, that are planned and that cost money; what is waited for, in words."""

    done: int
    planned: int
    broken: int
    waiting: str = ""


@dataclass
class Ledger:
    """What the trials have shown: all `plans`, in the order of reports; the last order of each, and the rules
    that it broke; all `orders` that have ended; the `baselines` of scenarios; the `batches` that were run;
    why nothing can be said of a plan; tokens of plans that were `unstarted`; plans whose fault was `missed`
    by every request; `events` of the application as a whole, with the causes of each; `notes` for the report;
    the `fatal` operations and faults, at which the application ended, and `suspects` for that, the last hurt
    first; whether it `forgets` at a crash what it has delivered, once that is known, and whether it `renews`.
    """

    fulfil_at: tuple[str, ...]
    plans: list[Plan] = field(default_factory=list)
    trials: dict[Plan, Order] = field(default_factory=dict)
    violations: dict[Plan, list[Violation]] = field(default_factory=dict)
    orders: list[Order] = field(default_factory=list)
    baselines: dict[str, Baseline] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    undetermined: dict[Plan | str, str] = field(default_factory=dict)
    unstarted: list[str] = field(default_factory=list)
    missed: set[Plan] = field(default_factory=set)
    events: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    fatal: set[tuple[str | None, str | None]] = field(default_factory=set)
    suspects: list[Plan] = field(default_factory=list)
    forgets: bool | None = None
    renews: bool = False
    news: deque[Progress] = field(default_factory=deque)

    def record(self, order: Order) -> None:
        """Keep what a trial has shown."""
        plan, violations = order.plan, order.check(self.fulfil_at)
        self.undetermined.pop(plan, None)
        if order.problems:
            self.undetermined[plan] = f"{plan.token}: {order.problems[0]}"
        has_missed = order.missed and not (order.problems or any(map(_costs_money, violations)))
        (self.missed.add if has_missed else self.missed.discard)(plan)
        self.plans += [] if plan in self.plans else [plan]
        self.trials[plan], self.violations[plan] = order, violations
        self.tell()

    def tell(self, waiting: str = "") -> None:
        broken = sum(any(map(_costs_money, found)) for found in self.violations.values())
        self.news.append(Progress(len(self.trials), len(self.plans), broken, waiting))

    @property
    def costs_money(self) -> bool:
        """Whether a rule about money has been broken."""
        return any(map(_costs_money, chain(*self.violations.values())))

    def breaks(self, plan: Plan, rule: str) -> bool:
        return any(violation.rule == rule for violation in self.violations.get(plan, []))

    def violation(self, plan: Plan, rule: str) -> Violation:
        return next(one for one in self.violations[plan] if one.rule == rule)

    def is_fatal(self, plan: Plan) -> bool:
        """Whether a fault of the plan ends the application, which has cost money already."""
        hurt = {(one.request.operation, one.parsed.text) for one in plan.injections}
        return bool(hurt & self.fatal) and self.costs_money

    def never_hit(self) -> list[str]:
        """The whole requests and the whole faults that no trial has hit, each by its first plan."""
        tried: dict[tuple[str, ...], list[Plan]] = {}
        for plan in self.trials:
            states = self.baselines[plan.scenario].statuses if plan.scenario in self.baselines else {}
            for one in plan.injections:
                status = "" if one.request.at is None else states.get(one.request.at, "")
                for kind in ((one.fault,), (one.request.operation, status)):
                    tried.setdefault(kind, []).append(plan)
        first = dict.fromkeys(plans[0] for plans in tried.values() if self.missed.issuperset(plans))
        return [f"{plan.scenario}: {plan.injections[0]} was never hit" for plan in first]


def _costs_money(violation: Violation) -> bool:
    return RULES[violation.rule].severity is Severity.MONEY
