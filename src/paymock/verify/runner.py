"""Runs plans as trials, side by side in one sandbox and within the budget, and keeps what they have shown."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from paymock.client.http import monotonic
from paymock.client.sandbox import Sandbox
from paymock.verify.oracle import RULES, Severity, Violation
from paymock.verify.pacing import Application, OwnPace, Ticked
from paymock.verify.plans import Baseline, Plan
from paymock.verify.process import NotStarted, Service
from paymock.verify.trial import Trial

GRACE_SECONDS = 10.0
"""How long trials may go on that run when the budget has been spent."""

SETTLE_SECONDS = 60.0
"""How long orders are waited for that were in flight at a crash: leases end meanwhile."""

_HIT_TRIES = 8
"""How often a trial is run whose faults no request got: an application of its own pace can read a payment
between the change and the fault, and stop.
"""

_SILENT = "nothing was heard of the application any more"
_SILENCES = 2
"""How often an application is started again that has fallen silent."""

_STARTS = 3
"""How often it is tried to start the application again."""

_MAX_RULES = 90
"""So many fault rules at a time leave room in the sandbox for others."""

_SLOW = 0.25
"""An application that pauses longer, in seconds, is not slowed by the trials beside: there can be more."""

_SLOW_JOBS = 64


class Options(NamedTuple):
    """The arguments of `verify`; the most trials at a time, by default as the pacing says; the command line
    that repeats the run; whether crashes are tried.
    """

    fulfil_at: str = "completed"
    scenarios: Iterable[str] | None = None
    faults: Iterable[str] | None = None
    budget: float | None = None
    only: str | None = None
    jobs: int | None = None
    command: str = ""
    settle: float = SETTLE_SECONDS
    crash: bool = False
    fail_fast: bool = False


class Progress(NamedTuple):
    """Trials that have ended, how many there will be as far as known, and how many broke a rule."""

    done: int
    planned: int
    broken: int


class Runner:
    """Runs trials. Raises Refused and Unreachable.

    Attributes: all `plans`, in the order in which they stand in reports; the last trial of each, and the
    rules that it broke; the `baselines` of scenarios; tokens of plans that were `unstarted` within the
    budget; why nothing can be said of a plan; `events` of the application as a whole, with the cause of each;
    `notes` for the report; the `scenarios` that are tried.
    """

    def __init__(self, sandbox: Sandbox, application: Application, options: Options) -> None:
        self.options = options
        tick = application.tick
        self.pacing = Ticked(sandbox, application, tick) if tick else OwnPace(sandbox, application)
        self.service = application.service
        self.baselines: dict[str, Baseline] = {}
        self.trials: dict[Plan, Trial] = {}
        self.violations: dict[Plan, list[Violation]] = {}
        self.plans: list[Plan] = []
        self.unstarted: list[str] = []
        self.undetermined: dict[Plan | str, str] = {}
        self.events: dict[str, list[str]] = {}
        self.notes: dict[str, None] = {}
        self.is_outage = False
        self.scenarios: list[str] = []
        self.began = monotonic()
        self.active: list[Trial] = []
        self._budget = math.inf if options.budget is None else options.budget
        self._fatal: set[tuple[str, str]] = set()
        """The operations and faults at which the application ended."""

    def start(self) -> None:
        self.began = monotonic()
        self.pacing.start()

    def close(self) -> None:
        """Remove the faults of trials that have not ended, and end the payment of the liveness order."""
        for trial in self.active:
            with suppress(Exception):  # each leaves nothing behind, whatever became of the others
                trial.close()
        self.active.clear()
        self.pacing.close()

    @property
    def progress(self) -> Progress:
        return Progress(len(self.trials), len(self.plans), sum(map(bool, self.violations.values())))

    @property
    def costs_money(self) -> bool:
        """Whether a rule about money has been broken."""
        found = (violation.rule for violations in self.violations.values() for violation in violations)
        return any(RULES[rule].severity is Severity.MONEY for rule in found)

    def seconds_left(self) -> float:
        return self.began + self._budget - monotonic()

    def run(
        self, plans: Sequence[Plan], *, exclusive: bool = False, must_hit: bool = False
    ) -> Iterator[Progress]:
        """Run trials, again those whose faults no request got. Without `must_hit`, a request that no try has
        sent is one that the application sent before because a reply was late, or that it sends by chance:
        what it does send was seen to its end.
        """
        for tries in range(_HIT_TRIES):
            exclusive |= tries >= _HIT_TRIES // 2 and bool(self.events)  # others end the application
            again: list[Plan] = []
            unstarted = dict.fromkeys(plans)
            wanted = (plan for plan in plans if not self._is_fatal(plan))
            for trial in self.run_once(wanted, exclusive=exclusive, record_deliveries=not self.baselines):
                unstarted.pop(trial.plan, None)
                if self.record(trial):
                    again.append(trial.plan)
                yield self.progress
            self.unstarted += [plan.token for plan in unstarted if not self._is_fatal(plan)]
            plans = again
            if not again or self.pacing.is_gone:
                return
        for plan in plans:
            trial = self.trials[plan]
            unsent = [one.request for one in trial.missed if one.request not in trial.requests]
            if unsent and not must_hit:
                self.undetermined.pop(plan, None)
                self.notes[f"{unsent[0]} in {plan.scenario}: it was sent once, and not again"] = None

    def record(self, trial: Trial) -> bool:
        """Keep what a trial has shown, and return whether it should be run again, since a fault of it hit no
        request.
        """
        plan, violations = trial.plan, trial.check()
        costs = any(RULES[violation.rule].severity is Severity.MONEY for violation in violations)
        missed = trial.missed if not (costs or trial.problems) else []
        self.undetermined.pop(plan, None)
        if missed:
            self.undetermined[plan] = f"{plan.scenario}: {missed[0]} was never hit"
        if trial.problems:
            self.undetermined[plan] = f"{plan.token}: {trial.problems[0]}"
        self.trials[plan] = trial
        self.violations[plan] = violations
        return bool(missed) and (not trial.gave_up or bool(trial.incident))

    def run_once(
        self, plans: Iterable[Plan], *, exclusive: bool = False, record_deliveries: bool = False
    ) -> Iterator[Trial]:
        """Run trials, and yield each when it has ended. Once no second is left, none begins, and those that
        run have GRACE_SECONDS.
        """
        waiting = iter(plans)
        while True:
            while self._has_room(exclusive=exclusive) and (plan := next(waiting, None)):
                trial = Trial(
                    plan,
                    self.pacing,
                    self.options.fulfil_at,
                    baseline=self.baselines.get(plan.scenario),
                    record_deliveries=record_deliveries,
                    settle=self.options.settle,
                    known={violation.rule for found in self.violations.values() for violation in found},
                )
                self.begin(trial, exclusive=exclusive)
            if not self.active:
                return
            yield from self.step()

    def begin(self, trial: Trial, *, exclusive: bool = False) -> None:
        self.pacing.begin(trial, exclusive=exclusive)
        self.active.append(trial)

    def step(self, *, is_batch: bool = False) -> Iterator[Trial]:
        """Let each trial go on as far as the application lets it, then let the application poll. Yields the
        trials that have ended.
        """
        before = self._positions
        is_late = self.seconds_left() < -GRACE_SECONDS
        for trial in [*self.active]:
            if is_late:
                trial.problems.append("it did not end within the budget")
            if is_late or trial.resume():
                trial.close()
                self.active.remove(trial)
                self.pacing.end(trial)
                yield trial
        if self.active:
            progressed = self._positions != before
            self.pacing.listen(len(self.active), progressed=progressed, is_batch=is_batch)
            self._check_application()

    def _has_room(self, *, exclusive: bool) -> bool:
        """Whether another trial may begin: each counts as often as it has faults, unless it only waits."""
        busy = sum(max(1, len(trial.plan.injections)) for trial in self.active if not trial.is_idle)
        has_time = self.seconds_left() > 0 and not self.pacing.is_gone
        has_rules = sum(trial.rules for trial in self.active) < _MAX_RULES
        return has_time and has_rules and busy < (1 if exclusive else self.jobs)

    @property
    def jobs(self) -> int:
        default = self.pacing.default_jobs
        if self.pacing.polls_by_itself and (self.pacing.pace or 0.0) > _SLOW:
            default = _SLOW_JOBS
        return self.options.jobs or default

    @property
    def _positions(self) -> list[tuple[int, int]]:
        return [(trial.number, len(trial.statuses)) for trial in self.active]

    def _is_fatal(self, plan: Plan) -> bool:
        """Whether a fault of the plan ends the application, which has cost money already."""
        hurt = {(one.request.operation, one.parsed.text) for one in plan.injections}
        return bool(hurt & self._fatal) and self.costs_money

    def _check_application(self) -> None:
        """Start the application again, if that is possible, when it has ended or has fallen silent."""
        if self.is_outage:
            return
        service = self.service if isinstance(self.service, Service) else None
        status = service.exit_status() if service else None
        if status is None and (self.pacing.is_gone or not self.pacing.is_silent(self.options.settle)):
            return
        hurt = [trial for trial in self.active if trial.last_fault]
        culprit = max(hurt, key=lambda trial: trial.faulted_at, default=None)
        last = culprit.last_fault if culprit else None
        after = f" after `{last['operation']}` got `{last['fault']}`" if last else ""
        if last:
            self._fatal.add((last["operation"], last["fault"]))
        event, cause = _SILENT, after
        if status is not None and service:
            event, output = f"the application ended with exit status {status}", service.last_output()
            cause += f"; its last output: {output}" if output else ""
        self.events.setdefault(event, []).append(cause)
        restarts = status is not None or len(self.events[event]) <= _SILENCES
        for trial in self.active:
            trial.note_incident(event + after, culprit.plan if culprit else None)
            if service and restarts:
                trial.marks[len(trial.entries) - 1] = "started again"
        if service and restarts:
            service.kill()
            self.restart(service, self.active)
        else:
            self.pacing.is_gone = True

    def restart(self, service: Service, trials: Sequence[Trial]) -> None:
        """Start the application again, which these trials judge. A fault may hit it at its start."""
        reason = ""
        for _ in range(_STARTS):
            try:
                service.start()
            except NotStarted as error:
                reason = f"{str(error).splitlines()[0]} {service.last_output()}".rstrip()
            else:
                self.pacing.forget()
                return
        self.pacing.is_gone = True
        for number, trial in enumerate(trials):
            if number == 0:
                trial.stays_down = reason
            else:
                trial.problems.append("the application stays down")

    def final_check(self) -> None:
        """Ask once more how often the goods of each trial went out, and check it again; but for those of an
        application that may deliver as soon as replies have no unknown members any more.
        """
        asked = (
            []
            if self.pacing.is_gone
            else [one for one in self.trials.values() if not one.has_unknown_members]
        )
        clear = [trial for trial in asked if not trial.problems]
        for trial, call in [(one, self.pacing.count_deliveries(one.order_id)) for one in clear]:
            if call.exception() is None:
                trial.deliveries = max(trial.deliveries, call.result())
            self.violations[trial.plan] = trial.check()
