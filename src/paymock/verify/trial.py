"""A trial: an order of the application, with its own scenario and faults, as a coroutine. Time stands still
until it moves its payment to the next change: once the application has read the state before.
"""

from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from paymock.client.http import Refused, monotonic
from paymock.client.sandbox import Sandbox
from paymock.rules.faults import MAX_HANG, FaultKind, parse_fault
from paymock.rules.scenarios import DEFAULT_SCENARIO, PaymentStatus
from paymock.schemas.public import CREATE_PAYMENT, GET_PAYMENT
from paymock.verify.oracle import MANY_READS, final_statuses, hides_outcome, is_due
from paymock.verify.order import Order
from paymock.verify.pacing import MAX_ORDERS, Pacing, Silence
from paymock.verify.plans import NEAR_DUE, Baseline, Request
from paymock.verify.turns import turn, until

SHORT_PATIENCE = 1.5  # seconds of silence where nothing depends on it, over `Retry-After`; then others begin
_LATE_PATIENCE = 5.0  # the same when it is run again: it may read an expired payment on, but not as often
_SOME_POLLS, _SHORTEST_PATIENCE = 4, 0.3
_BACKOFF = 3  # how many times longer the pauses of one may become that tries again and again
_ASK_SECONDS = 10.0  # so long it is asked for its deliveries, if it does not answer
_ASK_PAUSE = 0.1
_STUCK_REQUESTS = 20  # after so many, none of which shows the state of the payment, it does not read it
_HELD_SECONDS = 0.2  # so long a reply is held at most: a client may wait no longer


