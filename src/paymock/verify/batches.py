"""Batches: orders that something hits at once. An outage of the service, the same order placed several times,
a crash, a reply to each of several replicas, or a reply that a younger one overtakes.

Each order of a batch is a trial, which stands still until the batch lets it go. All batches that run together
wait once, at the end, for what is due.
"""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from threading import Barrier, BrokenBarrierError

from paymock.client.http import Refused, monotonic
from paymock.schemas.public import CREATE_PAYMENT, GET_PAYMENT
from paymock.verify.plans import OUTAGE_SECONDS, Baseline, Batch, Plan, Request
from paymock.verify.process import ExternalService, NotStarted, Service
from paymock.verify.runner import Progress, Runner
from paymock.verify.trial import SHORT_PATIENCE, Trial

_PARKED = 40
_NEW_ORDERS = 4
"""Orders that are placed during an outage."""

_AT_ONCE = 16
_FEW = 8
_COPIES_DELAY = 60
"""So many milliseconds the creations are delayed of an order that is placed several times at once."""

_GATE_SECONDS = 0.25
"""How long a reply is held at most, where the application is not killed: a client may wait no longer."""

_GATHER_SECONDS = 3.0
"""How long is waited for what a moment needs, such as a request to hold."""


def outages() -> list[Batch]:
    return [Batch("*", "outage", fault) for fault in ("status=503", "drop")]


def crashes(
    baseline: Baseline, fulfil_at: str, service: Service | ExternalService, *, is_killed: bool
) -> list[Batch]:
    """What is tried with replicas and, with `is_killed`, crashes: in a scenario whose payment becomes
    `fulfil_at`. An application that others start is there again at once: no payment ends meanwhile.
    """
    due, count, is_owned = baseline.age_of(fulfil_at), len(service.ports), isinstance(service, Service)
    read, before = (str(Request(GET_PAYMENT, at)) for at in (due, baseline.age_before(due)))
    tried = [(read, f"meet+{count}"), ("order", "3x"), (read, "crash+one")] if count > 1 else []
    if count > 1 or is_killed:
        tried.append((before, "hold"))
    if is_killed:
        tried += [("parked", "crash"), *((read, f"crash{pause}") for pause in ("", "+0ms", "+4ms", "+30ms"))]
        tried += [("deliveries", "crash"), ("order", "crash+10ms")]
        tried += [(CREATE_PAYMENT, f"crash{moment}") for moment in ("", "+before", "+late")]
        tried += [("parked", f"crash+{moment}") for moment in ("twice", *(["end", "term"] * is_owned))]
    return [
        Batch("*" if target == "parked" else baseline.scenario, target, action) for target, action in tried
    ]


