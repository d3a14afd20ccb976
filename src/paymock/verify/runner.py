"""Runs plans as trials, side by side in one sandbox and within the budget."""

import math
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from paymock.client.http import monotonic
from paymock.client.sandbox import Sandbox
from paymock.verify.ledger import Ledger, Progress
from paymock.verify.oracle import is_due
from paymock.verify.order import Order
from paymock.verify.pacing import Application, Pacing
from paymock.verify.plans import Plan
from paymock.verify.process import NotStarted, Service
from paymock.verify.trial import Trial, TrialOptions
from paymock.verify.turns import step, until

GRACE_SECONDS = 10.0  # how long trials may go on that run when the budget has been spent
SETTLE_SECONDS = 60.0  # how long to wait for a silent application: leases end meanwhile
_HIT_TRIES = 3  # of a trial whose faults no request got: one may come between the change and the fault
_SILENCES = 2  # so often an application is started again that has fallen silent
_SAME_MOMENT = 0.5  # a fault up to so many seconds after the last poll may have silenced the application
_END_SECONDS = 2.0  # so long trials have to end when the application is silent
_STARTS = 3  # so often it is tried to start the application again
_MAX_RULES = 90  # so many fault rules, and overrides, leave room in the sandbox for others
_OUTPUT_LINES = 12  # of the application, kept for a finding
_TOLD_SECONDS = 5.0  # after so long without news, it is told what is waited for

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
    command: str = ""


