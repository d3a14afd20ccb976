"""Payments over their whole lives. What has been worked out of a record once is kept for its next reads: it
is a pure function of what is stored, so it cannot go stale.
"""

from collections import OrderedDict
from typing import TypeVar

import msgspec

from paymock.resources import payments, records
from paymock.resources.records import PaymentRecord, SimulationRecord
from paymock.rules.timeline import CREATED, State, state_at

KEPT, KEPT_SIMULATED = 2_000, 50
"""How many courses are kept: of payments that no test has touched, and of others, which can be long."""

KEPT_STATES = 2
"""Of how many states of a course the JSON is kept: where it stands, and where it began."""

_encode = msgspec.json.Encoder().encode


class PaymentTimeline:
    """A payment, what a test has done to it, and every state that it goes through, in order."""

    __slots__ = ("_json", "record", "simulation", "states")

    def __init__(self, record: PaymentRecord, simulation: SimulationRecord = payments.UNTOUCHED) -> None:
        self.record = record
        self.simulation = simulation
        self.states = payments.course(record, simulation)
        self._json: dict[int, bytes] = {}

    def age(self, now: int) -> int:
        """How old the payment is at `now`, milliseconds since the epoch, in milliseconds."""
        return payments.elapsed(self.record, now, self.simulation)

    def state_at(self, age: int) -> State:
        """The state that holds when the payment is so many milliseconds old."""
        return state_at(self.states, age)

    def json_at(self, age: int) -> bytes:
        """The payment as it stands then, as JSON. Specification: "Payment object"."""
        state = state_at(self.states, age)
        json = self._json.get(state.at)
        if json is None:
            if len(self._json) == KEPT_STATES:
                del self._json[next(iter(self._json))]
            json = self._json[state.at] = _encode(payments.view(self.record, state))
        return json


def json_at_creation(record: PaymentRecord) -> bytes:
    """The payment as it was created, as JSON. Specification: "Payment object"."""
    return _encode(payments.view(record, CREATED))


class PaymentTimelines:
    """The courses of payments, by what is stored of them."""

    def __init__(self) -> None:
        self._untouched: OrderedDict[bytes, PaymentTimeline] = OrderedDict()
        self._simulated: OrderedDict[tuple[bytes, bytes], PaymentTimeline] = OrderedDict()

    def of(self, stored: bytes, simulated: bytes | None) -> PaymentTimeline | None:
        """The course of the payment that is stored so, with what a test has done to it; None for a resource
        that is no payment.
        """
        course = (
            self._untouched.get(stored) if simulated is None else self._simulated.get((stored, simulated))
        )
        if course is None:
            record = records.decode(stored)
            if not isinstance(record, PaymentRecord):
                return None
            if simulated is None:
                course = PaymentTimeline(record)
                _keep(self._untouched, stored, course, KEPT)
            else:
                course = PaymentTimeline(record, records.decode_as(SimulationRecord, simulated))
                _keep(self._simulated, (stored, simulated), course, KEPT_SIMULATED)
        return course


K = TypeVar("K")


def _keep(courses: OrderedDict[K, PaymentTimeline], key: K, course: PaymentTimeline, most: int) -> None:
    if len(courses) >= most:
        courses.popitem(last=False)
    courses[key] = course