class BatchOrder(Trial):
    """An order of a batch. Its payment stands at the age `at`, or at a `share` of its states, until it is let
    go; then it ends.
    """

    def __init__(self, plan: Plan, runner: Runner, *, at: float | None = None, share: float = 0.0) -> None:
        super().__init__(
            plan, runner.pacing, runner.options.fulfil_at, baseline=None, record_deliveries=False
        )
        self.was_due_at_crash = False
        self._runner = runner
        self._at, self._share = at, share
        self._moved_at = 0.0
        self.is_released = False
        """Whether its payment comes to its end, and the order is settled."""

    @property
    def is_standing(self) -> bool:
        """Whether nothing is left to happen until the batch goes on."""
        return self._phase is None or (
            self._phase == self._standing
            and bool(self._moved_at)
            and (self._reads_of(self.age) > 0 or monotonic() - self._moved_at > SHORT_PATIENCE)
        )

    @property
    def age(self) -> float:
        """The age of the state at which the payment stands, in seconds."""
        return [*self.states][len(self.statuses) - 1] if self.statuses else 0.0

    @property
    def is_placed(self) -> bool:
        return any(placed.done() for placed in self._placed)

    def shows(self, status: str) -> bool:
        return status in self._statuses_read

    def move_to(self, at: float) -> None:
        if self.payments and at > self.age:
            self._pacing.advance(self.payments[-1], seconds=at - self.age)
            self.statuses = [status for since, status in self.states.items() if since <= at]

    def end_payments(self) -> None:
        """Advance the payments to their ends; a status in between is not seen then."""
        self.is_excused |= self._fulfil_at in [*self.states.values()][len(self.statuses) : -1]
        for payment_id in self.payments:
            self._pacing.advance(payment_id, "end")
        self.statuses = [*self.states.values()] or self.statuses

    def _place(self) -> None:
        batch, application = self.plan.batch, self._pacing.application
        copies = batch.number if batch and batch.action.endswith("x") else 1
        executor, start = application.threads or application.executor, Barrier(copies)

        def order() -> object:
            with suppress(BrokenBarrierError):  # where fewer threads are free
                start.wait(_GATE_SECONDS)
            return application.order(self.order_id)

        self._placed = [executor.submit(order) for _ in range(copies)]
        self._enter(self._placing)

    def _placing(self) -> None:
        if not self._runner.is_outage:  # its customer tries again after it
            super()._placing()

    def _reading(self) -> None:
        self.close()  # a sandbox has room for a hundred overrides
        self._enter(self._standing)

    def _standing(self) -> None:
        if not self._moved_at:
            last = len(self.states) - 1
            self.move_to([*self.states][round(self._share * last)] if self._at is None else self._at)
            self._moved_at = monotonic()
        if not self.is_released:
            return
        passed = self._fulfil_at in [*self.states.values()][:-1]
        if passed and self._fulfil_at not in self.statuses:  # it must be read before it is over
            self.move_to(next(at for at, status in self.states.items() if status == self._fulfil_at))
            self._enter(self._standing)
        elif not passed or self.shows(self._fulfil_at) or self._silence.waited(self._patience()):
            self._is_interested = False
            self._enter(self._moving)

    def _settling(self) -> None:
        self.end_payments()  # those that have appeared since, too
        super()._settling()

    def _patience(self) -> float:
        """After a crash, the application may hold a lease on it."""
        return max(super()._patience(), self._runner.options.settle if self.marks else 0.0)


