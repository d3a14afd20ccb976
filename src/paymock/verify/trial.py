"""A trial: an order of the application, with its own scenario and faults.

Time stands still, until a trial moves its payment to the next change: once the application has read the state
before.
"""

from collections import Counter
from collections.abc import Callable, Sequence, Set
from concurrent.futures import Future

from paymock.client.http import Json, monotonic
from paymock.rules.faults import MAX_HANG, FaultKind, parse_fault
from paymock.schemas.public import CREATE_PAYMENT, GET_PAYMENT, PAYMENT_READS
from paymock.verify.oracle import MANY_READS, Violation, check, final_statuses, hides_outcome
from paymock.verify.pacing import MAX_ORDERS, Inactivity, Order, Pacing
from paymock.verify.plans import NEAR_DUE, Baseline, Injection, Plan, Request

PATIENCE = 10.0
"""How long the application may be silent, in seconds, before it counts as having given up; while it goes on
polling other orders, if it does.
"""

SHORT_PATIENCE = 1.5
"""The same where nothing depends on it: after a status that ends its interest. It is longer than
`Retry-After`. A trial that has waited for so long lets others begin.
"""

BACKOFF = 3
"""How many times longer the pauses of an application may become that tries again and again."""

_ASK_SECONDS = 10.0
"""How long it is asked for its deliveries, if it does not answer."""

_ASK_PAUSE = 0.1

_MAX_PAYMENTS = 20
"""So many payments of one order are followed: an application may create another one whenever it polls."""

_STUCK_REQUESTS = 20
"""After so many requests, none of which shows the state of the payment, the application does not read it."""

_MAX_NUMBER = 5
"""Of the same requests in the same state, so many get faults: more of them say nothing new."""


