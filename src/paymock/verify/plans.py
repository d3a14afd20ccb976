"""Plans of trials: which requests of the application get which fault, in which scenario, and what hits many
orders at once.

A request is named by its operation and, where it reads a payment, by the age of the payment at the state that
it reads: so the same request is meant however often the application polls.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import zip_longest

from paymock.client.http import Json
from paymock.rules.faults import Fault, fault_problem, parse_fault
from paymock.rules.scenarios import DEFAULT_SCENARIO
from paymock.schemas.public import CREATE_PAYMENT, OPERATION_IDS, PAYMENT_OPERATIONS
from paymock.text import format_seconds

OUTAGE_SECONDS = 2.0


class Frequency(IntEnum):
    """Which requests a fault is injected into, one at a time."""

    EVERY_REQUEST = 1
    EVERY_STATUS = 2
    """The first request after each different history of statuses: for faults that take long."""
    EVERY_OPERATION = 3


FAULTS: Mapping[str, Frequency] = {
    **dict.fromkeys(
        (
            "status=500", "status=503", "status=429", "status=500; after", "status=502; after; html", "drop",
            "drop; before", "reset", "reset; before", "truncate=20", "delay=50; after",
        ),
        Frequency.EVERY_REQUEST,
    ),
    **dict.fromkeys(
        ("status=401", "status=404", "status=500; times=6", "delay=300; after"), Frequency.EVERY_STATUS
    ),
    "hang": Frequency.EVERY_OPERATION,
}  # fmt: skip
"""The faults by default. With `times=6`, six requests in a row fail. 401 and 404 are refusals of a read that
are none: a key is rotated, a replica lags behind.
"""

NEAR_DUE: Mapping[str, Json] = {
    name: {
        "name": name,
        "simulates": f"The customer sends one raw unit {word} than `due`.",
        "sending": [{"at": 5, "plus": plus}],
    }
    for name, word, plus in (("one_unit_short", "less", -1), ("one_unit_over", "more", 1))
}
"""Scenarios of the judge's own: an application fails in them that compares floating-point numbers."""

_INJECTION = re.compile(
    rf"({'|'.join(OPERATION_IDS)})(?:@([0-9]{{1,9}}(?:\.[0-9]+)?))?(?:#([1-9][0-9]{{0,3}}))?=(.+)"
)

_BATCH = re.compile(
    r"(outage)=([^/]+)|(order)=([1-9]x|crash\+[0-9]+ms)|(parked)=(crash(?:\+(?:end|term|twice))?)"
    r"|(createPayment)=(crash(?:\+(?:before|late))?)|(deliveries)=(crash)"
    r"|(getPayment@[0-9]{1,9}(?:\.[0-9]+)?)=(crash(?:\+(?:one|[0-9]+ms))?|meet\+[1-9]|hold)"
)


@dataclass(frozen=True)
class Request:
    """A request of the application: the `number`-th, from 1, of an operation, while the payment stands at the
    state that begins `at` seconds after its creation; None for operations that read no payment.
    """

    operation: str
    at: float | None = None
    number: int = 1

    def __str__(self) -> str:
        age = "" if self.at is None else f"@{format_seconds(self.at)}"
        return f"{self.operation}{age}{f'#{self.number}' if self.number > 1 else ''}"


@dataclass(frozen=True)
class Injection:
    """A fault that a request gets. `fault` has the form of `X-Mock-Fault`; with `times=N`, that request and
    the next ones of its operation get it, N in all.
    """

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
    """Orders that something hits together. `target` is what of them is meant, and `action` what happens then,
    by the grammar of tokens: `outage=drop`, `order=3x`, `order=crash+10ms`, `getPayment@45=crash`. The
    scenario `*` stands for parked orders: each at another state of another scenario.
    """

    scenario: str
    target: str
    action: str

    @property
    def token(self) -> str:
        return f"{self.scenario}/{self.target}={self.action}".replace(" ", "").replace(";", "+")

    @property
    def kind(self) -> str:
        """What it tries: `outage`, `order`, `crash`, `meet` or `hold`."""
        return (
            self.target if self.target == "outage" or self.action.endswith("x") else self.action.split("+")[0]
        )

    @property
    def number(self) -> int:
        """How many in `3x` and `meet+2`, milliseconds in `crash+10ms`; 0 if there is none."""
        match = re.search("[0-9]+", self.action)
        return int(match[0]) if match else 0

    def __str__(self) -> str:
        """What happens, as a clause."""
        (operation, _, at), moment = self.target.partition("@"), self.action.partition("+")[2]
        reply = f"while the reply to `{operation}`{f' at {at} s' if at else ''} is on its way"
        killed = "the application is killed"
        clauses = {
            "outage": f"every request gets `{self.action}` for {OUTAGE_SECONDS:g} s",
            "order": f"an order is placed {self.number} times at once",
            "meet": f"{self.number} replicas read a payment at the same time, {at} s after its creation",
            "hold": f"the reply to a `{operation}` at {at} s arrives after a younger one",
            "before": f"{killed} before its `{operation}` arrives",
            "late": f"{killed} and its `{operation}` arrives after the retry",
            "one": f"one replica is killed {reply}",
            "twice": f"{killed} twice",
            "term": f"{killed} by SIGTERM",
            "end": f"{killed}, and all payments end before it starts",
        }
        clause = clauses.get(self.kind) or clauses.get(moment)
        if clause or self.target == "parked":
            return clause or killed
        if not moment and self.target != "deliveries":
            return f"{killed} {reply}"
        events = {"deliveries": "the first delivery", "order": "the first order was answered"}
        since = events.get(self.target, f"the first `{operation}` that shows the state at {at} s")
        return f"{killed} {self.number} ms after {since}"

    @property
    def is_parked(self) -> bool:
        return self.scenario == "*"

    @property
    def at(self) -> float | None:
        """The age at which the payments are read, if it is a read that is hit."""
        return float(self.target.partition("@")[2]) if "@" in self.target else None


