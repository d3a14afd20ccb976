"""What is stored: one immutable record for each created resource, and the bytes it is stored as.

A record holds what the request said and what was decided at creation, never a state: states are computed.
"""

from typing import ClassVar

import msgspec

from paymock.core.wire import CreatePayment


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


Record = PaymentRecord | EndpointRecord

_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


def encode(record: Record) -> bytes:
    """The bytes that a store keeps."""
    return msgspec.msgpack.encode(record)


def decode(stored: bytes) -> Record:
    """The record that `encode` turned into `stored`."""
    return _decoder.decode(stored)
