"""Trials: orders of the application, each with its own scenario and faults, side by side in one sandbox.

A trial is a coroutine that is resumed whenever the application has sent something, or could have. Time stands
still, until a trial moves its payment to the next change: once the application has read the state before.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from paymock.client.http import Json
from paymock.client.text import without_key
from paymock.rules.faults import MAX_HANG, FaultKind, parse_fault
from paymock.rules.scenarios import DEFAULT_SCENARIO
from paymock.schemas.public import CREATE_PAYMENT, GET_PAYMENT, PAYMENT_OPERATIONS, PAYMENT_READS
from paymock.verify.application import Application
from paymock.verify.control import Control
from paymock.verify.plans import Course, Hit, Plan, Request
from paymock.verify.rules import MANY_READS, Observation, Violation, final_statuses, judge

PATIENCE = 10.0
"""How long the application may be silent, in seconds, before it counts as having given up; while it goes on
polling other orders, if it does.
"""

SHORT_PATIENCE = 1.5
"""The same where nothing depends on it: after a status that ends its interest, or for what was seen before.
It is longer than `Retry-After`.
"""

_LOST_PATIENCE = 30.0
"""The same while nothing else is heard of the application either."""

GRACE_SECONDS = 10.0
"""How long trials may go on that run when the budget has been spent."""

_STARVED_SECONDS = 600.0
"""How long the application may poll older orders only, before that says nothing about this one."""

_TURNS = 3
"""How often the application must have polled a younger order meanwhile, or have been given a tick."""

_WAIT_SECONDS = 0.03
"""How long to wait for what the application sends, before trials go on with what there is."""

_MAX_ORDERS = 3
"""How often a customer whose order fails tries again once the faults have ended."""

_MAX_PAYMENTS = 20
"""So many payments of one order are followed: an application may create another one whenever it polls."""

_STUCK_REQUESTS = 20
"""After so many requests, none of which shows the state of the payment, the application does not read it."""

_MAX_NUMBER = 5
"""Of the same requests in the same state, so many get faults: more of them say nothing new."""

Steps = Generator[None, None, None]


@dataclass(frozen=True)
class State:
    """A state of a payment that a read can show, from `at` seconds after its creation on."""

    at: float
    status: str


@dataclass
class Trial:
    """What is known of a trial. `course`: what the application does without faults, if that is known."""

    plan: Plan
    number: int
    order_id: str
    course: Course | None
    closely: bool = False
    """Whether the deliveries are asked for at every state."""
    entries: list[Json] = field(default_factory=list)
    """The requests about the order, and of trials that run alone also those without an order."""
    payments: list[str] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    """Those of the newest payment."""
    position: int = 0
    deliveries: int = 0
    delivered_at: str | None = None
    """The status of the payment at which the first delivery was seen, if that was asked for."""
    order_errors: list[str] = field(default_factory=list)
    gave_up: bool = False
    problems: list[str] = field(default_factory=list)
    """Why the trial says nothing."""
    calls: list[int] = field(default_factory=list)
    """For each entry, the number of the tick or order that it belongs to."""
    applied: int = 0
    """How many requests got a fault of the plan."""
    statuses_read: set[str] = field(default_factory=set)
    """Those that replies have shown."""
    _reads: Counter[tuple[str, str, float]] = field(default_factory=Counter)
    """How many replies showed a payment, by the operation and by the age of the state."""

    @property
    def observation(self) -> Observation:
        """What the rules judge."""
        return Observation(
            entries=self.entries,
            calls=self.calls,
            statuses=[state.status for state in self.states[: self.position + 1]],
            payments=self.payments,
            deliveries=self.deliveries,
            delivered_at=self.delivered_at,
            gave_up=self.gave_up,
            reordered=bool(self.order_errors),
        )

    def note(self, entry: Json, call: int) -> None:
        """Take note of a request. `call` is the number of the tick or order that it belongs to."""
        self.entries.append(entry)
        self.calls.append(call)
        self.applied += entry["fault"] is not None
        payment_id, at = entry["payment_id"], entry["shown_offset_seconds"]
        if entry["operation"] == CREATE_PAYMENT and entry["idempotency"] == "new":
            if payment_id and payment_id not in self.payments:
                self.payments.append(payment_id)
        elif at is not None:
            self._reads[payment_id, entry["operation"], at] += 1
            if entry["operation"] == GET_PAYMENT:
                self.statuses_read.add(entry["shown"])

    def reads(self, at: float, operation: str = GET_PAYMENT) -> int:
        """How many replies to reads of the newest payment showed the state at this age, or a later one."""
        newest = self.payments[-1]
        return sum(
            count
            for (payment_id, read_by, shown_at), count in self._reads.items()
            if payment_id == newest and read_by == operation and shown_at >= at
        )


class Runner:
    """Runs trials against an application, at most `jobs` at a time. `fulfil_at` is the status at which goods
    are due. Raises Refused and Unreachable.
    """

    def __init__(self, control: Control, application: Application, fulfil_at: str, run_id: str, jobs: int):
        self._control = control
        self._application = application
        self._fulfil_at = fulfil_at
        self._final = final_statuses(fulfil_at)
        self._run_id = run_id
        self._jobs = jobs
        self._active: dict[str, tuple[Trial, Steps]] = {}
        self._began = 0
        self._calls = 0
        self._polls: Counter[int] = Counter()
        """How often the application has read the payment of each order that is under way, by its number."""
        self._heartbeat: Trial | None = None
        self._ticks = 0
        self._busy = 0.0
        self.heard_at = self.now()
        """When the application was last heard of."""
        self._fruitless = 0
        self._alone = False
        self.confirmed: set[str] = set()
        """The rules that a trial has been seen to break with all patience: others need not be waited for."""
        self.tick_errors: list[str] = []

    def now(self) -> float:
        """A time in seconds that stands still while the application is busy with an order or a tick: then it
        is not silent.
        """
        return time.monotonic() - self._busy

    @contextmanager
    def _application_is_busy(self) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._busy += time.monotonic() - began

    def place_heartbeat(self) -> None:
        """Place an order whose payment stays as it is, younger than all others. How often the application
        polls it tells whether it has had its turn.
        """
        self._end_heartbeat()
        self._heartbeat = self._new_trial(Plan(DEFAULT_SCENARIO))
        self._application.executor.submit(self._insist, self._heartbeat.order_id)

    def _insist(self, order_id: str) -> None:
        """Place an order, again if it fails."""
        for _ in range(_MAX_ORDERS):
            with suppress(Exception):
                self._application.order(order_id)
                return

    def _end_heartbeat(self) -> None:
        """Let the payment of the heartbeat come to its end, so that the application forgets it."""
        if self._heartbeat is not None:
            self._polls.pop(self._heartbeat.number, None)
            for payment in self._heartbeat.payments:
                self._control.advance(payment, "end")

    def turns(self, trial: Trial) -> dict[int, int]:
        """How often the application has polled what comes after the trial, as far as is known: each younger
        order; and of a trial that runs alone, how often it was given a tick, or polled the heartbeat.
        """
        if self._alone and self._application.tick is not None:
            return {0: self._ticks}
        younger = {number: count for number, count in self._polls.items() if number > trial.number}
        if self._alone and self._heartbeat is not None:
            younger[self._heartbeat.number] = self._polls[self._heartbeat.number]
        if self._heartbeat is not None and self._heartbeat.number > trial.number:
            younger.setdefault(self._heartbeat.number, 0)
        return younger

    def close(self) -> None:
        """Remove the faults of trials that have not ended, and end the payment of the heartbeat."""
        for _, steps in self._active.values():
            with suppress(Exception):  # each leaves nothing behind, whatever became of the others
                steps.close()
        self._active.clear()
        self._end_heartbeat()

    def run(
        self,
        plans: Iterable[Plan],
        courses: dict[str, Course],
        *,
        alone: bool = False,
        closely: bool = False,
        left: Callable[[], float] = lambda: math.inf,
    ) -> Iterator[Trial]:
        """Run the trials of `plans`, and yield each when it has ended. Once no second is `left`, none begins,
        and those that run have GRACE_SECONDS.
        """
        self._alone = alone
        waiting = iter(plans)
        jobs = 1 if alone else self._jobs
        exhausted = False
        while True:
            while self._load() < jobs and not exhausted:
                plan = next(waiting, None) if left() > 0 else None
                if plan is None:
                    exhausted = True
                    break
                trial = self._new_trial(plan, courses.get(plan.scenario), closely=closely)
                self._active[trial.order_id] = trial, self._steps(trial)
            if not self._active:
                return
            before = self._began, sum(trial.position for trial, _ in self._active.values())
            yield from self._resume(left)
            after = self._began, sum(trial.position for trial, _ in self._active.values())
            self._fruitless = 0 if after != before else self._fruitless + 1
            if left() < -GRACE_SECONDS:
                yield from self._cancel()
            if self._active:
                self._listen()

    def _cancel(self) -> Iterator[Trial]:
        """End all trials, and yield them."""
        for trial, steps in self._active.values():
            steps.close()
            trial.problems.append("it did not end within the budget")
            yield trial
        self._active.clear()

    def sweep(self, trials: Iterable[Trial]) -> None:
        """Ask once more how often the goods of each trial went out."""
        asked = [(trial, self._deliveries(trial)) for trial in trials if not trial.problems]
        for trial, call in asked:
            if call.exception() is None:
                trial.deliveries = max(trial.deliveries, call.result())

    def judge(self, trial: Trial) -> list[Violation]:
        """The rules that a trial has broken; none if it says nothing."""
        return [] if trial.problems else judge(trial.observation, self._fulfil_at)

    def _load(self) -> int:
        """How many trials there are, each counted as often as it has faults."""
        return sum(max(1, len(trial.plan.hits)) for trial, _ in self._active.values())

    def _new_trial(self, plan: Plan, course: Course | None = None, *, closely: bool = False) -> Trial:
        self._began += 1
        return Trial(plan, self._began, f"{self._run_id}-{self._began}", course, closely=closely)

    def _resume(self, left: Callable[[], float]) -> Iterator[Trial]:
        """Resume each trial while there is time, and yield those that have ended."""
        for order_id, (trial, steps) in [*self._active.items()]:
            if left() < -GRACE_SECONDS:
                return
            try:
                next(steps)
            except StopIteration:
                del self._active[order_id]
                self._polls.pop(trial.number, None)
                yield trial

    def _listen(self) -> None:
        """Let the application poll, and take note of what it has sent."""
        tick = self._application.tick
        if tick is None:
            self._note_requests(count=len(self._active), timeout=_WAIT_SECONDS)
            return
        if self._fruitless > _TURNS:  # it backs off, in real time
            time.sleep(min(_WAIT_SECONDS, 0.002 * self._fruitless))
        with self._application_is_busy():
            try:
                tick()
            except Exception as error:  # noqa: BLE001 - the next tick comes all the same
                self.tick_errors.append(self._text(error))
        self._ticks += 1
        self._note_requests()

    def _note_requests(self, count: int = 1, timeout: float = 0.0) -> None:
        """Take note of what the application has sent since the last call: wait until it has sent `count`
        requests, or for `timeout` seconds.
        """
        for entry in self._control.new_requests(count, timeout):
            self.heard_at = self.now()
            self._note(entry)
        if self._application.tick is not None:
            self._calls += 1

    def _note(self, entry: Json) -> None:
        order_id = entry["order_id"]
        trial, _ = self._active.get(order_id, (None, None))
        if trial is None and self._heartbeat and order_id == self._heartbeat.order_id:
            trial = self._heartbeat
        if trial is None and self._alone and order_id is None:
            trial = next(iter(self._active.values()))[0]
        if trial is None:
            return
        self._polls[trial.number] += entry["operation"] in PAYMENT_READS
        trial.note(entry, self._calls)

    # The steps of a trial. At each `yield`, the application gets to poll.

    def _steps(self, trial: Trial) -> Steps:
        rules: list[str] = []
        self._control.sandbox.next(trial.plan.scenario, order_id=trial.order_id)
        try:
            yield from self._order(trial, rules)
            if trial.payments:
                yield from self._follow(trial, rules)
                if not trial.problems:
                    yield from self._settle(trial)
        finally:
            for rule in rules:
                self._control.sandbox.clear_faults(rule)
            self._control.sandbox.clear_next(trial.order_id)

    def _order(self, trial: Trial, rules: list[str]) -> Steps:
        """Place the order, again if it fails, and wait for its payment."""
        self._add_faults(trial, None, rules)
        self._add_faults(trial, 0.0, rules)
        expected = sum(hit.times for hit in trial.plan.hits if hit.request.operation == CREATE_PAYMENT)
        left = _MAX_ORDERS
        while True:
            with self._application_is_busy():
                call = self._application.executor.submit(self._application.order, trial.order_id)
            while not call.done():
                yield
            self._note_requests()
            if call.exception() is None:
                break
            trial.order_errors.append(self._text(call.exception()))
            left -= trial.applied >= expected or len(trial.order_errors) > expected
            if left < 0:
                break
        waited = self._watch(trial)
        while not trial.payments:
            if waited.silent(self._patience(trial)):
                trial.gave_up = True
                break
            yield
        if trial.payments and trial.course is None:
            detail = self._control.sandbox.detail(trial.payments[-1])
            if detail["scenario"] != trial.plan.scenario:
                trial.problems.append(
                    f"the payment follows {detail['scenario']}: the application must not send X-Mock-Scenario"
                )

    def _follow(self, trial: Trial, rules: list[str]) -> Steps:
        """Move the payment from change to change, each time once the application has read it."""
        payment: str | None = None
        # The application may create another one meanwhile.
        while trial.payments[-1] != payment and len(trial.payments) <= _MAX_PAYMENTS:
            payment = trial.payments[-1]
            trial.states, trial.position = _states(self._control.sandbox.detail(payment)), 0
            for number, state in enumerate(trial.states):
                trial.position = number
                if number:
                    if not self._control.advance(payment, "next"):
                        trial.problems.append("the payment was moved by others: the judge moves it by itself")
                    self._add_faults(trial, state.at, rules)
                interested = yield from self._read(trial, payment, state)
                if trial.closely:
                    yield from self._ask(trial)
                if not interested:
                    break
        for payment in trial.payments:
            self._control.advance(payment, "end")
        trial.position = len(trial.states) - 1

    def _read(self, trial: Trial, payment: str, state: State) -> Generator[None, None, bool]:
        """Wait until the application has read a state, and return whether it will read the next."""
        hits = [hit for hit in trial.plan.hits if hit.request.at == state.at]
        course = trial.course
        expected = [request for request in course.requests if request.at == state.at] if course else []
        if course and not hits and not expected:
            return True
        reads = {request.operation for request in expected} or {GET_PAYMENT}
        waited = self._watch(trial)
        due = sum(hit.times for hit in trial.plan.hits if (hit.request.at or 0) <= state.at)
        began = len(trial.entries)
        # Without faults, one that polls rarely, or an expired payment once more, shows what there is to hit.
        is_paced = self._application.tick is not None
        while trial.payments[-1] == payment:
            if trial.applied >= due and all(trial.reads(state.at, operation) for operation in reads):
                return True
            known = bool(
                trial.statuses_read & (self._final if course or is_paced else self._final - {"expired"})
            )
            if waited.silent(SHORT_PATIENCE):
                if known or (course is None and is_paced):
                    return False
                if waited.silent(self._patience(trial)):
                    trial.gave_up = course is not None
                    return False
            if len(trial.entries) - began > _STUCK_REQUESTS + sum(hit.times for hit in hits):
                return False
            yield
        return False

    def _settle(self, trial: Trial) -> Steps:
        """Wait until the application has ended: until it reads no more, or has read too often, and until the
        goods are out that are due.
        """
        waited = self._watch(trial)
        began = len(trial.entries)
        while (
            not waited.silent()
            and trial.reads(trial.states[-1].at) <= MANY_READS
            and len(trial.entries) - began < _STUCK_REQUESTS
        ):
            yield
        yield from self._ask(trial)
        due = self._fulfil_at in trial.observation.statuses
        waited = self._watch(trial)
        while due and not trial.deliveries and not trial.problems:
            known = bool(trial.statuses_read & self._final)
            if waited.waited(self._patience(trial) if known or not trial.gave_up else SHORT_PATIENCE):
                break
            yield
            yield from self._ask(trial)

    def _ask(self, trial: Trial) -> Steps:
        """Ask how often the goods went out."""
        call = self._deliveries(trial)
        while not call.done():
            yield
        if call.exception() is not None:
            trial.problems.append(f"deliveries cannot be told: {self._text(call.exception())}")
            return
        trial.deliveries = call.result()
        if trial.deliveries and trial.delivered_at is None and trial.closely:
            trial.delivered_at = trial.states[trial.position].status

    def _deliveries(self, trial: Trial) -> Future[int]:
        return self._application.executor.submit(self._count, trial.order_id)

    def _count(self, order_id: str) -> int:
        """How often the goods of an order went out. Raises TypeError for what is no number."""
        count: Any = self._application.deliveries(order_id)
        if not isinstance(count, int) or count < 0:
            raise TypeError(f"must be how often the goods went out, not {count!r}")
        return int(count)

    def _add_faults(self, trial: Trial, at: float | None, rules: list[str]) -> None:
        for hit in trial.plan.hits:
            if hit.request.at == at:
                has_order = hit.request.operation in PAYMENT_OPERATIONS
                rules.append(self._control.add_fault(hit, trial.order_id if has_order else None))

    def _patience(self, trial: Trial) -> float:
        """How long silence must last: only what has been found already needs little of it."""
        fault = parse_fault(trial.entries[-1]["fault"] or "") if trial.entries else None
        if fault is not None and fault.kind is FaultKind.HANG:
            return MAX_HANG + PATIENCE  # so long the application may wait for its reply
        gave_up, trial.gave_up = trial.gave_up, True
        rules = {violation.rule for violation in self.judge(trial)}
        trial.gave_up = gave_up
        return SHORT_PATIENCE if rules and rules <= self.confirmed else PATIENCE

    def _text(self, error: BaseException | None) -> str:
        return without_key(f"{type(error).__name__}: {error}", self._control.sandbox.api_key)

    def _watch(self, trial: Trial) -> "_Watch":
        return _Watch(self, trial)


class _Watch:
    """Tells for how long the application has sent nothing about a trial, though it has had its turns."""

    def __init__(self, runner: Runner, trial: Trial) -> None:
        self._runner = runner
        self._trial = trial
        self._began = time.monotonic()
        self._restart()

    def _restart(self) -> None:
        self._entries = len(self._trial.entries)
        self._since, self._before = self._runner.now(), self._runner.turns(self._trial)

    def silent(self, patience: float = 0.0) -> bool:
        """Whether it has sent nothing for `patience` seconds, in which it had its turns."""
        if len(self._trial.entries) != self._entries:
            self._restart()
        return self.waited(patience)

    def waited(self, patience: float) -> bool:
        """Whether `patience` seconds have passed, in which it had its turns."""
        now = self._runner.now()
        if now - self._since < patience:
            return False
        turns = self._runner.turns(self._trial)
        if not turns and now - self._since > _WAIT_SECONDS:
            self._runner.place_heartbeat()
        counts = [count - self._before.get(number, 0) for number, count in turns.items()]
        own = len(self._trial.entries) - self._entries
        silence = now - max(self._since, self._runner.heard_at)
        if max([own, *counts]) >= _TURNS or silence >= _LOST_PATIENCE:
            return True
        if time.monotonic() - self._began < _STARVED_SECONDS:
            return False
        self._trial.problems.append(
            "the application polls older orders, and neither this one nor a younger one"
        )
        return True


def course_of(trial: Trial) -> Course:
    """What a trial without faults has shown of its scenario."""
    requests: list[Request] = []
    counts: dict[tuple[str, float | None], int] = {}
    for entry in trial.entries:
        operation = entry["operation"]
        reads = operation in PAYMENT_READS and entry["payment_id"] in trial.payments[-1:]
        if operation is None or (operation in PAYMENT_READS and not reads):
            continue
        at = entry["shown_offset_seconds"] if reads else None
        counts[operation, at] = counts.get((operation, at), 0) + 1
        if counts[operation, at] <= _MAX_NUMBER:
            requests.append(Request(operation, at, counts[operation, at]))
    return Course(trial.plan.scenario, tuple(requests), {state.at: state.status for state in trial.states})


def missed(trial: Trial) -> list[Hit]:
    """The faults of the plan that no request got."""
    left = [entry for entry in trial.entries if entry["fault"] is not None]
    result = []
    for hit in trial.plan.hits:
        match = [
            entry
            for entry in left
            if entry["operation"] == hit.request.operation and entry["fault"] == hit.parsed.text
        ]
        if match:
            left.remove(match[0])
        else:
            result.append(hit)
    return result


def _states(detail: Json) -> list[State]:
    """The states that last at least a millisecond, so that a read can show them."""
    statuses: dict[float, str] = {}
    for entry in detail["timeline"]:
        statuses[entry["offset_seconds"]] = entry["status"]
    return [State(at, status) for at, status in statuses.items()]
