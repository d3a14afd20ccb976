"""Findings: violations, grouped by their kind, with the least plan that shows each, seen once more."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress

from paymock.client.http import Refused
from paymock.client.sandbox import Sandbox
from paymock.client.text import shell_word
from paymock.rules.scenarios import SCENARIOS
from paymock.schemas.public import PAYMENT_READS
from paymock.verify.oracle import RULES, Severity, Violation
from paymock.verify.plans import Plan
from paymock.verify.report import Finding, for_dashboard
from paymock.verify.runner import Progress, Runner
from paymock.verify.trial import Trial

_TRIES = 3
"""How often a violation that rests on the time that passed is tried to be seen again."""

_TIMED = ("lost_sale", "gives_up", "ignores_retry_after")
"""The rules that rest on the time that passed."""

_Group = tuple[str, tuple[str, ...]]
"""A kind of violation: the rule, and the operations whose requests got a fault; none where the scenario
breaks the rule without a fault.
"""


class Findings:
    """What `runner` has found."""

    def __init__(self, sandbox: Sandbox, runner: Runner) -> None:
        self.confirmed: list[Finding] = []
        self._sandbox = sandbox
        self._runner = runner
        self._examined: set[_Group] = set()

    def find(self) -> Iterator[Progress]:
        """Make a finding of each group: of the least plan that shows it, run once more with a close look."""
        while groups := self._pending_groups():
            group, plans = next(iter(groups.items()))
            rule, _ = group
            plan = yield from self._shrink(self._least(plans, rule), rule)
            confirmed = yield from self._confirm(plan, plans, rule)
            if confirmed is not None:
                self.confirmed.append(self._finding(*confirmed, len(plans)))
            elif RULES[rule].severity is Severity.MONEY:
                self._runner.undetermined[plan.token] = f"{plan.token}: {rule} was not seen again"
            self._examined.add(group)

    def unconfirmed(self) -> Iterator[Finding]:
        """What has been found when the run is interrupted."""
        for (rule, _), plans in self._pending_groups().items():
            plan = self._least(plans, rule)
            yield self._finding(self._runner.trials[plan], self._violation(plan, rule), len(plans))

    def publish(self) -> None:
        """Show the findings on the dashboard of the sandbox."""
        for finding in reversed(self.confirmed):
            with suppress(Refused):  # an old server has no page for it
                self._sandbox.add_finding(for_dashboard(finding))

    def _pending_groups(self) -> dict[_Group, list[Plan]]:
        """The plans that broke a rule, by groups of which there is no finding yet, in the order of RULES."""
        groups: dict[_Group, list[Plan]] = {}
        for plan, violations in self._runner.violations.items():
            for rule in dict.fromkeys(violation.rule for violation in violations):
                is_inherent = self._breaks(Plan(plan.scenario), rule)
                operations = set() if is_inherent else {one.request.operation for one in plan.injections}
                groups.setdefault((rule, tuple(sorted(operations))), []).append(plan)
        order = [*RULES]
        return {
            group: groups[group]
            for group in sorted(groups, key=lambda group: (order.index(group[0]), group[1]))
            if group not in self._examined
        }

    def _breaks(self, plan: Plan, rule: str) -> bool:
        return any(violation.rule == rule for violation in self._runner.violations.get(plan, []))

    def _violation(self, plan: Plan, rule: str) -> Violation:
        return next(one for one in self._runner.violations[plan] if one.rule == rule)

    def _least(self, plans: Sequence[Plan], rule: str) -> Plan:
        """The best example: few faults, and goods that are never due first."""

        def rank(plan: Plan) -> tuple[int, int, bool, int]:
            is_due = self._runner.options.fulfil_at in self._runner.trials[plan].statuses
            times = sum(injection.times for injection in plan.injections)
            is_early = rule == "free_goods" and is_due
            return len(plan.injections), times, is_early, self._runner.plans.index(plan)

        return min(plans, key=rank)

    def _shrink(self, plan: Plan, rule: str) -> Generator[Progress, None, Plan]:
        """Return the least plan that still breaks the rule."""
        for smaller in plan.smaller:
            if smaller not in self._runner.trials:
                self._runner.plans.append(smaller)
                yield from self._runner.run([smaller], exclusive=smaller.is_exclusive)
            if self._breaks(smaller, rule):
                return (yield from self._shrink(smaller, rule))
        return plan

    def _confirm(
        self, plan: Plan, plans: Sequence[Plan], rule: str
    ) -> Generator[Progress, None, tuple[Trial, Violation] | None]:
        """Run the plan again, alone, with a close look and all patience; else all `plans` that broke the
        rule, since it may take several orders at a time. Return a trial and its violation. None if it did not
        happen again, though there was time, and rests on the time that passed: the faults of other trials
        may have taken that.
        """
        runner = self._runner
        runner.confirmed.discard(rule)
        rounds = [([plan], True)] * _TRIES
        if RULES[rule].severity is Severity.MONEY:
            rounds.append(([*plans], False))
        for repeated, exclusive in rounds:
            trials = [*runner.run_once(repeated, exclusive=exclusive, record_deliveries=True)]
            yield runner.progress
            for trial in trials:
                violations = trial.check()
                # Only a close look shows goods that went out before the payment was made.
                known = runner.violations.setdefault(trial.plan, [])
                known += [one for one in violations if not self._breaks(trial.plan, one.rule)]
                for violation in violations:
                    if violation.rule == rule:
                        return trial, violation
        if runner.seconds_left() <= 0:
            reason = f"{plan.token}: {rule} was not repeated within the budget"
            runner.undetermined[reason] = reason
        elif rule in _TIMED:
            return None
        return runner.trials[plan], self._violation(plan, rule)

    def _finding(self, trial: Trial, violation: Violation, occurrences: int) -> Finding:
        payment_id = trial.payments[-1] if trial.payments else None
        token = trial.plan.token
        command = self._runner.options.command
        return Finding(
            rule=violation.rule,
            scenario=trial.plan.scenario,
            faults=[str(injection) for injection in trial.plan.injections],
            token=token,
            explanation=violation.explanation,
            story=_story(trial, violation),
            requests=trial.entries,
            timeline=self._sandbox.detail(payment_id)["timeline"] if payment_id else [],
            order_id=trial.order_id,
            payment_id=payment_id,
            occurrences=occurrences,
            command=command and f"{command} --only {shell_word(token)}",
        )


def _story(trial: Trial, violation: Violation) -> list[str]:
    """What happened, in five lines."""
    description = SCENARIOS[trial.plan.scenario].simulates if trial.plan.scenario in SCENARIOS else ""
    faults = []
    for injection in trial.plan.injections:
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
    return [
        f"Order:       {trial.order_id}, scenario {trial.plan.scenario}. {description}".rstrip(),
        f"Network:     {'; '.join(faults) or 'no fault'}.",
        f"Application: {created}, {reads} read{'s' if reads != 1 else ''}, the last status it saw is {last}.",
        f"Goods:       {goods}{at}.",
        f"Wrong:       {violation.explanation}",
    ]
