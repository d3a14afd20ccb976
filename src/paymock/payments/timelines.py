"""Payments with what tests have done to them, and their states and JSON at any age: pure functions of the
stored records, so that what is cached is never stale.
"""

from functools import lru_cache

import msgspec

from paymock.cache import BoundedCache
from paymock.payments import records, views
from paymock.payments.records import PaymentRecord, SimulationRecord
from paymock.rules.identifiers import PAYMENT_PREFIX
from paymock.rules.scenarios import PaymentStatus
from paymock.rules.timeline import CREATED, ScenarioTimeline, State, scenario_timeline, state_at

MAX_TIMELINES, MAX_SIMULATED = 32_768, 50
"""How many timelines are cached: of payments that no test has changed, 1.5 KB each with the JSON of one
state, and of others, whose states can be many. Those of payments with a custom scenario are cached apart.
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


def rendered_at_creation(record: PaymentRecord) -> RenderedPayment:
    """The payment as it was created: until then, payments of all scenarios have the same JSON."""
    return rendered(record, CREATED)


class PaymentTimeline:
    """A payment and all its states: its record, decoded and as `stored`, and what tests have done to it."""

    __slots__ = (
        "_begin",
        "_end",
        "_rendered",
        "_scripted",
        "_simulated",
        "_stored",
        "created_at",
        "simulation",
    )

    def __init__(self, record: PaymentRecord, stored: bytes, simulation: SimulationRecord) -> None:
        self._stored = stored
        self.created_at = record.created_at
        self.simulation = simulation
        is_scripted = not simulation.deposits and record.custom_scenario is None
        self._scripted: ScenarioTimeline | None = scenario_timeline(record.scenario) if is_scripted else None
        self._simulated = views.states(record, simulation) if simulation.deposits else None
        self._rendered: RenderedPayment | None = None
        self._begin = self._end = 0.0  # of the rendered state, in milliseconds after creation

    @property
    def record(self) -> PaymentRecord:
        """The payment as it was created. It is decoded each time, since reads do not need it."""
        return records.decode_payment(self._stored)

    def with_simulation(self, simulation: SimulationRecord) -> "PaymentTimeline":
        return PaymentTimeline(self.record, self._stored, simulation)

    @property
    def states(self) -> tuple[State, ...]:
        if self._scripted:
            return views.states(self.record)
        return self._simulated or _states(self._stored)

    @property
    def outline(self) -> tuple[State, ...]:
        """The states, of which only the times and the statuses count."""
        return self._scripted.outline if self._scripted else self.states

    def age(self, now: int) -> int:
        """The age of the payment in milliseconds at `now`, in milliseconds since the epoch."""
        return views.age_at(self.created_at, now, self.simulation.time_offset)

    def state_at(self, age: int) -> State:
        if self._scripted is None:
            return state_at(self.states, age)
        record = self.record
        return self._scripted.state(self._scripted.index_at(age), int(record.due), record.other_asset)

    def status_at(self, age: int) -> PaymentStatus:
        if self._scripted is None:
            return self.state_at(age).status
        return self._scripted.outline[self._scripted.index_at(age)].status

    def rendered_at(self, age: int) -> RenderedPayment:
        """The payment when it is `age` milliseconds old, as JSON. Specification: "Payment object"."""
        if self._scripted is None:
            return rendered(self.record, self.state_at(age), self.simulation.time_offset)
        if self._rendered is None or not self._begin <= age < self._end:
            record, index = self.record, self._scripted.index_at(age)
            state = self._scripted.state(index, int(record.due), record.other_asset)
            self._rendered = rendered(record, state, self.simulation.time_offset)
            self._begin, self._end = self._scripted.period(index)
        return self._rendered

    @property
    def at_creation(self) -> RenderedPayment:
        return rendered_at_creation(self.record) if self._scripted is None else self.rendered_at(0)


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
        if simulation is not None:
            return self._simulated_timeline(stored, simulation)
        timeline = self._timelines.get(stored)
        if timeline is None:
            timeline = self._timelines[stored] = _timeline(stored)
        return timeline


@lru_cache(MAX_SIMULATED)
def _states(stored: bytes) -> tuple[State, ...]:
    """The states of a payment with a custom scenario, which a timeline would keep for too long."""
    return views.states(records.decode_payment(stored))


def _timeline(stored: bytes, simulation: bytes | None = None) -> PaymentTimeline | None:
    record = records.decode(stored)
    if not isinstance(record, PaymentRecord):
        return None
    decoded = views.NO_SIMULATION if simulation is None else records.decode_as(SimulationRecord, simulation)
    return PaymentTimeline(record, stored, decoded)
