"""Batches: orders that something hits at once, or nothing but each other. Each kind is a row of KINDS."""

import re
import signal
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice
from math import inf
from threading import Barrier, BrokenBarrierError
from typing import Any, NamedTuple

from paymock.client.http import monotonic
from paymock.rules.scenarios import PaymentStatus
from paymock.rules.times import parse_rfc3339
from paymock.schemas.public import CREATE_PAYMENT, GET_PAYMENT
from paymock.verify.coroutines import turn, until
from paymock.verify.driver import BackendDriver
from paymock.verify.order import Patience
from paymock.verify.plans import AGE, OUTAGE_SECONDS, Baseline, Plan, RequestKey, frequencies, parse_plan
from paymock.verify.process import ExternalService, NotStarted, Service
from paymock.verify.runner import Runner
from paymock.verify.trial import BACKOFF, SHORT_PATIENCE, FaultRules, Trial, TrialOptions

_FORTY_ORDERS, _SIXTEEN_ORDERS, _EIGHT_ORDERS = 40, 16, 8
_NEW_ORDERS = 4  # placed during an outage
_COPIES_DELAY = 60  # milliseconds by which creations are delayed of an order that is placed several times
_TICKED_SECONDS = 0.4  # seconds that an outage lasts where the judge's ticks make each poll
_GATE_SECONDS = 0.25  # maximum seconds to hold a reply of an application that lives: its client gives up
_GATHER_SECONDS = 3.0  # maximum seconds to wait for what a moment needs, such as a request to hold
_PARK_SECONDS = 30.0  # maximum seconds to wait until orders are parked or have ended
_MIN_KILL_STEP = 0.001  # seconds between two kills, once one came before and one after a delivery
_TICKED_READS = 500  # reads of a payment that stands still, where the judge's ticks make each
_TICKED_LIMIT = 30.0  # maximum seconds for that: an application may poll by its own clock

Orders = list["ParkedTrial"]


@dataclass(eq=False)
class ParkedTrial(Trial):
    """A trial of a batch, placed `copies` times, and parked at an age or a `share` of all until released."""

    at: float | None = None
    share: float = 0.0
    copies: int = 1
    is_parked = is_released = was_due_at_crash = False

    async def follow(self, payment_id: str) -> None:
        history = self.order.history
        if not self.is_parked:
            await self.park()
        due, is_same = self.due_age, self.order.traffic.payments[-1] == payment_id
        if is_same and not self.order.outcome.gave_up and history.age <= due < max(history.states):
            self.move_to(due)  # another status follows: it stands there until it is read
            silence = self.listen()
            await until(lambda: self.shows_due() or silence.waited(self.patience()))

    async def park(self) -> None:
        self.faults.end()  # a sandbox has room for a hundred overrides
        history, states = self.order.history, [*self.order.history.states]
        self.move_to(states[round(self.share * (len(states) - 1))] if self.at is None else self.at)
        await until(lambda: self.order.traffic.reads_of(history.age) > 0 or self.is_released, SHORT_PATIENCE)
        self.is_parked, self._silence = True, None  # it waits for its batch only
        await until(lambda: self.is_released)

    def call(self) -> list[Future[object]]:
        backend, start = self.driver.backend, Barrier(self.copies)
        executor = backend.threads or backend.executor

        def order() -> object:
            with suppress(BrokenBarrierError):  # where fewer threads are free
                start.wait(_GATE_SECONDS)
            return backend.order(self.order.order_id)

        return [executor.submit(order) for _ in range(self.copies)]

    @property
    def has_left(self) -> bool:
        """Whether nothing is to happen to it any more where it was parked."""
        return self.is_released or self.order.outcome.is_over

    @property
    def due_age(self) -> float:
        """The age at which goods become due; infinite: never, as far as is known."""
        states = self.order.history.states.items()
        return next((at for at, status in states if status in self.options.fulfil_at), inf)

    def shows_due(self) -> bool:
        return not self.order.traffic.statuses_read.isdisjoint(self.options.fulfil_at)

    def is_delivered(self) -> bool:
        call = self.driver.backend.count_deliveries(self.order.order_id)
        return call.exception() is None and call.result() > 0

    def move_to(self, at: float) -> None:
        history, payments = self.order.history, self.order.traffic.payments
        if payments and at > history.age:
            self.driver.advance(payments[-1], seconds=at - history.age)
            history.stand(at)

    async def come_to_rest(self) -> None:
        await super().come_to_rest()
        self.end_payments()  # those that have appeared since, too

    def patience(self) -> float:
        """After a crash, the application may hold a lease on it."""
        return max(super().patience(), self.driver.patience.settle if self.order.history.marks else 0.0)


