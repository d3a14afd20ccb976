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
from paymock.payments.records import StoreMetadata
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import sandbox_of
from paymock.sandbox.log_buffer import Entry
from paymock.sandbox.sandboxes import KeyedRequest, Sandboxes, new_metadata
from paymock.schemas.json_decoding import fingerprint
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

    def __init__(self, store: Store, origin: StoreMetadata | None = None) -> None:
        self.clock = ManualClock()
        self.sandboxes = Sandboxes(store, self.clock, origin or new_metadata(NOON, 0, "tests"))
        self.service = PaymentsService(load_catalog(None), 100, self.sandboxes)
        self.faults = FaultInjection(self.sandboxes, self.service)
        self.control = ControlService(load_catalog(None), self.sandboxes)
        self.checkouts = CheckoutService(load_catalog(None), self.sandboxes)

    async def create(
        self,
        key: str = "order-1001-payment",
        scenario: str | None = None,
        **changes: Any,
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
