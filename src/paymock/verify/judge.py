"""The judge: plans the trials, runs them, and makes a report of what they have shown."""

import contextlib
import math
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import zip_longest
from typing import Any, NamedTuple

from paymock.client.http import Json, Refused
from paymock.client.sandbox import Sandbox
from paymock.client.text import shell_word
from paymock.rules.scenarios import SCENARIOS, PaymentStatus
from paymock.schemas.control import COURSE_LENGTH, LINE_LENGTH, MAX_LINES, MAX_TEXT
from paymock.schemas.public import CREATE_PAYMENT, PAYMENT_OPERATIONS, PAYMENT_READS
from paymock.verify.application import Application, InlineExecutor
from paymock.verify.control import Control
from paymock.verify.plans import (
    FAULTS,
    Course,
    Frequency,
    Hit,
    Plan,
    Request,
    pairs_of_faults,
    parse_token,
    single_faults,
)
from paymock.verify.report import Finding, Report, course_lines
from paymock.verify.rules import RULES, Severity, Violation
from paymock.verify.trials import Runner, Trial, course_of, missed

MAX_JOBS = 96
"""The most trials at a time, and the most faults of those: a sandbox has at most a hundred fault rules."""

JOBS_OF_WORKER = 16
"""The most trials at a time by default, if the application has a pace of its own: each slows the others."""

_TRIES = 3
"""How often a violation that rests on the time that passed is tried to be seen again."""

_HIT_TRIES = 8
"""How often a trial is run whose faults no request got: an application of its own pace can read a payment
between the change and the fault, and stop.
"""

_NAMED = 5
"""How many of the trials that did not begin are named."""

_TIMED = ("lost_sale", "gives_up", "ignores_retry_after")
"""The rules that rest on the time that passed."""


class Progress(NamedTuple):
    """How far the judge is: trials that have ended, how many there will be as far as known, and findings."""

    done: int
    planned: int
    broken: int


def verify(
    sandbox: Sandbox,
    *,
    order: Callable[[str], object],
    deliveries: Callable[[str], int],
    tick: Callable[[], object] | None = None,
    fulfil_at: str = "completed",
    scenarios: Iterable[str] | None = None,
    faults: Iterable[str] | None = None,
    pairs: int = 0,
    seed: int = 0,
    budget: float | None = None,
    only: str | None = None,
) -> Report:
    """Judge the application behind `order` and `deliveries`, which uses `sandbox`, and return the report.

    `order(order_id)` places an order: the application creates a payment with this `order_id`. An exception
    means that the customer was told of a failure, and orders again. `deliveries(order_id)` returns how often
    the goods of the order went out. `tick()` lets an application without a worker poll its open orders once;
    without `tick`, it polls by itself. All three are called from this thread, one after the other. Goods are
    due once the payment is `fulfil_at`.

    It tries each request of the application with each of `faults` (default: FAULTS) in each of `scenarios`
    (default: all of the server), then `pairs` trials of two faults each, chosen by `seed`. After `budget`
    seconds no trial begins any more, and those that run have ten more. `only` repeats the trial of a
    finding's `token`. The clock of the sandbox stands still meanwhile. Raises ValueError for a status,
    scenario, fault or token that does not exist; Refused and Unreachable.
    """
    sandbox.is_judged = True
    judge = Judge(
        sandbox,
        Application(order, deliveries, tick, InlineExecutor()),
        fulfil_at=fulfil_at,
        scenarios=scenarios,
        faults=faults,
        pairs=pairs,
        seed=seed,
        budget=budget,
        only=only,
    )
    with contextlib.closing(judge):
        for _ in judge.run():
            pass
        return judge.report()


