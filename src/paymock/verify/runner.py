"""Runs plans as trials, side by side in one sandbox and within the budget, and keeps what they have shown."""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from paymock.client.sandbox import Sandbox
from paymock.verify.oracle import Violation
from paymock.verify.pacing import Application, pacing_of
from paymock.verify.plans import Baseline, Plan
from paymock.verify.trial import Trial

GRACE_SECONDS = 10.0
"""How long trials may go on that run when the budget has been spent."""

_HIT_TRIES = 8
"""How often a trial is run whose faults no request got: an application of its own pace can read a payment
between the change and the fault, and stop.
"""


class Options(NamedTuple):
    """The options of `verify`; how many trials may run at a time, and the command line that repeats it."""

    fulfil_at: str = "completed"
    scenarios: Iterable[str] | None = None
    faults: Iterable[str] | None = None
    pairs: int = 0
    seed: int = 0
    budget: float | None = None
    only: str | None = None
    jobs: int | None = None
    command: str = ""


class Progress(NamedTuple):
    """Trials that have ended, how many there will be as far as known, and how many broke a rule."""

    done: int
    planned: int
    broken: int


class Runner:
    """Runs trials. Raises Refused and Unreachable.

    Attributes: all `plans`, in the order in which they stand in reports; the last trial of each, and the
    rules that it broke; the `baselines` of scenarios; tokens of plans that were `unstarted` within the
    budget; why nothing can be said of a token; requests that were `unsent`: a trial without faults has sent
    them, and no trial after it; the rules that are `confirmed`: a trial has been seen to break them with all
    patience.
    """

    def __init__(self, sandbox: Sandbox, application: Application, options: Options) -> None:
        self.options = options
        self.pacing = pacing_of(sandbox, application)
        self.baselines: dict[str, Baseline] = {}
        self.trials: dict[Plan, Trial] = {}
        self.violations: dict[Plan, list[Violation]] = {}
        self.plans: list[Plan] = []
        self.unstarted: list[str] = []
        self.undetermined: dict[str, str] = {}
        self.unsent: dict[str, None] = {}
        self.confirmed: set[str] = set()
        self.began = time.monotonic()
        self._budget = math.inf if options.budget is None else options.budget
        self._jobs = options.jobs or self.pacing.default_jobs
        self._active: list[Trial] = []

    def start(self) -> None:
        self.began = time.monotonic()
        self.pacing.start()

    def close(self) -> None:
        """Remove the faults of trials that have not ended, and end the payment of the liveness order."""
        for trial in self._active:
            with suppress(Exception):  # each leaves nothing behind, whatever became of the others
                trial.close()
        self._active.clear()
        self.pacing.close()

    @property
    def progress(self) -> Progress:
        return Progress(len(self.trials), len(self.plans), sum(map(bool, self.violations.values())))

    def seconds_left(self) -> float:
        return self.began + self._budget - time.monotonic()

    def run(
        self, plans: Sequence[Plan], *, exclusive: bool = False, must_hit: bool = False
    ) -> Iterator[Progress]:
        """Run trials, again those whose faults no request got. Without `must_hit`, a request that no try has
        sent is one that the application sent before because a reply was late, or that it sends by chance:
        what it does send was seen to its end.
        """
        for _ in range(_HIT_TRIES):
            again: list[Plan] = []
            unstarted = dict.fromkeys(plans)
            for trial in self.run_once(plans, exclusive=exclusive, record_deliveries=not self.baselines):
                plan = trial.plan
                unstarted.pop(plan, None)
                violations = trial.check()
                self.undetermined.pop(plan.token, None)
                if trial.missed and not (violations or trial.problems):
                    if not trial.gave_up:
                        again.append(plan)
                    self.undetermined[plan.token] = f"{plan.scenario}: {trial.missed[0]} was never hit"
                if trial.problems:
                    self.undetermined[plan.token] = f"{plan.token}: {trial.problems[0]}"
                self.trials[plan] = trial
                self.violations[plan] = violations
                self.confirmed.update(violation.rule for violation in violations)
                yield self.progress
            self.unstarted += [plan.token for plan in unstarted]
            plans = again
            if not again:
                return
        for plan in plans:
            trial = self.trials[plan]
            unsent = [one.request for one in trial.missed if one.request not in trial.requests]
            if unsent and not must_hit:
                self.undetermined.pop(plan.token, None)
                self.unsent[f"{unsent[0]} in {plan.scenario}"] = None

    def run_once(
        self, plans: Iterable[Plan], *, exclusive: bool = False, record_deliveries: bool = False
    ) -> Iterator[Trial]:
        """Run trials, and yield each when it has ended. Once no second is left, none begins, and those that
        run have GRACE_SECONDS.
        """
        waiting = iter(plans)
        jobs = 1 if exclusive else self._jobs
        while True:
            while self._load < jobs and self.seconds_left() > 0 and (plan := next(waiting, None)):
                trial = Trial(
                    plan,
                    self.pacing,
                    self.options.fulfil_at,
                    baseline=self.baselines.get(plan.scenario),
                    record_deliveries=record_deliveries,
                    confirmed=self.confirmed,
                )
                self.pacing.begin(trial, exclusive=exclusive)
                self._active.append(trial)
            if not self._active:
                return
            before = self._positions
            for trial in [*self._active]:
                is_late = self.seconds_left() < -GRACE_SECONDS
                if is_late:
                    trial.problems.append("it did not end within the budget")
                if is_late or trial.resume():
                    trial.close()
                    self._active.remove(trial)
                    self.pacing.end(trial)
                    yield trial
            if self._active:
                self.pacing.listen(len(self._active), progressed=self._positions != before)

    @property
    def _load(self) -> int:
        """How many trials there are, each counted as often as it has faults."""
        return sum(max(1, len(trial.plan.injections)) for trial in self._active)

    @property
    def _positions(self) -> list[tuple[int, int]]:
        return [(trial.number, len(trial.statuses)) for trial in self._active]

    def final_check(self) -> None:
        """Ask once more how often the goods of each trial went out, and check it again."""
        clear = [trial for trial in self.trials.values() if not trial.problems]
        for trial, call in [(one, self.pacing.count_deliveries(one.order_id)) for one in clear]:
            if call.exception() is None:
                trial.deliveries = max(trial.deliveries, call.result())
            self.violations[trial.plan] = trial.check()
