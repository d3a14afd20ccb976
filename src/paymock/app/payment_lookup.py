"""A payment as use cases find it: with its past and its future."""

from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from paymock.app.sandboxes import Sandboxes, SandboxSnapshot
from paymock.resources import payments, records
from paymock.resources.records import PaymentRecord, SimulationRecord
from paymock.resources.timelines import PaymentTimeline
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import PAYMENT, token_in
from paymock.rules.timeline import State
from paymock.rules.times import LATEST
from paymock.schemas.public import Payment
from paymock.stores.base import note_key

_MARGIN = 0.001
"""Seconds by which a sleep may end too early."""


def sleep_for(milliseconds: float) -> float:
    """How many seconds to sleep so that so many milliseconds have certainly passed."""
    return milliseconds / 1000 + _MARGIN


class PaymentSnapshot(Struct, frozen=True):
    """A payment with its whole course, what is stored of what tests have done to it, and its sandbox at this
    moment.
    """

    course: PaymentTimeline
    stored: bytes | None
    snapshot: SandboxSnapshot

    def after(self, milliseconds: int) -> "PaymentSnapshot":
        """The same, so many real milliseconds later."""
        later = replace(self.snapshot, real=self.snapshot.real + milliseconds)
        return replace(self, snapshot=later)

    @property
    def record(self) -> PaymentRecord:
        """The payment as it was created."""
        return self.course.record

    @property
    def simulation(self) -> SimulationRecord:
        """What tests have done to it."""
        return self.course.simulation

    @property
    def elapsed(self) -> int:
        """The payment's age in milliseconds."""
        return self.course.age(self.snapshot.now)

    @property
    def states(self) -> tuple[State, ...]:
        """Every state of the payment, past and to come."""
        return self.course.states

    @property
    def state(self) -> State:
        """The state that holds now."""
        return self.course.state_at(self.elapsed)

    @property
    def json(self) -> bytes:
        """The payment as it stands, as JSON."""
        return self.course.json_at(self.elapsed)

    @property
    def lasting(self) -> list[State]:
        """The states that somebody can see: those that do not give way in the moment in which they begin."""
        ends = [*(state.at for state in self.states[1:]), None]
        return [state for state, end in zip(self.states, ends, strict=True) if end != state.at]

    @property
    def ahead(self) -> list[State]:
        """The states that are still to come."""
        return [state for state in self.lasting if state.at > self.elapsed]

    def has_been(self, status: str) -> bool:
        """Whether the payment has reached this status."""
        return any(state.status == status for state in self.lasting if state.at <= self.elapsed)

    def could_come(self, status: str | None) -> bool:
        """Whether the payment can still reach this status, or any other, maybe since somebody pays."""
        return payments.could_come(self.record, self.simulation, self.elapsed, status)

    def seconds_to(self, state: State) -> float | None:
        """How many real seconds from now `state` has begun; None when the clock stands still, or ends, before
        that.
        """
        if self.record.created_at + state.at > LATEST:
            return None
        comes = self.record.created_at + state.at - self.simulation.time_offset
        delay = self.snapshot.clock.real_delay(comes, self.snapshot.real)
        return None if delay is None else sleep_for(delay)

    @property
    def seconds_to_change(self) -> float | None:
        """How many real seconds from now the payment, or the speed of its clock, changes by itself; None when
        neither does.
        """
        ahead, lead = self.ahead, self.snapshot.pending_change_ms
        seconds = self.seconds_to(ahead[0]) if ahead else None
        if lead:
            seconds = sleep_for(lead) if seconds is None else min(seconds, sleep_for(lead))
        return seconds

    @property
    def payment(self) -> Payment:
        """The payment as it stands."""
        return payments.view(self.record, self.state)


class Filter(NamedTuple):
    """Which payments a list shows."""

    status: str | None = None
    scenario: str | None = None
    order_id: str | None = None

    def takes(self, found: PaymentSnapshot) -> bool:
        """Whether the list shows this payment."""
        record = found.record
        return (
            self.scenario in (None, record.scenario)
            and self.order_id in (None, record.request.order_id)
            and self.status in (None, found.state.status)
        )


class Page(NamedTuple):
    """Some payments of a sandbox at one moment, newest first, each with its position among all."""

    snapshot: SandboxSnapshot
    payments: list[tuple[int, PaymentSnapshot]]


async def find(sandboxes: Sandboxes, sandbox: str, payment_id: str) -> PaymentSnapshot:
    """The payment, and its sandbox at this moment. Raises PaymockError `payment_not_found`."""
    token = token_in(payment_id, PAYMENT) or ""
    snapshot = await sandboxes.snapshot(sandbox, token, note_key(token))
    stored, simulated = snapshot.values
    course = sandboxes.timelines.of(stored, simulated) if stored else None
    if course is None:
        raise PaymockError("payment_not_found")
    return PaymentSnapshot(course, simulated, snapshot)


async def newest(sandboxes: Sandboxes, sandbox: str, limit: int, before: int | None = None) -> Page:
    """The newest payments, or the newest of those before a position."""
    page = await sandboxes.store.page(sandbox, PaymentRecord.KIND, limit=limit, before=before)
    tokens = [records.decode(stored).token for _, stored in page]
    snapshot = await sandboxes.snapshot(sandbox, *map(note_key, tokens))
    found = [
        (position, PaymentSnapshot(course, simulated, snapshot))
        for (position, stored), simulated in zip(page, snapshot.values, strict=True)
        if (course := sandboxes.timelines.of(stored, simulated))
    ]
    return Page(snapshot, found)