class Renewal(ParkedTrial):
    """An order whose first payment expires; once the application has made another one, it is paid late."""

    max_payments = 2

    async def play(self) -> None:
        self.faults.begin("late_payment", times=1)
        await super().play()

    async def follow(self, payment_id: str) -> None:
        payments = self.order.traffic.payments
        if payment_id != payments[0]:
            await Trial.follow(self, payment_id)
            return
        states = self.order.history.states.items()
        self.move_to(next(at for at, status in states if status == PaymentStatus.EXPIRED))
        await until(lambda: len(payments) > 1, _poll_seconds(self.driver, SHORT_PATIENCE))
        if len(payments) > 1:
            self.driver.advance(payment_id, "end")


class SlowPayment(ParkedTrial):
    """An order whose payment stands still at an open status beside all other trials, while it is read."""

    is_idle = stands_still = True  # others begin meanwhile

    async def park(self) -> None:
        self.faults.end()
        self.move_to(self.at or 0.0)
        self.is_parked, silence = True, self.listen()
        traffic, outcome = self.order.traffic, self.order.outcome
        await until(lambda: self.is_released or silence.lasts(self.patience()))
        outcome.gave_up, outcome.waited = not self.is_released, silence.seconds
        times = [parse_rfc3339(one.at) or 0 for one in traffic.entries] or [0]
        outcome.patience = Patience(traffic.polls, (times[-1] - times[0]) / 1000, traffic.last_shown)
        outcome.is_excused |= traffic.has_lost_reply  # an outage has orders of its own to show that
        self.is_released = True

    async def await_goods(self) -> None:
        await super().await_goods()
        patience = self.order.outcome.patience
        self.order.outcome.gave_up = patience is not None and patience.reads == self.order.traffic.polls
        self.order.history.faults_left = True  # outages have hit it, too, but have not silenced it

    def patience(self) -> float:
        """Its pauses may grow."""
        growing = BACKOFF * self.order.traffic.longest_pause
        return max(super().patience(), self.driver.patience.settle, growing)


def begin_slow_payments(runner: Runner, batch: "Batch") -> Orders:
    """Begin an order for each status before that at which goods are due."""
    baseline = runner.results.baselines[batch.scenario]
    due, ages = baseline.due_age(runner.options.fulfil_at) or 0.0, dict[str, float]()
    for at, status in baseline.statuses.items():
        ages.setdefault(status, at)
    return [_begin_one(runner, batch, SlowPayment, at=at) for at in ages.values() if at < due]


def has_stood(driver: BackendDriver, orders: Orders, seconds: float, since: float, deadline: float) -> bool:
    """Whether payments have stood still `since` then for `seconds`, or for some hundred ticks."""
    if driver.polls_by_itself or not seconds:
        return driver.clock.now() - since >= seconds
    reads = min(one.order.traffic.polls for one in orders)
    return reads >= _TICKED_READS or monotonic() >= deadline


