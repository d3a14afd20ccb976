"""Payments with what tests have done to them, and their states and JSON at any age: pure functions of the
stored records, so that what is cached is never stale.
"""

import math
from bisect import bisect_right
from functools import lru_cache

import msgspec

from paymock.cache import BoundedCache
from paymock.payments import records, views
from paymock.payments.records import DepositRecord, PaymentRecord, SimulationRecord
from paymock.rules import identifiers
from paymock.rules.identifiers import PAYMENT_PREFIX
from paymock.rules.scenarios import PaymentStatus, scenario_of
from paymock.rules.timeline import CREATED, ScenarioTimeline, State, scenario_timeline
from paymock.rules.times import LATEST

MAX_TIMELINES, MAX_SIMULATED, MAX_STATES = 32_768, 1_024, 2
"""How many timelines are cached: of payments that no test has changed, 1.5 KB each with the JSON of one
state; of others, with the present state; and with all states, which can take a megabyte.
"""

_encode = msgspec.json.Encoder().encode
_ATTEMPTS = b'"attempts":'


class RenderedPayment(msgspec.Struct, frozen=True, gc=False):
    """A payment in one state as JSON, with its id, its order, its status, and the begin of the state in
    milliseconds after creation; and how many milliseconds the payment is ahead of its sandbox.
    """

    id: str
    order_id: str
    status: PaymentStatus
    at: int
    json: bytes
    ahead: int = 0

    @property
    def attempts_json(self) -> bytes:
        return b'{"data":%b' % self.json[self.json.rindex(_ATTEMPTS) + len(_ATTEMPTS) :]


def rendered(record: PaymentRecord, state: State, ahead: int = 0) -> RenderedPayment:
    """The payment in `state`, as JSON. Specification: "Payment object"."""
    payment_id, json = PAYMENT_PREFIX + record.token, _encode(views.view(record, state))
    return RenderedPayment(payment_id, record.order_id, state.status, state.at, json, ahead)


class PaymentTimeline:
    """A payment and all its states: its record, decoded and as `stored`, and what tests have done to it."""

    __slots__ = ("_begin", "_end", "_rendered", "_state", "_stored", "created_at", "scripted", "simulation")

    def __init__(self, record: PaymentRecord, stored: bytes, simulation: SimulationRecord) -> None:
        self._stored = stored
        self.created_at = record.created_at
        self.simulation = simulation
        is_scripted = not simulation.deposits and record.custom_scenario is None
        self.scripted: ScenarioTimeline | None = scenario_timeline(record.scenario) if is_scripted else None
        """None where to compute a state, or to show it, can take milliseconds."""

        self._rendered: RenderedPayment | None = None
        self._state = CREATED
        self._begin = self._end = 0.0  # of the rendered state, or of that state: milliseconds after creation

    @property
    def record(self) -> PaymentRecord:
        """The payment as it was created. It is decoded each time, since reads do not need it."""
        return records.decode_as(PaymentRecord, self._stored)

    def with_simulation(self, simulation: SimulationRecord) -> "PaymentTimeline":
        return PaymentTimeline(self.record, self._stored, simulation)

    @property
    def states(self) -> tuple[State, ...]:
        if self.scripted:
            return views.states(self.record)
        return _states(self._stored, self.simulation.deposits)

    @property
    def outline(self) -> tuple[State, ...]:
        """The states, of which only the times and the statuses count."""
        return self.scripted.outline if self.scripted else self.states

    def has(self, text: str) -> bool:
        """Whether this is the invoice address or a transaction hash, or what the order id begins with."""
        record = self.record
        scripted = scenario_of(record.scenario, record.custom_scenario).sending
        count = len(scripted) + len(self.simulation.deposits)
        derived = (identifiers.transaction_hash(record.token, number) for number in range(count))
        is_address = text.lower() == identifiers.invoice_address(record.token).lower()
        return is_address or text.lower() in derived or record.order_id.startswith(text)

    def age(self, now: int) -> int:
        """The age in milliseconds when its sandbox's clock shows `now`, in milliseconds since the epoch."""
        return max(0, min(now + self.simulation.time_offset, LATEST) - self.created_at)

    def state_at(self, age: int, record: PaymentRecord | None = None) -> State:
        """Return the state at an age in milliseconds. `record` is that of the payment, if it is decoded."""
        if self.scripted is None:
            if not self._begin <= age < self._end:
                states = self.states
                number = bisect_right(states, age, key=lambda state: state.at)
                self._state, self._begin = states[number - 1], states[number - 1].at
                self._end = states[number].at if number < len(states) else math.inf
            return self._state
        record = record or self.record
        return self.scripted.state(self.scripted.index_at(age), int(record.due), record.other_asset)

    def status_at(self, age: int) -> PaymentStatus:
        if self.scripted is None:
            return self.state_at(age).status
        return self.scripted.outline[self.scripted.index_at(age)].status

    def rendered_at(self, age: int) -> RenderedPayment:
        """The payment when it is `age` milliseconds old, as JSON. Specification: "Payment object"."""
        if self.scripted is None:
            return rendered(self.record, self.state_at(age), self.simulation.time_offset)
        if self._rendered is None or not self._begin <= age < self._end:
            record, index = self.record, self.scripted.index_at(age)
            state = self.scripted.state(index, int(record.due), record.other_asset)
            self._rendered = rendered(record, state, self.simulation.time_offset)
            self._begin, self._end = self.scripted.period(index)
        return self._rendered

    @property
    def at_creation(self) -> RenderedPayment:
        return rendered(self.record, CREATED) if self.scripted is None else self.rendered_at(0)


class PaymentTimelines:
    """A cache of payment timelines, by the stored bytes of their records. A look-up touches as little memory
    as possible: with 20,000 payments, that takes longer than the instructions.
    """

    def __init__(self) -> None:
        self._timelines: BoundedCache[bytes, PaymentTimeline | None] = BoundedCache(MAX_TIMELINES)
        self._simulated_timeline = lru_cache(MAX_SIMULATED)(_timeline)

    def get(self, stored: bytes, simulation: bytes | None) -> PaymentTimeline | None:
        """The timeline of the payment record `stored` with the simulation record `simulation`, if there is
        one. None where `stored` is not a payment.
        """
        if simulation is None:
            timeline = self._timelines.get(stored)
            if timeline is None:
                timeline = self._timelines[stored] = _timeline(stored, None)
            if timeline is None or timeline.scripted:
                return timeline
        return self._simulated_timeline(stored, simulation)


@lru_cache(MAX_STATES)
def _states(stored: bytes, deposits: tuple[DepositRecord, ...]) -> tuple[State, ...]:
    """The states of a payment, which a timeline would keep for too long."""
    return views.states(records.decode_as(PaymentRecord, stored), SimulationRecord(deposits=deposits))


def _timeline(stored: bytes, simulation: bytes | None) -> PaymentTimeline | None:
    record = records.decode(stored)
    if not isinstance(record, PaymentRecord):
        return None
    decoded = views.NO_SIMULATION if simulation is None else records.decode_as(SimulationRecord, simulation)
    return PaymentTimeline(record, stored, decoded)
