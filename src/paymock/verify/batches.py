"""Batches: orders that something hits at once, or nothing but each other: trials that are let go."""

import signal
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import cycle, islice
from math import inf
from threading import Barrier, BrokenBarrierError

from paymock.client.http import monotonic
from paymock.schemas.public import CREATE_PAYMENT, GET_PAYMENT
from paymock.verify.oracle import is_due
from paymock.verify.pacing import Pacing
from paymock.verify.plans import OUTAGE_SECONDS, Baseline, Batch, Plan, Request
from paymock.verify.process import ExternalService, NotStarted, Service
from paymock.verify.runner import Runner
from paymock.verify.trial import SHORT_PATIENCE, Rules, Trial, TrialOptions
from paymock.verify.turns import until

_PARKED, _AT_ONCE, _FEW = 40, 16, 8
_NEW_ORDERS = 4  # that are placed during an outage
_COPIES_DELAY = 60  # so many milliseconds the creations are delayed of an order that is placed several times
_TICKED_SECONDS = 0.4  # so long an outage lasts where the judge's ticks make each poll: there are many
_GATE_SECONDS = 0.25  # so long a reply is held if the application is not killed: a client may wait no longer
_GATHER_SECONDS = 3.0  # so long is waited for what a moment needs, such as a request to hold
_STAND_SECONDS = 30.0  # so long is waited until orders stand or have ended
_CLOSER = 0.001  # so many seconds a kill comes earlier or later, once others were before and after a delivery

SIDE_BY_SIDE = Batch("*", "orders", "40x")  # orders without a fault: what they break, no fault has caused
HALF_OUTAGE = Batch("*", "outage", "half; truncate=20")


def outages(*, polls_by_itself: bool) -> list[Batch]:
    """What hurts every order. One tick of the judge's would wait for each of many replies that hang."""
    return [Batch("*", "outage", fault) for fault in ("status=503", "drop", "hang")[: 2 + polls_by_itself]]


def crashes(
    baseline: Baseline, due: float, service: Service | ExternalService, *, is_killed: bool
) -> list[Batch]:
    """Return the crashes, and what is tried with replicas, where goods are `due` at an age in seconds."""
    read, count, is_owned = str(Request(GET_PAYMENT, due)), len(service.ports), isinstance(service, Service)
    tried = [(read, f"meet+{count}"), ("order", "3x"), (read, "crash+one")] if count > 1 else []
    if is_killed:
        tried += [("parked", "crash"), *((read, f"crash{pause}") for pause in ("", "+0ms", "+4ms", "+30ms"))]
        tried += [("deliveries", "crash"), ("order", "crash+10ms")]
        tried += [(CREATE_PAYMENT, f"crash{moment}") for moment in ("", "+before", "+late")]
        tried += [("parked", f"crash+{moment}") for moment in ("twice", *(["end", "term"] * is_owned))]
    return [Batch("*" if hit == "parked" else baseline.scenario, hit, action) for hit, action in tried]