async def end_slow_payments(runner: Runner, orders: Orders, seconds: float, *, is_last: bool = False) -> None:
    """Let them stand for `seconds` in all, or for some hundred ticks, and see whether goods go out then. One
    that was given up in an outage says nothing: all are tried once more, unless another bug is known.
    """
    driver, since = runner.driver, min((one.order.history.placed_at for one in orders), default=0.0)
    deadline = monotonic() + _TICKED_LIMIT
    if orders:
        runner.results.begin("slow payments")
    driver.is_hurried = True
    standing = orders
    while standing and not runner.is_over and not has_stood(driver, standing, seconds, since, deadline):
        await turn()
        standing = [one for one in standing if not one.has_left]
    driver.is_hurried = False
    for one in orders:
        one.is_released = True
    await until(lambda: runner.active.keys().isdisjoint(orders))
    batch = next((one.order.plan.batch for one in orders if one.order.outcome.is_excused), None)
    if batch and not (is_last or runner.results.costs_money or runner.is_over):
        await slow_payments(runner, batch, FaultRules(runner.driver.sandbox))


async def slow_payments(runner: Runner, batch: "Batch", _: FaultRules) -> Orders:
    orders = begin_slow_payments(runner, batch)
    await end_slow_payments(runner, orders, batch.number, is_last=True)
    return orders


async def run_batches(runner: Runner, batches: Iterable["Batch"], *, waits: bool = True) -> None:
    """Run batches one after the other, then wait for all their orders, or leave that to what comes next."""
    results, orders = runner.results, Orders()
    runner.batches += 1
    try:
        for batch in batches:
            if runner.is_over:
                results.unstarted.append(batch.token)
                continue
            results.batches.append(batch)
            if batch.kind.title == "crash" and results.forgets is None:
                orders += await _check_durability(runner)
            with closing(FaultRules(runner.driver.sandbox)) as gates:
                orders += await batch.kind.run(runner, batch, gates)
            if batch.kind.name == "outage":  # nothing hits its orders later: an application has fewer to poll
                for one in orders:
                    one.is_released = True
            results.tell()
    finally:  # also where the run ends early: what follows waits for them
        for one in orders:
            one.order.outcome.is_excused |= one.was_due_at_crash and bool(results.forgets)
            one.is_released = True
        runner.batches -= 1
    if waits:
        await until(lambda: runner.active.keys().isdisjoint(orders))
    if results.forgets:
        note = "the application forgets at a crash what it has delivered: record both in one transaction"
        results.notes[note] = None


async def _until(runner: Runner, is_reached: Callable[[], bool], seconds: float = _GATHER_SECONDS) -> bool:
    """Go on until something is reached; return whether it is within so many seconds."""
    await until(lambda: is_reached() or not runner.active or runner.driver.is_gone, seconds)
    return is_reached()


async def _are_held(runner: Runner, gates: FaultRules, count: int = 1) -> bool:
    """Wait until a request has come to a gate, and then a little, until so many have."""
    is_one = await _until(runner, gates.are_hit, _poll_seconds(runner.driver))
    await _until(runner, lambda: gates.are_hit(count), _GATE_SECONDS)
    return is_one


def _poll_seconds(driver: BackendDriver, least: float = _GATHER_SECONDS) -> float:
    return max(least, 3 * (driver.patience.poll_interval or 0.0))


def _hold(
    gates: FaultRules, orders: Iterable[Trial], operation: str, fault: str = "hold", times: int | None = 1
) -> None:
    for one in orders:
        gates.add(fault, operation=operation, order_id=one.order.order_id, times=times)


def goods_due(runner: Runner) -> list[str]:
    """The first scenario in which goods become due, or else the first."""
    baselines, fulfil_at = runner.results.baselines.values(), runner.options.fulfil_at
    return [*(one.scenario for one in baselines if one.due_age(fulfil_at)), *runner.scenarios][:1]


def _begin_one(
    runner: Runner, batch: "Batch", kind: type[ParkedTrial], scenario: str = "", **settings: Any
) -> ParkedTrial:
    results = runner.results
    plan = Plan(scenario or batch.scenario, batch=batch, number=len(results.plans))
    options = TrialOptions(runner.options.fulfil_at)
    one = kind(runner.driver.new_order(plan), runner.driver, None, options, **settings)
    results.plans.append(plan)
    runner.begin(one, results.record)
    return one


