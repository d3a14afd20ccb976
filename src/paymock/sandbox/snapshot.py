"""A sandbox at one moment, and what a request with an idempotency key finds or makes in it."""

from typing import Any, Generic, TypeVar

from msgspec import Struct

from paymock.payments.records import DepositRecord, EndpointRecord, PaymentRecord, SandboxRecord
from paymock.rules.clock import ClockSetting

R = TypeVar("R", PaymentRecord, EndpointRecord, DepositRecord)


class SandboxSnapshot(Struct, frozen=True):
    """A sandbox at one moment: its own record, as stored and as decoded, its clock, the real time in
    milliseconds since the epoch, and the requested values.
    """

    sandbox: str
    state: bytes | None
    record: SandboxRecord
    clock: ClockSetting
    real: int
    values: list[bytes | None]

    @property
    def now(self) -> int:
        """The virtual time, in milliseconds since the epoch."""
        return self.clock.at(self.real)

    @property
    def pending_change_ms(self) -> int:
        """The real milliseconds until the last change of speed takes effect; mostly 0."""
        return max(0, self.clock.since_real - self.real)


class Creation(Struct, Generic[R], frozen=True):
    """A created resource, as stored too, whether an earlier request created it, and its sandbox then."""

    record: R
    stored: bytes
    replayed: bool
    snapshot: SandboxSnapshot


class KeyedRequest(Struct, frozen=True):
    """A state-changing request with an idempotency key."""

    sandbox: str
    idempotency_key: str
    fingerprint: bytes
    body: Any
