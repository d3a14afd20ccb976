"""Plans of trials: which requests get which fault in which scenario, and what hits many orders at once."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import zip_longest

from paymock.client.http import Json
from paymock.rules.faults import Fault, fault_problem, parse_fault
from paymock.rules.scenarios import DEFAULT_SCENARIO
from paymock.schemas.public import CREATE_PAYMENT, OPERATION_IDS, PAYMENT_OPERATIONS
from paymock.text import format_seconds

OUTAGE_SECONDS = 2.0


class Frequency(Enum):
    """Which creations and which reads a fault is injected into, one at a time, over all scenarios."""

    EVERY_REQUEST = "each, in each scenario", "each, in each scenario"
    EACH_STATUS = "the first", "the first that shows each status"
    EACH_STATUS_AND_NEXT = "the first", "the same; where goods are due, the next three, too"
    NEXT = "none", "where goods are due, from the second on"
    FIRST = "the first", "the first"
    CREATION = "the first", "none: to a read, it is the same as its twin"


FAULTS: Mapping[str, Frequency] = {
    **dict.fromkeys(("status=503", "truncate=20"), Frequency.EACH_STATUS_AND_NEXT),
    **dict.fromkeys((
        "status=500", "status=429", "status=502; after; html", "status=200; html", "drop", "reset",
        "delay=50; after", "status=401", "status=404", "status=500; times=6",
    ), Frequency.EACH_STATUS),
    **dict.fromkeys(("status=500; after", "drop; before", "reset; before"), Frequency.CREATION),
    **dict.fromkeys(("delay=300; after", "hang"), Frequency.FIRST),
    "status=503; times=6": Frequency.NEXT,
}  # fmt: skip
"""The faults by default. 401 and 404 refuse no payment: a key is rotated, a replica lags behind."""

NEAR_DUE: Mapping[str, Json] = {
    name: {
        "name": name,
        "simulates": f"The customer sends one raw unit {word} than `due`.",
        "sending": [{"at": 5, "plus": plus}],
    }
    for name, word, plus in (("one_unit_short", "less", -1), ("one_unit_over", "more", 1))
}
"""Scenarios of the judge's own: an application fails in them that compares floating-point numbers."""

_AGE = r"[0-9]{1,9}(?:\.[0-9]+)?"
_INJECTION = re.compile(rf"({'|'.join(OPERATION_IDS)})(?:@({_AGE}))?(?:#([1-9][0-9]{{0,3}}))?=(.+)")
_BATCH = re.compile(
    r"(outage)=([^/]+)|(order)=([1-9]x|crash\+[0-9]+ms)|(parked)=(crash(?:\+(?:end|term|twice))?)"
    r"|(orders)=([1-9][0-9]?x)|(renewal)=(late)"
    r"|(createPayment)=(crash(?:\+(?:before|late))?)|(deliveries)=(crash)"
    rf"|(getPayment@{_AGE})=(crash(?:\+(?:one|[0-9]+ms))?|meet\+[1-9]|hold)"
)


@dataclass(frozen=True)
class Request:
    """A request, the same however often an application polls: the `number`-th, from 1, of an operation, while
    the payment stands at the state that begins `at` seconds after its creation; None: it reads no payment.
    """

    operation: str
    at: float | None = None
    number: int = 1

    def __str__(self) -> str:
        age = "" if self.at is None else f"@{format_seconds(self.at)}"
        return f"{self.operation}{age}{f'#{self.number}' if self.number > 1 else ''}"


