"""The use cases without HTTP."""

from collections.abc import Awaitable
from itertools import count
from typing import Any

import msgspec
import pytest

from paymock.app.checkout import CheckoutService
from paymock.app.control import ControlService
from paymock.app.faults import FaultInjection
from paymock.app.journal import StoredEntry, encode_entry
from paymock.app.payments import PaymentsService
from paymock.payments.files import load_catalog
from paymock.payments.records import EndpointRecord, PaymentRecord, StoreMetadata, decode_as
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import sandbox_of
from paymock.sandbox.log_buffer import Entry
from paymock.sandbox.metadata import decode_metadata, load_metadata, new_metadata
from paymock.sandbox.sandboxes import Sandboxes
from paymock.sandbox.snapshot import KeyedRequest
from paymock.schemas.control import ListRequests
from paymock.schemas.json import fingerprint
from paymock.schemas.public import Payment
from paymock.stores.base import Store
from tests.support.client import order
from tests.support.clock import NOON, ManualClock

SANDBOX = sandbox_of("mk_test_demo")

SOON = 10.0
"""Seconds in which a busy machine gets there."""

_numbers = count(1)


class UseCases:
    """The use cases on a store, as one process has them: two of these on one store are two processes."""

    def __init__(
        self, store: Store, origin: StoreMetadata | None = None, retention: int | None = None
    ) -> None:
        self.clock = ManualClock()
        metadata = origin or new_metadata(NOON, 0, "tests")
        self.sandboxes = Sandboxes(store, self.clock, metadata, retention)
        self.service = PaymentsService(load_catalog(None), 100, self.sandboxes)
        self.faults = FaultInjection(self.sandboxes, lambda _: None)
        self.control = ControlService(load_catalog(None), self.sandboxes)
        self.checkouts = CheckoutService(load_catalog(None), self.sandboxes)

    async def create(
        self, key: str = "order-1001-payment", scenario: str | None = None, **changes: Any
    ) -> tuple[Payment, bool]:
        body = order(**changes)
        request = KeyedRequest(SANDBOX, key, fingerprint("POST", "/v1/payments", body), body)
        created = await self.service.create_payment(request, scenario)
        return msgspec.json.decode(created.payment.json, type=Payment), created.replayed


def keyed(key: str) -> KeyedRequest:
    return KeyedRequest(SANDBOX, key, b"fingerprint", {})


def line() -> StoredEntry:
    return StoredEntry(
        at="2030-01-31T12:00:00.000Z",
        method="GET",
        path="/v1/chains",
        status=200,
        error=None,
        message=None,
        details=[],
        payment_id=None,
        idempotency=None,
        request_id=f"req_{next(_numbers)}",
        duration_ms=0.1,
        operation="listChains",
        order_id=None,
        shown=None,
        fault=None,
        shown_offset_seconds=None,
        virtual_at="2030-01-31T12:00:00.000Z",
    )


def encoded(entry: StoredEntry) -> Entry:
    """What the journal is given of an entry."""
    return lambda: encode_entry(entry)


async def refusal(step: Awaitable[object]) -> PaymockError:
    with pytest.raises(PaymockError) as caught:
        await step
    return caught.value


async def check_noted_store(store: Store) -> None:
    """Check that a store has what the key `formats-key-0001` had: a payment, an endpoint, a rule, a speed."""
    await store.initialize(decode_metadata)
    app = UseCases(store, await load_metadata(store, NOON, 1, "formats"))
    sandbox = sandbox_of("formats-key-0001")
    snapshot = await app.sandboxes.snapshot(sandbox)
    [payment] = await store.get(sandbox, app.sandboxes.token(snapshot, "order-1001-payment"))
    assert payment is not None
    assert decode_as(PaymentRecord, payment).order_id == "1001"
    assert await store.count(sandbox, EndpointRecord.KIND) == 1
    assert (await app.control.clock(sandbox)).speed == 10
    assert [rule.fault for rule in (await app.control.fault_rules.list(sandbox)).data] == ["status=503"]
    assert [
        entry.status for entry in (await app.control.journal.newest(sandbox, ListRequests(limit=2))).data
    ] == [200, 201]
