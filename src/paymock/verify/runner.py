"""Runs plans as trials, side by side in one sandbox and within the budget."""

import math
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from paymock.client.http import monotonic
from paymock.client.sandbox import Sandbox
from paymock.rules.faults import FaultKind
from paymock.verify.checks import check
from paymock.verify.coroutines import step, until
from paymock.verify.driver import Backend, BackendDriver
from paymock.verify.order import Order
from paymock.verify.plans import Plan
from paymock.verify.process import NotStarted, Service
from paymock.verify.results import Progress, Results
from paymock.verify.trial import Trial, TrialOptions

GRACE_SECONDS = 10.0  # seconds that trials may go on when the budget has been spent
SETTLE_SECONDS = 60.0  # seconds to wait for a silent application: leases end meanwhile
_BUDGET_TO_TRY = 2 / 3  # the share of the budget after which what has cost money is confirmed
_HIT_TRIES = 3  # maximum number of runs of a trial whose faults no request got: one may come just before
_SILENCES = 2  # maximum number of starts of an application that has fallen silent
_SAME_MOMENT = 0.5  # seconds after the last poll in which a fault may have silenced the application
_END_SECONDS = 2.0  # seconds that trials have to end when the application is silent
_STARTS = 3  # maximum number of tries to start the application again
_MAX_RULES = 90  # maximum number of fault rules, and of overrides: the sandbox needs room for others
_OUTPUT_LINES = 12  # lines of the application, kept for a finding
_TELL_SECONDS = 5.0  # seconds without news, after which it is told what is awaited

Record = Callable[[Order], object]  # is given an order when its trial has ended


class Options(NamedTuple):
    """The arguments of `verify`; the `command` line that repeats the run, and whether crashes are tried."""

    fulfil_at: tuple[str, ...] = ("completed",)
    scenarios: Iterable[str] | None = None
    faults: Iterable[str] | None = None
    deep: bool = False
    budget: float | None = None
    only: str | None = None
    settle: float = SETTLE_SECONDS
    fail_fast: bool = False
    crash: bool = False
    jobs: int | None = None
    patience: float = 0.0
    command: str = ""