@dataclass(frozen=True)
class Injection:
    """A fault, like `X-Mock-Fault`, of a request; with `times=N`, of N requests of its operation."""

    request: Request
    fault: str

    @property
    def parsed(self) -> Fault:
        """The fault without `times`, which a fault rule counts. Raises ValueError."""
        fault = parse_fault(self.fault)
        if fault is None:
            raise ValueError(f"{self.fault!r} {fault_problem(self.fault)}")
        return fault._replace(text=re.sub(r"[ \t]*;[ \t]*times=[0-9]+", "", self.fault))

    @property
    def times(self) -> int:
        return self.parsed.times or 1

    @property
    def has_order(self) -> bool:
        return self.request.operation in PAYMENT_OPERATIONS

    def __str__(self) -> str:
        return f"{self.request}: {self.fault}"


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

    @property
    def kind(self) -> str:
        """What it tries: `outage`, `order`, `orders`, `renewal`, `crash`, `meet` or `hold`."""
        is_target = self.target in ("outage", "renewal") or self.action.endswith("x")
        return self.target if is_target else self.action.split("+")[0]

    @property
    def fault(self) -> str:
        """The fault of an outage. One with `half` hits half of the orders, while half of them become due."""
        return self.action.removeprefix("half; ")

    @property
    def number(self) -> int:
        """How many in `3x` and `meet+2`, milliseconds in `crash+10ms`; 0 if there is none."""
        return int(next(iter(re.findall("[0-9]+", self.action)), 0))

    def __str__(self) -> str:
        """What happens, as a clause."""
        (operation, _, at), moment = self.target.partition("@"), self.action.partition("+")[2]
        reply = f"while the reply to `{operation}`{f' at {at} s' if at else ''} is on its way"
        killed = "the application is killed"
        orders = "request of half of the orders" if self.action != self.fault else "request"
        clauses = {
            "outage": f"every {orders} gets `{self.fault}` for up to {OUTAGE_SECONDS:g} s",
            "orders": f"{self.number} orders are open at the same time, without a fault",
            "renewal": "a new payment is made after the first one has expired, which is paid late",
            "order": f"an order is placed {self.number} times at once",
            "meet": f"{self.number} replicas read a payment at the same time, {at} s after its creation",
            "hold": f"the reply to a `{operation}` at {at} s arrives late, after any younger one",
            "before": f"{killed} before its `{operation}` arrives",
            "late": f"{killed} and its `{operation}` arrives after the retry",
            "one": f"one replica is killed {reply}",
            "twice": f"{killed} twice",
            "term": f"{killed} by SIGTERM",
            "end": f"{killed}, and all payments end before it starts",
            "": f"{killed} {reply}",
            "parked=crash": killed,
            "deliveries=crash": f"{killed} shortly before or after a delivery",
        }
        clause = clauses.get(f"{self.target}={self.action}") or clauses.get(self.kind) or clauses.get(moment)
        is_order, read = self.target == "order", f"the first `{operation}` that shows the state at {at} s"
        since = "the first order was answered" if is_order else read
        return clause or f"{killed} {self.number} ms after {since}"

    @property
    def is_parked(self) -> bool:
        return self.scenario == "*"

    @property
    def at(self) -> float | None:
        """The age at which the payments are read, if it is a read that is hit."""
        return float(self.target.partition("@")[2]) if "@" in self.target else None


@dataclass(frozen=True)
class Plan:
    """A trial to run: a scenario and its faults; or an order, by `number`, of a batch or without faults."""

    scenario: str
    injections: tuple[Injection, ...] = ()
    batch: Batch | None = None
    number: int = 0

    @property
    def token(self) -> str:
        if self.batch is not None:
            return self.batch.token
        faults = (f"{one.request}={one.fault}".replace(" ", "").replace(";", "+") for one in self.injections)
        return "/".join((self.scenario, *faults))

    @property
    def is_exclusive(self) -> bool:
        """Whether the trial must run alone: a fault for a request about no order could hit another trial."""
        return not all(injection.has_order for injection in self.injections)

    @property
    def smaller(self) -> Iterator["Plan"]:
        """The plans with less of it: without a fault, or with a shorter outage."""
        for number, injection in enumerate(self.injections):
            before, after = self.injections[:number], self.injections[number + 1 :]
            yield replace(self, injections=(*before, *after))
            if (times := injection.times) > 1:
                fault = injection.parsed.text + (f"; times={times // 2}" if times > 3 else "")
                yield replace(self, injections=(*before, replace(injection, fault=fault), *after))


BYSTANDERS = [Plan(DEFAULT_SCENARIO, number=number) for number in (1, 2)]  # other orders, which it may cost


