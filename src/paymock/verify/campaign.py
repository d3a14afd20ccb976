"""A campaign: which plans are tried, in which order, and the report of what they have shown."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from paymock.client.http import monotonic
from paymock.client.sandbox import Sandbox
from paymock.rules.faults import FaultKind
from paymock.rules.scenarios import PaymentStatus
from paymock.schemas.public import CREATE_PAYMENT, GET_PAYMENT
from paymock.verify import batches
from paymock.verify.batches import HALF_OUTAGE, SIDE_BY_SIDE, run_batches
from paymock.verify.findings import TRIES, Findings, repeat
from paymock.verify.ledger import Progress
from paymock.verify.order import Order
from paymock.verify.pacing import Application, InlineExecutor
from paymock.verify.plans import (
    NEAR_DUE,
    Baseline,
    Batch,
    Injection,
    Plan,
    Request,
    frequencies,
    interleaved,
    parse_token,
    single_faults,
)
from paymock.verify.process import ExternalService
from paymock.verify.report import Coverage, Report
from paymock.verify.runner import SETTLE_SECONDS, Options, Runner
from paymock.verify.turns import together, until

_BATCH_NAMES = {"order": "3 at once", "orders": "side by side", "meet": "replicas", "hold": "overtaken reply"}
_PROBED = (Request(CREATE_PAYMENT), Request(GET_PAYMENT, 0.0))  # hurt at the start: when does it come back?
_PROBES = 2  # so many orders for each of them: a pause counts that was seen twice


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
    After `budget` seconds no trial begins any more, and those that run have ten more; with `fail_fast`, the
    run ends at the first finding about money. `only` repeats the trial of a finding's `token`. The clock of
    the sandbox stands still meanwhile. Raises ValueError for a status, scenario, fault or token that does not
    exist; Refused and Unreachable.
    """
    sandbox.is_judged = True
    service = None if crash is None else ExternalService(crash)
    application = Application(order, deliveries, tick, InlineExecutor(), service=service)
    due = (fulfil_at,) if isinstance(fulfil_at, str) else tuple(fulfil_at)
    options = Options(due, scenarios, faults, deep, budget, only, settle, fail_fast, crash is not None)
    with contextlib.closing(Verifier(sandbox, application, options)) as verifier:
        for _ in verifier.run():
            pass
        return verifier.report()