@dataclass(eq=False)
class Standing(Trial):
    """A trial of a batch, placed `copies` times: it stands at an age, or a `share` of all, until released."""

    at: float | None = None
    share: float = 0.0
    copies: int = 1
    is_standing = is_released = was_due_at_crash = False

    async def follow(self, payment_id: str) -> None:
        order = self.order
        if not self.is_standing:
            self.faults.end()  # a sandbox has room for a hundred overrides
            at = [*order.states][round(self.share * (len(order.states) - 1))] if self.at is None else self.at
            self.move_to(at)
            await until(lambda: order.reads_of(order.age) > 0 or self.is_released, SHORT_PATIENCE)
            self.is_standing, self._silence = True, None  # it waits for its batch only
            await until(lambda: self.is_released)
        due = self.due_age
        if order.payments[-1] == payment_id and order.age <= due < max(order.states):
            self.move_to(due)  # another status follows: it stands there until it is read
            silence = self.listen()
            await until(lambda: self.shows_due() or silence.waited(self.patience()))

    def call(self) -> list[Future[object]]:
        application, start = self.pacing.application, Barrier(self.copies)
        executor = application.threads or application.executor

        def order() -> object:
            with suppress(BrokenBarrierError):  # where fewer threads are free
                start.wait(_GATE_SECONDS)
            return application.order(self.order.order_id)

        return [executor.submit(order) for _ in range(self.copies)]

    @property
    def due_age(self) -> float:
        """The age at which goods become due; infinite: never, as far as is known."""
        states = self.order.states.items()
        return next((at for at, status in states if status in self.options.fulfil_at), inf)

    def shows_due(self) -> bool:
        return not self.order.statuses_read.isdisjoint(self.options.fulfil_at)

    def is_delivered(self) -> bool:
        call = self.pacing.application.count_deliveries(self.order.order_id)
        return call.exception() is None and call.result() > 0

    def move_to(self, at: float) -> None:
        """Advance the payment to this age."""
        order = self.order
        if order.payments and at > order.age:
            self.pacing.advance(order.payments[-1], seconds=at - order.age)
            order.move(at)

    async def come_to_rest(self) -> None:
        await super().come_to_rest()
        self.end_payments()  # those that have appeared since, too

    def patience(self) -> float:
        """After a crash, the application may hold a lease on it."""
        return max(super().patience(), self.pacing.patience.settle if self.order.marks else 0.0)


class Renewal(Standing):
    """An order whose first payment expires; once the application has made another one, it is paid late."""

    max_payments = 2

    async def course(self) -> None:
        self.faults.begin("late_payment", times=1)
        await super().course()

    async def follow(self, payment_id: str) -> None:
        order = self.order
        if payment_id != order.payments[0]:
            await Trial.follow(self, payment_id)
            return
        self.move_to(next(at for at, status in order.states.items() if status == "expired"))
        await until(lambda: len(order.payments) > 1, _some_polls(self.pacing, SHORT_PATIENCE))
        if len(order.payments) > 1:
            self.pacing.advance(payment_id, "end")


async def run_batches(runner: Runner, batches: Iterable[Batch], *, waits: bool = True) -> None:
    """Run batches one after the other, then wait for all their orders, or leave that to what comes next."""
    ledger, orders = runner.ledger, list[Standing]()
    runner.batches += 1
    try:
        for batch in batches:
            if runner.is_over:
                ledger.unstarted.append(batch.token)
                continue
            ledger.batches.append(batch)
            if batch.kind == "crash" and batch.action != "crash+one" and ledger.forgets is None:
                orders += await _check_durability(runner)
            with closing(Rules(runner.pacing.sandbox)) as gates:
                orders += await _RUNS[batch.kind](runner, batch, gates)
            if batch.kind == "outage":  # nothing hits its orders later: an application has fewer to poll
                for one in orders:
                    one.is_released = True
            ledger.tell()
    finally:  # also where the run ends early: what follows waits for them
        for one in orders:
            one.order.is_excused |= one.was_due_at_crash and bool(ledger.forgets)
            one.is_released = True
        runner.batches -= 1
    if waits:
        await until(lambda: runner.active.keys().isdisjoint(orders))
    if ledger.forgets:
        note = "the application forgets at a crash what it has delivered: record both in one transaction"
        ledger.notes[note] = None


async def _until(runner: Runner, is_reached: Callable[[], bool], seconds: float = _GATHER_SECONDS) -> bool:
    """Go on until something is reached; return whether it is within so many seconds."""
    await until(lambda: is_reached() or not runner.active or runner.pacing.is_gone, seconds)
    return is_reached()


async def _are_held(runner: Runner, gates: Rules, count: int = 1) -> bool:
    """Wait until a request has come to a gate, and then a little, until so many have."""
    is_one = await _until(runner, gates.are_hit, _some_polls(runner.pacing))
    await _until(runner, lambda: gates.are_hit(count), _GATE_SECONDS)
    return is_one


def _some_polls(pacing: Pacing, least: float = _GATHER_SECONDS) -> float:
    """The seconds in which an application polls an order."""
    return max(least, 3 * (pacing.patience.pace or 0.0))


def _hold(
    gates: Rules, orders: Iterable[Trial], operation: str, fault: str = "hold", times: int | None = 1
) -> None:
    for one in orders:
        gates.add(fault, operation=operation, order_id=one.order.order_id, times=times)