@dataclass(frozen=True)
class Plan:
    """A trial to run: a scenario, and the faults in it; or the `number`-th order of a batch, or of the orders
    without faults beside one.
    """

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
            times = injection.times
            if times > 1:
                fault = injection.parsed.text + (f"; times={times // 2}" if times > 3 else "")
                yield replace(self, injections=(*before, replace(injection, fault=fault), *after))


BYSTANDERS = (Plan(DEFAULT_SCENARIO, number=1), Plan(DEFAULT_SCENARIO, number=2))
"""Orders without faults: a fault of another order may cost them."""


def parse_token(token: str) -> Plan | Batch:
    """What a token repeats. Raises ValueError."""
    scenario, *parts = token.split("/")
    batch = _BATCH.fullmatch("/".join(parts))
    if batch is not None:
        target, action = filter(None, batch.groups())
        if (scenario == "*") != (target in ("outage", "parked")):
            raise ValueError(f"{token!r} is not the token of a finding: {target} is not of {scenario}")
        if target == "outage":
            action = action.replace("+", "; ")
            Injection(Request(CREATE_PAYMENT), action).parsed  # noqa: B018 - raises ValueError
        return Batch(scenario, target, action)
    injections = []
    for part in parts:
        match = _INJECTION.fullmatch(part)
        if match is None:
            raise ValueError(
                f"{token!r} is not the token of a finding: {part!r} must be like getPayment@5=drop"
            )
        operation, at, number, fault = match.groups()
        request = Request(operation, None if at is None else float(at), int(number or 1))
        injections.append(Injection(request, fault.replace("+", "; ")))
        injections[-1].parsed  # noqa: B018 - raises ValueError
    return Plan(scenario, tuple(injections))


def frequencies(faults: Iterable[str] | None) -> Mapping[str, Frequency]:
    """How often each of these faults is injected; None: those by default. Raises ValueError."""
    if faults is None:
        return FAULTS
    chosen = dict.fromkeys(faults, Frequency.EVERY_REQUEST)
    for fault in chosen:
        Injection(Request(CREATE_PAYMENT), fault).parsed  # noqa: B018 - raises ValueError
    return chosen


@dataclass(frozen=True)
class Baseline:
    """What a trial without faults has shown of a scenario: the requests of the application, in order, and the
    status of the payment at the age of each state.
    """

    scenario: str
    requests: tuple[Request, ...]
    statuses: Mapping[float, str]

    def age_of(self, status: str) -> float:
        return next(at for at, one in self.statuses.items() if one == status)

    def age_before(self, age: float) -> float:
        """The age at which the state before this age begins."""
        return max((at for at in self.statuses if at < age), default=0.0)

    def history(self, request: Request) -> tuple[str, ...]:
        """What the application may know when it sends the request: its operation, and the different statuses
        up to the one that it reads.
        """
        ages = [at for at in self.statuses if request.at is not None and at <= request.at]
        return (request.operation, *dict.fromkeys(self.statuses[at] for at in sorted(ages)))


def single_faults(baselines: Iterable[Baseline], faults: Mapping[str, Frequency]) -> Iterator[Plan]:
    """A plan for each request and each fault, as often as the frequency of the fault says."""
    done: set[tuple[str, ...]] = set()
    for baseline in baselines:
        for request in baseline.requests:
            history = baseline.history(request)
            for fault, frequency in faults.items():
                key = {
                    Frequency.EVERY_REQUEST: (fault, baseline.scenario, str(request)),
                    Frequency.EVERY_STATUS: (fault, *history),
                    Frequency.EVERY_OPERATION: (fault, request.operation),
                }[frequency]
                if request.at is None and request.operation != CREATE_PAYMENT:
                    key = (fault, str(request))  # no scenario has a part in it
                if key not in done:
                    done.add(key)
                    yield Plan(baseline.scenario, (Injection(request, fault),))


def interleaved(plans: Sequence[Plan]) -> list[Plan]:
    """The plans, by turns of each scenario: orders that are open at the same time end differently, so that it
    shows when an application confuses them.
    """
    scenarios: dict[str, list[Plan]] = {}
    for plan in plans:
        scenarios.setdefault(plan.scenario, []).append(plan)
    return [plan for turn in zip_longest(*scenarios.values()) for plan in turn if plan is not None]
