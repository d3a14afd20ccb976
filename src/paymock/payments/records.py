"""The records that stores keep, and their encoding: MessagePack arrays, so the order of fields is part of the
format, and their names are not.

A created resource is one immutable record: the request and what was decided at creation, but no state, since
states are computed. What a test does to time and payments is stored separately, in records that are replaced.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import msgspec

from paymock.rules.clock import ClockSetting
from paymock.rules.errors import PaymockError
from paymock.rules.faults import FaultRule
from paymock.rules.scenarios import StoredScenario
from paymock.rules.timeline import Transfer
from paymock.schemas.json import equal


class PaymentHead(msgspec.Struct, frozen=True, gc=False, tag="payment", array_like=True):
    """The first fields of a payment's record, for searches: to decode them alone takes half of the time."""

    KIND: ClassVar = "payment"
    token: str
    fingerprint: bytes
    created_at: int
    scenario: str
    order_id: str


class PaymentRecord(PaymentHead, frozen=True, gc=False, tag="payment", array_like=True):
    """A created payment, without what all accepted requests have in common: their settlement has the same
    mode, and they pay with what they receive. `created_at` is in milliseconds since the epoch; `amount`,
    `due` and `fee` are raw units; `refund_to` is a chain and an address.

    `scenario` is a name; `custom_scenario` is that scenario, unless it is one of SCENARIOS. So no payment
    depends on the scenarios of the server that shows it.
    """

    chain: str
    asset: str
    amount: str
    address: str
    refund_to: tuple[str, str] | None
    expires_at: str | None
    metadata: dict[str, Any] | None
    due: str
    fee: str
    other_asset: str
    custom_scenario: StoredScenario | None = None


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
    """What a test did to a payment: its offset in milliseconds from its sandbox's clock, and deposits."""

    time_offset: int = 0
    deposits: tuple[DepositRecord, ...] = ()

    @property
    def transfers(self) -> tuple[Transfer, ...]:
        return tuple(
            Transfer(deposit.at, int(deposit.amount), deposit.other_asset) for deposit in self.deposits
        )


class Override(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The scenario `value` for the next `times` creations that have no header for it; None: for all of them.
    `custom_scenario` is that scenario, unless it is one of SCENARIOS. The rest are conditions: the order, the
    beginning of its id, and members of its metadata.
    """

    value: str
    times: int | None
    custom_scenario: StoredScenario | None = None
    order_id: str | None = None
    order_id_prefix: str | None = None
    metadata: dict[str, Any] | None = None

    @property
    def conditions(self) -> list[Any]:
        return [self.order_id, self.order_id_prefix, self.metadata]

    def selects(self, order_id: str, metadata: Mapping[str, Any]) -> bool:
        """Whether a creation with this order and metadata takes it."""
        members = {name: metadata[name] for name in self.metadata or () if name in metadata}
        is_order = self.order_id in (None, order_id) and order_id.startswith(self.order_id_prefix or "")
        return is_order and equal(self.metadata or {}, members)


class SandboxRecord(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A sandbox: how often it was reset, its clock once that was changed, the scenarios of its next
    creations, the fault rules of its requests, in order, and how many there have been.
    """

    generation: int = 0
    clock: ClockSetting | None = None
    scenarios: tuple[Override, ...] = ()
    next_faults: Any = ()
    """Version 0.3 stored faults of the next creations here. They are read, and dropped."""

    rules: tuple[FaultRule, ...] = ()
    rules_made: int = 0

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "next_faults", ())

    def has_rule_for(self, operation: str) -> bool:
        return bool(self.rules) and any(rule.operation in (None, operation) for rule in self.rules)

    def rule(self, rule_id: str | None) -> FaultRule | None:
        return next((rule for rule in self.rules if rule.id == rule_id), None)


class StoreMetadata(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What all sandboxes of a store share: the secret that identifiers are derived from, at most 64 bytes,
    the initial clock of a sandbox, the format of the identifiers and records, and the version of paymock that
    used the store last. Their order is the same in all formats, so that every version can name another.
    """

    secret: bytes
    clock: ClockSetting
    format: int = 1
    version: str = "0.1.0"


RECORD_FORMAT = 5
"""The version of the format of identifiers and records."""

READABLE_FORMATS = (4, RECORD_FORMAT)
"""Formats whose records this version reads as they are: their metadata get the current format at the start.
Stores of other formats are refused.
"""

Record = PaymentRecord | EndpointRecord | DepositRecord
T = TypeVar("T")

_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)
encode = msgspec.msgpack.encode


def decode(stored: bytes) -> Record:
    """Decode the record of a created resource. Raises PaymockError `store_unavailable` if it is damaged."""
    try:
        return _decoder.decode(stored)
    except (msgspec.DecodeError, TypeError):
        raise _damaged() from None


def decode_as(record_type: type[T], stored: bytes | None) -> T:
    """Decode a record of a known type, or make the default one where nothing is stored. Raises PaymockError
    `store_unavailable` if it is damaged, or another record.
    """
    try:
        return record_type() if stored is None else msgspec.msgpack.decode(stored, type=record_type)
    except (msgspec.DecodeError, TypeError):
        raise _damaged() from None


def _damaged() -> PaymockError:
    return PaymockError("store_unavailable", "The store has returned a damaged record.")
