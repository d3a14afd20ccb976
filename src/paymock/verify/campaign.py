"""A campaign: which plans are tried, in which order, and the report of what they have shown."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator

from paymock.client.sandbox import Sandbox
from paymock.rules.scenarios import PaymentStatus
from paymock.schemas.public import PAYMENT_OPERATIONS
from paymock.verify.findings import Findings
from paymock.verify.pacing import Application, InlineExecutor
from paymock.verify.plans import (
    Baseline,
    Plan,
    frequencies,
    interleaved,
    pairs_of_faults,
    parse_token,
    single_faults,
)
from paymock.verify.report import Report
from paymock.verify.runner import Options, Progress, Runner

_NAMED = 5
"""How many of the trials that did not begin are named."""


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
    application = Application(order, deliveries, tick, InlineExecutor())
    options = Options(fulfil_at, scenarios, faults, pairs, seed, budget, only)
    with contextlib.closing(Verifier(sandbox, application, options)) as verifier:
        for _ in verifier.run():
            pass
        return verifier.report()


class Verifier:
    """The verification of one application. `run` yields whenever a trial has ended; `report` can be asked for
    at any time. Raises what `verify` does.
    """

    def __init__(self, sandbox: Sandbox, application: Application, options: Options) -> None:
        if options.fulfil_at not in [*PaymentStatus]:
            raise ValueError(
                f"fulfil_at must be one of {', '.join(PaymentStatus)}, not {options.fulfil_at!r}"
            )
        self._sandbox = sandbox
        self._options = options
        self._only = None if options.only is None else parse_token(options.only)
        self._scenarios = self._known_scenarios(options.scenarios)
        self._faults = frequencies(options.faults)
        self._speed = 0.0
        self._ended = False
        self.runner = Runner(sandbox, application, options)
        self._findings = Findings(sandbox, self.runner)

    def run(self) -> Iterator[Progress]:
        self._speed = self._sandbox.clock()["speed"]
        self._sandbox.freeze()
        frozen_at = self._sandbox.now()
        self.runner.start()
        yield from self._run_baselines()
        plans = [*self._plans()]
        self.runner.plans += plans
        together = interleaved([plan for plan in plans if not plan.is_exclusive])
        exclusive = [plan for plan in plans if plan.is_exclusive]
        must_hit = self._only is not None
        yield from self.runner.run(together, must_hit=must_hit)
        yield from self.runner.run(exclusive, exclusive=True, must_hit=must_hit)
        self.runner.final_check()
        yield from self._findings.find()
        self._findings.publish()
        if self._sandbox.clock()["speed"] or self._sandbox.now() != frozen_at:
            self.runner.undetermined["clock"] = (
                "the clock of the sandbox was moved during the run, for instance by a `sleep` that advances "
                "it: the judge advances each payment itself"
            )
        self._ended = True

    def close(self) -> None:
        """Leave the sandbox as it was found, apart from the payments of the trials."""
        with contextlib.suppress(Exception):  # the server may be gone, which has been said then
            self.runner.close()
        with contextlib.suppress(Exception):
            if self._speed:
                self._sandbox.speed(self._speed)
        self._sandbox.close()

    def report(self) -> Report:
        """The report, or as much of it as is known before the end."""
        runner = self.runner
        findings, undetermined = [*self._findings.confirmed], [*runner.undetermined.values()]
        if runner.unstarted:
            names, more = ", ".join(runner.unstarted[:_NAMED]), len(runner.unstarted) - _NAMED
            rest = f" and {more} more" if more > 0 else ""
            undetermined.append(f"not begun within the budget: {names}{rest}")
        if not self._ended:
            left = max(0, len(runner.plans) - len(runner.trials))
            undetermined.append(f"interrupted: at least {left} trials did not run")
            findings += self._findings.unconfirmed()
        return Report(
            findings=findings,
            trials=len(runner.trials),
            undetermined=undetermined,
            scenarios=[*runner.baselines],
            notes=[*self._notes()],
            seconds=time.monotonic() - runner.began,
            command=self._options.command,
        )

    def _known_scenarios(self, names: Iterable[str] | None) -> list[str]:
        with contextlib.closing(self._sandbox):  # which can be used again
            known = [scenario["name"] for scenario in self._sandbox.scenarios()]
        chosen = [*names] if names is not None else known
        if self._only is not None:
            chosen = [self._only.scenario]
        if not chosen:
            raise ValueError("scenarios must name at least one scenario")
        for name in chosen:
            if name not in known:
                raise ValueError(f"there is no scenario {name!r}; there are {', '.join(known)}")
        return chosen

    def _run_baselines(self) -> Iterator[Progress]:
        """Run each scenario without faults: the first one alone, so that requests about no order count."""
        plans = [Plan(scenario) for scenario in self._scenarios]
        self.runner.plans += plans
        yield from self.runner.run(plans[:1], exclusive=True)
        yield from self.runner.run(plans[1:])
        for plan in plans:
            trial = self.runner.trials.get(plan)
            if trial is not None and not trial.problems:
                requests = trial.requests
                if self.runner.pacing.polls_by_itself:  # it may send the same once or twice, as it happens
                    requests = tuple(request for request in requests if request.number == 1)
                self.runner.baselines[plan.scenario] = Baseline(plan.scenario, requests, trial.states)

    def _plans(self) -> Iterable[Plan]:
        """The plans with faults, each once."""
        if self._only is not None:
            return [self._only] if self._only.injections else []
        baselines = [*self.runner.baselines.values()]
        pairs = pairs_of_faults(baselines, self._faults, self._options.pairs, self._options.seed)
        return dict.fromkeys([*single_faults(baselines, self._faults), *pairs])

    def _notes(self) -> Iterator[str]:
        runner, errors = self.runner, self.runner.pacing.tick_errors
        if errors:
            yield f"`tick` failed {len(errors)} times, the last time with {errors[-1]}"
        if self._only in runner.violations and not runner.violations[self._only]:
            yield (
                f"{self._only.token} broke no rule: this does not prove that there is no bug that needs "
                "other orders at the same time"
            )
        never = [scenario for scenario in self._scenarios if scenario not in runner.baselines]
        if never:
            yield f"scenarios that could not be tried: {', '.join(never)}"
        if runner.unsent:
            yield f"requests that were sent once, and not again: {', '.join(runner.unsent)}"
        sent = {request.operation for baseline in runner.baselines.values() for request in baseline.requests}
        unused = [operation for operation in PAYMENT_OPERATIONS if operation not in sent]
        if unused and runner.baselines:
            yield f"operations that the application never called: {', '.join(unused)}"
