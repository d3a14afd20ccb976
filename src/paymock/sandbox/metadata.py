"""The metadata of a store: one record, which decides the secret for good."""

from collections.abc import Callable

from paymock.payments import records
from paymock.payments.records import StoreMetadata
from paymock.sandbox.retries import RetryDeadline
from paymock.stores.base import METADATA, STATE, Store, StoreError


def check_stored(stored: bytes) -> None:
    """Check stored metadata. Raises StoreError if this version cannot read the records beside them, and
    PaymockError `store_unavailable` if they are damaged.
    """
    check_format(records.decode_as(StoreMetadata, stored))


def check_format(metadata: StoreMetadata) -> None:
    """Raise StoreError if this version cannot read the records of the store."""
    if metadata.format not in records.READABLE_FORMATS:
        raise StoreError(
            f"paymock {metadata.version} wrote it in format {metadata.format}, which this version cannot "
            "read: serve it with that version, or use an empty store"
        )


async def read(
    store: Store, proposal: StoreMetadata, update: Callable[[StoreMetadata], StoreMetadata] | None = None
) -> StoreMetadata:
    """Return the metadata of `store`, after `update` if given. If it has none, `proposal` becomes it. Raises
    what `update` raises, and PaymockError `store_unavailable`.
    """
    deadline = RetryDeadline()
    while True:
        [old] = await store.get(METADATA, STATE)
        current = None if old is None else records.decode_as(StoreMetadata, old)
        metadata = proposal if current is None else current
        if update is not None:
            metadata = update(metadata)
        if metadata == current:
            return metadata
        if await store.replace(METADATA, STATE, old, records.encode(metadata), expected_state=old):
            return metadata
        deadline.check()