def parse_token(token: str) -> Plan | Batch:
    """What a token repeats. Raises ValueError."""
    scenario, *parts = token.split("/")
    problem = f"{token!r} is not the token of a finding: "
    if batch := _BATCH.fullmatch("/".join(parts)):
        target, action = filter(None, batch.groups())
        if (scenario == "*") != (target in ("outage", "parked", "orders")):
            raise ValueError(f"{problem}{target} is not of {scenario}")
        found = Batch(scenario, target, action.replace("+", "; ") if target == "outage" else action)
        if target == "outage":
            frequencies([found.fault])  # raises ValueError
        return found
    injections = []
    for part in parts:
        match = _INJECTION.fullmatch(part)
        if match is None:
            raise ValueError(f"{problem}{part!r} must be like getPayment@5=drop")
        operation, at, number, fault = match.groups()
        request = Request(operation, None if at is None else float(at), int(number or 1))
        injections.append(Injection(request, fault.replace("+", "; ")))
    frequencies(one.fault for one in injections)  # raises ValueError
    return Plan(scenario, tuple(injections))


def frequencies(faults: Iterable[str] | None, *, deep: bool = False) -> Mapping[str, Frequency]:
    """How often each fault is injected; with `deep`, all but the slow everywhere. Raises ValueError."""
    if faults is None:
        kept = (Frequency.FIRST, Frequency.NEXT) if deep else [*Frequency]
        return {fault: one if one in kept else Frequency.EVERY_REQUEST for fault, one in FAULTS.items()}
    chosen = dict.fromkeys(faults, Frequency.EVERY_REQUEST)
    for fault in chosen:
        Injection(Request(CREATE_PAYMENT), fault).parsed  # noqa: B018 - raises ValueError
    return chosen


@dataclass(frozen=True)
class Baseline:
    """What a trial without faults has shown: the requests in order, and the status from each age on."""

    scenario: str
    requests: tuple[Request, ...]
    statuses: Mapping[float, str]

    def due_age(self, fulfil_at: Collection[str]) -> float | None:
        """The age at which goods become due; None: never."""
        return next((at for at, status in self.statuses.items() if status in fulfil_at), None)

    def age_before(self, age: float) -> float:
        return max((at for at in self.statuses if at < age), default=0.0)


def single_faults(
    baselines: Iterable[Baseline], faults: Mapping[str, Frequency], fulfil_at: Collection[str]
) -> Iterator[Plan]:
    """A plan for each request and fault as often as its frequency says, in the first scenario that has it."""
    done: set[tuple[str, object]] = set()
    for baseline in baselines:
        for request in baseline.requests:
            ages = [at for at in baseline.statuses if request.at is not None and at <= request.at]
            status = baseline.statuses[max(ages)] if ages else None
            is_due, is_creation = status in fulfil_at, request.operation == CREATE_PAYMENT
            scenario = baseline.scenario if status or is_creation else ""  # else, none has a part in it
            once = (request.operation, status) if scenario else request
            hits: dict[Frequency, object] = {
                Frequency.EVERY_REQUEST: (scenario, request),
                Frequency.EACH_STATUS: once,
                Frequency.EACH_STATUS_AND_NEXT: (once, is_due and min(request.number, 4)),
                Frequency.NEXT: is_due and request.number == 2,
                Frequency.FIRST: request.operation,
                Frequency.CREATION: is_creation,
            }
            for fault, frequency in faults.items():
                hit = fault, hits[frequency]
                if hits[frequency] and hit not in done:
                    done.add(hit)
                    yield Plan(baseline.scenario, (Injection(request, fault),))


def interleaved(plans: Sequence[Plan]) -> list[Plan]:
    """The plans, by turns of each scenario: so orders end differently that an application could confuse."""
    scenarios: dict[str, list[Plan]] = {}
    for plan in plans:
        scenarios.setdefault(plan.scenario, []).append(plan)
    return [plan for turn in zip_longest(*scenarios.values()) for plan in turn if plan is not None]