class Judge:
    """The judgment of one application. `run` yields whenever a trial has ended; `report` can be asked for at
    any time. The arguments are those of `verify`; `command` is the command line that repeats it.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        application: Application,
        *,
        fulfil_at: str = "completed",
        scenarios: Iterable[str] | None = None,
        faults: Iterable[str] | None = None,
        pairs: int = 0,
        seed: int = 0,
        budget: float | None = None,
        only: str | None = None,
        jobs: int | None = None,
        command: str = "",
    ) -> None:
        if fulfil_at not in [*PaymentStatus]:
            raise ValueError(f"fulfil_at must be one of {', '.join(PaymentStatus)}, not {fulfil_at!r}")
        self._sandbox = sandbox
        self._control = Control(sandbox)
        self._plan = None if only is None else parse_token(only)
        self._scenarios = self._known_scenarios(scenarios)
        self._faults = _frequencies(faults)
        self._pairs = pairs
        self._seed = seed
        self._budget = budget
        self._command = command
        self._paced = application.tick is not None
        self._runner = Runner(
            self._control,
            application,
            fulfil_at,
            f"verify-{secrets.token_hex(4)}",
            jobs or (MAX_JOBS if self._paced else JOBS_OF_WORKER),
        )
        self._fulfil_at = fulfil_at
        self._speed = 0.0
        self._began = time.monotonic()
        self._courses: dict[str, Course] = {}
        self._trials: dict[Plan, Trial] = {}
        self._violations: dict[Plan, list[Violation]] = {}
        self._undetermined: dict[str, str] = {}
        self._unstarted: list[str] = []
        self._unsent: dict[str, None] = {}
        """The requests that a trial without faults has sent, and no trial after it."""
        self._planned = 0
        self._order: dict[Plan, int] = {}
        """The place of each plan in their order."""
        self._findings: list[Finding] = []
        self._repeated: set[tuple[str, tuple[str, ...]]] = set()
        """The groups of violations that were repeated, to make a finding of each."""
        self._ended = False

    def run(self) -> Iterator[Progress]:
        """Run the trials, and yield after each."""
        self._began = time.monotonic()
        self._speed = self._control.freeze()
        self._control.skip_requests()
        if not self._paced:
            self._runner.place_heartbeat()
        yield from self._run_courses()
        plans = [*self._plans()] if self._plan is None else [self._plan]
        plans = [*dict.fromkeys(plan for plan in plans if plan.hits)]
        self._order |= {plan: number for number, plan in enumerate(plans, len(self._order))}
        together = [plan for plan in plans if _has_order(plan)]
        self._planned += len(plans)
        yield from self._run(_interleaved(together))
        yield from self._run([plan for plan in plans if plan not in together], alone=True)
        self._runner.sweep(self._trials.values())
        for plan, trial in self._trials.items():
            self._violations[plan] = self._runner.judge(trial)
        yield from self._find()
        for finding in reversed(self._findings):
            with contextlib.suppress(Refused):  # an old server has no page for it
                self._sandbox.add_finding(_shown(finding))
        if self._control.clock_was_moved:
            self._undetermined["clock"] = (
                "the clock of the sandbox was moved meanwhile, for instance by a `sleep` that advances it: "
                "the judge moves each payment by itself"
            )
        self._ended = True

    def close(self) -> None:
        """Leave the sandbox as it was found, apart from the payments of the trials."""
        with contextlib.suppress(Exception):  # the server may be gone, which has been said then
            self._runner.close()
        with contextlib.suppress(Exception):
            if self._speed:
                self._control.set_speed(self._speed)
        self._sandbox.close()

    def report(self) -> Report:
        """The report, or as much of it as is known before the end."""
        undetermined = [*self._undetermined.values()]
        if self._unstarted:
            names, more = ", ".join(self._unstarted[:_NAMED]), len(self._unstarted) - _NAMED
            rest = f" and {more} more" if more > 0 else ""
            undetermined.append(f"not begun within the budget: {names}{rest}")
        if not self._ended:
            left = max(0, self._planned - len(self._trials))
            undetermined.append(f"interrupted: at least {left} trials did not run")
        findings = [*self._findings, *([] if self._ended else self._early_findings())]
        return Report(
            findings=findings,
            trials=len(self._trials),
            undetermined=undetermined,
            scenarios=[*self._courses],
            notes=self._notes(),
            seconds=time.monotonic() - self._began,
            command=self._command,
        )

    def _known_scenarios(self, names: Iterable[str] | None) -> list[str]:
        with contextlib.closing(self._sandbox):  # which can be used again
            known = [scenario["name"] for scenario in self._sandbox.scenarios()]
        chosen = [*names] if names is not None else [*known]
        if self._plan is not None:
            chosen = [self._plan.scenario]
        if not chosen:
            raise ValueError("scenarios must name at least one scenario")
        for name in chosen:
            if name not in known:
                raise ValueError(f"there is no scenario {name!r}; there are {', '.join(known)}")
        return chosen

    # The trials.

    def _run_courses(self) -> Iterator[Progress]:
        """Run each scenario without faults: the first one alone, so that requests about no order count."""
        plans = [Plan(scenario) for scenario in self._scenarios]
        self._planned = len(plans)
        yield from self._run(plans[:1], alone=True)
        yield from self._run(plans[1:])
        for plan in plans:
            trial = self._trials.get(plan)
            if trial is not None and not trial.problems:
                self._courses[plan.scenario] = self._course(trial)

    def _course(self, trial: Trial) -> Course:
        course = course_of(trial)
        if self._paced:
            return course
        # An application of its own pace may send the same once or twice, as it happens.
        requests = [request for request in course.requests if request.number == 1]
        return replace(course, requests=tuple(requests))

    def _why_untested(self, trial: Trial) -> str | None:
        """Why a trial without faults shows nothing to inject faults into."""
        if not trial.payments:
            reason = f": {trial.order_errors[-1]}" if trial.order_errors else ""
            return (
                f"no payment with the order id {trial.order_id} was created{reason}. Does the application "
                "use this server and API key, and the order id that it is given?"
            )
        if not trial.deliveries and len(trial.entries) <= 1 + len(trial.order_errors):
            hint = "is `tick` missing?" if not self._paced else "does `tick` poll it?"
            return f"the application never read its payment: {hint}"
        return None

    def _plans(self) -> Iterator[Plan]:
        courses = [*self._courses.values()]
        yield from single_faults(courses, self._faults)
        yield from pairs_of_faults(courses, self._faults, self._pairs, self._seed)

    def _run(
        self, plans: Sequence[Plan], *, alone: bool = False, closely: bool = False
    ) -> Iterator[Progress]:
        """Run trials, again those whose faults no request got."""
        for plan in plans:
            self._order.setdefault(plan, len(self._order))
        for _ in range(_HIT_TRIES):
            again: list[Plan] = []
            unstarted = set(plans)
            for trial in self._runner.run(
                plans,
                self._courses,
                alone=alone,
                closely=closely or not self._courses,
                left=self._seconds_left,
            ):
                unstarted.discard(trial.plan)
                reason = None if trial.plan.hits or trial.problems else self._why_untested(trial)
                if reason:
                    trial.problems.append(reason)
                violations = self._runner.judge(trial)
                left = missed(trial)
                self._undetermined.pop(trial.plan.token, None)
                if left and not (violations or trial.problems):
                    if not trial.gave_up:
                        again.append(trial.plan)
                    self._undetermined[trial.plan.token] = f"{trial.plan.scenario}: {left[0]} was never hit"
                if trial.problems:
                    self._undetermined[trial.plan.token] = f"{trial.plan.token}: {trial.problems[0]}"
                self._keep(trial, violations)
                yield Progress(len(self._trials), self._planned, sum(map(bool, self._violations.values())))
            self._unstarted += [plan.token for plan in plans if plan in unstarted]
            plans = again
            if not again:
                return
        self._note_unsent(plans)

    def _note_unsent(self, plans: Iterable[Plan]) -> None:
        """Take a request that no try has sent for what it is: one that the application sent before because a
        reply was late, or that it sends by chance. What it does send was seen to its end.
        """
        for plan in plans:
            trial = self._trials[plan]
            sent = course_of(trial).requests
            unsent = [hit.request for hit in missed(trial) if hit.request not in sent]
            if unsent and plan != self._plan:
                self._undetermined.pop(plan.token, None)
                self._unsent[f"{unsent[0]} in {plan.scenario}"] = None

    def _keep(self, trial: Trial, violations: list[Violation]) -> None:
        self._trials[trial.plan] = trial
        self._violations[trial.plan] = violations
        self._runner.confirmed.update(violation.rule for violation in violations)

    def _seconds_left(self) -> float:
        return math.inf if self._budget is None else self._began + self._budget - time.monotonic()

    # The findings.

    def _find(self) -> Iterator[Progress]:
        """Make the findings: for each kind of violation the least plan that shows it, run once more with a
        close look.
        """
        while left := self._pending_groups():
            (rule, operations), plans = next(iter(left.items()))
            plan = min(plans, key=lambda plan: self._rank(plan, rule))
            plan = yield from self._shrink(plan, rule)
            confirmed = yield from self._confirm(plan, plans, rule)
            if confirmed is not None:
                self._findings.append(self._finding(*confirmed, len(plans)))
            elif RULES[rule].severity is Severity.MONEY:
                self._undetermined[plan.token] = f"{plan.token}: {rule} was not seen again"
            self._repeated.add((rule, operations))

    def _groups(self) -> dict[tuple[str, tuple[str, ...]], list[Plan]]:
        """The plans that broke a rule, by rule and by the operations whose requests got a fault; by the rule
        alone where the scenario breaks it without a fault.
        """
        groups: dict[tuple[str, tuple[str, ...]], list[Plan]] = {}
        for plan, violations in self._violations.items():
            for rule in dict.fromkeys(violation.rule for violation in violations):
                without = self._violations.get(Plan(plan.scenario), [])
                is_inherent = any(violation.rule == rule for violation in without)
                operations = () if is_inherent else tuple(hit.request.operation for hit in plan.hits)
                groups.setdefault((rule, tuple(sorted(set(operations)))), []).append(plan)
        order = list(RULES)
        return dict(sorted(groups.items(), key=lambda group: (order.index(group[0][0]), group[0][1])))

    def _pending_groups(self) -> dict[tuple[str, tuple[str, ...]], list[Plan]]:
        return {group: plans for group, plans in self._groups().items() if group not in self._repeated}

    def _rank(self, plan: Plan, rule: str) -> tuple[int, int, bool, int]:
        """The rank of a plan as an example: few faults, and goods that are never due first."""
        is_due = self._fulfil_at in self._trials[plan].observation.statuses
        times = sum(hit.times for hit in plan.hits)
        return len(plan.hits), times, rule == "free_goods" and is_due, self._order[plan]

    def _shrink(self, plan: Plan, rule: str) -> Generator[Progress, None, Plan]:
        """Return the least plan that still breaks the rule."""
        for smaller in plan.smaller:
            if smaller not in self._trials:
                yield from self._run([smaller], alone=not _has_order(smaller))
            if any(violation.rule == rule for violation in self._violations.get(smaller, [])):
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
        self._runner.confirmed.discard(rule)
        rounds = [([plan], True)] * _TRIES
        if RULES[rule].severity is Severity.MONEY:
            rounds.append(([*plans], False))
        for repeated, alone in rounds:
            trials = [
                *self._runner.run(repeated, self._courses, alone=alone, closely=True, left=self._seconds_left)
            ]
            yield Progress(len(self._trials), self._planned, len(self._findings))
            for trial in trials:
                violations = self._runner.judge(trial)
                self._add_violations(trial.plan, violations)
                for violation in violations:
                    if violation.rule == rule:
                        return trial, violation
        [kept, *_] = [violation for violation in self._violations[plan] if violation.rule == rule]
        if self._seconds_left() <= 0:
            reason = f"{plan.token}: {rule} was not repeated within the budget"
            self._undetermined[reason] = reason
        elif rule in _TIMED:
            return None
        return self._trials[plan], kept

    def _add_violations(self, plan: Plan, violations: Iterable[Violation]) -> None:
        """Add what only a close look has shown: goods that went out before the payment was made."""
        known = self._violations.setdefault(plan, [])
        rules = {violation.rule for violation in known}
        known += [one for one in violations if one.rule not in rules]

    def _early_findings(self) -> Iterator[Finding]:
        """What has been found when the judgment is interrupted."""
        for (rule, _), plans in self._pending_groups().items():
            plan = min(plans, key=lambda plan: self._rank(plan, rule))
            violation = next(one for one in self._violations[plan] if one.rule == rule)
            yield self._finding(self._trials[plan], violation, len(plans))

    def _finding(self, trial: Trial, violation: Violation, occurrences: int) -> Finding:
        payment_id = trial.payments[-1] if trial.payments else None
        timeline = self._sandbox.detail(payment_id)["timeline"] if payment_id else []
        token = trial.plan.token
        return Finding(
            rule=violation.rule,
            scenario=trial.plan.scenario,
            faults=[str(hit) for hit in trial.plan.hits],
            token=token,
            explanation=violation.explanation,
            story=_story(trial, violation),
            requests=trial.entries,
            timeline=timeline,
            order_id=trial.order_id,
            payment_id=payment_id,
            occurrences=occurrences,
            command=f"{self._command} --only {shell_word(token)}" if self._command else "",
        )

    def _notes(self) -> list[str]:
        notes = []
        if self._runner.tick_errors:
            errors = self._runner.tick_errors
            notes.append(f"`tick` failed {len(errors)} times, the last time with {errors[-1]}")
        if self._plan in self._violations and not self._violations[self._plan]:
            notes.append(
                f"{self._plan.token} broke no rule: this does not prove that a bug is gone which takes other "
                "orders at the same time"
            )
        never = [scenario for scenario in self._scenarios if scenario not in self._courses]
        if never:
            notes.append(f"scenarios that could not be tried: {', '.join(never)}")
        if self._unsent:
            notes.append(f"requests that were sent once, and not again: {', '.join(self._unsent)}")
        operations = {request.operation for course in self._courses.values() for request in course.requests}
        unused = [operation for operation in PAYMENT_OPERATIONS if operation not in operations]
        if unused and self._courses:
            notes.append(f"operations that the application never called: {', '.join(unused)}")
        return notes


def _frequencies(faults: Iterable[str] | None) -> Mapping[str, Frequency]:
    if faults is None:
        return FAULTS
    chosen = [*faults]
    for fault in chosen:
        Hit(Request(CREATE_PAYMENT), fault).parsed  # noqa: B018 - raises ValueError
    return dict.fromkeys(chosen, Frequency.EVERY_REQUEST)


def _shown(finding: Finding) -> Json:
    """A finding as the dashboard shows it, shortened to what that takes."""
    kept = asdict(finding)
    for name in ("requests", "timeline", "occurrences"):
        del kept[name]
    kept = {name: _shortened(value) for name, value in kept.items()}
    course = [line[:LINE_LENGTH] for line in course_lines(finding.timeline, finding.requests)]
    return kept | {"severity": finding.severity, "course": course[:COURSE_LENGTH]}


def _shortened(value: Any, length: int = MAX_TEXT) -> Any:
    """A text, or a list of texts, as far as a finding on the dashboard has room."""
    if isinstance(value, str):
        return value if len(value) <= length else f"{value[: length - 3]}..."
    if not isinstance(value, list | tuple):
        return value
    more = len(value) - MAX_LINES + 1
    shown = value if more <= 1 else [*value[: MAX_LINES - 1], f"... and {more} more"]
    return [_shortened(line, LINE_LENGTH) for line in shown]


def _interleaved(plans: Iterable[Plan]) -> list[Plan]:
    """The plans, by turns of each scenario: orders that are open at the same time end differently, so that it
    shows when an application confuses them.
    """
    scenarios: dict[str, list[Plan]] = {}
    for plan in plans:
        scenarios.setdefault(plan.scenario, []).append(plan)
    return [plan for turn in zip_longest(*scenarios.values()) for plan in turn if plan is not None]


def _has_order(plan: Plan) -> bool:
    """Whether all faults are for requests about an order, so that trials can run side by side."""
    return all(hit.request.operation in PAYMENT_OPERATIONS for hit in plan.hits)


def _story(trial: Trial, violation: Violation) -> list[str]:
    """What happened, in five lines."""
    description = SCENARIOS[trial.plan.scenario].description if trial.plan.scenario in SCENARIOS else ""
    ages = {state.at: state.status for state in trial.states}
    hits = []
    for hit in trial.plan.hits:
        status = f" at `{ages[hit.request.at]}`" if hit.request.at in ages else ""
        hits.append(f"{hit.request.operation}{status} gets `{hit.fault}`")
    reads = sum(entry["operation"] in PAYMENT_READS for entry in trial.entries)
    seen = [entry["shown"] for entry in trial.entries if entry["shown"]]
    last = f"`{seen[-1]}`" if seen else "none"
    created = f"{len(trial.payments)} payment{'s' if len(trial.payments) != 1 else ''} created"
    goods = "never went out" if not trial.deliveries else f"went out {_times(trial.deliveries)}"
    at = f", first at `{trial.delivered_at}`" if trial.delivered_at else ""
    return [
        f"Order:       {trial.order_id}, scenario {trial.plan.scenario}. {description}".rstrip(),
        f"Network:     {'; '.join(hits) or 'no fault'}.",
        f"Application: {created}, {reads} read{'s' if reads != 1 else ''}, the last status it saw is {last}.",
        f"Goods:       {goods}{at}.",
        f"Wrong:       {violation.explanation}",
    ]


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