async def _begin(runner: Runner, batch: "Batch", count: int, kind: type[ParkedTrial] = ParkedTrial) -> Orders:
    """Begin so many orders: parked ones, or ones that stand before the state that is hit."""
    at, orders, is_half = batch.at, Orders(), batch == HALF_OUTAGE
    scenarios = goods_due(runner) if is_half else runner.scenarios if batch.is_parked else [batch.scenario]
    if at is not None and batch.kind.name != "hold":
        at = runner.results.baselines[batch.scenario].age_before(at)
    rounds, copies = max(1, count // len(scenarios) - 1), batch.number if batch.action.endswith("x") else 1
    for number, scenario in enumerate(islice(cycle(scenarios), count)):
        await _until(runner, lambda: runner.has_room(exclusive=None), _PARK_SECONDS)
        share = number / count if is_half else min(1, number // len(scenarios) / rounds) * batch.is_parked
        one = _begin_one(runner, batch, kind, scenario, at=at, share=share, copies=copies)
        one.faults.is_hurt = is_half and count <= 4 * number < 3 * count  # others are polled before and after
        orders.append(one)
    return orders


async def _all_parked(runner: Runner, orders: Orders, seconds: float = _PARK_SECONDS) -> None:
    """Wait until nothing is left to happen to orders."""
    await _until(runner, lambda: all(one.is_parked or one.order.outcome.is_over for one in orders), seconds)


async def _park(runner: Runner, batch: "Batch", count: int) -> Orders:
    orders = await _begin(runner, batch, count)
    await _all_parked(runner, orders)
    return orders


async def place_copies(runner: Runner, batch: "Batch", gates: FaultRules) -> Orders:
    orders = await _begin(runner, batch, _EIGHT_ORDERS)
    _hold(gates, orders, CREATE_PAYMENT, f"delay={_COPIES_DELAY}", batch.number)
    await _all_parked(runner, orders, _GATHER_SECONDS)
    return orders


async def renew(runner: Runner, batch: "Batch", _: FaultRules) -> Orders:
    return await _begin(runner, batch, _EIGHT_ORDERS, Renewal)


async def side_by_side(runner: Runner, batch: "Batch", _: FaultRules) -> Orders:
    """Run orders of all scenarios without a fault; to see a bug again, half of them one after the other."""
    results, number = runner.results, batch.number
    first = number // 2 if runner.options.only or any(results.violations.values()) else number
    scenarios = [*islice(cycle(runner.scenarios), first), *(number - first) * goods_due(runner)]
    plans = [Plan(one, batch=batch, number=len(results.plans) + n) for n, one in enumerate(scenarios)]
    results.plans += plans
    for some, pause in ((plans[:first], 0.0), (plans[first:], 2 * _GATE_SECONDS)):
        await runner.run_once(some, record=results.record, exclusive=None, is_watched=True, pause=pause)
    return []


async def outage(runner: Runner, batch: "Batch", gates: FaultRules) -> Orders:
    orders, new, driver = await _park(runner, batch, _FORTY_ORDERS), Orders(), runner.driver
    is_half = batch == HALF_OUTAGE
    if is_half:
        _hurt_half(orders, batch, gates)
    else:
        others = [trial for trial in runner.active if trial not in orders]
        are_idle = lambda: all(one.order.outcome.is_over or one.is_idle for one in others)  # noqa: E731
        await _until(runner, are_idle, _PARK_SECONDS)
        gates.add(batch.fault, times=None)
        new = await _begin(runner, batch, _NEW_ORDERS)
    hit = [trial for trial in runner.active if not trial.is_idle and (trial in orders or not is_half)]
    try:
        driver.is_cut_off = not is_half  # an application that ends is started again after it
        await _until(runner, lambda: False, OUTAGE_SECONDS if driver.polls_by_itself else _TICKED_SECONDS)
    finally:
        gates.close()
        driver.is_cut_off = False
        for one in orders:
            one.faults.is_hurt = False
    for trial in hit:
        cause = None if trial.order.plan.batch == batch else Plan("*", batch=batch)
        trial.order.history.note_incident(f"an outage of {OUTAGE_SECONDS:g} s", cause)
    return [*orders, *new]


def _hurt_half(orders: Orders, batch: "Batch", gates: FaultRules) -> None:
    for number, one in enumerate(orders):
        if one.faults.is_hurt:
            gates.add(batch.fault, order_id=one.order.order_id, times=None)
        if number % 2 == 0 and one.due_age < inf:
            one.move_to(one.due_age)


async def overtake(runner: Runner, batch: "Batch", gates: FaultRules) -> Orders:
    """Hold the reply to a read, and move the payment on, until a younger read has shown that."""
    orders = await _park(runner, batch, _EIGHT_ORDERS // 2)
    for one in orders:  # one at a time: an application with few workers has one left to read again
        _hold(gates, [one], GET_PAYMENT)
        await _are_held(runner, gates)
        one.end_payments()
        interval = runner.driver.patience.poll_interval or 0.0
        seconds = min(4 * _GATE_SECONDS, max(_GATE_SECONDS, 2 * interval))
        is_overtaken = await _until(runner, one.shows_due, seconds)
        gates.close()
        if not is_overtaken:  # it has one read of an order at a time
            break
    return orders


async def read_at_once(runner: Runner, batch: "Batch", gates: FaultRules) -> Orders:
    """Hold the reads that show what makes goods due, until all replicas have asked."""
    orders = await _park(runner, batch, _SIXTEEN_ORDERS)
    for one in orders:
        _hold(gates, [one], GET_PAYMENT, times=batch.number)
        one.move_to(batch.at or 0.0)
        await _are_held(runner, gates, batch.number)
        gates.close()
    return orders


async def crash_parked(runner: Runner, batch: "Batch", gates: FaultRules) -> Orders:
    orders = await _park(runner, batch, _FORTY_ORDERS)
    for _ in range(2 if batch.moment == "twice" else 1):
        _kill(runner, orders, gates, batch.moment)
    return orders


async def crash_at_creation(runner: Runner, batch: "Batch", gates: FaultRules) -> Orders:
    orders = await _begin(runner, batch, _EIGHT_ORDERS)
    start_seconds = runner.service.start_seconds if runner.service else 0.0
    late = f"delay={min(30_000, 2_000 + round(3_000 * start_seconds))}"
    _hold(gates, orders, CREATE_PAYMENT, {"before": "hold; before", "late": late}.get(batch.moment, "hold"))
    await _are_held(runner, gates, len(orders))
    _kill(runner, orders, gates)
    return orders


async def crash_after_order(runner: Runner, batch: "Batch", gates: FaultRules) -> Orders:
    orders = await _begin(runner, batch, _SIXTEEN_ORDERS)
    outcomes = [one.order.outcome for one in orders]
    await _until(runner, lambda: any(one.is_taken or one.order_errors for one in outcomes))
    time.sleep(batch.number / 1000)
    _kill(runner, orders, gates)
    return orders


async def crash_as_due(runner: Runner, batch: "Batch", gates: FaultRules) -> Orders:
    """Let goods become due, up to the first reply that shows it, held or sent; then kill the application."""
    orders, is_held = await _park(runner, batch, _SIXTEEN_ORDERS), batch.moment in ("", "one")
    if is_held:
        _hold(gates, orders, GET_PAYMENT)
    for one in orders:
        one.move_to(batch.at or 0.0)
    if is_held:
        is_reached = await _are_held(runner, gates, len(orders))
    else:
        seconds = _poll_seconds(runner.driver)
        is_reached = await _until(runner, lambda: any(map(ParkedTrial.shows_due, orders)), seconds)
        time.sleep(batch.number / 1000)
    if not is_reached:
        runner.results.undetermined[batch.token] = f"{batch.token}: its moment never came"
    _kill(runner, orders, gates, batch.moment)
    return orders


async def crash_around_deliveries(runner: Runner, batch: "Batch", gates: FaultRules) -> Orders:
    """Kill the application as it delivers one order after the other: later if no goods had gone out at the
    last kill, or else earlier, in ever smaller steps. So one falls between a delivery and its record, however
    busy the machine is. It is undetermined where all fell on the same side.
    """
    results, driver, orders = runner.results, runner.driver, Orders()
    due = results.baselines[batch.scenario].due_age(runner.options.fulfil_at) or 0.0
    delay, step, deadline = 0.0, _MIN_KILL_STEP, monotonic() + _PARK_SECONDS
    latest, was_delivered = max(_GATHER_SECONDS, 2 * driver.patience.delivery_delay), False
    # The earliest kill of others may be late: they stop the application in their own way.
    sides = set() if isinstance(runner.service, Service) else {False}
    while len(orders) < _SIXTEEN_ORDERS and not runner.is_over and (len(sides) < 2 or monotonic() < deadline):
        [one] = await _park(runner, batch, 1)
        orders.append(one)
        is_held, is_delivered = await _kill_after(runner, one, due, delay, gates)
        one.is_released = True
        if is_held and is_delivered is not None:
            sides.add(is_delivered)
            step = max(_MIN_KILL_STEP, step / 2) if is_delivered or was_delivered else 2 * step
            delay = min(latest, max(0.0, delay + (-step if is_delivered else step)))
            was_delivered = is_delivered
        if results.forgets:
            return orders
    if len(sides) < 2 and not runner.is_over:
        told = {(): "its moment never came", (True,): "each kill came after its goods had gone out"}
        came = told.get((*sides,), "each kill came before goods had gone out")
        results.undetermined[batch.token] = f"{batch.token}: {came}"
    return orders


async def _kill_after(
    runner: Runner, one: ParkedTrial, due: float, delay: float, gates: FaultRules
) -> tuple[bool, bool | None]:
    """Kill the application `delay` seconds after a reply has shown that goods are due. Return whether
    that was held, and whether goods had gone out; None: nobody knows.
    """
    _hold(gates, [one], GET_PAYMENT, times=None)
    one.move_to(due)
    is_held = await _are_held(runner, gates)
    if delay > _GATE_SECONDS:
        gates.close()
        await _until(runner, lambda: False, delay - _GATE_SECONDS)  # it may take further ticks to deliver
    with closing(FaultRules(runner.driver.sandbox)) as until_asked:
        _hold(until_asked, [one], GET_PAYMENT, times=None)  # what starts again delivers nothing yet
        gates.close()
        time.sleep(min(delay, _GATE_SECONDS))
        _kill(runner, [one], gates)
        call = runner.driver.backend.count_deliveries(one.order.order_id)
        return is_held, None if call.exception() else call.result() > 0


def _kill(runner: Runner, orders: Sequence[ParkedTrial], gates: FaultRules, moment: str = "") -> None:
    """Kill the application, or one replica of it, and start it again; meanwhile all payments may end."""
    service, is_term, runner.has_restarted = runner.service, moment == "term", True
    assert service is not None  # noqa: S101 - only then there are such batches
    affected = [one for one in runner.active if isinstance(one, ParkedTrial)]
    try:
        service.kill(signal.SIGTERM if is_term else signal.SIGKILL, 0 if moment == "one" else None)
    except NotStarted as error:
        runner.driver.is_gone, orders[0].order.outcome.stays_down = True, str(error)
    runner.driver.feed.note()
    gates.close()
    for one in affected:
        history = one.order.history
        history.incident = "SIGTERM" if is_term else "kill -9"
        history.marks[len(one.order.traffic.entries) - 1] = f"{history.incident}, started again"
        one.was_due_at_crash |= history.is_due(one.options.fulfil_at)
        if moment == "end":
            one.end_payments()
    if isinstance(service, Service):
        runner.restart(service, [one.order for one in orders])


async def _check_durability(runner: Runner) -> Orders:
    """Find out whether the application still knows after a crash what it has delivered before."""
    [one] = await _park(runner, Batch("*", "parked", "crash"), 1)
    one.end_payments()
    delivered = await _until(runner, one.is_delivered)
    _kill(runner, [one], FaultRules(runner.driver.sandbox))
    forgotten = delivered and not await _until(runner, one.is_delivered)
    runner.results.forgets = forgotten and not runner.driver.is_gone
    return [one]


class BatchKind(NamedTuple):
    """A row of the table of batches."""

    name: str  # of its group in findings
    title: str  # in the report
    target: str  # of its tokens, as a regular expression
    action: str  # the same
    run: Callable[[Runner, "Batch", FaultRules], Coroutine[None, None, Orders]]
    clause: str  # what happens
    fix: str = ""  # of what it shows


_READ = rf"{GET_PAYMENT}@{AGE}"
_UNIQUE = "Put a unique key on the order id: insert the order first, and use the one that is there."
_ONE_DELIVERS = "Let the database decide which replica delivers, by a unique key or a lease."
_WRITE_FIRST = (
    "Write an order down before anything is sent. Deliver and record it in one transaction, or give the "
    "warehouse the order id as its key."
)
# fmt: off
KINDS = (
    BatchKind("outage", "outage", "outage", "[^/]+", outage,
              f"every {{request}} gets `{{fault}}` for up to {OUTAGE_SECONDS:g} s"),
    BatchKind("orders", "side by side", "orders", "[1-9][0-9]?x", side_by_side,
              "{number} orders are open at the same time, without a fault"),
    BatchKind("order", "3 at once", "order", "[1-9]x", place_copies,
              "an order is placed {number} times at once", _UNIQUE),
    BatchKind("hold", "overtaken reply", _READ, "hold", overtake,
              "the reply to a `{operation}`{at} arrives late, after any younger one"),
    BatchKind("patience", "slow payment", "patience", "[0-9]+s", slow_payments,
              "the payment is slow, without a fault"),
    BatchKind("renewal", "renewal", "renewal", "late", renew,
              "a new payment is made after the first one has expired, which is paid late"),
    BatchKind("meet", "replicas", _READ, r"meet\+[1-9]", read_at_once,
              "{number} replicas read a payment at the same time{at}", _ONE_DELIVERS),
    BatchKind("crash", "replicas", _READ, r"crash\+one", crash_as_due,
              "one replica is killed while the reply to `{operation}`{at} is on its way", _WRITE_FIRST),
    *(BatchKind("crash", "crash", target, action, run, f"the application is killed{clause}", _WRITE_FIRST)
      for target, action, run, clause in (
        ("parked", "crash", crash_parked, ""),
        ("parked", r"crash\+twice", crash_parked, " twice"),
        ("parked", r"crash\+term", crash_parked, " by SIGTERM"),
        ("parked", r"crash\+end", crash_parked, ", and all payments end before it starts"),
        ("order", r"crash\+[0-9]+ms", crash_after_order, " {number} ms after the first order was answered"),
        ("deliveries", "crash", crash_around_deliveries, " shortly before or after a delivery"),
        (_READ, "crash", crash_as_due, " while the reply to `{operation}`{at} is on its way"),
        (_READ, r"crash\+[0-9]+ms", crash_as_due,
         " {number} ms after the first `{operation}` that shows the state{at}"),
        (CREATE_PAYMENT, "crash", crash_at_creation, " while the reply to `{operation}` is on its way"),
        (CREATE_PAYMENT, r"crash\+before", crash_at_creation, " before its `{operation}` arrives"),
        (CREATE_PAYMENT, r"crash\+late", crash_at_creation,
         " and its `{operation}` arrives after the retry"),
    )),
)
# fmt: on


@dataclass(frozen=True)
class Batch:
    """Orders that something hits together: `target` says what of them, and `action` what happens, as in the
    tokens `outage=drop`, `order=3x`, `order=crash+10ms`, `getPayment@45=crash`. The scenario `*` stands for
    parked orders: each at another state of another scenario. That of a `renewal` is of the newer payment.
    """

    scenario: str
    target: str
    action: str

    @property
    def token(self) -> str:
        return f"{self.scenario}/{self.target}={self.action}".replace(" ", "").replace(";", "+")

    @cached_property
    def kind(self) -> BatchKind:
        token = f"{self.target}={self.action}"
        return next(one for one in KINDS if re.fullmatch(f"{one.target}={one.action}", token))

    @property
    def fault(self) -> str:
        """The fault of an outage. One with `half` hits half of the orders, while half of them become due."""
        return self.action.removeprefix("half; ")

    @property
    def moment(self) -> str:
        return self.action.partition("+")[2]

    @property
    def number(self) -> int:
        """How many in `3x` and `meet+2`, milliseconds in `crash+10ms`; 0 if there is none."""
        return int(next(iter(re.findall("[0-9]+", self.action)), 0))

    @property
    def is_parked(self) -> bool:
        return self.scenario == "*"

    @property
    def at(self) -> float | None:
        """The age at which the payments are read, if it is a read that is hit."""
        return float(self.target.partition("@")[2]) if "@" in self.target else None

    def __str__(self) -> str:
        operation, _, at = self.target.partition("@")
        request = "request of half of the orders" if self.action != self.fault else "request"
        told = {"request": request, "fault": self.fault, "number": self.number, "operation": operation}
        return self.kind.clause.format(**told, at=f" at {at} s" if at else "")


SIDE_BY_SIDE = Batch("*", "orders", "40x")  # orders without a fault: what they break, no fault has caused
HALF_OUTAGE = Batch("*", "outage", "half; truncate=20")


def parse_token(token: str) -> Plan | Batch:
    """What a token repeats. Raises ValueError."""
    scenario, _, rest = token.partition("/")
    target, _, action = rest.partition("=")
    if not any(re.fullmatch(f"{one.target}={one.action}", rest) for one in KINDS):
        return parse_plan(token)
    if (scenario == "*") != (target in ("outage", "parked", "orders")):
        raise ValueError(f"{token!r} is not the token of a finding: {target} is not of {scenario}")
    batch = Batch(scenario, target, action.replace("+", "; ") if target == "outage" else action)
    if target == "outage":
        frequencies([batch.fault])  # raises ValueError
    return batch


def outages(*, polls_by_itself: bool) -> list[Batch]:
    """What hurts every order. One tick of the judge's would wait for each of many replies that hang."""
    return [Batch("*", "outage", fault) for fault in ("status=503", "drop", "hang")[: 2 + polls_by_itself]]


def crashes(
    baseline: Baseline, due: float, service: Service | ExternalService, *, is_killed: bool
) -> list[Batch]:
    """Return the crashes, and what is tried with replicas, where goods are `due` at an age in seconds."""
    read, count = str(RequestKey(GET_PAYMENT, due)), len(service.ports)
    is_owned = isinstance(service, Service)
    tried = [(read, f"meet+{count}"), ("order", "3x"), (read, "crash+one")] if count > 1 else []
    if is_killed:
        tried += [("parked", "crash"), *((read, f"crash{pause}") for pause in ("", "+0ms", "+4ms", "+30ms"))]
        tried += [("deliveries", "crash"), ("order", "crash+10ms")]
        tried += [(CREATE_PAYMENT, f"crash{moment}") for moment in ("", "+before", "+late")]
        tried += [("parked", f"crash+{moment}") for moment in ("twice", *(["end", "term"] * is_owned))]
    return [Batch("*" if hit == "parked" else baseline.scenario, hit, action) for hit, action in tried]