class Runner:
    """Runs trials side by side, by turns: each goes on as far as the application lets it, then that may send.
    `batches`: how many run that must note each request at once. Raises Refused and Unreachable.
    """

    def __init__(self, sandbox: Sandbox, backend: Backend, options: Options) -> None:
        self.options = options
        self.driver = BackendDriver(sandbox, backend, options.settle)
        self.service = backend.service
        self.results = Results(options.fulfil_at)
        self.active: dict[Trial, tuple[Coroutine[Any, Any, None], Record]] = {}
        self.scenarios: list[str] = []
        self.batches = 0
        self.is_confirming = self.has_restarted = self.is_unreachable = False
        self.began = monotonic()
        self._silences = 0
        self._restarted_at = 0.0
        self._budget = math.inf if options.budget is None else options.budget

    def close(self) -> None:
        """Remove the faults of trials that have not ended, and end the payment of the liveness order."""
        for trial, (waiting, _) in self.active.items():
            if self.is_unreachable:
                trial.faults.forget()
            with suppress(Exception):  # each leaves nothing behind, whatever became of the others
                waiting.close()
        self.active.clear()
        if not self.is_unreachable:
            self.driver.close()

    def seconds_left(self) -> float:
        """Of the budget. A third of it is kept for confirming what has cost money."""
        share = 1.0 if self.is_confirming or not self.results.costs_money else _BUDGET_TO_TRY
        return self.began + share * self._budget - monotonic()

    @property
    def is_over(self) -> bool:
        return self.driver.is_gone or self.seconds_left() <= 0

    def drive(self, phase: Coroutine[Any, Any, None]) -> Iterator[Progress]:
        """Run a coroutine, from where it stands, and the trials that it begins; yield news."""
        news, told_at = self.results.news, monotonic()
        while not step(phase):
            progressed = self._step_trials()
            if self.active:
                self.driver.listen(len(self.active), progressed=progressed, is_batch=self.batches > 0)
                self._check_application()
            if monotonic() - told_at > _TELL_SECONDS and (waiting := self._waiting()):
                self.results.tell(waiting)
            while news:
                told_at = monotonic()
                yield news.popleft()
        yield from news
        news.clear()

    def _waiting(self) -> str:
        slow = [trial.order.history.placed_at for trial in self.active if trial.stands_still]
        if slow and len(slow) == len(self.active):
            seconds = self.driver.clock.now() - min(slow)
            return f"{len(slow)} payments stand still: {seconds:.0f} of {self.options.patience:.0f} s"
        idle = [trial.patience() for trial in self.active if trial.is_idle and not trial.stands_still]
        orders = f"{len(idle)} order{'s wait' if idle[1:] else ' waits'}"
        return f"{orders} for the application, up to {max(idle):.0f} s" if idle else ""

    def _step_trials(self) -> bool:
        """Let each trial go on, and return whether any has come on."""
        progressed, deadline = False, self.began + self._budget + GRACE_SECONDS
        for trial, (waiting, record) in [*self.active.items()]:
            order, before = trial.order, len(trial.order.history.statuses)
            if monotonic() > deadline:
                order.outcome.problems.append("it did not end within the budget")
                waiting.close()
            elif not step(waiting):
                progressed |= len(order.history.statuses) != before
                continue
            progressed = True
            del self.active[trial]
            self.driver.feed.end(order)
            self.results.orders.append(order)
            if not order.outcome.output and check(order, self.options.fulfil_at):
                order.outcome.output = self.last_output()
            record(order)
        return progressed

    def last_output(self) -> list[str]:
        return self.service.last_output(_OUTPUT_LINES) if isinstance(self.service, Service) else []

    def begin(self, trial: Trial, record: Record, *, exclusive: bool = False) -> None:
        """Begin a trial. One that runs alone is given the requests about no order, too."""
        order, feed = trial.order, self.driver.feed
        feed.orders[order.order_id] = order
        feed.exclusive = order if exclusive else None
        self.active[trial] = trial.run(), record

    def trial_of(self, plan: Plan, **settings: bool) -> Trial:
        baselines, is_chosen = self.results.baselines, self.options.faults is not None
        options = TrialOptions(
            self.options.fulfil_at, is_deep=self.options.deep or is_chosen or not baselines, **settings
        )
        order = self.driver.new_order(plan)
        for fault in [one.parsed for one in plan.injections if one.parsed.kind is FaultKind.EXTRA]:
            if not (fault.part and is_chosen):  # a fault that a user has chosen is one like others
                order.history.unknown = "values" if fault.part else "members"
        return Trial(order, self.driver, baselines.get(plan.scenario), options)

    async def run(self, plans: Sequence[Plan], *, exclusive: bool = False) -> None:
        """Run trials; alone, holding replies, those again whose fault no request with the number 1 got, or of
        which requests were lost.
        """
        results = self.results
        for tries in range(_HIT_TRIES):
            ended = await self.run_once(
                (plan for plan in plans if not results.is_fatal(plan)),
                exclusive=exclusive or tries > 0, record=results.record,
                is_watched=not results.baselines, is_held=tries > 0,
            )  # fmt: skip
            begun = {order.plan for order in ended}
            left = [plan for plan in plans if plan not in begun and not results.is_fatal(plan)]
            results.unstarted += [plan.token for plan in left]
            is_only = self.options.only is not None
            plans = [one.plan for one in ended if results.is_to_run_again(one, is_only=is_only)]
            if not plans or self.driver.is_gone:
                return

    async def run_once(
        self,
        plans: Iterable[Plan],
        *,
        exclusive: bool | None = False,
        record: Record = lambda _: None,
        pause: float = 0.0,
        **settings: bool,
    ) -> list[Order]:
        """Run trials with these `settings`; return their orders, each also given to `record` at its end. Each
        begins at once, or when the one before has been read, at most after `pause` seconds.
        """
        own, ended = set[Trial](), list[Order]()

        def end(order: Order) -> None:
            ended.append(order)
            record(order)

        for plan in plans:
            await until(
                lambda: self.has_room(exclusive=exclusive) or (self.is_over and own.isdisjoint(self.active))
            )
            if self.is_over:
                break
            trial = self.trial_of(plan, **settings)
            own.add(trial)
            self.begin(trial, end, exclusive=bool(exclusive))
            await until(lambda: bool(trial.order.traffic.polls), pause)  # noqa: B023 - of this one
        await until(lambda: own.isdisjoint(self.active))
        return ended

    def has_room(self, *, exclusive: bool | None = False) -> bool:
        """Whether another trial may begin, beside those that do not only wait. None: of a batch, whose orders
        begin all at once, as far as the sandbox has room for rules and overrides.
        """
        faults = [trial.faults for trial in self.active]
        rules, overrides = sum(one.count for one in faults), sum(one.has_override for one in faults)
        if self.is_over or max(rules, overrides) >= _MAX_RULES:
            return False
        busy = sum(not trial.is_idle for trial in self.active)
        return exclusive is None or busy < (1 if exclusive else self.options.jobs or self.driver.jobs)

    def _check_application(self) -> None:
        """Start the application again, if that is possible, when it has ended or has fallen silent."""
        if self.driver.is_cut_off:
            return
        service = self.service if isinstance(self.service, Service) else None
        status = service.exit_status() if service else None
        if status is None and not self.driver.is_silent():
            return
        self._note_end(service, status)
        if status is None:  # nobody else would start it again: what waits for it ends without it
            self._silences += 1
            self.driver.is_gone, deadline = True, monotonic() + _END_SECONDS
            while self.active and monotonic() < deadline:
                self._step_trials()
                time.sleep(_END_SECONDS / 100)
        if service is None or (status is None and self._silences > _SILENCES):
            self.driver.is_gone = True
            return
        for order in (orders := [trial.order for trial in self.active]):
            order.outcome.is_excused |= not order.traffic.statuses_read.isdisjoint(self.options.fulfil_at)
            order.history.marks[len(order.traffic.entries) - 1] = "started again"
        self.driver.is_gone = False
        if status is None:
            self._restarted_at = self.driver.clock.now()
        service.kill()
        self.restart(service, orders)

    def _note_end(self, service: Service | None, status: int | None) -> None:
        """Note that the application has ended, or has fallen silent, and after which fault."""
        results, orders = self.results, [trial.order for trial in self.active]
        last_poll = math.inf if status is not None else self.driver.feed.heard_at
        # That of the last poll itself comes first, or else the last.
        latest = last_poll + _SAME_MOMENT
        hurt = [one for one in (*orders, *results.orders) if 0 < one.traffic.faulted_at <= latest]
        hurt.sort(key=lambda one: (one.traffic.faulted_at == last_poll, one.traffic.faulted_at), reverse=True)
        results.possible_causes += [one.plan for one in orders if one.plan.batch]
        results.possible_causes += [one.plan for one in hurt[:_MAX_RULES]]
        after, cause = "", None
        if hurt and (last := hurt[0].traffic.last_fault):
            after, cause = f" after `{last.operation}` got `{last.fault}`", hurt[0].plan
            results.fatal.add((last.operation, last.fault))
        event, told = "nothing was heard of the application any more", after
        if service and status is not None:
            event, reason = f"the application ended with exit status {status}", service.end_reason()
            told += f"; its last output: {reason}" if reason else ""
        results.events.setdefault(event, []).append(told)
        for order in orders:
            order.history.note_incident(event + after, cause)
            order.outcome.output = self.last_output() or order.outcome.output

    def revive(self) -> None:
        """Start an application again that was given up, to repeat what has silenced it."""
        if self.driver.is_gone and isinstance(self.service, Service):
            self.driver.is_gone, self._silences = False, 0
            self.service.kill()
            self.restart(self.service, [])

    def restart(self, service: Service, orders: Sequence[Order]) -> None:
        """Start the application again, which these orders judge. A fault may hit it at its start."""
        reason, self.has_restarted = "", True
        for _ in range(_STARTS):
            try:
                service.start()
            except NotStarted as error:
                reason = f"{str(error).splitlines()[0]} {service.end_reason()}".rstrip()
            else:
                # It has just started, and may have forgotten the liveness order.
                self.driver.feed.heard_at = self.driver.clock.now()
                self.driver.close()
                return
        self.driver.is_gone = True
        for order in orders[1:]:
            order.outcome.problems.append("the application stays down")
        for order in orders[:1]:
            order.outcome.stays_down = reason

    def recount(self, orders: Iterable[Order]) -> list[Order]:
        """Ask again for the deliveries; return who was asked. What silence lost, no restart makes good."""
        count, asked = self.driver.backend.count_deliveries, list[Order]()
        for one in [] if self.driver.is_gone else orders:
            is_due = one.history.is_due(self.options.fulfil_at)
            is_lost = one.history.ended_at <= self._restarted_at and is_due
            if not (one.history.unknown or one.outcome.problems or (is_lost and not one.outcome.deliveries)):
                asked.append(one)
        for order, call in [(one, count(one.order_id)) for one in asked]:
            if call.exception() is None:
                order.outcome.deliveries = max(order.outcome.deliveries, call.result())
        return asked