def _goods_due(runner: Runner) -> list[str]:
    """The first scenario in which goods become due, or else the first."""
    baselines, fulfil_at = runner.ledger.baselines.values(), runner.options.fulfil_at
    return [*(one.scenario for one in baselines if one.due_age(fulfil_at)), *runner.scenarios][:1]


async def _begin(runner: Runner, batch: Batch, count: int, kind: type[Standing] = Standing) -> list[Standing]:
    """Begin so many orders: parked ones, or ones that stand before the state that is hit."""
    at, ledger, orders, is_half = batch.at, runner.ledger, list[Standing](), batch == HALF_OUTAGE
    scenarios = _goods_due(runner) if is_half else runner.scenarios if batch.is_parked else [batch.scenario]
    if at is not None and batch.kind != "hold":
        at = ledger.baselines[batch.scenario].age_before(at)
    rounds = max(1, count // len(scenarios) - 1)
    for number, scenario in enumerate(islice(cycle(scenarios), count)):
        plan = Plan(scenario, batch=batch, number=len(ledger.plans))
        one = kind(
            runner.pacing.new_order(plan), runner.pacing, None, TrialOptions(runner.options.fulfil_at), at=at,
            share=number / count if is_half else min(1, number // len(scenarios) / rounds) * batch.is_parked,
            copies=batch.number if batch.action.endswith("x") else 1,
        )  # fmt: skip
        one.faults.is_hurt = is_half and count <= 4 * number < 3 * count  # others are polled before and after
        await _until(runner, lambda: runner.has_room(exclusive=None), _STAND_SECONDS)
        orders.append(one)
        ledger.plans.append(plan)
        runner.begin(one, ledger.record)
    return orders


async def _stand(runner: Runner, orders: Iterable[Standing], seconds: float = _STAND_SECONDS) -> None:
    """Wait until nothing is left to happen to orders."""
    await _until(runner, lambda: all(one.is_standing or one.order.is_over for one in orders), seconds)


async def _park(runner: Runner, batch: Batch, count: int) -> list[Standing]:
    orders = await _begin(runner, batch, count)
    await _stand(runner, orders)
    return orders


async def _place_copies(runner: Runner, batch: Batch, gates: Rules) -> list[Standing]:
    orders = await _begin(runner, batch, _FEW)
    _hold(gates, orders, CREATE_PAYMENT, f"delay={_COPIES_DELAY}", batch.number)
    await _stand(runner, orders, _GATHER_SECONDS)
    return orders


async def _side_by_side(runner: Runner, batch: Batch, _: Rules) -> list[Standing]:
    """Run orders of all scenarios without a fault; to see a bug again, half of them one after the other."""
    ledger, number = runner.ledger, batch.number
    first = number // 2 if runner.options.only or any(ledger.violations.values()) else number
    scenarios = [*islice(cycle(runner.scenarios), first), *(number - first) * _goods_due(runner)]
    plans = [Plan(one, batch=batch, number=len(ledger.plans) + n) for n, one in enumerate(scenarios)]
    ledger.plans += plans
    await runner.run_once(plans[:first], record=ledger.record, exclusive=None, is_watched=True)
    await runner.run_once(
        plans[first:], record=ledger.record, exclusive=None, is_watched=True, pause=2 * _GATE_SECONDS
    )
    return []


async def _outage(runner: Runner, batch: Batch, gates: Rules) -> list[Standing]:
    orders, new, pacing = await _park(runner, batch, _PARKED), list[Standing](), runner.pacing
    is_half = batch == HALF_OUTAGE
    if is_half:
        for number, one in enumerate(orders):
            if one.faults.is_hurt:
                gates.add(batch.fault, order_id=one.order.order_id, times=None)
            if number % 2 == 0 and one.due_age < inf:
                one.move_to(one.due_age)
    else:
        others = [trial for trial in runner.active if trial not in orders]
        await _until(runner, lambda: all(one.order.is_over or one.is_idle for one in others), _STAND_SECONDS)
        gates.add(batch.fault, times=None)
        new = await _begin(runner, batch, _NEW_ORDERS)
    hit = [trial for trial in runner.active if not trial.is_idle and (trial in orders or not is_half)]
    try:
        pacing.is_cut_off = not is_half  # an application that ends is started again after it
        await _until(runner, lambda: False, OUTAGE_SECONDS if pacing.polls_by_itself else _TICKED_SECONDS)
    finally:
        gates.close()
        pacing.is_cut_off = False
        for one in orders:
            one.faults.is_hurt = False
    for trial in hit:
        culprit = None if trial.order.plan.batch == batch else Plan("*", batch=batch)
        trial.order.note_incident(f"an outage of {OUTAGE_SECONDS:g} s", culprit, [])
    return [*orders, *new]


async def _overtake(runner: Runner, batch: Batch, gates: Rules) -> list[Standing]:
    """Hold the reply to a read, and move the payment on, until a younger read has shown that."""
    orders = await _park(runner, batch, _FEW // 2)
    for one in orders:  # one at a time: an application with few workers has one left to read again
        _hold(gates, [one], GET_PAYMENT)
        await _are_held(runner, gates)
        one.end_payments()
        seconds = min(4 * _GATE_SECONDS, max(_GATE_SECONDS, 2 * (runner.pacing.patience.pace or 0.0)))
        is_overtaken = await _until(runner, one.shows_due, seconds)
        gates.close()
        if not is_overtaken:  # it has one read of an order at a time
            break
    return orders


async def _read_at_once(runner: Runner, batch: Batch, gates: Rules) -> list[Standing]:
    """Hold the reads that show what makes goods due, until all replicas have asked."""
    orders = await _park(runner, batch, _AT_ONCE)
    for one in orders:
        _hold(gates, [one], GET_PAYMENT, times=batch.number)
        one.move_to(batch.at or 0.0)
        await _are_held(runner, gates, batch.number)
        gates.close()
    return orders


async def _crash(runner: Runner, batch: Batch, gates: Rules) -> list[Standing]:
    """Run orders up to a moment, and kill the application then."""
    moment = batch.action.partition("+")[2]
    if batch.target == "deliveries":
        return await _crash_around_deliveries(runner, batch, gates)
    if batch.target == "parked":
        orders = await _park(runner, batch, _PARKED)
    elif batch.target == CREATE_PAYMENT:
        orders = await _begin(runner, batch, _FEW)
        start_seconds = runner.service.start_seconds if runner.service else 0.0
        late = f"delay={min(30_000, 2_000 + round(3_000 * start_seconds))}"
        _hold(gates, orders, CREATE_PAYMENT, {"before": "hold; before", "late": late}.get(moment, "hold"))
        await _are_held(runner, gates, len(orders))
    elif batch.target == "order":
        orders = await _begin(runner, batch, _AT_ONCE)
        await _until(runner, lambda: any(one.order.is_taken or one.order.order_errors for one in orders))
    else:
        orders = await _become_due(runner, batch, gates)
    time.sleep(batch.number / 1000 if moment.endswith("ms") else 0.0)
    for _ in range(2 if moment == "twice" else 1):
        _kill(runner, orders, gates, moment)
    return orders


async def _become_due(runner: Runner, batch: Batch, gates: Rules) -> list[Standing]:
    """Let goods become due, up to the first reply that shows it, held or sent."""
    orders, ledger, pacing = await _park(runner, batch, _AT_ONCE), runner.ledger, runner.pacing
    is_held = batch.action in ("crash", "crash+one")
    if is_held:
        _hold(gates, orders, GET_PAYMENT)
    for one in orders:
        one.move_to(batch.at or 0.0)
    if is_held:
        is_reached = await _are_held(runner, gates, len(orders))
    else:
        is_reached = await _until(runner, lambda: any(map(Standing.shows_due, orders)), _some_polls(pacing))
    if not is_reached:
        ledger.undetermined[batch.token] = f"{batch.token}: its moment never came"
    return orders


async def _crash_around_deliveries(runner: Runner, batch: Batch, gates: Rules) -> list[Standing]:
    """Kill the application as it delivers one order after the other: later if no goods had gone out at the
    last kill, or else earlier, in ever smaller steps. So one falls between a delivery and its record, however
    busy the machine is. It is undetermined where all fell on the same side.
    """
    ledger, pacing, orders = runner.ledger, runner.pacing, list[Standing]()
    due = ledger.baselines[batch.scenario].due_age(runner.options.fulfil_at) or 0.0
    delay, step, deadline = 0.0, _CLOSER, monotonic() + _STAND_SECONDS
    latest, was_delivered = max(_GATHER_SECONDS, 2 * pacing.patience.lag), False
    # The earliest kill of others may be late: they stop the application in their own way.
    sides = set() if isinstance(runner.service, Service) else {False}
    while len(orders) < _AT_ONCE and not runner.is_over and (len(sides) < 2 or monotonic() < deadline):
        [one] = await _park(runner, batch, 1)
        orders.append(one)
        _hold(gates, [one], GET_PAYMENT, times=None)
        one.move_to(due)
        is_held = await _are_held(runner, gates)
        if delay > _GATE_SECONDS:
            gates.close()
            await _until(runner, lambda: False, delay - _GATE_SECONDS)  # it may take further ticks to deliver
        with closing(Rules(pacing.sandbox)) as until_asked:
            _hold(until_asked, [one], GET_PAYMENT, times=None)  # what starts again delivers nothing yet
            gates.close()
            time.sleep(min(delay, _GATE_SECONDS))
            _kill(runner, [one], gates)
            call = pacing.application.count_deliveries(one.order.order_id)
            is_delivered = call.exception() is None and call.result() > 0
        one.is_released = True
        if is_held and call.exception() is None:
            sides.add(is_delivered)
            step = max(_CLOSER, step / 2) if is_delivered or was_delivered else 2 * step
            delay = min(latest, max(0.0, delay + (-step if is_delivered else step)))
            was_delivered = is_delivered
        if ledger.forgets:
            break
    if len(sides) < 2 and not ledger.forgets and not runner.is_over:
        side = "after its goods had gone out" if any(sides) else "before goods had gone out"
        came = f"each kill came {side}" if sides else "its moment never came"
        ledger.undetermined[batch.token] = f"{batch.token}: {came}"
    return orders


def _kill(runner: Runner, orders: Sequence[Standing], gates: Rules, moment: str = "") -> None:
    """Kill the application, or one replica of it, and start it again; meanwhile all payments may end."""
    service, is_term = runner.service, moment == "term"
    assert service is not None  # noqa: S101 - only then there are such batches
    affected = [one for one in runner.active if isinstance(one, Standing)]
    try:
        service.kill(signal.SIGTERM if is_term else signal.SIGKILL, 0 if moment == "one" else None)
    except NotStarted as error:
        runner.pacing.is_gone, orders[0].order.stays_down = True, str(error)
    runner.pacing.journal.note()
    gates.close()
    for one in affected:
        one.order.incident = "SIGTERM" if is_term else "kill -9"
        one.order.marks[len(one.order.entries) - 1] = f"{one.order.incident}, started again"
        one.was_due_at_crash |= is_due(one.order, one.options.fulfil_at)
        if moment == "end":
            one.end_payments()
    if isinstance(service, Service):
        runner.restart(service, [one.order for one in orders])


async def _check_durability(runner: Runner) -> list[Standing]:
    """Find out whether the application still knows after a crash what it has delivered before."""
    [one] = await _park(runner, Batch("*", "parked", "crash"), 1)
    one.end_payments()
    delivered = await _until(runner, one.is_delivered)
    _kill(runner, [one], Rules(runner.pacing.sandbox))
    forgotten = delivered and not await _until(runner, one.is_delivered)
    runner.ledger.forgets = forgotten and not runner.pacing.is_gone
    return [one]


_RUNS: dict[str, Callable[[Runner, Batch, Rules], Coroutine[None, None, list[Standing]]]] = {
    "outage": _outage,
    "order": _place_copies,
    "orders": _side_by_side,
    "renewal": lambda runner, batch, _: _begin(runner, batch, _FEW, Renewal),
    "crash": _crash,
    "meet": _read_at_once,
    "hold": _overtake,
}
