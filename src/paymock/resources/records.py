"""What is stored, and the bytes it is stored as.

A created resource is one immutable record: what the request said and what was decided at creation, never a
state, since states are computed. What a test does to time and payments is stored beside it, in records
that are replaced.
"""

from typing import ClassVar, TypeVar

import msgspec

from paymock.rules.clock import ClockSetting
from paymock.rules.timeline import Transfer
from paymock.schemas.public import CreatePayment


class PaymentRecord(msgspec.Struct, frozen=True, gc=False, tag="payment", array_like=True):
    """A created payment. `created_at` is in milliseconds since the epoch, `due` and `fee` are raw units."""

    KIND: ClassVar = "payment"
    token: str
    fingerprint: bytes
    created_at: int
    scenario: str
    request: CreatePayment
    due: str
    fee: str
    other_asset: str


class EndpointRecord(msgspec.Struct, frozen=True, gc=False, tag="endpoint", array_like=True):
    """A created webhook endpoint. `created_at` is in milliseconds since the epoch."""

    KIND: ClassVar = "endpoint"
    token: str
    fingerprint: bytes
    created_at: int
    url: str
    events: list[str]
    description: str | None


class DepositRecord(msgspec.Struct, frozen=True, gc=False, tag="deposit", array_like=True):
    """A simulated deposit: `at` is in milliseconds since the payment's creation, `amount` in raw units."""

    KIND: ClassVar = "deposit"
    token: str
    fingerprint: bytes
    payment: str
    at: int
    amount: str
    other_asset: str | None


class SimulationRecord(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a test has done to one payment: how many milliseconds it is ahead of its sandbox, and its
    deposits.
    """

    time_offset: int = 0
    deposits: tuple[DepositRecord, ...] = ()

    @property
    def transfers(self) -> tuple[Transfer, ...]:
        """The deposits as the rules see them."""
        return tuple(Transfer(made.at, int(made.amount), made.other_asset) for made in self.deposits)


class Override(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A scenario or a fault that the next creations without headers of their own take, so many `times`; None:
    always.
    """

    value: str
    times: int | None


class SandboxRecord(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A sandbox: how often it was reset, its clock when it has been touched, and the scenarios and faults
    that its next creations take, in their order.
    """

    generation: int = 0
    clock: ClockSetting | None = None
    scenarios: tuple[Override, ...] = ()
    faults: tuple[Override, ...] = ()


class StoreMetadata(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Where the identifiers and the time of a store begin: the secret that identifiers are derived from, at
    most 64 bytes, and the clock of a sandbox that nobody has touched. With it the store says which `form`
    the identifiers and records in it have.
    """

    secret: bytes
    clock: ClockSetting
    form: int = 1


FORM = 2
"""Of identifiers and records. It rises when those of before are no longer read."""

Record = PaymentRecord | EndpointRecord | DepositRecord
T = TypeVar("T")

_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def encode(record: msgspec.Struct) -> bytes:
    """The bytes that a store keeps."""
    return msgspec.msgpack.encode(record)


def decode(stored: bytes) -> Record:
    """The created resource that `encode` turned into `stored`."""
    return _decoder.decode(stored)


def decode_as(of: type[T], stored: bytes | None) -> T:
    """The record of a known kind that `encode` turned into `stored`; an untouched one where nothing is
    stored.
    """
    return of() if stored is None else msgspec.msgpack.decode(stored, type=of)
