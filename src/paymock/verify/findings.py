"""Findings: violations, grouped by their kind, with the smallest plan that shows each, seen once more."""

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence

from paymock.client.http import Json
from paymock.client.sandbox import Sandbox
from paymock.rules.faults import FaultKind
from paymock.schemas.public import OPERATION_IDS, PAYMENT_READS
from paymock.text import shell_word
from paymock.verify.batches import Batches
from paymock.verify.oracle import RULES, Severity, Violation
from paymock.verify.plans import BYSTANDERS, NEAR_DUE, Batch, Plan
from paymock.verify.report import Finding
from paymock.verify.runner import Progress, Runner
from paymock.verify.trial import Trial

_APPLICATION = "application"
"""In place of an operation: the application as a whole was hit, since a fault ended or silenced it."""

_TRIES = 3
"""How often a violation that rests on the time that passed is tried to be seen again."""

_TIMED = ("lost_sale", "gives_up", "ignores_retry_after", "breaks_on_new_fields")
"""The rules that rest on the time that passed."""

_CHANCE = ("lost_sale", "double_delivery")
"""The rules that a race may break, whatever fault there is."""

_OFTEN = 3
"""So many orders that break a rule by the same event have shown it again and again."""

_BASELINE_RUNS = 16
"""How many trials without a fault run side by side before a fault is blamed for what a race may do."""

_Group = tuple[str, tuple[str, ...]]
"""A kind of violation: the rule, and the operations whose requests got a fault, or what hit a batch of
orders; nothing where the scenario breaks the rule without a fault.
"""


