"""A trial: an order of the application, with its own scenario and faults, as a coroutine of steps: place the
order; for each state of its payment: read, visit, ask, and stand at the next; then come to rest. Time stands
still until the trial moves its payment: once the application has read the state before.
"""

from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from paymock.client.http import Refused, monotonic
from paymock.client.sandbox import Sandbox
from paymock.rules.amounts import to_tokens
from paymock.rules.faults import MAX_HANG, FaultKind, parse_fault
from paymock.rules.scenarios import DEFAULT_SCENARIO, PaymentStatus
from paymock.schemas.public import CREATE_PAYMENT, GET_PAYMENT
from paymock.verify.checks import MANY_READS, VISITED, check
from paymock.verify.coroutines import turn, until
from paymock.verify.driver import MAX_ORDERS, BackendDriver, Silence
from paymock.verify.order import Order, final_statuses, hides_outcome
from paymock.verify.plans import NEAR_DUE, Baseline
from paymock.verify.process import browser, is_loopback

SHORT_PATIENCE = 1.5  # seconds of silence where nothing depends on it, over `Retry-After`; then others begin
_LATE_PATIENCE = 5.0  # the same when it is run again: it may read an expired payment on, but not as often
_SOME_POLLS, _SHORTEST_PATIENCE = 4, 0.3
BACKOFF = 3  # factor by which the pauses of one may grow that tries again and again
_ASK_SECONDS = 10.0  # maximum seconds for its deliveries to be told
_ASK_PAUSE = 0.1
_STUCK_REQUESTS = 20  # maximum number of requests that do not show the state of the payment: it is not read
_HELD_SECONDS = 0.2  # maximum seconds to hold a reply: a client may wait no longer