class Runner:
    """Runs trials side by side, by turns: each goes on as far as the application lets it, then that may send.
    `batches`: how many run that must note each request at once. Raises Refused and Unreachable.
    """

    def __init__(self, sandbox: Sandbox, application: Application, options: Options) -> None:
        self.options = options
        self.pacing = Pacing(sandbox, application, options.settle)
        self.service = application.service
        self.ledger = Ledger(options.fulfil_at)
        self.active: dict[Trial, tuple[Coroutine[Any, Any, None], Record]] = {}
        self.scenarios: list[str] = []
        self.batches = 0
        self.began = monotonic()
        self._silences = 0
        self._restarted_at = 0.0
        self._budget = math.inf if options.budget is None else options.budget

    def close(self) -> None:
        """Remove the faults of trials that have not ended, and end the payment of the liveness order."""
        for waiting, _ in self.active.values():
            with suppress(Exception):  # each leaves nothing behind, whatever became of the others
                waiting.close()
        self.active.clear()
        self.pacing.close()

    def seconds_left(self) -> float:
        return self.began + self._budget - monotonic()

    @property
    def is_over(self) -> bool:
        """Whether nothing more can be begun."""
        return self.pacing.is_gone or self.seconds_left() <= 0

    def drive(self, campaign: Coroutine[Any, Any, None]) -> Iterator[Progress]:
        """Run a coroutine and the trials that it begins. Yields for each that has ended."""
        news, told_at = self.ledger.news, monotonic()
        try:
            while not step(campaign):
                progressed = self._step_trials()
                if self.active:
                    self.pacing.listen(len(self.active), progressed=progressed, is_batch=self.batches > 0)
                    self._check_application()
                idle = [trial.patience() for trial in self.active if trial.is_idle]
                if idle and monotonic() - told_at > _TOLD_SECONDS:
                    orders = f"{len(idle)} order{'s wait' if idle[1:] else ' waits'}"
                    self.ledger.tell(f"{orders} for the application, up to {max(idle):.0f} s")
                while news:
                    told_at = monotonic()
                    yield news.popleft()
            yield from news
        finally:
            news.clear()
            campaign.close()

    def _step_trials(self) -> bool:
        """Let each trial go on, and return whether any has come on."""
        progressed = False
        for trial, (waiting, record) in [*self.active.items()]:
            order, before = trial.order, len(trial.order.statuses)
            if self.seconds_left() < -GRACE_SECONDS:
                order.problems.append("it did not end within the budget")
                waiting.close()
            elif not step(waiting):
                progressed |= len(order.statuses) != before
                continue
            progressed = True
            del self.active[trial]
            del self.pacing.journal.orders[order.order_id]
            self.ledger.orders.append(order)
            if isinstance(self.service, Service) and order.check(self.options.fulfil_at):
                order.output = order.output or self.service.last_output(_OUTPUT_LINES)
            record(order)
        return progressed

    def begin(self, trial: Trial, record: Record, *, exclusive: bool = False) -> None:
        """Begin a trial. One that runs alone is given the requests about no order, too."""
        order, journal = trial.order, self.pacing.journal
        journal.orders[order.order_id] = order
        journal.exclusive = order if exclusive else None
        self.active[trial] = trial.run(), record

    def trial_of(self, plan: Plan, **settings: bool) -> Trial:
        ledger = self.ledger
        is_deep = self.options.deep or self.options.faults is not None or not ledger.baselines
        options = TrialOptions(self.options.fulfil_at, is_deep=is_deep, **settings)
        order, baseline = self.pacing.new_order(plan), ledger.baselines.get(plan.scenario)
        return Trial(order, self.pacing, baseline, options)

    async def run(self, plans: Sequence[Plan], *, exclusive: bool = False) -> None:
        """Run trials; alone, holding replies, those again whose fault no request with the number 1 got."""
        ledger = self.ledger
        for tries in range(_HIT_TRIES):
            ended = await self.run_once(
                (plan for plan in plans if not ledger.is_fatal(plan)),
                exclusive=exclusive or tries > 0, record=ledger.record,
                is_watched=not ledger.baselines, is_held=tries > 0,
            )  # fmt: skip
            begun = {order.plan for order in ended}
            ledger.unstarted += [one.token for one in plans if not (one in begun or ledger.is_fatal(one))]
            missed = [one for one in ended if one.plan in ledger.missed and (one.incident or not one.gave_up)]
            plans = [one.plan for one in missed if self.options.only or one.missed[0].request.number == 1]
            if not plans or self.pacing.is_gone:
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
            await until(lambda: bool(trial.order.polls), pause)  # noqa: B023 - of this one
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
        return exclusive is None or busy < (1 if exclusive else self.options.jobs or self.pacing.jobs)

    def _check_application(self) -> None:
        """Start the application again, if that is possible, when it has ended or has fallen silent."""
        if self.pacing.is_cut_off:
            return
        service = self.service if isinstance(self.service, Service) else None
        status = service.exit_status() if service else None
        if status is None and (self.pacing.is_gone or not self.pacing.is_silent()):
            return
        ledger, orders = self.ledger, [trial.order for trial in self.active]
        last_poll = math.inf if status is not None else self.pacing.journal.heard_at
        hurt = [
            (one.faulted_at == last_poll, one.last_fault.at, one)
            for one in [*orders, *ledger.orders]
            if one.last_fault and one.faulted_at <= last_poll + _SAME_MOMENT
        ]
        hurt.sort(key=lambda found: found[:2], reverse=True)  # that of the last poll itself, or else the last
        culprit = hurt[0][2] if hurt else None
        last = culprit.last_fault if culprit else None
        ledger.suspects += [one.plan for one in orders if one.plan.batch]
        ledger.suspects += [one.plan for *_, one in hurt[:_MAX_RULES]]
        after = f" after `{last.operation}` got `{last.fault}`" if last else ""
        if last:
            ledger.fatal.add((last.operation, last.fault))
        output = service.last_output(_OUTPUT_LINES) if service else []
        event, cause = "nothing was heard of the application any more", after
        if service and status is not None:
            event, reason = f"the application ended with exit status {status}", service.end_reason()
            cause += f"; its last output: {reason}" if reason else ""
        ledger.events.setdefault(event, []).append(cause)
        for order in orders:
            order.note_incident(event + after, culprit.plan if culprit else None, output)
        if status is None:  # nobody else would start it again: what waits for it ends without it
            self._silences += 1
            self.pacing.is_gone, deadline = True, monotonic() + _END_SECONDS
            while self.active and monotonic() < deadline:
                self._step_trials()
                time.sleep(_END_SECONDS / 100)
        if service is None or (status is None and self._silences > _SILENCES):
            self.pacing.is_gone = True
            return
        orders = [trial.order for trial in self.active]
        for order in orders:
            order.is_excused |= not order.statuses_read.isdisjoint(self.options.fulfil_at)
            order.marks[len(order.entries) - 1] = "started again"
        self.pacing.is_gone = False
        if status is None:
            self._restarted_at = self.pacing.clock.now()
        service.kill()
        self.restart(service, orders)

    def revive(self) -> None:
        """Start an application again that was given up, to repeat what has silenced it."""
        if self.pacing.is_gone and isinstance(self.service, Service):
            self.pacing.is_gone, self._silences = False, 0
            self.service.kill()
            self.restart(self.service, [])

    def restart(self, service: Service, orders: Sequence[Order]) -> None:
        """Start the application again, which these orders judge. A fault may hit it at its start."""
        reason = ""
        for _ in range(_STARTS):
            try:
                service.start()
            except NotStarted as error:
                reason = f"{str(error).splitlines()[0]} {service.end_reason()}".rstrip()
            else:
                # It has just started, and may have forgotten the liveness order.
                self.pacing.journal.heard_at = self.pacing.clock.now()
                self.pacing.close()
                return
        self.pacing.is_gone = True
        for order in orders[1:]:
            order.problems.append("the application stays down")
        for order in orders[:1]:
            order.stays_down = reason

    def recount(self, orders: Iterable[Order]) -> list[Order]:
        """Ask again for the deliveries; return who was asked. What silence lost, no restart makes good."""
        count, asked = self.pacing.application.count_deliveries, list[Order]()
        for one in [] if self.pacing.is_gone else orders:
            is_lost = one.ended_at <= self._restarted_at and is_due(one, self.options.fulfil_at)
            if not (one.has_unknown_members or one.problems or (is_lost and not one.deliveries)):
                asked.append(one)
        for order, call in [(one, count(one.order_id)) for one in asked]:
            if call.exception() is None:
                order.deliveries = max(order.deliveries, call.result())
        return asked