class Batches:
    """Runs batches with `runner`."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._sandbox = runner.pacing.sandbox
        self._gates: list[str] = []
        self.forgets: bool | None = None
        """Whether it is known that the application forgets at a crash what it has delivered before."""

    def run(self, batches: Sequence[Batch], *, waits: bool = True) -> Iterator[Progress]:
        """Run batches, one after the other, and then wait once for all orders; or let them be waited for by
        what comes next. Yields after each batch.
        """
        runner, orders = self._runner, list[BatchOrder]()
        try:
            for batch in batches:
                if runner.pacing.is_gone or runner.seconds_left() <= 0:
                    runner.unstarted.append(batch.token)
                    continue
                if batch.kind == "crash" and batch.action != "crash+one" and self.forgets is None:
                    orders += self._check_durability()
                orders += self._run_until_moment(batch)
                if batch.kind == "outage":  # nothing hits its orders later: an application has fewer to poll
                    for order in orders:
                        order.is_released = True
                yield runner.progress
        finally:  # also where the run ends early: what follows waits for them
            for order in orders:
                order.is_excused |= order.was_due_at_crash and bool(self.forgets)
                order.is_released = True
        while waits and runner.active:
            yield from self._step()
        if self.forgets:
            runner.notes[
                "the application forgets at a crash what it has delivered: see docs/crash-safety.md"
            ] = None

    def _step(self) -> Iterator[Progress]:
        for trial in self._runner.step(is_batch=True):
            self._runner.record(trial)
            yield self._runner.progress

    def _until(self, is_reached: Callable[[], bool], seconds: float = _GATHER_SECONDS) -> bool:
        """Go on until something is reached; return whether it is within so many seconds."""
        deadline = monotonic() + seconds
        runner = self._runner
        while not (reached := is_reached()) and runner.active and not runner.pacing.is_gone:
            if monotonic() >= deadline:
                break
            for _ in self._step():
                pass
        return reached

    def _orders(self, batch: Batch, count: int) -> list[BatchOrder]:
        """Begin so many orders: parked ones, or ones that stand before the state that is hit."""
        runner, at = self._runner, batch.at
        scenarios = [*runner.scenarios] if batch.is_parked else [batch.scenario]
        rounds = max(1, count // len(scenarios) - 1)
        if at is not None and batch.kind != "hold":
            at = runner.baselines[batch.scenario].age_before(at)
        orders = []
        for number in range(count):
            turn, index = divmod(number, len(scenarios))
            share = min(1.0, turn / rounds) if batch.is_parked else 0.0
            plan = Plan(scenarios[index], batch=batch, number=len(runner.plans))
            orders.append(BatchOrder(plan, runner, at=at, share=share))
            runner.plans.append(plan)
            runner.begin(orders[-1])
        return orders

    def _run_until_moment(self, batch: Batch) -> list[BatchOrder]:
        """Run a batch up to the moment at which its orders only need to be settled."""
        hit = {
            "outage": self._outage,
            "order": self._place_copies,
            "crash": self._crash,
            "meet": self._read_at_once,
            "hold": self._overtake,
        }
        try:
            return hit[batch.kind](batch)
        finally:
            self._open_gates()

    def _place_copies(self, batch: Batch) -> list[BatchOrder]:
        orders = self._orders(batch, _AT_ONCE)
        self._gate(orders, f"delay={_COPIES_DELAY}", CREATE_PAYMENT, times=batch.number)
        self._until(lambda: all(order.is_standing for order in orders))
        return orders

    def _standing(self, batch: Batch, count: int) -> list[BatchOrder]:
        orders = self._orders(batch, count)
        self._until(lambda: all(order.is_standing for order in orders), 10 * _GATHER_SECONDS)
        return orders

    def _outage(self, batch: Batch) -> list[BatchOrder]:
        orders = self._standing(batch, _PARKED)
        rule = self._sandbox.fault(batch.action, times=None)
        new = self._orders(batch, _NEW_ORDERS)
        try:
            self._runner.is_outage = True  # an application that ends is started again after it
            self._until(lambda: False, OUTAGE_SECONDS)
        finally:
            self._sandbox.clear_faults(str(rule["id"]))
            self._runner.is_outage = False
        for order in (*orders, *new):
            order.incident = f"an outage of {OUTAGE_SECONDS:g} s"
        self._until(lambda: all(order.is_standing for order in new))
        return [*orders, *new]

    def _overtake(self, batch: Batch) -> list[BatchOrder]:
        """Hold the reply to a read, and move the payment on, until a younger read has shown that."""
        orders = self._standing(batch, _FEW)
        for order in orders:  # one at a time: an application with few workers has one left to read again
            self._gate([order], "hold", GET_PAYMENT)
            self._await_held(1)
            order.end_payments()
            self._until(partial(order.shows, self._runner.options.fulfil_at), _GATE_SECONDS)
            self._open_gates()
        return orders

    def _read_at_once(self, batch: Batch) -> list[BatchOrder]:
        """Hold the reads that show what makes goods due, until all replicas have asked."""
        orders = self._standing(batch, _AT_ONCE)
        for order in orders:
            self._gate([order], "hold", GET_PAYMENT, times=batch.number)
            order.move_to(batch.at or 0.0)
            self._await_held(batch.number)
            self._open_gates()
        return orders

    def _gate(self, orders: Sequence[BatchOrder], fault: str, operation: str, times: int = 1) -> None:
        for order in orders:
            rule = self._sandbox.fault(fault, operation=operation, order_id=order.order_id, times=times)
            self._gates.append(str(rule["id"]))

    def _await(self, batch: Batch, is_reached: Callable[[], bool]) -> None:
        """Wait for the moment that a batch is about."""
        if not self._until(is_reached, max(_GATHER_SECONDS, 3 * (self._runner.pacing.pace or 0.0))):
            self._runner.undetermined[batch.token] = f"{batch.token}: its moment never came"

    def _await_held(self, count: int) -> None:
        """Wait until a request has come to a gate, and then a little, until so many have."""
        self._until(lambda: self._held() > 0)
        self._until(lambda: self._held() >= count, _GATE_SECONDS)

    def _held(self) -> int:
        return sum(rule["applied"] for rule in self._sandbox.faults() if rule["id"] in self._gates)

    def _open_gates(self) -> None:
        while self._gates:
            with suppress(Refused):  # a rule that somebody else has deleted
                self._sandbox.clear_faults(self._gates.pop())

    def _crash(self, batch: Batch) -> list[BatchOrder]:
        """Run orders up to a moment, and kill the application then."""
        fulfil_at, (_, _, moment) = self._runner.options.fulfil_at, batch.action.partition("+")
        pause = batch.number / 1000 if moment.endswith("ms") else 0.0
        replica = 0 if moment == "one" else None
        if batch.target == "parked":
            orders = self._standing(batch, _PARKED)
        elif batch.target == CREATE_PAYMENT:
            orders = self._orders(batch, _FEW)
            start_seconds = self._runner.service.start_seconds if self._runner.service else 0.0
            late = f"delay={min(30_000, 2_000 + round(3_000 * start_seconds))}"
            self._gate(orders, {"before": "hold; before", "late": late}.get(moment, "hold"), CREATE_PAYMENT)
            self._await_held(len(orders))
        elif batch.target == "order":
            orders = self._orders(batch, _AT_ONCE)
            self._until(lambda: any(order.is_placed for order in orders))
        else:
            orders = self._standing(batch, _AT_ONCE)
            is_held = moment in ("", "one") and batch.at is not None
            if is_held:
                self._gate(orders, "hold", GET_PAYMENT)
            for order in orders:
                order.move_to(batch.at or self._runner.baselines[batch.scenario].age_of(fulfil_at))
            if is_held:
                self._await(batch, lambda: self._held() > 0)
                self._await_held(len(orders))
            else:
                self._await(batch, lambda: any(order.shows(fulfil_at) for order in orders))
            if batch.target == "deliveries":
                self._until(lambda: self._is_delivered(orders[0]))
        time.sleep(pause)
        self._kill(
            orders, signal.SIGTERM if moment == "term" else signal.SIGKILL, replica, ends=moment == "end"
        )
        if moment == "twice":
            self._kill(orders, signal.SIGKILL)
        return orders

    def _is_delivered(self, order: BatchOrder) -> bool:
        call = self._runner.pacing.count_deliveries(order.order_id)
        return call.exception() is None and call.result() > 0

    def _kill(
        self,
        orders: Sequence[BatchOrder],
        number: signal.Signals,
        replica: int | None = None,
        *,
        ends: bool = False,
    ) -> None:
        """Kill the application, or one replica of it, and start it again."""
        service, runner = self._runner.service, self._runner
        assert service is not None  # noqa: S101 - only then there are such batches
        affected = [order for order in runner.active if isinstance(order, BatchOrder)]
        try:
            service.kill(number, replica)
        except NotStarted as error:
            runner.pacing.is_gone, orders[0].stays_down = True, str(error)
        name = "SIGTERM" if number == signal.SIGTERM else "kill -9"
        runner.pacing.note_requests()
        self._open_gates()
        for order in affected:
            order.marks[len(order.entries) - 1] = f"{name}, started again"
            order.incident = name
            order.was_due_at_crash |= self._runner.options.fulfil_at in order.statuses
            if ends:
                order.end_payments()
        if isinstance(service, Service):
            runner.restart(service, orders)

    def _check_durability(self) -> list[BatchOrder]:
        """Find out whether the application still knows after a crash what it has delivered before."""
        [order] = self._standing(Batch("*", "parked", "crash"), 1)
        order.end_payments()
        is_delivered = partial(self._is_delivered, order)
        delivered = self._until(is_delivered)
        self._kill([order], signal.SIGKILL)
        self.forgets = delivered and not self._until(is_delivered) and not self._runner.pacing.is_gone
        return [order]
