"""An order of a run: its plan, and three values: what the application sent about it, what the judge did to
its payments, and what came of it. It calls nobody.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from paymock.rules.faults import parse_fault
from paymock.rules.scenarios import TERMINAL_STATUSES, PaymentStatus
from paymock.schemas.control import JournalEntry
from paymock.schemas.public import CREATE_PAYMENT, GET_PAYMENT, PAYMENT_READS
from paymock.verify.plans import Baseline, Injection, Plan, RequestKey

NO_PLAN = Plan("")  # of an order that only shows whether the application polls
_MAX_NUMBER = 5  # maximum number of equal requests in one state that get faults: more say nothing new


def hides_outcome(text: str | None) -> bool:
    """Whether a request with this fault tells the application nothing."""
    fault = parse_fault(text) if text else None
    return fault is not None and fault.hides_status


def final_statuses(fulfil_at: Collection[str]) -> frozenset[str]:
    """The statuses after which an application may lose its interest in a payment."""
    return TERMINAL_STATUSES | {PaymentStatus.EXPIRED, *fulfil_at}


@dataclass(eq=False)
class Traffic:
    """What the application sent about an order. Moments and pauses are in seconds of the judge's clock."""

    entries: list[JournalEntry] = field(default_factory=list)  # its requests, oldest first
    calls: list[int] = field(default_factory=list)  # of each, its tick or round; negative: the judge's pace
    payments: list[str] = field(default_factory=list)  # their ids, oldest first
    shown_at: dict[str, float] = field(default_factory=dict)  # when a reply first showed a status
    polls: int = 0  # reads of its payments
    faulted: int = 0  # requests that got a fault, but for `hold`
    last_fault: JournalEntry | None = None  # the last request that lost its reply
    faulted_at: float = 0.0  # when that was
    heard_at: float = 0.0  # when the last request was noted
    pause: float = 0.0  # before the last request
    recovery: float = 0.0  # the longest pause after a lost reply
    longest_pause: float = 0.0  # after any other reply
    has_gap: bool = False  # requests may be missing, since the journal was overwritten

    def note(self, entry: JournalEntry, call: int, now: float) -> None:
        self.pause, self.heard_at = now - (self.heard_at or now), now
        if self.entries and hides_outcome(self.entries[-1].fault):
            self.recovery = max(self.recovery, self.pause)
        else:
            self.longest_pause = max(self.longest_pause, self.pause)
        self.entries.append(entry)
        self.calls.append(call)
        is_own = bool(entry.order_id)  # also if its creation was not heard; what nobody has is of no order
        if is_own and entry.payment_id and entry.payment_id not in self.payments:
            self.payments.append(entry.payment_id)
        if hides_outcome(entry.fault):
            self.last_fault, self.faulted_at = entry, now
        if entry.shown:
            self.shown_at.setdefault(entry.shown, now)
        self.faulted += entry.fault is not None and not entry.fault.startswith("hold")
        self.polls += entry.operation in PAYMENT_READS

    @property
    def statuses_read(self) -> set[str]:
        return {one.shown for one in self.entries if one.operation == GET_PAYMENT and one.shown}

    @property
    def last_shown(self) -> str:
        return next((one.shown for one in reversed(self.entries) if one.shown), "")

    @property
    def was_hurt(self) -> bool:
        """Whether any of its requests got no reply that tells anything."""
        return any(hides_outcome(entry.fault) for entry in self.entries)

    @property
    def has_lost_reply(self) -> bool:
        """Whether the last request got no reply that tells anything."""
        return any(hides_outcome(entry.fault) for entry in self.entries[-1:])

    def has_read(self, at: float, operations: Collection[str]) -> bool:
        """Whether a reply to each of these reads showed the state at this age, or a later one."""
        return all(self.reads_of(at, one) for one in operations)

    def reads_of(self, at: float, operation: str = GET_PAYMENT) -> int:
        """How many replies to reads of the newest payment showed the state at this age, or a later one."""
        read = operation, self.payments[-1]
        ages = [one.shown_offset_seconds for one in self.entries if (one.operation, one.payment_id) == read]
        return sum(age is not None and age >= at for age in ages)


@dataclass(eq=False)
class History:
    """What the judge did to the payments of an order, and what befell the application meanwhile."""

    states: dict[float, str] = field(default_factory=dict)  # of the newest payment, by the age of each
    timelines: dict[str, dict[float, str]] = field(default_factory=dict)  # the same, by the payment's id
    statuses: list[str] = field(default_factory=list)  # of the newest payment, up to where it stands
    reached: set[str] = field(default_factory=set)  # by any payment, jumped over or not
    stood: set[str] = field(default_factory=set)  # where one stood, so that a reply could have shown it
    deposits: dict[str, float] = field(default_factory=dict)  # by payment: the age of its first late deposit
    asked: str = ""  # the amount that the application asked for, in tokens
    placed_at: float = 0.0  # when the order was placed
    ended_at: float = 0.0  # when its trial ended
    faults_left: bool = False  # some of its faults were still to come
    unknown: str = ""  # what its replies had that is not documented: `members` or `values`
    incident: str = ""  # what befell the application as a whole, as the end of a sentence
    cause: Plan | None = None  # the plan whose fault ended or silenced the application
    marks: dict[int, str] = field(default_factory=dict)  # crashes, by the index of the request before; or -1
    visits: dict[int, str] = field(default_factory=dict)  # the same: when the customer came back

    def stand(self, at: float = inf) -> None:
        """Note that the newest payment stands at this age: no reply could show what it has jumped over."""
        self.statuses = [status for since, status in self.states.items() if since <= at]
        self.reached.update(self.statuses)
        self.stood.update(self.statuses[-1:])

    @property
    def age(self) -> float:
        """The age of the state at which the newest payment stands, in seconds."""
        return [*self.states][len(self.statuses) - 1] if self.statuses else 0.0

    def is_due(self, fulfil_at: Collection[str]) -> bool:
        """Whether goods must go out: a reply could have shown that they are due."""
        return not self.stood.isdisjoint(fulfil_at)

    def note_incident(self, event: str, cause: Plan | None) -> None:
        """Note what befell the application as a whole, and the plan whose fault came before."""
        self.incident = "; ".join(dict.fromkeys(filter(None, (self.incident, event))))
        self.cause = self.cause or cause


