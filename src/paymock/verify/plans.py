"""Plans of trials: which requests of the application get which fault, in which scenario.

A request is named by its operation and, where it reads a payment, by the age of the payment at the state that
it reads: so the same request is meant however often the application polls.
"""

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import zip_longest

from paymock.client.text import format_seconds
from paymock.rules.faults import Fault, fault_problem, parse_fault
from paymock.schemas.public import CREATE_PAYMENT, OPERATION_IDS, PAYMENT_OPERATIONS


class Frequency(IntEnum):
    """Which requests a fault is injected into, one at a time."""

    EVERY_REQUEST = 1
    EVERY_STATUS = 2
    """The first request after each different history of statuses: for faults that take long."""
    EVERY_OPERATION = 3


FAULTS: Mapping[str, Frequency] = {
    "status=500": Frequency.EVERY_REQUEST,
    "status=503": Frequency.EVERY_REQUEST,
    "status=429": Frequency.EVERY_REQUEST,
    "status=500; after": Frequency.EVERY_REQUEST,
    "status=502; after; html": Frequency.EVERY_REQUEST,
    "drop": Frequency.EVERY_REQUEST,
    "drop; before": Frequency.EVERY_REQUEST,
    "reset": Frequency.EVERY_REQUEST,
    "reset; before": Frequency.EVERY_REQUEST,
    "truncate=20": Frequency.EVERY_REQUEST,
    "delay=50; after": Frequency.EVERY_REQUEST,
    "status=500; times=6": Frequency.EVERY_STATUS,
    "delay=300; after": Frequency.EVERY_STATUS,
    "hang": Frequency.EVERY_OPERATION,
}
"""The faults by default. `times=6` is an outage: six requests in a row fail."""

_INJECTION = re.compile(
    rf"({'|'.join(OPERATION_IDS)})(?:@([0-9]{{1,9}}(?:\.[0-9]+)?))?(?:#([1-9][0-9]{{0,3}}))?=(.+)"
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
        """Whether the request is about an order."""
        return self.request.operation in PAYMENT_OPERATIONS

    def __str__(self) -> str:
        return f"{self.request}: {self.fault}"


@dataclass(frozen=True)
class Plan:
    """A trial to run: a scenario, and the faults in it."""

    scenario: str
    injections: tuple[Injection, ...] = ()

    @property
    def token(self) -> str:
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


def parse_token(token: str) -> Plan:
    """The plan of a token. Raises ValueError."""
    scenario, *parts = token.split("/")
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


def pairs_of_faults(
    baselines: Iterable[Baseline], faults: Iterable[str], count: int, seed: int
) -> Iterator[Plan]:
    """`count` plans of two faults each, at different requests, chosen by the `seed`."""
    random_source = random.Random(seed)  # noqa: S311 - not for secrets
    quick = [fault for fault in faults if FAULTS.get(fault, 1) == Frequency.EVERY_REQUEST]
    able = [baseline for baseline in baselines if len(baseline.requests) > 1 and quick]
    for _ in range(count if able else 0):
        baseline = random_source.choice(able)
        chosen = sorted(random_source.sample(range(len(baseline.requests)), 2))
        pair = (Injection(baseline.requests[number], random_source.choice(quick)) for number in chosen)
        yield Plan(baseline.scenario, tuple(pair))


def interleaved(plans: Sequence[Plan]) -> list[Plan]:
    """The plans, by turns of each scenario: orders that are open at the same time end differently, so that it
    shows when an application confuses them.
    """
    scenarios: dict[str, list[Plan]] = {}
    for plan in plans:
        scenarios.setdefault(plan.scenario, []).append(plan)
    return [plan for turn in zip_longest(*scenarios.values()) for plan in turn if plan is not None]
