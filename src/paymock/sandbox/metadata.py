"""The metadata that all sandboxes of a store share, and whether this version can read it."""

import asyncio
import secrets
from collections.abc import Callable

from msgspec.structs import replace

from paymock import __version__
from paymock.payments import records
from paymock.payments.records import StoreMetadata
from paymock.rules import identifiers
from paymock.rules.clock import ClockSetting
from paymock.rules.errors import PaymockError
from paymock.sandbox.clock import Clock, synchronize
from paymock.sandbox.retries import RetryDeadline
from paymock.stores.base import METADATA, SANDBOX_RECORD, Store, StoreError


class SeedMismatch(Exception):
    """A store was created with another seed than the requested one."""


def new_metadata(now: int, speed: float, seed: str | None) -> StoreMetadata:
    """Return the metadata of a new store; `now` is in milliseconds, and `speed` that of all clocks."""
    secret = secrets.token_bytes(32) if seed is None else identifiers.secret_from_seed(seed)
    clock = ClockSetting(now, now, 0.0).with_speed(speed, now)
    return StoreMetadata(secret, clock, records.RECORD_FORMAT, __version__)


def decode_metadata(stored: bytes) -> StoreMetadata:
    """Decode stored metadata. Raises StoreError if this version cannot read the records beside them, and
    PaymockError `store_unavailable` if they are damaged.
    """
    metadata = records.decode_as(StoreMetadata, stored)
    if metadata.format not in records.READABLE_FORMATS:
        raise StoreError(
            f"paymock {metadata.version} wrote it in format {metadata.format}, which this version cannot "
            "read: serve it with that version, or use an empty store"
        )
    return metadata


async def read_metadata(
    store: Store, proposal: StoreMetadata, update: Callable[[StoreMetadata], StoreMetadata]
) -> StoreMetadata:
    """Return the metadata of `store`, after `update`. If it has none, `proposal` becomes it. Raises what
    `update` and `decode_metadata` raise.
    """
    deadline = RetryDeadline()
    while True:
        [old] = await store.get(METADATA, SANDBOX_RECORD)
        current = None if old is None else decode_metadata(old)
        metadata = update(current or proposal)
        if metadata == current:
            return metadata
        if await store.replace(METADATA, SANDBOX_RECORD, old, records.encode(metadata), expected_state=old):
            return metadata
        deadline.check()


async def load_metadata(store: Store, now: int, speed: float, seed: str | None) -> StoreMetadata:
    """Return the metadata of `store`, which is created if it is missing. If `speed` differs from the stored
    one, it applies from `now` on to all clocks whose speed no request has set.

    Raises SeedMismatch, StoreError for a store of another version, and PaymockError `store_unavailable`.
    """
    proposal = new_metadata(now, speed, seed)

    def with_speed(existing: StoreMetadata) -> StoreMetadata:
        if seed is not None and proposal.secret != existing.secret:
            raise SeedMismatch
        current = replace(existing, format=records.RECORD_FORMAT, version=__version__)
        if existing.clock.speed == speed:
            return current
        start = max(now, existing.clock.since_real)
        return replace(current, clock=existing.clock.with_speed(speed, start))

    return await read_metadata(store, proposal, with_speed)


class SharedMetadata:
    """The metadata of a store as this process knows them. They are read again after a reconnection: a store
    that lost its data has others, which this process adopts, or none, and then gets those of this process, so
    that all processes agree.
    """

    def __init__(self, store: Store, clock: Clock, metadata: StoreMetadata) -> None:
        self.current = metadata
        self._store = store
        self._clock = clock
        self._verified = store.connections
        self._verification: asyncio.Task[PaymockError | None] | None = None

    @property
    def is_verified(self) -> bool:
        return self._verified == self._store.connections

    async def verify(self) -> None:
        """Read metadata and time of the store, once for all. Raises PaymockError `store_unavailable`."""
        if self._verification is None:
            self._verification = asyncio.create_task(self._read())
        failure = await asyncio.shield(self._verification)
        if failure is not None:
            raise failure

    async def _read(self) -> PaymockError | None:
        """Adopt the metadata of the store. Return the error if they cannot be read."""
        connections = self._store.connections  # those that this opens are verified by the next request
        try:
            metadata = await read_metadata(self._store, self.current, lambda found: found)
            await synchronize(self._clock, self._store)
            self.current, self._verified = metadata, connections
        except PaymockError as error:
            return error
        except StoreError as error:
            return PaymockError("store_unavailable", f"This server cannot use the store: {error}.")
        finally:
            self._verification = None
        return None