class Verifier:
    """The verification of one application. `run` yields when a trial has ended. Raises what `verify` does."""

    def __init__(self, sandbox: Sandbox, application: Application, options: Options) -> None:
        for status in options.fulfil_at or ("",):
            if status not in [*PaymentStatus]:
                raise ValueError(f"fulfil_at must be one of {', '.join(PaymentStatus)}, not {status!r}")
        self._sandbox = sandbox
        self._options = options
        self._only = None if options.only is None else parse_token(options.only)
        self._of_scenarios = 0
        self._faults = frequencies(options.faults, deep=options.deep)
        self._speed = 0.0
        self._ended = False
        self.runner = Runner(sandbox, application, options)
        self.ledger = self.runner.ledger
        only, service = self._only, application.service
        if isinstance(only, Batch) and only.kind == "crash" and service is None:
            raise ValueError(f"{only.token} kills the application: that needs `crash`, or --run and --ready")
        if isinstance(only, Batch) and only.kind == "meet" and len(service.ports if service else ()) < 2:
            raise ValueError(f"{only.token} is about replicas: that needs --replicas")
        self.runner.scenarios = self._known_scenarios(options.scenarios)
        self._findings = Findings(sandbox, self.runner)

    def run(self) -> Iterator[Progress]:
        runner, ledger = self.runner, self.ledger
        self._speed = self._sandbox.clock()["speed"]
        self._sandbox.freeze()
        frozen_at = self._sandbox.now()
        runner.pacing.start()
        for progress in runner.drive(self._try_all()):
            yield progress
            if self._options.fail_fast and ledger.costs_money:
                ledger.undetermined["rest"] = "the run ended at the first violation (--fail-fast)"
                break
        for order in runner.recount(ledger.trials.values()):
            ledger.violations[order.plan] = order.check(self._options.fulfil_at)
        yield from runner.drive(self._conclude())
        if self._sandbox.clock()["speed"] or self._sandbox.now() != frozen_at:
            ledger.undetermined["clock"] = (
                "the clock of the sandbox was moved during the run, for instance by a `sleep` that advances "
                "it: the judge advances each payment itself"
            )
        self._ended = True

    async def _try_all(self) -> None:
        """Everything that is tried, the cheapest first."""
        runner, ledger, only = self.runner, self.ledger, self._only
        await self._run_baselines(runner.scenarios[:1], exclusive=True)
        if ledger.baselines and only is not None:
            await self._repeat(only if isinstance(only, Plan) else Plan(only.scenario, batch=only))
        if not ledger.baselines or only is not None:
            return
        beside, outages, pacing = [], list[Batch](), runner.pacing
        if self._options.faults is None:
            self._begin_probes()
            await run_batches(runner, self._overtaken(), waits=False)
            beside = [SIDE_BY_SIDE]
            beside += [Batch(runner.scenarios[0], "order", "3x")] if pacing.application.threads else []
            outages = batches.outages(polls_by_itself=pacing.polls_by_itself)
        await together(
            self._run_baselines(runner.scenarios[1:]), *(run_batches(runner, [one]) for one in beside)
        )
        await run_batches(runner, outages, waits=False)
        baselines = [one for one in ledger.baselines.values() if one.scenario not in NEAR_DUE]
        plans = [*single_faults(baselines, self._faults, self._options.fulfil_at)]
        plans = [plan for plan in plans if plan not in pacing.patience.probes]
        ledger.plans += plans
        ledger.tell()
        single = interleaved([plan for plan in plans if not plan.is_exclusive])
        single.sort(key=lambda plan: -plan.injections[0].times)  # the longest first
        await together(*(run_batches(runner, [one]) for one in self._batches_beside()), runner.run(single))
        await runner.run([plan for plan in plans if plan.is_exclusive], exclusive=True)
        await run_batches(runner, self._crash_batches())
        await until(lambda: not runner.active)

    async def _conclude(self) -> None:
        """Make findings; then try unknown members in replies, which change no verdict."""
        await self._findings.find()
        ledger, options = self.ledger, self._options
        sound = [one for one in ledger.baselines.values() if not ledger.violations[Plan(one.scenario)]]
        ended_early = options.fail_fast and ledger.costs_money
        if sound and not (self._only or options.faults is not None or ended_early or self.runner.is_over):
            reads = [one for one in sound[0].requests if one.operation != CREATE_PAYMENT]
            for request in {one.operation: one for one in reversed(reads)}.values():
                plan = Plan(sound[0].scenario, (Injection(request, FaultKind.EXTRA),))
                await self.runner.run([plan], exclusive=True)
                ledger.undetermined.pop(plan, None)
            await self._findings.find()

    async def _repeat(self, plan: Plan) -> None:
        """Repeat the trial of a token, up to some times: until it breaks a rule."""
        found = self.ledger.violations
        before = 0 if plan in found else sum(map(len, found.values()))
        for _ in range(2 * TRIES):  # a race does not occur each time
            is_seen = plan.batch is None and sum(map(len, found.values())) != before
            if not (is_seen or self.ledger.costs_money or self.runner.is_over):
                await repeat(self.runner, plan, self.ledger.record)

    def _begin_probes(self) -> None:
        """Hurt requests of orders that wait beside all others, for as long as the application is silent."""
        runner, patience = self.runner, self.runner.pacing.patience
        [first] = self.ledger.baselines
        for request in _PROBED:
            plan = Plan(first, (Injection(request, "status=503"),))
            trials = [runner.trial_of(plan, is_patient=True) for _ in range(_PROBES)]
            patience.probes[plan] = [trial.order for trial in trials]
            for trial in trials:
                runner.begin(trial, self.ledger.record)

    def _batches_beside(self) -> list[Batch]:
        """What hits its own orders only, and needs the baselines."""
        names = self.runner.scenarios[:2] if self.ledger.renews else []  # of a payment after an expired one
        tried = [HALF_OUTAGE, *(Batch(name, "renewal", "late") for name in names)]
        return tried if self._options.faults is None else []

    def _overtaken(self) -> list[Batch]:
        """A reply that a younger one overtakes, where the application polls by itself."""
        due = self._due_baseline() if self.runner.pacing.polls_by_itself else None
        read = Request(GET_PAYMENT, due[0].age_before(due[1])) if due else None
        return [Batch(due[0].scenario, str(read), "hold")] if due else []

    def _crash_batches(self) -> list[Batch]:
        """Crashes and replicas."""
        due, service = self._due_baseline(), self.runner.service
        tried = batches.crashes(*due, service, is_killed=self._options.crash) if due and service else []
        return [batch for batch in tried if batch not in self.ledger.batches]

    def _due_baseline(self) -> tuple[Baseline, float] | None:
        """The first scenario in which goods become due, and at which age of the payment."""
        ages = ((one, one.due_age(self._options.fulfil_at)) for one in self.ledger.baselines.values())
        return next(((baseline, age) for baseline, age in ages if age is not None), None)

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
        runner, ledger = self.runner, self.ledger
        findings = self._findings.in_order()
        undetermined = [*ledger.undetermined.values(), *ledger.never_hit()]
        reason = "the application is gone" if runner.pacing.is_gone else "the budget has ended"
        undetermined += [f"{token}: not begun, since {reason}" for token in ledger.unstarted]
        if not self._ended:
            left = max(0, len(ledger.plans) - len(ledger.trials))
            undetermined.append(f"interrupted: at least {left} trials did not run")
            findings += self._findings.unconfirmed()
        return Report(
            findings=findings,
            trials=len(ledger.trials.keys() - ledger.missed),
            planned=len(ledger.plans),
            undetermined=undetermined,
            scenarios=[*ledger.baselines],
            notes=[*self._notes()],
            seconds=monotonic() - runner.began,
            command=self._options.command,
            coverage=self._coverage(),
            not_judged=["double_delivery"] if ledger.forgets else [],
            partial=len(runner.scenarios) < self._of_scenarios or bool(self._options.faults or self._only),
        )

    def _coverage(self) -> Coverage:
        runner, ledger = self.runner, self.ledger
        kinds = ["meet" if one.action == "crash+one" else one.kind for one in ledger.batches]
        tried = [*dict.fromkeys(_BATCH_NAMES.get(kind, kind) for kind in kinds)]
        options = {"crash": "--crash", "replicas": "--replicas 2"}
        if runner.pacing.application.threads is None:
            options["3 at once"] = "by the command"
        return Coverage(
            scenarios=len([name for name in ledger.baselines if name not in NEAR_DUE]),
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
        runner, ledger = self.runner, self.ledger
        plans = [Plan(scenario) for scenario in scenarios]
        if not exclusive and self._only is None and self._options.faults is None:
            plans += [Plan(name) for name in NEAR_DUE]
        ledger.plans += plans
        await runner.run(plans, exclusive=exclusive)
        seen = [ledger.trials[plan] for plan in plans if plan in ledger.trials]
        lost = [one.plan for one in seen if one.incident or (one.payments and not one.polls)]
        await runner.run(lost, exclusive=exclusive)  # once more: it may have been chance
        for plan in plans:
            order = ledger.trials.get(plan)
            if order is not None and not order.problems:
                requests = self._requests_of(order)
                ledger.baselines[plan.scenario] = Baseline(plan.scenario, requests, order.states)
                ledger.renews |= len(order.payments) > 1 and not ledger.breaks(plan, "double_payment")
                if exclusive:
                    runner.pacing.patience.pace = order.longest_pause

    def _requests_of(self, order: Order) -> tuple[Request, ...]:
        """The requests to inject faults into: one that polls may send the same twice, as it happens."""
        requests, fulfil_at = order.requests, self._options.fulfil_at
        if not self.runner.pacing.polls_by_itself:
            return requests
        return tuple(
            one for one in requests if one.number == 1 or order.states.get(one.at or 0.0) in fulfil_at
        )

    def _notes(self) -> Iterator[str]:
        ledger, errors, only = self.ledger, self.runner.pacing.tick_errors, self._only
        if errors:
            yield f"`tick` failed {len(errors)} times, the last time with {errors[-1]}"
        tried = [one for one in ledger.violations if only in (one, one.batch)]
        if only and tried and not any(ledger.violations[one] for one in tried):
            proves = "this does not prove that there is no bug that needs other orders at the same time"
            yield f"{only.token} broke no rule: {proves}"
        missed = {f"{one.injections[0].request} in {one.scenario}" for one in ledger.missed}
        yield from (f"{request}: it was sent once, and not again" for request in sorted(missed))
        yield from ledger.notes
        for event, causes in ledger.events.items():
            yield event + (f" {len(causes)} times, first" if len(causes) > 1 else "") + causes[0]
