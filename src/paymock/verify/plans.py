"""Plans of trials: which requests get which fault in which scenario."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import zip_longest
from typing import TYPE_CHECKING

from paymock.client.http import Json
from paymock.rules.faults import Fault, fault_problem, parse_fault
from paymock.rules.scenarios import DEFAULT_SCENARIO
from paymock.schemas.public import CREATE_PAYMENT, GET_PAYMENT, OPERATION_IDS, PAYMENT_OPERATIONS
from paymock.text import format_seconds

if TYPE_CHECKING:
    from paymock.verify.batches import Batch

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
    **dict.fromkeys((
        "status=429; retry-after=date", "status=429; retry-after=none", "delay=300; after", "hang",
    ), Frequency.FIRST),
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

_LATER = ("extra", "extra=attempt", "extra=deposit", "extra=type", "extra=status")
AGE = r"[0-9]{1,9}(?:\.[0-9]+)?"
_INJECTION = re.compile(rf"({'|'.join(OPERATION_IDS)})(?:@({AGE}))?(?:#([1-9][0-9]{{0,3}}))?=(.+)")


@dataclass(frozen=True)
class RequestKey:
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

    request: RequestKey
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


Hit = tuple[str | None, str | None]  # an operation and its fault, as the journal has them


@dataclass(frozen=True)
class Plan:
    """A trial to run: a scenario and its faults; or an order, by `number`, of a batch or without faults."""

    scenario: str
    injections: tuple[Injection, ...] = ()
    batch: "Batch | None" = None
    number: int = 0

    @property
    def token(self) -> str:
        if self.batch is not None:
            return self.batch.token
        faults = (f"{one.request}={one.fault}".replace(" ", "").replace(";", "+") for one in self.injections)
        return "/".join((self.scenario, *faults))

    @property
    def times(self) -> int:
        return sum(one.times for one in self.injections)

    @property
    def faults(self) -> set[Hit]:
        """The operations that get faults, each with its fault, as the journal has them."""
        return {(one.request.operation, one.parsed.text) for one in self.injections}

    def times_at(self, at: float) -> int:
        return sum(one.times for one in self.injections if one.request.at == at)

    @property
    def hits(self) -> tuple[object, ...]:
        """What it hits, and with which faults: the same of batches of one kind."""
        faults = ((one.request.operation, one.fault) for one in self.injections)
        return self.batch and self.batch.kind.name, *faults

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


def parse_plan(token: str) -> Plan:
    """The plan with this token. Raises ValueError."""
    scenario, *parts = token.split("/")
    injections = []
    for part in parts:
        match = _INJECTION.fullmatch(part)
        if match is None:
            raise ValueError(
                f"{token!r} is not the token of a finding: {part!r} must be like getPayment@5=drop"
            )
        operation, at, number, fault = match.groups()
        request = RequestKey(operation, None if at is None else float(at), int(number or 1))
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
        Injection(RequestKey(CREATE_PAYMENT), fault).parsed  # noqa: B018 - raises ValueError
    return chosen


@dataclass(frozen=True)
class Baseline:
    """What a trial without faults has shown: the requests in order, and the status from each age on."""

    scenario: str
    requests: tuple[RequestKey, ...]
    statuses: Mapping[float, str]

    def due_age(self, fulfil_at: Collection[str]) -> float | None:
        """The age at which goods become due; None: never."""
        return next((at for at, status in self.statuses.items() if status in fulfil_at), None)

    def operations_at(self, age: float) -> set[str]:
        return {one.operation for one in self.requests if one.at == age}

    def age_before(self, age: float) -> float:
        return max((at for at in self.statuses if at < age), default=0.0)

    def status_at(self, age: float | None) -> str | None:
        ages = [at for at in self.statuses if age is not None and at <= age]
        return self.statuses[max(ages)] if ages else None


def single_faults(
    baselines: Iterable[Baseline], faults: Mapping[str, Frequency], fulfil_at: Collection[str]
) -> Iterator[Plan]:
    """A plan for each request and fault as often as its frequency says, in the first scenario that has it."""
    done: set[tuple[str, object]] = set()
    for baseline in baselines:
        for request in baseline.requests:
            status = baseline.status_at(request.at)
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


def later_replies(baseline: Baseline) -> Iterator[Plan]:
    """Plans with replies of a later release: reads with unknown members, and with unknown values."""
    reads = [one for one in baseline.requests if one.operation != CREATE_PAYMENT]
    first = {one.operation: one for one in reversed(reads)}
    for operation, request in first.items():
        for fault in _LATER if operation == GET_PAYMENT else _LATER[:1]:
            yield Plan(baseline.scenario, (Injection(request, fault),))


def interleaved(plans: Sequence[Plan]) -> list[Plan]:
    """The plans, by turns of each scenario: so orders end differently that an application could confuse."""
    scenarios: dict[str, list[Plan]] = {}
    for plan in plans:
        scenarios.setdefault(plan.scenario, []).append(plan)
    return [plan for turn in zip_longest(*scenarios.values()) for plan in turn if plan is not None]
