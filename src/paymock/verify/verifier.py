"""The verification of an application: it explores what can be tried, confirms what was seen, and reports."""

from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime
from inspect import CORO_CLOSED, getcoroutinestate
from math import inf
from typing import Any

from paymock.client.http import Unreachable, monotonic
from paymock.client.sandbox import Sandbox
from paymock.rules.scenarios import PaymentStatus
from paymock.schemas.public import CREATE_PAYMENT, GET_PAYMENT
from paymock.text import without_key
from paymock.verify import batches
from paymock.verify.batches import HALF_OUTAGE, SIDE_BY_SIDE, Batch, parse_token, run_batches
from paymock.verify.checks import check
from paymock.verify.coroutines import together, until
from paymock.verify.driver import Backend, InlineExecutor
from paymock.verify.findings import TRIES, Findings, repeat
from paymock.verify.plans import (
    NEAR_DUE,
    Baseline,
    Injection,
    Plan,
    RequestKey,
    frequencies,
    interleaved,
    later_replies,
    single_faults,
)
from paymock.verify.process import ExternalService
from paymock.verify.report import Coverage, Report, counted
from paymock.verify.results import Progress
from paymock.verify.runner import SETTLE_SECONDS, Options, Runner

_PROBED = RequestKey(CREATE_PAYMENT), RequestKey(GET_PAYMENT, 0.0)  # hurt at the start
_REPEATED_PATIENCE = 30.0  # minimum seconds that a payment stands still when a finding is repeated
_PROBES = 2  # orders for each of them: a pause counts that was seen twice
_MOVED_CLOCK = (
    "the clock of the sandbox was moved during the run, for instance by a `sleep` that advances it: the "
    "judge advances each payment itself"
)
_MAX_AMOUNTS = 3  # different ones that are told
_ANSWER_SECONDS = 10.0  # maximum seconds to wait for the server after an interruption


def verify(
    sandbox: Sandbox,
    *,
    order: Callable[[str], object],
    deliveries: Callable[[str], int],
    tick: Callable[[], object] | None = None,
    fulfil_at: str | Iterable[str] = "completed",
    scenarios: Iterable[str] | None = None,
    faults: Iterable[str] | None = None,
    deep: bool = False,
    budget: float | None = None,
    only: str | None = None,
    crash: Callable[[], object] | None = None,
    settle: float = SETTLE_SECONDS,
    fail_fast: bool = False,
    patience: float = 0.0,
) -> Report:
    """Judge the application behind `order` and `deliveries`, which uses `sandbox`, and return the report.

    `order(order_id)` places an order: the application creates a payment with this `order_id`. An exception
    means that the customer was told of a failure, and orders again. `deliveries(order_id)` returns how often
    the goods of the order went out. `tick()` lets an application without a worker poll its open orders once;
    without `tick`, it polls by itself. All three are called from this thread, one after the other. Goods are
    due once a payment is at a status of `fulfil_at`.

    It tries outages of the service, then each of `faults` (default: FAULTS) on the requests of the
    application in `scenarios` (default: all of the server): on the first request that shows each status, with
    `deep` or chosen `faults` on all. `crash()` kills an application in a process of its own, starts it again
    and returns when it is ready: then crashes are tried, too. A silent one is waited for up to `settle` s.
    Payments stand still at each open status for as long as the run lasts, at least `patience` seconds, or
    some hundred reads with `tick`. After `budget` seconds, of which a third is for confirming, no trial
    begins, and those that run have ten more; with `fail_fast`, the run ends at the first certain finding
    about money. `only` repeats the trial of a finding's `token`. The clock of the sandbox stands still
    meanwhile. Raises ValueError for a status, scenario, fault or token that does not exist; Refused and
    Unreachable.
    """
    sandbox.is_judged = True
    service = None if crash is None else ExternalService(crash)
    backend = Backend(order, deliveries, tick, InlineExecutor(), service=service)
    due = (fulfil_at,) if isinstance(fulfil_at, str) else tuple(fulfil_at)
    options = Options(
        due, scenarios, faults, deep, budget, only, settle, fail_fast, crash is not None, patience=patience
    )
    with closing(Verifier(sandbox, backend, options)) as verifier:
        for _ in verifier.run():
            pass
        return verifier.report()