class FaultRules:
    """Fault rules of the sandbox, until they are closed."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox, self._ids = sandbox, list[str]()

    def add(self, fault: str, **selected: Any) -> None:
        self._ids.append(str(self._sandbox.fault(fault, **selected)["id"]))

    def are_hit(self, count: int = 1) -> bool:
        return sum(int(one["applied"]) for one in self._sandbox.faults() if one["id"] in self._ids) >= count

    def close(self) -> None:
        while self._ids:
            with suppress(Refused):  # a rule that somebody else has deleted
                self._sandbox.clear_faults(self._ids.pop())


class OrderFaults(FaultRules):
    """The override and the fault rules of an order: a rule for each injection, once."""

    def __init__(self, sandbox: Sandbox, order: Order) -> None:
        super().__init__(sandbox)
        self._order, self._left = order, [*order.plan.injections]
        self._is_set: bool | None = None  # not yet
        self.is_hurt = False  # by a rule of a batch

    def begin(self, scenario: str, times: int | None = None) -> None:
        """Let its next `times` payments, or all, follow a scenario."""
        self._is_set, custom, order_id = True, NEAR_DUE.get(scenario), self._order.order_id
        if scenario == DEFAULT_SCENARIO and self._order.plan.injections:  # which others follow anyway
            times = 1
        self._sandbox.next(None if custom else scenario, course=custom, times=times, order_id=order_id)

    def inject(self, *ages: float | None) -> None:
        """Add the rules for the faults at these ages, whose requests are counted from now on."""
        order = self._order
        for one in [one for one in self._left if one.request.at in ages and self._is_set]:
            self._left.remove(one)
            is_whole = order.history.unknown == "members"  # an unknown value passes
            self.add(
                one.parsed.text,
                operation=one.request.operation,
                order_id=order.order_id if one.has_order else None,
                skip=one.request.number - 1,
                times=None if is_whole else one.times,
            )

    def forget(self) -> None:
        """Leave them behind, since the server is gone."""
        self._ids, self._is_set = [], False

    def end(self) -> None:
        self.close()
        if self._is_set:
            self._is_set = False
            self._sandbox.clear_next(self._order.order_id)

    @property
    def count(self) -> int:
        return len(self._ids) + len(self._left) + self.is_hurt

    @property
    def has_override(self) -> bool:
        is_used = self._order.plan.scenario == DEFAULT_SCENARIO and self._order.traffic.payments
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
    driver: BackendDriver
    baseline: Baseline | None
    options: TrialOptions
    stands_still = False  # for as long as other trials run
    max_payments = 4  # maximum number to play: an application may create one at each poll

    def __post_init__(self) -> None:
        self.faults = OrderFaults(self.driver.sandbox, self.order)
        self._silence: Silence | None = None
        self._has_read_end = False
        self._return_url = ""

    async def run(self) -> None:
        """Run it to its end. It leaves neither faults nor an override behind, however it ends."""
        order, outcome, now = self.order, self.order.outcome, self.driver.clock.now
        order.history.placed_at = now()
        try:
            await self.play()
        except Refused as refused:
            outcome.problems.append(f"the judge was refused: {refused}")
        finally:
            outcome.is_over, order.history.ended_at = True, now()
            with suppress(Refused):
                self.faults.end()
        outcome.acknowledged = outcome.is_taken and bool(self.driver.feed.served - {order.order_id})
        outcome.is_excused |= bool(order.history.incident) and not outcome.is_taken  # nobody was asked to pay
        if not order.is_plain or outcome.problems:
            return
        # There is nothing to inject faults into; but who has polled before has lost the sale.
        traffic, has_polled = order.traffic, self.driver.patience.poll_interval is not None and self.is_due
        if not traffic.payments and not outcome.acknowledged:
            reason = f": {outcome.order_errors[-1]}" if outcome.order_errors else order.refusal()
            uses = "Does the application use this server and API key, and the order id that it is given?"
            problem = f"no payment with the order id {order.order_id} was created"
            outcome.problems.append(f"{problem}{reason}. {uses}")
        elif traffic.payments and not (outcome.deliveries or has_polled or traffic.polls):
            hint = "is `tick` missing?" if self.driver.polls_by_itself else "does `tick` poll it?"
            outcome.problems.append(f"the application never read its payment: {hint}")

    async def play(self) -> None:
        order, payments = self.order, self.order.traffic.payments
        self.faults.begin(order.plan.scenario)
        self.faults.inject(None, 0.0)
        await self.place()
        if not await self.has_payment():
            return
        for _ in range(self.max_payments):
            payment_id = payments[-1]
            self.load(payment_id)
            await self.follow(payment_id)
            if payments[-1] == payment_id:
                break
        if order.history.unknown != "members":  # the application must live with those
            self.faults.end()
        self.end_payments()
        if not order.outcome.problems:
            await self.come_to_rest()
            await self.await_goods()
            self.close_expired()

    @property
    def is_due(self) -> bool:
        return self.order.history.is_due(self.options.fulfil_at)

    @property
    def is_idle(self) -> bool:
        """Whether it waits for an application that has read the end, or has been silent for some time."""
        is_silent = self._silence is not None and self._silence.seconds > SHORT_PATIENCE
        return is_silent or self._has_read_end

    def listen(self) -> Silence:
        self._silence = Silence(self.driver, self.order)
        return self._silence

    async def place(self) -> None:
        order, outcome, driver = self.order, self.order.outcome, self.driver
        service = driver.backend.service
        expected = sum(one.times for one in order.plan.injections if one.request.operation == CREATE_PAYMENT)
        left = MAX_ORDERS
        while left >= 0:
            placed = self.call()
            self.listen()
            for call in placed:
                await until(call.done)
            await until(lambda: not driver.is_cut_off)  # so long a customer waits before trying again
            errors = [error for one in placed if (error := one.exception()) is not None]
            outcome.is_taken = len(errors) < len(placed)
            if not (outcome.is_taken and driver.polls_by_itself):  # else, whatever comes is noted soon
                driver.feed.note()
            if outcome.is_taken:
                return
            outcome.order_errors.append(driver.describe(errors[0]))
            if service is not None:  # the application may have ended, which shows a moment later
                await until(lambda: False, _ASK_PAUSE)
                await until(lambda: not service.is_down)
            left -= order.traffic.faulted >= expected or len(outcome.order_errors) > expected

    def call(self) -> list[Future[object]]:
        backend = self.driver.backend
        with self.driver.clock.stopped():
            return [backend.executor.submit(backend.order, self.order.order_id)]

    async def has_payment(self) -> bool:
        """Wait for the payment, and return whether there is one. Refused creations without an end end it."""
        traffic, outcome, silence = self.order.traffic, self.order.outcome, self.listen()
        while not traffic.payments and len(traffic.entries) - traffic.faulted <= _STUCK_REQUESTS:
            is_refused = any(400 <= last.status < 500 and not last.fault for last in traffic.entries[-1:])
            if silence.lasts(self._short_patience() if is_refused else self.patience()):
                outcome.gave_up, outcome.waited = True, silence.seconds
                return False
            await turn()
        return bool(traffic.payments)

    def load(self, payment_id: str) -> None:
        """Note the states that a read can show: they last a millisecond or more. It is in the first."""
        order, history, detail = self.order, self.order.history, self.driver.sandbox.detail(payment_id)
        is_first, payment = not history.states, detail["payment"]
        asked = payment["attempts"][0]["instructions"]
        raw, decimals = int(asked["amounts"]["settlement"]), detail["decimals"]
        tokens = f"{raw} raw units of" if decimals is None else to_tokens(raw, decimals)
        history.asked = f"{tokens} {asked['asset']} on {asked['chain']}"
        self._return_url = str(payment.get("metadata", {}).get("return_url", "")) if order.is_plain else ""
        history.states = {entry["offset_seconds"]: entry["status"] for entry in detail["timeline"]}
        history.timelines[payment_id] = history.states
        history.stand(0.0)
        if is_first and not (self.baseline or order.plan.batch) and detail["scenario"] != order.plan.scenario:
            follows = f"the payment follows {detail['scenario']}"
            order.outcome.problems.append(f"{follows}: the application must not send X-Mock-Scenario")

    async def follow(self, payment_id: str) -> None:
        """Move a payment to each other status and fault, as long as the application will read the next."""
        history, options = self.order.history, self.options
        hurt = {one.request.at: one.request.operation for one in reversed(self.order.plan.injections)}
        changes = pairwise(history.states.items())
        steps = [at for (_, old), (at, new) in changes if new != old or at in hurt or options.is_deep]
        for at in [*steps, None]:
            goes_on = await self.read(payment_id)
            await self.visit()
            is_hurt = self.order.traffic.faulted > 0 and not (self.order.outcome.deliveries or self.is_due)
            if options.is_watched or history.visits or is_hurt:
                await self.ask(history.statuses[-1])
            if not goes_on or at is None:
                return
            await self.stand(payment_id, at, hurt.get(at))

    async def stand(self, payment_id: str, at: float, hurt: str | None) -> None:
        """Move the payment to the state at this age; `hurt`: the operation that gets a fault there."""
        with closing(FaultRules(self.driver.sandbox)) as gate:
            if self.options.is_held and hurt and self.driver.polls_by_itself:
                gate.add("hold", operation=hurt, order_id=self.order.order_id)
                await until(gate.are_hit, _HELD_SECONDS)
            is_deep, history = self.options.is_deep, self.order.history
            to, seconds = ("next", None) if is_deep else (None, at - history.age)
            if not self.driver.advance(payment_id, to, seconds):
                problem = "the payment was moved by others: the judge moves it by itself"
                self.order.outcome.problems.append(problem)
            history.stand(at)
            self.faults.inject(at)

    async def visit(self) -> None:
        """Request the page to which the checkout leads back, as a customer does who has not paid."""
        order, url = self.order, self._return_url
        is_open = order.history.statuses[-1] in VISITED and not order.outcome.deliveries
        if not (is_open and is_loopback(url)):
            return
        order.history.visits[len(order.traffic.entries) - 1] = f"the customer came back: GET {url}"
        with suppress(Exception):  # whatever the page answers
            call = self.driver.backend.executor.submit(browser.open, url, None, _ASK_SECONDS)
            await until(call.done)
            call.result().close()

    async def read(self, payment_id: str) -> bool:
        """Wait until the application has read the state; return whether it will read the next one."""
        order, traffic, history, baseline = self.order, self.order.traffic, self.order.history, self.baseline
        at, outcome = history.age, order.outcome
        here, sent = order.plan.times_at(at), baseline.operations_at(at) if baseline else {GET_PAYMENT}
        if not here and not sent:
            return True
        most, due, asked = len(traffic.entries) + _STUCK_REQUESTS + here, order.faults_due(at), 0
        silence = self.listen()
        while traffic.payments[-1] == payment_id and len(traffic.entries) <= most:
            if order.has_its_faults:  # leave room for others
                self.faults.close()
            if traffic.faulted >= due and traffic.has_read(at, sent or {GET_PAYMENT}):
                return True
            if self.is_idle and asked < len(traffic.entries):  # who has delivered need not read it
                asked = len(traffic.entries)
                await self.ask(history.statuses[-1], is_once=True)
            may_stop = self._may_be_silent()
            if silence.lasts(self._short_patience() if may_stop else self.patience()):
                outcome.gave_up = not may_stop and baseline is not None
                outcome.waited, history.faults_left = silence.seconds, traffic.faulted < due
                return False
            await turn()
        return False

    def end_payments(self) -> None:
        """Advance the payments to their ends: any of them may make goods due."""
        order, history = self.order, self.order.history
        for payment_id in order.traffic.payments:
            self.driver.advance(payment_id, "end")
            if payment_id not in history.timelines:
                self.load(payment_id)
            states = history.timelines[payment_id]
            history.reached.update(states.values())
            history.stood.add([*states.values()][-1])
            late = [at for (_, one), (at, _) in pairwise(states.items()) if one == PaymentStatus.EXPIRED]
            if late and not order.plan.batch:  # of a parked order, the judge jumps over what is late
                history.deposits[payment_id] = late[0]
        history.stand()

    def close_expired(self) -> None:
        """End payments that have expired, by one raw unit: a careful application would wait for ever."""
        due, is_end = self.options.fulfil_at, {PaymentStatus.EXPIRED, PaymentStatus.MANUAL_REVIEW}
        if not is_end.isdisjoint(due) or check(self.order, due):
            return  # a finding tells of its payment as it was
        for payment_id, states in self.order.history.timelines.items():
            if [*states.values()][-1] == PaymentStatus.EXPIRED:
                with suppress(Refused):
                    self.driver.sandbox.deposit(payment_id, 1)

    async def come_to_rest(self) -> None:
        """Wait until the application reads no more, or has read too often; and ask for the deliveries."""
        traffic, silence = self.order.traffic, self.listen()
        most, last = len(traffic.entries) + _STUCK_REQUESTS, max(self.order.history.states)
        while traffic.reads_of(last) <= MANY_READS and len(traffic.entries) < most and not silence.lasts():
            self._has_read_end = traffic.reads_of(last) > 0
            await turn()
        await self.ask()

    async def await_goods(self) -> None:
        """Ask for the deliveries until the goods are out that are due."""
        order, outcome, patience = self.order, self.order.outcome, self.driver.patience
        silence = self.listen()
        while self.is_due and not (outcome.deliveries or outcome.problems):
            await self.ask()
            is_known = bool(order.traffic.statuses_read & final_statuses(self.options.fulfil_at))
            seconds = self.patience() if is_known or not outcome.gave_up else self._short_patience()
            if is_known:  # the goods may leave later, by themselves
                is_measured = patience.poll_interval is not None
                seconds = max(seconds, BACKOFF * patience.delivery_delay if is_measured else patience.settle)
            if silence.waited(seconds):
                outcome.waited = max(outcome.waited, silence.seconds)
                return
            await turn()
        if not order.plan.injections:
            patience.delivery_delay = max(patience.delivery_delay, silence.seconds)

    async def ask(self, at: str | None = None, *, is_once: bool = False) -> None:
        """Ask how often the goods went out, `at` this status of the payment, once or until that is told."""
        outcome, deadline = self.order.outcome, monotonic() + _ASK_SECONDS
        while not outcome.problems:
            told = self.driver.backend.count_deliveries(self.order.order_id)
            await until(told.done)
            error = told.exception()
            if error is None:
                outcome.deliveries = told.result()
                if outcome.deliveries:
                    outcome.delivered_at = outcome.delivered_at or at
                    outcome.goods_at = min(outcome.goods_at, self.driver.clock.now())
            if error is None or is_once:
                return
            if monotonic() >= deadline or isinstance(error, TypeError | ValueError):
                outcome.problems.append(f"deliveries cannot be told: {self.driver.describe(error)}")
            await until(lambda: False, _ASK_PAUSE)

    def _may_be_silent(self) -> bool:
        """Whether the application need not read the payment any more, or without faults does not."""
        is_unknown = self.baseline is None
        if self.order.outcome.deliveries or (is_unknown and not self.driver.polls_by_itself):
            return True
        # One that polls rarely, or an expired payment once more, shows what there is to inject faults into.
        rare = {"expired"} if is_unknown and self.driver.patience.poll_interval is None else set()
        return not self.order.traffic.statuses_read.isdisjoint(final_statuses(self.options.fulfil_at) - rare)

    def _short_patience(self) -> float:
        """How long silence must last where nothing depends on it: after a reply that was read, some polls."""
        patience, is_patient = self.driver.patience, self.options.is_patient
        longest = min(_LATE_PATIENCE if is_patient else SHORT_PATIENCE, patience.settle)
        if patience.poll_interval is None or is_patient or self.order.traffic.has_lost_reply:
            return longest
        return min(longest, max(_SOME_POLLS * patience.poll_interval, _SHORTEST_PATIENCE))

    def patience(self) -> float:
        """How long silence must last. One that fails again and again may pause longer each time."""
        traffic, patience = self.order.traffic, self.driver.patience
        fault = parse_fault(traffic.entries[-1].fault or "") if traffic.entries else None
        seconds = max(patience.seconds, patience.settle if self.options.is_patient else 0.0)
        if fault is not None and fault.kind is FaultKind.HANG:
            seconds += MAX_HANG  # so long the application may wait for its reply
        has_failed_twice = sum(hides_outcome(entry.fault) for entry in traffic.entries[-2:]) == 2
        return max(seconds, BACKOFF * traffic.pause) if has_failed_twice else seconds
