"""An order of a run: its plan, and all that was noted about it. It calls nobody."""

from collections import Counter
from dataclasses import dataclass, field
from math import inf

from paymock.schemas.control import JournalEntry
from paymock.schemas.public import CREATE_PAYMENT, GET_PAYMENT, PAYMENT_READS
from paymock.verify.oracle import Observation, Violation, check, hides_outcome
from paymock.verify.plans import Injection, Plan, Request

NO_PLAN = Plan("")  # of an order that only shows whether the application has its turns
_MAX_NUMBER = 5  # of the same requests in the same state, so many get faults: more of them say nothing new


@dataclass(eq=False)
class Order(Observation):
    """An order. Times are in seconds of a monotonic clock, pauses and ages in seconds. `problems`: why it
    says nothing. `order_errors`: what the customer was told of failures. `states`: the statuses of the newest
    payment, by the age at which each begins; `timelines`: those of each payment, by its id. `last_fault`: the
    last request that lost its reply, noted at `faulted_at`. `culprit`: the plan whose fault ended or silenced
    the application. `faulted`: how many requests got a fault, but for `hold`. `goods_at`: when goods were
    first known to be out; `shown_at`: when a reply first showed a status. `pause`: the last one; `comeback`:
    the longest after a lost reply. `is_taken`: an order of the customer went well. `is_over`: its trial has
    ended. `output`: the last lines of the application before an incident.
    """

    plan: Plan = NO_PLAN
    number: int = 0
    order_id: str = ""
    problems: list[str] = field(default_factory=list)
    order_errors: list[str] = field(default_factory=list)
    states: dict[float, str] = field(default_factory=dict)
    timelines: dict[str, dict[float, str]] = field(default_factory=dict)
    last_fault: JournalEntry | None = None
    faulted_at: float = 0.0
    culprit: Plan | None = None
    polls: int = 0
    faulted: int = 0
    placed_at: float = 0.0
    ended_at: float = 0.0
    goods_at: float = inf
    shown_at: dict[str, float] = field(default_factory=dict)
    heard_at: float = 0.0
    pause: float = 0.0
    comeback: float = 0.0
    longest_pause: float = 0.0
    is_taken: bool = False
    is_over: bool = False
    output: list[str] = field(default_factory=list)

    def note(self, entry: JournalEntry, call: int, now: float) -> None:
        """Note a request about it, which belongs to a call of the application, by its number."""
        self.pause, self.heard_at = now - (self.heard_at or now), now
        if self.entries and hides_outcome(self.entries[-1].fault):
            self.comeback = max(self.comeback, self.pause)
        else:
            self.longest_pause = max(self.longest_pause, self.pause)
        self.entries.append(entry)
        self.calls.append(call)
        is_new = entry.operation == CREATE_PAYMENT and entry.idempotency == "new"
        if is_new and entry.payment_id and entry.payment_id not in self.payments:
            self.payments.append(entry.payment_id)
        if hides_outcome(entry.fault):
            self.last_fault, self.faulted_at = entry, now
        if entry.shown:
            self.shown_at.setdefault(entry.shown, now)
        self.faulted += entry.fault is not None and not entry.fault.startswith("hold")
        self.polls += entry.operation in PAYMENT_READS

    def move(self, at: float = inf) -> None:
        """Note that the newest payment stands at this age: no reply could show what it has jumped over."""
        self.statuses = [status for since, status in self.states.items() if since <= at]
        self.reached.update(self.statuses)
        self.stood.update(self.statuses[-1:])

    @property
    def age(self) -> float:
        """The age of the state at which the newest payment stands, in seconds."""
        return [*self.states][len(self.statuses) - 1] if self.statuses else 0.0

    @property
    def statuses_read(self) -> set[str]:
        return {one.shown for one in self.entries if one.operation == GET_PAYMENT and one.shown}

    def reads_of(self, at: float, operation: str = GET_PAYMENT) -> int:
        """How many replies to reads of the newest payment showed the state at this age, or a later one."""
        read = (operation, self.payments[-1])
        ages = [one.shown_offset_seconds for one in self.entries if (one.operation, one.payment_id) == read]
        return sum(age is not None and age >= at for age in ages)

    def check(self, fulfil_at: tuple[str, ...]) -> list[Violation]:
        """The rules that it has broken; none if it says nothing."""
        return [] if self.problems else check(self, fulfil_at)

    def note_incident(self, event: str, culprit: Plan | None, output: list[str]) -> None:
        """Note what befell the application as a whole, the plan whose fault came before, and its output."""
        self.incident = "; ".join(dict.fromkeys(filter(None, (self.incident, event))))
        self.culprit = self.culprit or culprit
        self.output = output or self.output

    @property
    def missed(self) -> list[Injection]:
        """The faults of the plan that no request got."""
        got = [(entry.operation, entry.fault) for entry in self.entries]
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
            is_read = entry.operation in PAYMENT_READS
            if entry.operation and (not is_read or entry.payment_id in self.payments[-1:]):
                key = entry.operation, entry.shown_offset_seconds if is_read else None
                counts[key] += 1
                requests.append(Request(*key, counts[key]))
        return tuple(one for one in requests if one.number <= _MAX_NUMBER)

    def refusal(self) -> str:
        """Why the service has refused the last request, as far as it has."""
        last = self.entries[-1] if self.entries else None
        if last is None or not last.error:
            return ""
        fields = "; ".join(f"{problem.field} {problem.message}" for problem in last.details)
        return f": {last.operation} got {last.status} {last.error}{f' ({fields})' if fields else ''}"