class Trial(Order):
    """The trial of a plan. `baseline`: what the application does without faults, if that is known.
    `record_deliveries`: ask for the deliveries at every state. `settle`: how many
    seconds goods may take, as long as nothing is known of that. `known`: the rules that others have broken.

    It goes through phases, of which each is a method that is called again whenever the application could have
    sent something, until it enters the next: placing the order, awaiting its payment, following the payment
    (reading, moving), settling, awaiting the goods.
    """

    def __init__(
        self,
        plan: Plan,
        pacing: Pacing,
        fulfil_at: str,
        *,
        baseline: Baseline | None,
        record_deliveries: bool,
        settle: float = 0.0,
        known: Set[str] = frozenset(),
    ) -> None:
        super().__init__(*pacing.new_id())
        self.plan = plan
        self.order_errors: list[str] = []
        self.last_fault: Json | None = None
        self.faulted_at = 0.0
        """When its last request was noted that lost its reply."""
        self.culprit: Plan | None = None
        """The plan whose fault ended or silenced the application meanwhile."""
        self.longest_pause = 0.0
        """Between two requests, in seconds."""
        self.states: dict[float, str] = {}
        """The statuses of the newest payment, by its age in seconds at which each begins."""
        self._pacing = pacing
        self._sandbox = pacing.sandbox
        self._fulfil_at = fulfil_at
        self._baseline = baseline
        self._record_deliveries = record_deliveries
        self._known = known
        self._settle = settle
        self.has_unknown_members = any(one.parsed.kind is FaultKind.EXTRA for one in plan.injections)
        self._phase: Callable[[], None] | None = self._start
        self._rules: list[str] = []
        self._is_cleared = False
        self._applied = 0
        self._reads: Counter[tuple[str, str, float]] = Counter()
        """How many replies showed a payment, by the operation and by the age of the state."""
        self._statuses_read: set[str] = set()
        self._payment = ""
        self._orders_left = MAX_ORDERS
        self._placed: list[Future[object]] = []
        self._told: Future[int] | None = None
        self._ask_from = 0.0
        self._ask_until = 0.0
        self._is_interested = True

    # What it has shown.

    def check(self) -> list[Violation]:
        """The rules that it has broken; none if it says nothing."""
        return [] if self.problems else check(self, self._fulfil_at)

    def note_incident(self, event: str, culprit: Plan | None) -> None:
        """Note what befell the application as a whole, and the plan whose fault came before. What it has
        delivered it may forget.
        """
        self.incident = "; ".join(dict.fromkeys(filter(None, (self.incident, event))))
        self.culprit = self.culprit or culprit
        self.is_excused |= self._fulfil_at in self._statuses_read

    @property
    def rules(self) -> int:
        """How many fault rules and overrides it has, or will have soon."""
        return 0 if self._is_cleared else max(1, len(self.plan.injections))

    @property
    def is_idle(self) -> bool:
        """Whether it waits for an application that has been silent for some time."""
        return self._phase is not None and bool(self._placed) and self._silence.seconds > SHORT_PATIENCE

    @property
    def missed(self) -> list[Injection]:
        """The faults of the plan that no request got."""
        got = [(entry["operation"], entry["fault"]) for entry in self.entries]
        result = []
        for injection in self.plan.injections:
            key = injection.request.operation, injection.parsed.text
            if key in got:
                got.remove(key)
            else:
                result.append(injection)
        return result

    @property
    def requests(self) -> tuple[Request, ...]:
        """The requests into which a fault could be injected, in order."""
        requests: list[Request] = []
        counts: Counter[tuple[str, float | None]] = Counter()
        for entry in self.entries:
            operation, at = entry["operation"], None
            if operation in PAYMENT_READS:
                if entry["payment_id"] not in self.payments[-1:]:
                    continue
                at = entry["shown_offset_seconds"]
            if operation is not None:
                counts[operation, at] += 1
                if counts[operation, at] <= _MAX_NUMBER:
                    requests.append(Request(operation, at, counts[operation, at]))
        return tuple(requests)

    def note(self, entry: Json, call: int, now: float) -> None:
        super().note(entry, call, now)
        self.longest_pause = max(self.longest_pause, self.pause)
        if hides_outcome(entry["fault"]):
            self.last_fault, self.faulted_at = entry, now
        self._applied += entry["fault"] is not None
        if entry["shown_offset_seconds"] is not None and entry["operation"] in PAYMENT_READS:
            self._reads[entry["payment_id"], entry["operation"], entry["shown_offset_seconds"]] += 1
            if entry["operation"] == GET_PAYMENT:
                self._statuses_read.add(entry["shown"])

    def _reads_of(self, at: float, operation: str = GET_PAYMENT) -> int:
        """How many replies to reads of the newest payment showed the state at this age, or a later one."""
        return sum(
            count
            for (payment_id, read_by, shown_at), count in self._reads.items()
            if payment_id == self.payments[-1] and read_by == operation and shown_at >= at
        )

    # The phases.

    def resume(self) -> bool:
        """Go on as far as the application lets it, and return whether the trial has ended."""
        if self._phase is not None:
            self._phase()
        return self._phase is None

    def _enter(self, phase: Callable[[], None]) -> None:
        self._phase = phase
        self._silence, self._requests_before = Inactivity(self._pacing, self), len(self.entries)
        phase()

    def _start(self) -> None:
        course = NEAR_DUE.get(self.plan.scenario)
        name = self.plan.scenario if course is None else None
        self._sandbox.next(name, course=course, times=None, order_id=self.order_id)  # for all its payments
        self._add_faults(None)
        self._add_faults(0.0)
        self._place()

    def _place(self) -> None:
        self._placed = [self._pacing.place(self.order_id)]
        self._enter(self._placing)

    def _placing(self) -> None:
        """Wait until the order is placed; place it again if that fails."""
        if not all(placed.done() for placed in self._placed):
            return
        self._pacing.note_requests()
        errors = [placed.exception() for placed in self._placed]
        error = errors[0] if all(errors) else None
        if error is not None and self._is_down():
            return
        if error is not None:
            self.reordered = True
            self.order_errors.append(self._pacing.describe(error))
            creations = [one for one in self.plan.injections if one.request.operation == CREATE_PAYMENT]
            expected = sum(injection.times for injection in creations)
            self._orders_left -= self._applied >= expected or len(self.order_errors) > expected
        if error is not None and self._orders_left >= 0:
            self._place()
        else:
            self._enter(self._awaiting_payment)

    def _is_down(self) -> bool:
        """Whether an order failed since the application has ended, which shows a moment later."""
        service, now = self._pacing.application.service, monotonic()
        self._ask_from = self._ask_from or now + _ASK_PAUSE
        if service is None or (now >= self._ask_from and not service.is_down):
            self._ask_from = 0.0
            return False
        return True

    def _awaiting_payment(self) -> None:
        if not self.payments:
            last = self.entries[-1] if self.entries else None
            is_refused = last is not None and not last["fault"] and 400 <= last["status"] < 500  # for good
            if self._silence.lasts(SHORT_PATIENCE if is_refused else self._patience()):
                self.gave_up = True
                self._end()
            return
        if self._baseline is None:
            scenario = self._sandbox.detail(self.payments[-1])["scenario"]
            if scenario != self.plan.scenario:
                self.problems.append(
                    f"the payment follows {scenario}: the application must not send X-Mock-Scenario"
                )
        self._follow_newest()

    def _follow_newest(self) -> None:
        """Follow the payment through the states that last at least a millisecond: a read can show them."""
        self._payment = self.payments[-1]
        timeline = self._sandbox.detail(self._payment)["timeline"]
        self.states = {entry["offset_seconds"]: entry["status"] for entry in timeline}
        self.statuses = [*self.states.values()][:1]
        self._enter(self._reading)

    def _reading(self) -> None:
        """Wait until the application has read the state, or does not read it."""
        interest = self._interest()
        if interest is not None:
            self._is_interested = interest
            self._enter(self._moving)

    def _moving(self) -> None:
        """Move the payment to the next change that the application will read, or to its end."""
        if self._record_deliveries and not self._deliveries_known():
            return
        if self._is_interested and len(self.statuses) < len(self.states):
            at, status = [*self.states.items()][len(self.statuses)]
            self.statuses.append(status)
            if not self._pacing.advance(self._payment, "next"):
                self.problems.append("the payment was moved by others: the judge moves it by itself")
            self._add_faults(at)
            self._enter(self._reading)
        elif self.payments[-1] != self._payment and len(self.payments) <= _MAX_PAYMENTS:
            self._follow_newest()
        else:
            self._end_faults()
            for payment_id in self.payments:
                self._pacing.advance(payment_id, "end")
            self.statuses = [*self.states.values()]
            if self.problems:
                self._end()
            else:
                self._enter(self._settling)

    def _settling(self) -> None:
        """Wait until the application reads no more, or has read too often; and ask for the deliveries."""
        may_read_more = (
            self._reads_of(max(self.states)) <= MANY_READS
            and len(self.entries) - self._requests_before < _STUCK_REQUESTS
        )
        if self._told is None and may_read_more and not self._silence.lasts():
            return
        if self._deliveries_known():
            self._enter(self._awaiting_delivery)

    def _awaiting_delivery(self) -> None:
        """Ask for the deliveries until the goods are out that are due."""
        if self._lacks_goods and not self._deliveries_known():
            return
        is_known = bool(self._statuses_read & final_statuses(self._fulfil_at))
        patience = self._patience() if is_known or not self.gave_up else SHORT_PATIENCE
        if is_known:  # the goods may leave later, by themselves
            patience = max(
                patience, BACKOFF * self._pacing.lag, 0.0 if self._pacing.pace is not None else self._settle
            )
        if not self._lacks_goods and not self.plan.injections:
            self._pacing.lag = max(self._pacing.lag, self._silence.seconds)
        if not self._lacks_goods or self._silence.waited(patience):
            self._end()

    @property
    def _lacks_goods(self) -> bool:
        return self._fulfil_at in self.statuses and not self.deliveries and not self.problems

    def _end(self) -> None:
        """End, and say why a trial without faults shows nothing to inject faults into."""
        self._phase = None
        is_taken = any(placed.done() and placed.exception() is None for placed in self._placed)
        self.acknowledged = is_taken and self._pacing.served > bool(self.payments)
        self.is_excused |= bool(self.incident) and not is_taken  # nobody has been asked to pay
        if self.plan.injections or self.plan.batch or self.problems:
            return
        if not self.payments and not self.acknowledged:
            reason = f": {self.order_errors[-1]}" if self.order_errors else _refusal(self.entries)
            self.problems.append(
                f"no payment with the order id {self.order_id} was created{reason}. Does the application "
                "use this server and API key, and the order id that it is given?"
            )
        elif self.payments and not self.deliveries and len(self.entries) <= 1 + len(self.order_errors):
            self.problems.append(f"the application never read its payment: {self._pacing.unread_hint}")

    # What the phases ask.

    def _interest(self) -> bool | None:
        """Whether the application will read the next state; None while it may still read this one."""
        at = [*self.states][len(self.statuses) - 1]
        injections = [one for one in self.plan.injections if one.request.at == at]
        sent = {one.operation for one in self._baseline.requests if one.at == at} if self._baseline else set()
        if self._baseline and not injections and not sent:
            return True
        if self.payments[-1] != self._payment:
            return False
        if self.is_idle and self._applied >= sum(one.times for one in self.plan.injections):
            self._end_faults()
        due = sum(one.times for one in self.plan.injections if (one.request.at or 0) <= at)
        if self._applied >= due and all(self._reads_of(at, one) for one in sent or {GET_PAYMENT}):
            return True
        if self._silence.lasts(SHORT_PATIENCE if self._may_be_silent() else self._patience()):
            self.gave_up = not self._may_be_silent() and self._baseline is not None
            self.faults_left = self._applied < due
            return False
        requests = len(self.entries) - self._requests_before
        return False if requests > _STUCK_REQUESTS + sum(one.times for one in injections) else None

    def _may_be_silent(self) -> bool:
        """Whether the application need not read the payment any more, or without faults does not."""
        final = final_statuses(self._fulfil_at)
        if self._baseline is not None:
            return bool(self._statuses_read & final)
        # One that polls rarely, or an expired payment once more, shows what there is to inject faults into.
        return not self._pacing.polls_by_itself or bool(self._statuses_read & (final - {"expired"}))

    def _patience(self) -> float:
        """How long silence must last. One that fails again and again may pause longer each time."""
        hurt = [hides_outcome(entry["fault"]) for entry in self.entries[-2:]]
        fault = parse_fault(self.entries[-1]["fault"] or "") if self.entries else None
        if fault is not None and fault.kind is FaultKind.HANG and "lost_sale" not in self._known:
            return MAX_HANG + PATIENCE  # so long the application may wait for its reply
        backoff = BACKOFF * self.pause if len(hurt) == 2 and all(hurt) else 0.0
        return max(PATIENCE, backoff, 2 * (self._pacing.pace or 0.0))

    def _deliveries_known(self) -> bool:
        """Ask how often the goods went out, and return whether that has been answered, or cannot be."""
        if self._told is None:
            if monotonic() < self._ask_from:
                return False
            self._told = self._pacing.count_deliveries(self.order_id)
        if not self._told.done():
            return False
        told, self._told = self._told, None
        error, now = told.exception(), monotonic()
        if error is not None:
            self._ask_from, self._ask_until = now + _ASK_PAUSE, self._ask_until or now + _ASK_SECONDS
            if now < self._ask_until and not isinstance(error, TypeError | ValueError):
                return False
            self.problems.append(f"deliveries cannot be told: {self._pacing.describe(error)}")
            return True
        self._ask_from = self._ask_until = 0.0
        self.deliveries = told.result()
        if self.deliveries and self.delivered_at is None and self._record_deliveries:
            self.delivered_at = self.statuses[-1]
        return True

    def close(self) -> None:
        """Remove its faults and its override."""
        while self._rules:
            self._sandbox.clear_faults(self._rules.pop())
        if not self._is_cleared:
            self._sandbox.clear_next(self.order_id)
        self._is_cleared = True

    def _end_faults(self) -> None:
        """Remove its faults before the end, unless the application must live with them."""
        if not self.has_unknown_members:
            self.close()

    def _add_faults(self, at: float | None) -> None:
        """Add the rules for the faults at this age, whose requests are counted from now on."""
        for injection in self.plan.injections:
            if injection.request.at == at:
                rule = self._sandbox.fault(
                    injection.parsed.text,
                    operation=injection.request.operation,
                    order_id=self.order_id if injection.has_order else None,
                    skip=injection.request.number - 1,
                    times=None if self.has_unknown_members else injection.times,
                )
                self._rules.append(str(rule["id"]))


def _refusal(entries: Sequence[Json]) -> str:
    """Why the service has refused the last request, as far as it has."""
    last: Json = entries[-1] if entries else {"error": None}
    if not last["error"]:
        return ""
    fields = "; ".join(f"{problem['field']} {problem['message']}" for problem in last["details"])
    return f": {last['operation']} got {last['status']} {last['error']}{f' ({fields})' if fields else ''}"