class Patience(NamedTuple):
    """How long the application read a payment that stood still."""

    reads: int
    seconds: float
    status: str

    def __str__(self) -> str:
        return f"{self.reads} reads ({self.seconds:.0f} s) at `{self.status}`"


@dataclass(eq=False)
class Outcome:
    """What came of an order: its goods, and how its trial ended."""

    deliveries: int = 0  # how often its goods went out
    delivered_at: str | None = None  # the status of the payment when that was first seen, if it was asked for
    goods_at: float = inf  # when that was
    is_taken: bool = False  # the customer was told that all is well
    order_errors: list[str] = field(default_factory=list)  # what the customer was told of failures
    acknowledged: bool = False  # it is taken, and the application has created payments for others
    gave_up: bool = False  # the application was silent for longer than its patience
    waited: float = 0.0  # for so many seconds
    patience: Patience | None = None  # how long it read a payment that stood still
    stays_down: str = ""  # why the application did not start again
    is_excused: bool = False  # unknown goods are no loss: nobody was asked to pay, or a crash forgets them
    problems: list[str] = field(default_factory=list)  # why the trial says nothing
    is_over: bool = False  # the trial has ended
    output: list[str] = field(default_factory=list)  # the last lines of the application before an incident


@dataclass(eq=False)
class Order:
    """An order. `number` counts the orders of the run: a higher one is younger."""

    plan: Plan = NO_PLAN
    number: int = 0
    order_id: str = ""
    traffic: Traffic = field(default_factory=Traffic)
    history: History = field(default_factory=History)
    outcome: Outcome = field(default_factory=Outcome)

    @property
    def is_plain(self) -> bool:
        return not (self.plan.injections or self.plan.batch)

    @property
    def has_its_faults(self) -> bool:
        """Whether no request gets a fault any more."""
        return self.traffic.faulted >= self.plan.times and self.history.unknown != "members"

    @property
    def is_cut_short(self) -> bool:
        """Whether the application ended meanwhile, or never read its payment."""
        return bool(self.history.incident or (self.traffic.payments and not self.traffic.polls))

    def may_lack_goods(self, fulfil_at: Collection[str]) -> bool:
        """Whether no goods are known, though they are due or no payment is known."""
        return not self.outcome.deliveries and (self.history.is_due(fulfil_at) or not self.traffic.payments)

    @property
    def missed(self) -> list[Injection]:
        got = [(entry.operation, entry.fault) for entry in self.traffic.entries]
        result = []
        for injection in self.plan.injections:
            key = injection.request.operation, injection.parsed.text
            if key in got:
                got.remove(key)
            else:
                result.append(injection)
        return result

    def baseline(self, fulfil_at: Collection[str], *, polls_by_itself: bool) -> Baseline:
        """What to inject faults into: one that polls may send the same request twice, as it happens."""
        states, requests = self.history.states, self.requests
        if polls_by_itself:
            requests = tuple(
                one for one in requests if one.number == 1 or states.get(one.at or 0.0) in fulfil_at
            )
        return Baseline(self.plan.scenario, requests, states)

    @property
    def requests(self) -> tuple[RequestKey, ...]:
        """The requests into which a fault could be injected, in order."""
        requests: list[RequestKey] = []
        counts: Counter[tuple[str, float | None]] = Counter()
        for entry in self.traffic.entries:
            is_read = entry.operation in PAYMENT_READS
            if entry.operation and (not is_read or entry.payment_id in self.traffic.payments[-1:]):
                key = entry.operation, entry.shown_offset_seconds if is_read else None
                counts[key] += 1
                requests.append(RequestKey(*key, counts[key]))
        return tuple(one for one in requests if one.number <= _MAX_NUMBER)

    def faults_due(self, at: float) -> int:
        """How many of its requests get faults up to this age; a second creation need not come."""
        sent = Counter(entry.operation for entry in self.traffic.entries)
        return sum(
            one.times
            for one in self.plan.injections
            if (at if one.request.at is None else one.request.at) <= at
            and (one.request.at is not None or one.request.number <= max(1, sent[one.request.operation]))
        )

    def silence(self) -> str:
        """What the application did in place of a request, as the end of a sentence."""
        entries, waited = self.traffic.entries, self.outcome.waited
        last = f" after its `{entries[-1].operation}`" if entries else ""
        return f"sent nothing{' more' if last else ''}{f' for {waited:.0f} s' if waited else ''}{last}"

    def refusal(self) -> str:
        """Why the service has refused the last creation, as far as it has."""
        refused = [one for one in self.traffic.entries if one.operation == CREATE_PAYMENT and one.error]
        if not refused:
            return ""
        last = refused[-1]
        fields = "; ".join(f"{problem.field} {problem.message}" for problem in last.details)
        return f": {last.operation} got {last.status} {last.error}{f' ({fields})' if fields else ''}"