class Verifier:
    """The verification of one application. `run` yields when a trial has ended. Raises what `verify` does."""

    def __init__(self, sandbox: Sandbox, backend: Backend, options: Options) -> None:
        for status in options.fulfil_at or ("",):
            if status not in [*PaymentStatus]:
                raise ValueError(f"fulfil_at must be one of {', '.join(PaymentStatus)}, not {status!r}")
        if not 0 <= options.patience < inf:
            raise ValueError(f"patience must be seconds from 0 on, not {options.patience!r}")
        self._sandbox = sandbox
        self._options = options
        self._only = None if options.only is None else parse_token(options.only)
        self._of_scenarios = 0
        self._faults = frequencies(options.faults, deep=options.deep)
        self._speed, self._frozen_at = 0.0, datetime.min
        self._ended = False
        self.runner = Runner(sandbox, backend, options)
        self.results = self.runner.results
        kind = self._only.kind.name if isinstance(self._only, Batch) else ""
        service = backend.service
        if kind == "crash" and service is None:
            needs = "that needs `crash`, or --run and --ready"
            raise ValueError(f"{options.only} kills the application: {needs}")
        if kind == "meet" and len(service.ports if service else ()) < 2:
            raise ValueError(f"{options.only} is about replicas: that needs --replicas")
        self.runner.scenarios = self._known_scenarios(options.scenarios)
        self._findings = Findings(sandbox, self.runner)

    def run(self) -> Iterator[Progress]:
        """Explore, confirm and conclude. A server that fails ends the run, like an interruption."""
        self._speed = self._sandbox.clock()["speed"]
        self._sandbox.freeze()
        self._frozen_at = self._sandbox.now()
        try:
            self.runner.driver.start()
            with closing(self._try_all()) as trials:
                while (yield from self._drive_to_suspicion(trials)):
                    yield from self._phase(self._findings.find_early())
            self.runner.is_confirming = True
            self._check_clock()
            for order in self.runner.recount(self.results.trials.values()):
                self.results.violations[order.plan] = check(order, self._options.fulfil_at)
            yield from self._phase(self._conclude())
        except Unreachable as error:
            self._note_unreachable(error)
        else:
            self._ended = True

    def _note_unreachable(self, error: Unreachable) -> None:
        self.runner.is_unreachable, self.results.undetermined["server"] = True, str(error)

    def _check_server(self) -> None:
        """Find out after an interruption whether the server answers: each call would wait for it."""
        if not (self._ended or self.runner.is_unreachable):
            try:
                self._sandbox.send("getClock", timeout=_ANSWER_SECONDS).result()
            except Unreachable as error:
                self._note_unreachable(error)

    def _drive_to_suspicion(self, trials: Coroutine[Any, Any, None]) -> Generator[Progress, None, bool]:
        """Go on with the trials, and return whether what has cost money is to be confirmed (--fail-fast)."""
        if getcoroutinestate(trials) == CORO_CLOSED:
            return False
        if self._findings.is_certain:
            self.results.undetermined["rest"] = "the run ended at the first confirmed finding (--fail-fast)"
            return False
        for progress in self.runner.drive(trials):
            yield progress
            if self._options.fail_fast and not self.runner.batches and self._findings.is_urgent:
                self._check_clock()
                return True
        return False

    def _check_clock(self) -> None:
        if self._sandbox.clock()["speed"] or self._sandbox.now() != self._frozen_at:
            self.results.undetermined["clock"] = _MOVED_CLOCK

    def _phase(self, phase: Coroutine[Any, Any, None]) -> Iterator[Progress]:
        with closing(phase):
            yield from self.runner.drive(phase)

    async def _try_all(self) -> None:
        runner, results, only, options = self.runner, self.results, self._only, self._options
        await self._run_baselines(runner.scenarios[:1], exclusive=True)
        if only is not None:
            if results.baselines:
                await self._repeat(Plan(only.scenario, batch=only) if isinstance(only, Batch) else only)
            return
        if results.all_lost:  # the other scenarios, and two orders more, tell whether that was chance
            again = [Plan(runner.scenarios[0], number=number) for number in (1, 2)]
            patient = runner.run_once(again, record=results.record, is_patient=True)
            await together(self._run_baselines(runner.scenarios[1:]), patient)
        if results.all_lost:
            results.undetermined["rest"] = "nothing else was tried: all is lost without a fault"
        if results.all_lost or not results.baselines:
            return
        slow = batches.Orders()
        if options.faults is not None:
            await self._run_baselines(runner.scenarios[1:])
        else:
            slow = await self._run_whole_batches()
        await self._run_faults()
        await batches.end_slow_payments(runner, slow, options.patience)
        results.begin("crashes" if options.crash else "the last trials")
        due, service = self._due_baseline(), runner.service
        tried = batches.crashes(*due, service, is_killed=options.crash) if due and service else []
        await run_batches(runner, [batch for batch in tried if batch not in results.batches])
        await until(lambda: not runner.active)

    async def _run_whole_batches(self) -> batches.Orders:
        """Run what hits all orders, with the other scenarios; return orders whose payments stand still on."""
        runner, results, slow = self.runner, self.results, batches.Orders()
        driver, due, overtaken = runner.driver, self._due_baseline(), list[Batch]()
        if due:
            scenario, read = due[0].scenario, RequestKey(GET_PAYMENT, due[0].age_before(due[1]))
            seconds = max(_REPEATED_PATIENCE, self._options.patience)
            results.batches.append(Batch(scenario, "patience", f"{seconds:.0f}s"))
            slow = batches.begin_slow_payments(runner, results.batches[-1])
            overtaken = [Batch(scenario, str(read), "hold")] if driver.polls_by_itself else []
        for request in _PROBED:  # these orders wait beside all others, while the application is silent
            plan = Plan(runner.scenarios[0], (Injection(request, "status=503"),))
            plans = [replace(plan, number=number) for number in range(_PROBES)]
            trials = [runner.trial_of(one, is_patient=True) for one in plans]
            driver.patience.probes[plan] = [trial.order for trial in trials]
            for trial in trials:
                runner.begin(trial, results.record)
        await run_batches(runner, overtaken, waits=False)
        copies = [Batch(runner.scenarios[0], "order", "3x")] if driver.backend.threads else []
        beside = (run_batches(runner, [one]) for one in (SIDE_BY_SIDE, *copies))
        await together(self._run_baselines(runner.scenarios[1:]), *beside)
        results.begin("outages")
        outages = batches.outages(polls_by_itself=driver.polls_by_itself)
        await run_batches(runner, outages, waits=False)
        return slow

    async def _run_faults(self) -> None:
        """Inject each fault, the longest first, beside what hits its own orders only."""
        runner, results, probes = self.runner, self.results, self.runner.driver.patience.probes
        baselines = [one for one in results.baselines.values() if one.scenario not in NEAR_DUE]
        plans = [*single_faults(baselines, self._faults, self._options.fulfil_at)]
        plans = [plan for plan in plans if plan not in probes]
        results.plans += plans
        results.begin("faults")
        single = interleaved([plan for plan in plans if not plan.is_exclusive])
        single.sort(key=lambda plan: -plan.injections[0].times)
        beside = [HALF_OUTAGE] if self._options.faults is None else []
        if beside and results.renews:  # a payment after an expired one
            beside += [Batch(name, "renewal", "late") for name in runner.scenarios[:2]]
        await together(*(run_batches(runner, [one]) for one in beside), runner.run(single))
        await runner.run([plan for plan in plans if plan.is_exclusive], exclusive=True)

    async def _conclude(self) -> None:
        """Make findings; then try unknown members and values in replies, which change no verdict."""
        if not self._findings.is_certain:
            await self._findings.find()
        runner, results, options = self.runner, self.results, self._options
        sound = [one for one in results.baselines.values() if not results.violations[Plan(one.scenario)]]
        is_whole = self._only is None and options.faults is None and "rest" not in results.undetermined
        if sound and is_whole and not runner.is_over:
            results.begin("replies of a later release")
            plans = [*later_replies(sound[0])]
            await runner.run(plans, exclusive=True)
            results.forget(plans)
            await self._findings.find()

    async def _repeat(self, plan: Plan) -> None:
        """Repeat the trial of a token, up to some times: until it breaks a rule."""
        found = self.results.violations
        before = 0 if plan in found else sum(map(len, found.values()))
        for _ in range(2 * TRIES):  # a race does not occur each time
            is_seen = plan.batch is None and sum(map(len, found.values())) != before
            if not (is_seen or self.results.costs_money or self.runner.is_over):
                await repeat(self.runner, plan, self.results.record)

    def _due_baseline(self) -> tuple[Baseline, float] | None:
        """The first scenario in which goods become due, and at which age of the payment."""
        ages = ((one, one.due_age(self._options.fulfil_at)) for one in self.results.baselines.values())
        return next(((baseline, age) for baseline, age in ages if age is not None), None)

    def close(self) -> None:
        """Leave the sandbox as it was found, apart from the payments of the trials."""
        with suppress(Exception):  # the server may be gone, which has been said then
            self._check_server()
            self.runner.close()
        with suppress(Exception):
            if self._speed and not self.runner.is_unreachable:
                self._sandbox.speed(self._speed)
        self._sandbox.close()

    def report(self) -> Report:
        """The report, or as much of it as is known before the end."""
        runner, results, findings = self.runner, self.results, self._findings.in_order()
        self._check_server()
        if not self._ended:
            findings += self._findings.unconfirmed()
        return Report(
            findings=findings,
            trials=len(results.trials.keys() - results.missed),
            planned=len(results.plans),
            undetermined=[*results.reasons(is_gone=runner.driver.is_gone, has_ended=self._ended)],
            scenarios=[*results.baselines],
            notes=[*self._notes()],
            seconds=monotonic() - runner.began,
            command=self._options.command,
            coverage=self._coverage(),
            not_judged=[
                *["double_delivery"] * bool(results.forgets),
                *["stays_down"] * (not runner.has_restarted),
            ],
            output=[without_key(line, self._sandbox.secret) for line in runner.last_output()],
            patience=results.patience,
            slow_seconds=runner.driver.slow_seconds,
            partial=len(runner.scenarios) < self._of_scenarios or bool(self._options.faults or self._only),
        )

    def _coverage(self) -> Coverage:
        runner, results = self.runner, self.results
        tried = [*dict.fromkeys(batch.kind.title for batch in results.batches)]
        options = {"crash": "--crash", "replicas": "--replicas 2"}
        if runner.driver.backend.threads is None:
            options["3 at once"] = "by the command"
        return Coverage(
            scenarios=len([name for name in results.baselines if name not in NEAR_DUE]),
            of_scenarios=self._of_scenarios,
            faults=len(self._faults if self._only is None else getattr(self._only, "injections", ())),
            batches=tried,
            not_tried=[f"{name} ({option})" for name, option in options.items() if name not in tried],
        )

    def _known_scenarios(self, names: Iterable[str] | None) -> list[str]:
        with closing(self._sandbox):  # which can be used again
            known = [scenario["name"] for scenario in self._sandbox.scenarios()]
        self._of_scenarios = len(known)
        chosen = [*names] if names is not None else known
        if self._only is not None and self._only.scenario != "*":
            chosen = [self._only.scenario]
        elif isinstance(self._only, Plan):
            chosen = ["*"]
        if not chosen:
            raise ValueError("scenarios must name at least one scenario")
        for name in chosen:
            if name not in known and name not in NEAR_DUE:
                raise ValueError(f"there is no scenario {name!r}; there are {', '.join(known)}")
        return chosen

    async def _run_baselines(self, scenarios: Sequence[str], *, exclusive: bool = False) -> None:
        """Run scenarios without faults: the first one alone, so that requests about no order count."""
        results, plans = self.results, [Plan(scenario) for scenario in scenarios]
        if not exclusive and self._only is None and self._options.faults is None:
            plans += [Plan(name) for name in NEAR_DUE]
        plans = results.untried(plans)  # some were run when all seemed lost
        results.plans += plans
        await self.runner.run(plans, exclusive=exclusive)
        seen = [results.trials[plan] for plan in plans if plan in results.trials]
        lost = [one.plan for one in seen if one.is_cut_short]
        await self.runner.run(lost, exclusive=exclusive)  # once more: it may have been chance
        for plan in plans:
            order = results.trials.get(plan)
            if order is not None and not order.outcome.problems:
                driver, due = self.runner.driver, self._options.fulfil_at
                baseline = order.baseline(due, polls_by_itself=driver.polls_by_itself)
                results.baselines[plan.scenario] = baseline
                is_new = len(order.traffic.payments) > 1 and not results.breaks(plan, "double_payment")
                results.renews |= is_new
                if exclusive:
                    self.runner.driver.patience.poll_interval = order.traffic.longest_pause

    def _notes(self) -> Iterator[str]:
        results, errors, only = self.results, self.runner.driver.tick_errors, self._only
        if errors:
            yield f"`tick` failed {len(errors)} times, the last time with {errors[-1]}"
        tried = [one for one in results.violations if only in (one, one.batch)]
        if only and tried and not any(results.violations[one] for one in tried):
            proves = "this does not prove that there is no bug that needs other orders at the same time"
            yield f"{only.token} broke no rule: {proves}"
        missed = {f"{one.injections[0].request} in {one.scenario}" for one in results.missed}
        yield from (f"{request}: it was sent once, and not again" for request in sorted(missed))
        yield from results.notes
        asked = Counter(one.history.asked for one in results.orders if one.history.asked).most_common()
        for amount, count in asked[:_MAX_AMOUNTS]:
            yield f"{counted(count, 'payment')} asked for {amount}"
        if gaps := self.runner.driver.feed.gaps:
            lost = "requests were lost: the journal of the sandbox was overwritten before it was read"
            yield f"{lost}, {gaps} times. A server with a longer --journal keeps more of them"
        yield from results.told_events()