class Findings:
    """What `runner` has found."""

    def __init__(self, sandbox: Sandbox, runner: Runner, batches: Batches) -> None:
        self.confirmed: list[Finding] = []
        self._sandbox = sandbox
        self._runner = runner
        self._batches = batches
        self._examined: set[_Group] = set()
        self._flaky: set[str] = set()
        """The rules that are broken by chance, with whatever fault."""
        self._baseline_runs: dict[str, list[Trial]] = {}

    def find(self) -> Iterator[Progress]:
        """Make a finding of each group: of the smallest plan that shows it, run once more with a close look.
        The first runs are side by side: each waits for what is lost.
        """
        runner = self._runner
        while groups := self._pending_groups():
            smallest_plans = {}
            for group, plans in groups.items():
                if group[1] == (_APPLICATION,):
                    smallest_plans[group] = self._culprits(plans)[0]
                else:
                    smallest_plans[group] = yield from self._shrink(self._smallest(plans, group[0]), group[0])
            single = dict.fromkeys(
                plan
                for group, plan in smallest_plans.items()
                if not (plan.batch or plan.is_exclusive or group[1] == (_APPLICATION,))
            )
            repeated_once = {trial.plan: trial for trial in runner.run_once(single, record_deliveries=True)}
            for group, plans in groups.items():
                if group not in self._pending_groups() or self._is_reported(group):
                    self._examined.add(group)
                    continue
                rule, plan = group[0], smallest_plans[group]
                by_chance = None
                if group[1] == (_APPLICATION,):
                    confirmed = yield from self._confirm_culprit(plan, plans, rule)
                else:
                    by_chance = yield from self._find_flaky(rule, plan)
                    first = by_chance or repeated_once.get(plan)
                    confirmed = self._seen([first], rule) if first else None
                    if confirmed is None:
                        confirmed = yield from self._confirm(plan, plans, rule)
                self._add_finding(group, plans, plan, confirmed, by_chance=by_chance is not None)
                if self._runner.options.fail_fast and self._runner.costs_money:
                    return

    def _add_finding(
        self,
        group: _Group,
        plans: Sequence[Plan],
        plan: Plan,
        confirmed: tuple[Trial, Violation] | None,
        *,
        by_chance: bool,
    ) -> None:
        rule, runner = group[0], self._runner
        self._examined.add(group)
        may_be_gone = (
            rule in _TIMED and not plan.batch and not runner.pacing.is_gone and runner.seconds_left() > 0
        )
        if confirmed is None and may_be_gone:
            if RULES[rule].severity is Severity.MONEY:
                runner.undetermined[plan] = f"{plan.token}: {rule} was not seen again"
            return
        if confirmed is None and runner.seconds_left() <= 0:
            reason = f"{plan.token}: {rule} was not repeated within the budget"
            runner.undetermined[reason] = reason
        alike = {_hits(one) for one in plans}
        tried = [one for one in runner.trials if _hits(one) in alike]
        if group[1] == (_APPLICATION,):
            tried = [one for one, trial in runner.trials.items() if trial.incident]
        if by_chance:
            plans = [one for one in runner.trials if self._breaks(one, rule) and one.batch is None]
            tried = [one for one in runner.trials if one.batch is None]
            self._flaky.add(rule)
        smallest = self._smallest(plans, rule)
        trial, violation = confirmed or (runner.trials[smallest], self._violation(smallest, rule))
        culprit = plan if group[1] == (_APPLICATION,) else None
        also = [
            one.rule
            for one in trial.check()
            if one.rule != rule
            and RULES[one.rule].severity is Severity.ADVICE
            and (one.rule, group[1]) not in self._examined
        ]
        self._examined.update((name, group[1]) for name in also)
        if by_chance:
            share = f"This happened in {len(plans)} of {len(tried)} trials, with whatever fault."
            violation = violation._replace(explanation=f"{violation.explanation} {share}")
        finding = self._finding(
            trial,
            violation,
            len(plans),
            plan=culprit,
            tried=len(tried),
            also=[*dict.fromkeys(also)],
            repeated=confirmed is not None,
        )
        self.confirmed.append(finding)

    def in_order(self) -> list[Finding]:
        """What was confirmed: by rules, and what has been shown most often first."""
        order = [*RULES]
        return sorted(
            self.confirmed, key=lambda one: (order.index(one.rule), -one.occurrences / (one.tried or 1))
        )

    def unconfirmed(self) -> Iterator[Finding]:
        """What has been found when the run is interrupted."""
        for (rule, _), plans in self._pending_groups().items():
            plan = self._smallest(plans, rule)
            yield self._finding(
                self._runner.trials[plan], self._violation(plan, rule), len(plans), repeated=False
            )

    def _pending_groups(self) -> dict[_Group, list[Plan]]:
        """The plans that broke a rule, by groups of which there is no finding yet, in the order of RULES."""
        groups: dict[_Group, list[Plan]] = {}
        for plan, violations in self._runner.violations.items():
            for rule in dict.fromkeys(violation.rule for violation in violations):
                trial = self._runner.trials[plan]
                is_inherent = self._breaks(Plan(plan.scenario), rule) and not trial.culprit
                hurt = {plan.batch.kind} if plan.batch else {one.request.operation for one in plan.injections}
                if trial.culprit:  # whose fault has hit other orders, too
                    hurt = {_APPLICATION}
                groups.setdefault((rule, () if is_inherent else tuple(sorted(hurt))), []).append(plan)
        order = [*RULES]
        return {
            group: groups[group]
            for group in sorted(groups, key=lambda group: (order.index(group[0]), group[1]))
            if group not in self._examined
            and not (group[0] in self._flaky and {*group[1]} <= {*OPERATION_IDS})
        }

    def _culprits(self, plans: Sequence[Plan]) -> list[Plan]:
        """The plans whose faults ended or silenced the application, those with a single fault first."""
        counts = Counter(self._runner.trials[plan].culprit for plan in plans)
        return sorted(filter(None, counts), key=lambda plan: (plan.batch is not None, -counts[plan]))

    def _confirm_culprit(
        self, plan: Plan, plans: Sequence[Plan], rule: str
    ) -> Generator[Progress, None, tuple[Trial, Violation] | None]:
        """Run a plan again that ended or silenced the application, beside orders that get no fault; unless it
        has cost several already.
        """
        if len(plans) >= _OFTEN:
            return self._seen([self._runner.trials[self._smallest(plans, rule)]], rule)
        if plan.batch is not None:
            return (yield from self._confirm_batch(plan.batch, rule))
        trials = [*self._runner.run_once([plan, *BYSTANDERS], record_deliveries=True)]
        yield self._runner.progress
        return self._seen(trials, rule)

    def _is_reported(self, group: _Group) -> bool:
        """Whether less has been found to cause what a batch causes, too: all but a crash have one cause."""
        is_batch = not {*group[1]} <= {*OPERATION_IDS, "crash", _APPLICATION}
        return is_batch and any(one.rule == group[0] for one in self.confirmed)

    def _breaks(self, plan: Plan, rule: str) -> bool:
        return any(violation.rule == rule for violation in self._runner.violations.get(plan, []))

    def _violation(self, plan: Plan, rule: str) -> Violation:
        return next(one for one in self._runner.violations[plan] if one.rule == rule)

    def _smallest(self, plans: Sequence[Plan], rule: str) -> Plan:
        """The best example: few faults, and goods that are never due first; and one whose last request before
        a silence was the one with the fault.
        """

        def rank(plan: Plan) -> tuple[int, int, int, int, bool, bool, int]:
            trial = self._runner.trials[plan]
            times = sum(injection.times for injection in plan.injections)
            is_early = rule == "free_goods" and self._runner.options.fulfil_at in trial.statuses
            goes_on = bool(trial.entries) and trial.entries[-1]["fault"] is None
            index = self._runner.plans.index(plan)
            parked = 1 + plan.batch.is_parked if plan.batch else 0
            crashes = len(trial.marks) if plan.batch else 0
            return parked, crashes, len(plan.injections), times, is_early, goes_on, index

        return min(plans, key=rank)

    def _shrink(self, plan: Plan, rule: str) -> Generator[Progress, None, Plan]:
        """Return the smallest plan that still breaks the rule."""
        for smaller in plan.smaller:
            if smaller not in self._runner.trials:
                self._runner.plans.append(smaller)
                yield from self._runner.run([smaller], exclusive=smaller.is_exclusive)
            if self._breaks(smaller, rule):
                return (yield from self._shrink(smaller, rule))
        return plan

    def _find_flaky(self, rule: str, plan: Plan) -> Generator[Progress, None, Trial | None]:
        """Run the scenario of a plan without its faults, many times side by side, and return a trial that
        breaks the rule all the same.
        """
        if rule not in _CHANCE or plan.batch or not plan.injections:
            return None
        if plan.scenario not in self._baseline_runs:
            plans = [Plan(plan.scenario)] * _BASELINE_RUNS
            self._baseline_runs[plan.scenario] = [*self._runner.run_once(plans)]
            yield self._runner.progress
        found = self._seen(self._baseline_runs[plan.scenario], rule)
        return found and found[0]

    def _confirm(
        self, plan: Plan, plans: Sequence[Plan], rule: str
    ) -> Generator[Progress, None, tuple[Trial, Violation] | None]:
        """Run the plan again, alone, with a close look and all patience; else all `plans` that broke the
        rule, since it may take several orders at a time. Return a trial and its violation; None if it did not
        happen again.
        """
        runner = self._runner
        if plan.batch is not None:
            often = Counter(one.batch for one in plans if one.batch).most_common(
                1 if rule in _TIMED else _TRIES
            )
            for batch, count in often:
                if count >= _OFTEN:
                    return self._seen((runner.trials[one] for one in plans if one.batch == batch), rule)
                confirmed = yield from self._confirm_batch(batch, rule)
                if confirmed is not None:
                    return confirmed
            return None
        rounds = [([plan], True)] * _TRIES
        if RULES[rule].severity is Severity.MONEY:
            rounds.append(([one for one in plans if one.batch is None], False))
        for repeated, exclusive in rounds:
            trials = [*runner.run_once(repeated, exclusive=exclusive, record_deliveries=True)]
            yield runner.progress
            confirmed = self._seen(trials, rule)
            if confirmed is not None:
                return confirmed
        return None

    def _confirm_batch(
        self, batch: Batch, rule: str
    ) -> Generator[Progress, None, tuple[Trial, Violation] | None]:
        earlier = len(self._runner.trials)
        yield from self._batches.run([batch])
        return self._seen([*self._runner.trials.values()][earlier:], rule)

    def _seen(self, trials: Iterable[Trial], rule: str) -> tuple[Trial, Violation] | None:
        """The first of these trials that breaks the rule, and how."""
        found = None
        for trial in trials:
            violations = trial.check()
            # Only a close look shows goods that went out before the payment was made.
            if trial.plan in self._runner.trials and not trial.plan.batch:
                known = self._runner.violations.setdefault(trial.plan, [])
                known += [one for one in violations if not self._breaks(trial.plan, one.rule)]
            broken = next((one for one in violations if one.rule == rule), None)
            found = found or (broken and (trial, broken))
        return found

    def _finding(
        self,
        trial: Trial,
        violation: Violation,
        occurrences: int,
        *,
        plan: Plan | None = None,
        tried: int = 0,
        also: Sequence[str] = (),
        repeated: bool = True,
    ) -> Finding:
        payments = [_payment(self._sandbox.detail(payment_id)) for payment_id in trial.payments]
        newest = payments[-1] if payments else {"payment_id": None, "timeline": []}
        plan = plan or trial.plan
        token, command = plan.token, self._runner.options.command
        known = {one["name"]: one for one in self._sandbox.scenarios()} | {**NEAR_DUE}
        simulates = str(known.get(trial.plan.scenario, {}).get("simulates", ""))
        return Finding(
            rule=violation.rule,
            scenario=trial.plan.scenario,
            faults=[str(one) for one in filter(None, (plan.batch, *plan.injections))],
            token=token,
            explanation=violation.explanation,
            story=_story(trial, plan, violation, payments, simulates),
            requests=trial.entries,
            timeline=newest["timeline"],
            order_id=trial.order_id,
            payment_id=newest["payment_id"],
            occurrences=occurrences,
            command=command and f"{command} --only {shell_word(token)}",
            cause=_cause(trial, plan, violation),
            tried=tried,
            also=[*also],
            payments=payments,
            repeated=repeated,
            marks=trial.marks,
        )