class Rules:
    """Fault rules of the sandbox, until they are closed."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox, self._ids = sandbox, list[str]()

    def add(self, fault: str, **selected: Any) -> None:
        """Add a rule, with the arguments of `Sandbox.fault`."""
        self._ids.append(str(self._sandbox.fault(fault, **selected)["id"]))

    def are_hit(self, count: int = 1) -> bool:
        """Whether they have hit so many requests."""
        return sum(int(one["applied"]) for one in self._sandbox.faults() if one["id"] in self._ids) >= count

    def close(self) -> None:
        while self._ids:
            with suppress(Refused):  # a rule that somebody else has deleted
                self._sandbox.clear_faults(self._ids.pop())


class Faults(Rules):
    """The override and the fault rules of an order: a rule for each injection, once."""

    def __init__(self, sandbox: Sandbox, order: Order) -> None:
        super().__init__(sandbox)
        self._order, self._left = order, [*order.plan.injections]
        self._is_set: bool | None = None  # not yet
        self.is_hurt = False  # by a rule of a batch

    def begin(self, scenario: str, times: int | None = None) -> None:
        """Let its next `times` payments, or all, follow a scenario."""
        self._is_set, course, order_id = True, NEAR_DUE.get(scenario), self._order.order_id
        if scenario == DEFAULT_SCENARIO and self._order.plan.injections:  # which others follow anyway
            times = 1
        self._sandbox.next(None if course else scenario, course=course, times=times, order_id=order_id)

    def inject(self, *ages: float | None) -> None:
        """Add the rules for the faults at these ages, whose requests are counted from now on."""
        order = self._order
        for one in [one for one in self._left if one.request.at in ages and self._is_set]:
            self._left.remove(one)
            skip, times = one.request.number - 1, None if order.has_unknown_members else one.times
            order_id = order.order_id if one.has_order else None
            self.add(
                one.parsed.text, operation=one.request.operation, order_id=order_id, skip=skip, times=times
            )

    def end(self) -> None:
        """Remove the rules and the override."""
        self.close()
        if self._is_set:
            self._is_set = False
            self._sandbox.clear_next(self._order.order_id)

    @property
    def count(self) -> int:
        """How many fault rules there are, or will be soon."""
        return len(self._ids) + len(self._left) + self.is_hurt

    @property
    def has_override(self) -> bool:
        """Whether there is an override, or will be soon: for the default, until the first payment."""
        is_used = self._order.plan.scenario == DEFAULT_SCENARIO and self._order.payments
        return not (self._is_set is False or is_used)


class TrialOptions(NamedTuple):
    """How a trial is run. Goods are due at a status of `fulfil_at`. `is_watched`: ask for the deliveries at
    every state. `is_held`: hold a reply while the payment moves to the state of a fault, so that the next
    read gets it. `is_patient`: wait as long as for a probe. `is_deep`: stand at every confirmation, and not
    only at each status.
    """

    fulfil_at: tuple[str, ...]
    is_watched: bool = False
    is_held: bool = False
    is_patient: bool = False
    is_deep: bool = True


@dataclass(eq=False)
class Trial:
    """The trial of an order. `baseline`: what the application does without faults, if that is known."""

    order: Order
    pacing: Pacing
    baseline: Baseline | None
    options: TrialOptions
    max_payments = 4  # are followed: an application may create another one whenever it polls

    def __post_init__(self) -> None:
        self.faults = Faults(self.pacing.sandbox, self.order)
        self._silence: Silence | None = None
        self._has_read_end = False

    async def run(self) -> None:
        """Run it to its end. It leaves neither faults nor an override behind, however it ends."""
        order, now = self.order, self.pacing.clock.now
        order.placed_at = now()
        try:
            await self.course()
        except Refused as refused:
            order.problems.append(f"the judge was refused: {refused}")
        finally:
            order.is_over, order.ended_at = True, now()
            with suppress(Refused):
                self.faults.end()
        order.acknowledged = order.is_taken and bool(self.pacing.journal.served - {order.order_id})
        order.is_excused |= bool(order.incident) and not order.is_taken  # nobody has been asked to pay
        if order.plan.injections or order.plan.batch or order.problems:
            return
        # There is nothing to inject faults into; but who has polled before has lost the sale.
        has_polled = self.pacing.patience.pace is not None and is_due(order, self.options.fulfil_at)
        if not order.payments and not order.acknowledged:
            reason = f": {order.order_errors[-1]}" if order.order_errors else order.refusal()
            uses = "Does the application use this server and API key, and the order id that it is given?"
            problem = f"no payment with the order id {order.order_id} was created"
            order.problems.append(f"{problem}{reason}. {uses}")
        elif order.payments and not (order.deliveries or has_polled or order.polls):
            hint = "is `tick` missing?" if self.pacing.polls_by_itself else "does `tick` poll it?"
            order.problems.append(f"the application never read its payment: {hint}")

    async def course(self) -> None:
        order = self.order
        self.faults.begin(order.plan.scenario)
        self.faults.inject(None, 0.0)
        await self.place()
        if not await self.has_payment():
            return
        for _ in range(self.max_payments):
            payment_id = order.payments[-1]
            self.load(payment_id)
            await self.follow(payment_id)
            if order.payments[-1] == payment_id:
                break
        if not order.has_unknown_members:  # the application must live with those
            self.faults.end()
        self.end_payments()
        if not order.problems:
            await self.come_to_rest()
            await self.await_goods()

    @property
    def is_idle(self) -> bool:
        """Whether it waits for an application that has read the end, or has been silent for some time."""
        is_silent = self._silence is not None and self._silence.seconds > SHORT_PATIENCE
        return is_silent or self._has_read_end

    def listen(self) -> Silence:
        self._silence = Silence(self.pacing, self.order)
        return self._silence

    async def place(self) -> None:
        """Place the order, and again if that fails."""
        order, pacing, service = self.order, self.pacing, self.pacing.application.service
        expected = sum(one.times for one in order.plan.injections if one.request.operation == CREATE_PAYMENT)
        left = MAX_ORDERS
        while left >= 0:
            placed = self.call()
            self.listen()
            for call in placed:
                await until(call.done)
            await until(lambda: not pacing.is_cut_off)  # so long a customer waits before trying again
            pacing.journal.note()
            errors = [error for one in placed if (error := one.exception()) is not None]
            order.is_taken = len(errors) < len(placed)
            if order.is_taken:
                return
            order.order_errors.append(pacing.describe(errors[0]))
            if service is not None:  # the application may have ended, which shows a moment later
                await until(lambda: False, _ASK_PAUSE)
                await until(lambda: not service.is_down)
            order.reordered = True
            left -= order.faulted >= expected or len(order.order_errors) > expected

    def call(self) -> list[Future[object]]:
        application = self.pacing.application
        with self.pacing.clock.stopped():
            return [application.executor.submit(application.order, self.order.order_id)]

    async def has_payment(self) -> bool:
        """Wait for the payment, and return whether there is one."""
        order, silence = self.order, self.listen()
        while not order.payments:
            is_refused = any(400 <= last.status < 500 and not last.fault for last in order.entries[-1:])
            if silence.lasts(self._short_patience() if is_refused else self.patience()):
                order.gave_up, order.waited = True, silence.seconds
                return False
            await turn()
        return True

    def load(self, payment_id: str) -> None:
        """Note the states that a read can show: they last a millisecond or more. It is in the first."""
        order, detail = self.order, self.pacing.sandbox.detail(payment_id)
        is_first, scenario = not order.states, detail["scenario"]
        order.states = {entry["offset_seconds"]: entry["status"] for entry in detail["timeline"]}
        order.timelines[payment_id] = order.states
        order.move(0.0)
        if is_first and not (self.baseline or order.plan.batch) and scenario != order.plan.scenario:
            follows = f"the payment follows {scenario}"
            order.problems.append(f"{follows}: the application must not send X-Mock-Scenario")

    async def follow(self, payment_id: str) -> None:
        """Move a payment to each other status and fault, as long as the application will read the next."""
        order, options, states = self.order, self.options, pairwise(self.order.states.items())
        hurt = {one.request.at: one.request.operation for one in reversed(order.plan.injections)}
        steps = [at for (_, old), (at, new) in states if new != old or at in hurt or options.is_deep]
        for at in [*steps, None]:
            goes_on = await self.is_read(payment_id)
            is_hurt = order.faulted > 0 and not order.deliveries and not is_due(order, options.fulfil_at)
            if options.is_watched or is_hurt:
                await self.ask(order.statuses[-1])
            if not goes_on or at is None:
                return
            with closing(Rules(self.pacing.sandbox)) as gate:
                if options.is_held and at in hurt and self.pacing.polls_by_itself:
                    gate.add("hold", operation=hurt[at], order_id=order.order_id)
                    await until(gate.are_hit, _HELD_SECONDS)
                to, seconds = ("next", None) if options.is_deep else (None, at - order.age)
                if not self.pacing.advance(payment_id, to, seconds):
                    order.problems.append("the payment was moved by others: the judge moves it by itself")
                order.move(at)
                self.faults.inject(at)

    async def is_read(self, payment_id: str) -> bool:
        """Wait until the application has read the state; return whether it will read the next one."""
        order, at, plan = self.order, self.order.age, self.order.plan
        injections = [one for one in plan.injections if one.request.at == at]
        sent = {one.operation for one in self.baseline.requests if one.at == at} if self.baseline else set()
        if self.baseline and not injections and not sent:
            return True
        most = len(order.entries) + _STUCK_REQUESTS + sum(one.times for one in injections)
        due = sum(one.times for one in plan.injections if self._is_to_come(one.request, at))
        silence, all_faults, asked = self.listen(), sum(one.times for one in plan.injections), 0
        while order.payments[-1] == payment_id and len(order.entries) <= most:
            if order.faulted >= all_faults and not order.has_unknown_members:  # leave room for others
                self.faults.close()
            if order.faulted >= due and all(order.reads_of(at, one) for one in sent or {GET_PAYMENT}):
                return True
            if self.is_idle and asked < len(order.entries):  # who has delivered need not read it
                asked = len(order.entries)
                await self.ask(order.statuses[-1], is_once=True)
            may_stop = self._may_be_silent() or order.deliveries > 0
            if silence.lasts(self._short_patience() if may_stop else self.patience()):
                order.gave_up = not may_stop and self.baseline is not None
                order.waited, order.faults_left = silence.seconds, order.faulted < due
                return False
            await turn()
        return False

    def _is_to_come(self, request: Request, at: float) -> bool:
        """Whether a request was sent, or is to come up to this age: a second creation need not come."""
        sent = sum(entry.operation == request.operation for entry in self.order.entries)
        return request.number <= max(1, sent) if request.at is None else request.at <= at

    def end_payments(self) -> None:
        """Advance the payments to their ends: any of them may make goods due."""
        order = self.order
        for payment_id in order.payments:
            self.pacing.advance(payment_id, "end")
            if payment_id not in order.timelines:
                self.load(payment_id)
            states = order.timelines[payment_id]
            order.reached.update(states.values())
            order.stood.add([*states.values()][-1])
            late = [at for (_, one), (at, _) in pairwise(states.items()) if one == PaymentStatus.EXPIRED]
            if late and not order.plan.batch:  # of a parked order, the judge jumps over what is late
                order.deposits[payment_id] = late[0]
        order.move()

    async def come_to_rest(self) -> None:
        """Wait until the application reads no more, or has read too often; and ask for the deliveries."""
        order, silence = self.order, self.listen()
        most, last = len(order.entries) + _STUCK_REQUESTS, max(order.states)
        while order.reads_of(last) <= MANY_READS and len(order.entries) < most and not silence.lasts():
            self._has_read_end = order.reads_of(last) > 0
            await turn()
        await self.ask()

    async def await_goods(self) -> None:
        """Ask for the deliveries until the goods are out that are due."""
        order, patience, silence = self.order, self.pacing.patience, self.listen()
        while is_due(order, self.options.fulfil_at) and not (order.deliveries or order.problems):
            await self.ask()
            is_known = bool(order.statuses_read & final_statuses(self.options.fulfil_at))
            seconds = self.patience() if is_known or not order.gave_up else self._short_patience()
            if is_known:  # the goods may leave later, by themselves
                seconds = max(seconds, patience.settle if patience.pace is None else _BACKOFF * patience.lag)
            if silence.waited(seconds):
                order.waited = max(order.waited, silence.seconds)
                return
            await turn()
        if not order.plan.injections:
            patience.lag = max(patience.lag, silence.seconds)

    async def ask(self, at: str | None = None, *, is_once: bool = False) -> None:
        """Ask how often the goods went out, `at` this status of the payment, once or until that is told."""
        order, deadline = self.order, monotonic() + _ASK_SECONDS
        while not order.problems:
            told = self.pacing.application.count_deliveries(order.order_id)
            await until(told.done)
            error = told.exception()
            if error is None:
                order.deliveries = told.result()
                if order.deliveries:
                    order.delivered_at = order.delivered_at or at
                    order.goods_at = min(order.goods_at, self.pacing.clock.now())
            if error is None or is_once:
                return
            if monotonic() >= deadline or isinstance(error, TypeError | ValueError):
                order.problems.append(f"deliveries cannot be told: {self.pacing.describe(error)}")
            await until(lambda: False, _ASK_PAUSE)

    def _may_be_silent(self) -> bool:
        """Whether the application need not read the payment any more, or without faults does not."""
        is_unknown = self.baseline is None
        if is_unknown and not self.pacing.polls_by_itself:
            return True
        # One that polls rarely, or an expired payment once more, shows what there is to inject faults into.
        rare = {"expired"} if is_unknown and self.pacing.patience.pace is None else set()
        return not self.order.statuses_read.isdisjoint(final_statuses(self.options.fulfil_at) - rare)

    def _short_patience(self) -> float:
        """How long silence must last where nothing depends on it: after a reply that was read, some polls."""
        patience, is_patient, last = self.pacing.patience, self.options.is_patient, self.order.entries[-1:]
        longest = min(_LATE_PATIENCE if is_patient else SHORT_PATIENCE, patience.settle)
        if patience.pace is None or is_patient or any(hides_outcome(entry.fault) for entry in last):
            return longest
        return min(longest, max(_SOME_POLLS * patience.pace, _SHORTEST_PATIENCE))

    def patience(self) -> float:
        """How long silence must last. One that fails again and again may pause longer each time."""
        order, patience = self.order, self.pacing.patience
        fault = parse_fault(order.entries[-1].fault or "") if order.entries else None
        seconds = max(patience.seconds, patience.settle if self.options.is_patient else 0.0)
        if fault is not None and fault.kind is FaultKind.HANG:
            seconds += MAX_HANG  # so long the application may wait for its reply
        has_failed_twice = sum(hides_outcome(entry.fault) for entry in order.entries[-2:]) == 2
        return max(seconds, _BACKOFF * order.pause) if has_failed_twice else seconds
