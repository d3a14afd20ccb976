"""A campaign: which plans are tried, in which order, and the report of what they have shown."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from paymock.client.http import monotonic
from paymock.client.sandbox import Sandbox
from paymock.rules.faults import FaultKind
from paymock.rules.scenarios import PaymentStatus
from paymock.verify import batches
from paymock.verify.findings import Findings
from paymock.verify.pacing import Application, InlineExecutor
from paymock.verify.plans import (
    BYSTANDERS,
    NEAR_DUE,
    Baseline,
    Batch,
    Frequency,
    Plan,
    frequencies,
    interleaved,
    parse_token,
    single_faults,
)
from paymock.verify.process import ExternalService
from paymock.verify.report import Coverage, Report
from paymock.verify.runner import SETTLE_SECONDS, Options, Progress, Runner

_SLOW_PACES = ((10.0, Frequency.EVERY_OPERATION), (2.0, Frequency.EVERY_STATUS))
"""Seconds that an application takes for a state, and the most faults that are tried then."""


def verify(
    sandbox: Sandbox,
    *,
    order: Callable[[str], object],
    deliveries: Callable[[str], int],
    tick: Callable[[], object] | None = None,
    fulfil_at: str = "completed",
    scenarios: Iterable[str] | None = None,
    faults: Iterable[str] | None = None,
    budget: float | None = None,
    only: str | None = None,
    crash: Callable[[], object] | None = None,
    settle: float = SETTLE_SECONDS,
    fail_fast: bool = False,
) -> Report:
    """Judge the application behind `order` and `deliveries`, which uses `sandbox`, and return the report.

    `order(order_id)` places an order: the application creates a payment with this `order_id`. An exception
    means that the customer was told of a failure, and orders again. `deliveries(order_id)` returns how often
    the goods of the order went out. `tick()` lets an application without a worker poll its open orders once;
    without `tick`, it polls by itself. All three are called from this thread, one after the other. Goods are
    due once the payment is `fulfil_at`.

    It tries outages of the service, then each request of the application with each of `faults` (default:
    FAULTS) in each of `scenarios` (default: all of the server). `crash()` kills an application in a process
    of its own, starts it again and returns when it is ready: then crashes are tried, too, after which orders
    in flight are waited for up to `settle` seconds.
    After `budget` seconds no trial begins any more, and those that run have ten more; with `fail_fast`, the
    run ends at the first finding about money. `only` repeats the trial of a finding's `token`. The clock of
    the sandbox stands still meanwhile. Raises ValueError for a status, scenario, fault or token that does not
    exist; Refused and Unreachable.
    """
    sandbox.is_judged = True
    service = None if crash is None else ExternalService(crash)
    application = Application(order, deliveries, tick, InlineExecutor(), service=service)
    options = Options(
        fulfil_at, scenarios, faults, budget, only,
        settle=settle, crash=crash is not None, fail_fast=fail_fast,
    )  # fmt: skip
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
        self._of_scenarios = 0
        self._faults = frequencies(options.faults)
        self._speed = 0.0
        self._ended = False
        self._left_out = ""
        self.runner = Runner(sandbox, application, options)
        only, service = self._only, application.service
        if isinstance(only, Batch) and only.kind == "crash" and service is None:
            raise ValueError(f"{only.token} kills the application: that needs `crash`, or --run and --ready")
        if isinstance(only, Batch) and only.kind == "meet" and len(service.ports if service else ()) < 2:
            raise ValueError(f"{only.token} is about replicas: that needs --replicas")
        self.runner.scenarios = self._known_scenarios(options.scenarios)
        self._batches = batches.Batches(self.runner)
        self._tried: list[Batch] = []
        self._findings = Findings(sandbox, self.runner, self._batches)

    def run(self) -> Iterator[Progress]:
        self._speed = self._sandbox.clock()["speed"]
        self._sandbox.freeze()
        frozen_at = self._sandbox.now()
        self.runner.start()
        for progress in self._run_all():
            yield progress
            if self._options.fail_fast and self.runner.costs_money:
                self.runner.undetermined["rest"] = "the run ended at the first violation (--fail-fast)"
                break
        self.runner.final_check()
        yield from self._findings.find()
        yield from self._run_unknown_members()
        if self._sandbox.clock()["speed"] or self._sandbox.now() != frozen_at:
            self.runner.undetermined["clock"] = (
                "the clock of the sandbox was moved during the run, for instance by a `sleep` that advances "
                "it: the judge advances each payment itself"
            )
        self._ended = True

    def _run_all(self) -> Iterator[Progress]:
        """Everything that is tried, the cheapest first."""
        runner, only = self.runner, self._only
        yield from self._run_baselines(runner.scenarios[:1], exclusive=True)
        if not runner.baselines:
            return
        if only is None and self._options.faults is None:
            can_meet = runner.pacing.application.threads is not None
            at_once = [Batch(runner.scenarios[0], "order", "3x")] if can_meet else []
            yield from self._run_batches([*at_once, *batches.outages()], waits=False)
        if isinstance(only, Batch):
            return (yield from self._run_batches([only]))
        yield from self._run_baselines(runner.scenarios[1:])
        plans = [only] if only else self._plans()
        plans = [plan for plan in plans if plan.injections]
        if only and plans and not only.is_exclusive:
            plans += BYSTANDERS
        runner.plans += plans
        together = interleaved([plan for plan in plans if not plan.is_exclusive])
        exclusive = [plan for plan in plans if plan.is_exclusive]
        yield runner.progress
        yield from runner.run(together, must_hit=only is not None)
        yield from runner.run(exclusive, exclusive=True, must_hit=only is not None)
        if only is None:
            yield from self._run_batches(self._crash_batches())

    def _run_batches(self, tried: Sequence[Batch], *, waits: bool = True) -> Iterator[Progress]:
        tried = [batch for batch in tried if batch not in self._tried]
        self._tried += tried
        yield from self._batches.run(tried, waits=waits)

    def _crash_batches(self) -> list[Batch]:
        """Crashes and replicas, in the first scenario whose payment becomes what makes goods due."""
        fulfil_at, service = self._options.fulfil_at, self.runner.service
        fulfilled = [one for one in self.runner.baselines.values() if fulfil_at in one.statuses.values()]
        if not fulfilled or service is None:
            return []
        return batches.crashes(fulfilled[0], fulfil_at, service, is_killed=self._options.crash)

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
        findings, undetermined = self._findings.in_order(), [*runner.undetermined.values()]
        reason = "the application is gone" if runner.pacing.is_gone else "the budget has ended"
        undetermined += [f"{token}: not begun, since {reason}" for token in runner.unstarted]
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
            seconds=monotonic() - runner.began,
            command=self._options.command,
            coverage=self._coverage(),
            not_judged=["double_delivery"] if self._batches.forgets else [],
            partial=len(runner.scenarios) < self._of_scenarios
            or bool(self._left_out or self._options.faults or self._only),
        )

    def _coverage(self) -> Coverage:
        runner = self.runner
        names = {"order": "3 at once", "meet": "replicas", "hold": "overtaken reply"}
        tried = [*dict.fromkeys(names.get(batch.kind, batch.kind) for batch in self._tried)]
        options = {"crash": "--crash", "replicas": "--replicas 2"}
        if runner.pacing.application.threads is None:
            options["3 at once"] = "by the command"
        return Coverage(
            scenarios=len([name for name in runner.baselines if name not in NEAR_DUE]),
            of_scenarios=self._of_scenarios,
            faults=len(self._faults if self._only is None else getattr(self._only, "injections", ())),
            batches=tried,
            not_tried=[f"{name} ({option})" for name, option in options.items() if name not in tried],
        )

    def _known_scenarios(self, names: Iterable[str] | None) -> list[str]:
        with contextlib.closing(self._sandbox):  # which can be used again
            known = [scenario["name"] for scenario in self._sandbox.scenarios()]
        self._of_scenarios = len(known)
        chosen = [*names] if names is not None else known
        if self._only is not None and not (isinstance(self._only, Batch) and self._only.is_parked):
            chosen = [self._only.scenario]
        if not chosen:
            raise ValueError("scenarios must name at least one scenario")
        for name in chosen:
            if name not in known and name not in NEAR_DUE:
                raise ValueError(f"there is no scenario {name!r}; there are {', '.join(known)}")
        return chosen

    def _run_baselines(self, scenarios: Iterable[str], *, exclusive: bool = False) -> Iterator[Progress]:
        """Run scenarios without faults: the first one alone, so that requests about no order count."""
        runner = self.runner
        plans = [Plan(scenario) for scenario in scenarios]
        if not exclusive and self._only is None and self._options.faults is None:
            plans += [Plan(name) for name in NEAR_DUE]
        runner.plans += plans
        yield from runner.run(plans, exclusive=exclusive)
        ended = [runner.trials[plan] for plan in plans if plan in runner.trials]
        yield from runner.run([trial.plan for trial in ended if trial.incident])
        for plan in plans:
            trial = runner.trials.get(plan)
            if trial is not None and not trial.problems:
                requests = trial.requests
                if runner.pacing.polls_by_itself:  # it may send the same once or twice, as it happens
                    requests = tuple(request for request in requests if request.number == 1)
                runner.baselines[plan.scenario] = Baseline(plan.scenario, requests, trial.states)
                if exclusive:
                    runner.pacing.pace = trial.longest_pause

    def _run_unknown_members(self) -> Iterator[Progress]:
        """Try unknown members in replies, when all the rest is known: they are worth advice, and whatever
        they do to the application, they change no verdict.
        """
        options, runner = self._options, self.runner
        if self._only or options.faults is not None or (options.fail_fast and runner.costs_money):
            return
        sound = [one for one in runner.baselines.values() if not runner.violations[Plan(one.scenario)]]
        for plan in single_faults(sound, {FaultKind.EXTRA: Frequency.EVERY_OPERATION}):
            request = plan.injections[0].request
            is_first = request.number == 1 and not request.operation.startswith("create")
            if is_first and not runner.pacing.is_gone:
                runner.plans.append(plan)
                yield from runner.run([plan], exclusive=True)
                runner.undetermined.pop(plan, None)
        yield from self._findings.find()

    def _plans(self) -> list[Plan]:
        """The plans with faults, each once: of a slow application, those that tell most."""
        baselines = [one for one in self.runner.baselines.values() if one.scenario not in NEAR_DUE]
        plans, pace = [*single_faults(baselines, self._faults)], self.runner.pacing.pace or 0.0
        fewest = next((frequency for seconds, frequency in _SLOW_PACES if pace > seconds), None)
        if fewest is None or self._options.faults is not None:
            return plans
        faults = {fault: max(frequency, fewest) for fault, frequency in self._faults.items()}
        telling = [*single_faults(baselines, faults)]
        if left_out := len(plans) - len(telling):
            self._left_out = f"the application polls every {pace:.0f} s: {left_out} trials were left out"
        return telling

    def _notes(self) -> Iterator[str]:
        runner, errors = self.runner, self.runner.pacing.tick_errors
        if errors:
            yield f"`tick` failed {len(errors)} times, the last time with {errors[-1]}"
        only = self._only
        tried = [one for one in runner.violations if only in (one, one.batch)]
        if only and tried and not any(runner.violations[one] for one in tried):
            yield (
                f"{only.token} broke no rule: this does not prove that there is no bug that needs "
                "other orders at the same time"
            )
        never = [scenario for scenario in runner.scenarios if scenario not in runner.baselines]
        if never:
            yield f"scenarios that could not be tried: {', '.join(never)}"
        yield from runner.notes
        yield from filter(None, [self._left_out])
        for event, causes in runner.events.items():
            yield event + (f" {len(causes)} times, first" if len(causes) > 1 else "") + causes[0]
