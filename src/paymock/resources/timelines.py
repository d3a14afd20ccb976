"""Payments with all their states, cached for repeated reads. A timeline is a pure function of the stored
records, so a cached one is never stale.
"""

from functools import lru_cache

import msgspec

from paymock.resources import payments, records
from paymock.resources.records import PaymentRecord, SimulationRecord
from paymock.rules.timeline import CREATED, State, state_at

MAX_TIMELINES, MAX_SIMULATED = 2_000, 50
"""How many timelines are cached: of payments that no test has changed, and of others, which can be long."""

_MAX_STATES = 2
"""Of how many states of a timeline the JSON is cached: the initial and the current one."""

_encode = msgspec.json.Encoder().encode


class PaymentTimeline:
    """A payment, what a test has done to it, and all its states, in order."""

    __slots__ = ("_json", "record", "simulation", "states")

    def __init__(self, record: PaymentRecord, simulation: SimulationRecord = payments.NO_SIMULATION) -> None:
        self.record = record
        self.simulation = simulation
        self.states = payments.states(record, simulation)
        self._json: dict[int, bytes] = {}

    def age(self, now: int) -> int:
        """The age of the payment in milliseconds at `now`, in milliseconds since the epoch."""
        return payments.age_at(self.record, now, self.simulation)

    def state_at(self, age: int) -> State:
        """The state of the payment when it is `age` milliseconds old."""
        return state_at(self.states, age)

    def json_at(self, age: int) -> bytes:
        """The payment when it is `age` milliseconds old, as JSON. Specification: "Payment object"."""
        state = state_at(self.states, age)
        json = self._json.get(state.at)
        if json is None:
            if len(self._json) == _MAX_STATES:
                del self._json[next(iter(self._json))]
            json = self._json[state.at] = _encode(payments.view(self.record, state))
        return json


def json_at_creation(record: PaymentRecord) -> bytes:
    """The payment in its initial state, as JSON. Specification: "Payment object"."""
    return _encode(payments.view(record, CREATED))


class PaymentTimelines:
    """A cache of payment timelines, by the stored bytes of their records."""

    def __init__(self) -> None:
        self._timeline = lru_cache(MAX_TIMELINES)(_timeline)
        self._simulated_timeline = lru_cache(MAX_SIMULATED)(_timeline)

    def get(self, stored: bytes, simulation: bytes | None) -> PaymentTimeline | None:
        """The timeline of the payment record `stored` with the simulation record `simulation`, if there is
        one. None where `stored` is not a payment.
        """
        return self._timeline(stored) if simulation is None else self._simulated_timeline(stored, simulation)


def _timeline(stored: bytes, simulation: bytes | None = None) -> PaymentTimeline | None:
    record = records.decode(stored)
    if not isinstance(record, PaymentRecord):
        return None
    return PaymentTimeline(record, records.decode_as(SimulationRecord, simulation))