def _hits(plan: Plan) -> tuple[object, ...]:
    """What a plan hits, and with which faults: the same of batches of one kind."""
    return plan.batch and plan.batch.kind, *((one.request.operation, one.fault) for one in plan.injections)


def _payment(detail: Json) -> Json:
    attempt = detail["payment"]["attempts"][0]
    funding = attempt.get("funding", {})
    received = ("amount_received_pending", "amount_received_finalized")
    return {
        "payment_id": detail["payment"]["id"],
        "scenario": detail["scenario"],
        "timeline": detail["timeline"],
        "due": int(attempt["instructions"]["amounts"]["due"]),
        "received": sum(int(funding.get(name) or 0) for name in received),
        "asset": attempt["instructions"]["asset"],
    }


def _cause(trial: Trial, plan: Plan, violation: Violation) -> str:
    """What it takes to break the rule, and of a rule about money what the application does then."""
    conditions = []
    for injection in plan.injections:
        fault, operation = injection.parsed, injection.request.operation
        is_status = fault.kind is FaultKind.STATUS
        text = f"a reply to {operation} is `{injection.fault}`" if is_status else ""
        conditions.append(text or f"{operation} gets `{injection.fault}`")
    if plan.batch:
        conditions.append(str(plan.batch))
    when = f"when {' and '.join(conditions)}" if conditions else "without a fault"
    if RULES[violation.rule].severity is Severity.ADVICE:
        return when
    if plan.token != trial.plan.token:
        what = "ends" if "ended" in trial.incident else "falls silent"
        return f"{when}: the application {what}, which costs another order"
    if trial.gave_up and not trial.deliveries and len(trial.payments) < 2:
        return f"{when}: it {'reads no more' if trial.payments else 'sends nothing more'}"
    what = violation.explanation.partition(": ")[0].rstrip(".")
    return f"{when}: {what[0].lower()}{what[1:]}"


def _story(
    trial: Trial, plan: Plan, violation: Violation, payments: Sequence[Json], simulates: str
) -> list[str]:
    """What happened, in five lines. `simulates`: what the scenario leads to."""
    faults = [str(plan.batch)] if plan.batch else []
    for injection in plan.injections:
        request = injection.request
        status = f" at `{trial.states[request.at]}`" if request.at in trial.states else ""
        faults.append(f"{request.operation}{status} gets `{injection.fault}`")
    reads = sum(entry["operation"] in PAYMENT_READS for entry in trial.entries)
    seen = [entry["shown"] for entry in trial.entries if entry["shown"]]
    last = f"`{seen[-1]}`" if seen else "none"
    created = f"{len(trial.payments)} payment{'s' if len(trial.payments) != 1 else ''} created"
    times = {1: "once", 2: "twice"}.get(trial.deliveries, f"{trial.deliveries} times")
    goods = f"went out {times}" if trial.deliveries else "never went out"
    at = f", first at `{trial.delivered_at}`" if trial.delivered_at else ""
    shown = {entry["payment_id"] for entry in trial.entries if entry["shown"]}
    each = [
        f"payment {number}: {payment['scenario']}"
        + ("" if payment["payment_id"] in shown else ", never seen by the application")
        for number, payment in enumerate(payments, 1)
    ]
    course = f"{' · '.join(each)}." if len(each) > 1 else f"scenario {trial.plan.scenario}. {simulates}"
    other = "" if plan.token == trial.plan.token else ", of another order"
    return [
        f"Order:       {trial.order_id}, {course}".rstrip(),
        f"Network:     {'; '.join(faults) or 'no fault'}{other}.",
        f"Application: {created}, {reads} read{'s' if reads != 1 else ''}, the last status it saw is {last}.",
        f"Goods:       {goods}{at}.",
        f"Wrong:       {violation.explanation}",
    ]
