"""The metadata of a store. In a cluster it is on all nodes, so that no single node is indispensable.

A quorum of the replicas decides the secret, which is final: only missing replicas are written. Without a
quorum nothing is decided, so two secrets are never in use. Of the clocks of the replicas the latest counts.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from paymock.payments import records
from paymock.payments.records import StoreMetadata
from paymock.rules.errors import PaymockError
from paymock.sandbox.retries import RetryDeadline
from paymock.stores.base import METADATA, STATE, Store, StoreError

_NONE = (b"", 0)


class _Replicas(NamedTuple):
    """The replicas that were read, by sandbox, in the order of the store; the most frequent secret, and how
    many of them have it; and an error of the others, if any.
    """

    stored: Mapping[str, bytes | None]
    secret: bytes
    number: int
    failure: PaymockError | None

    def latest(self, secret: bytes) -> StoreMetadata:
        return max((one for one in self.present if one.secret == secret), key=lambda one: one.clock)

    @property
    def present(self) -> list[StoreMetadata]:
        return [records.decode_as(StoreMetadata, stored) for stored in self.stored.values() if stored]


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


async def read_quorum(
    store: Store, proposal: StoreMetadata, update: Callable[[StoreMetadata], StoreMetadata] | None = None
) -> StoreMetadata:
    """Return the metadata of `store`. If it has none, `proposal` becomes it.

    The first quorum of equal secrets is enough, so that a silent node delays nothing. With `update`, all
    replicas are read, repaired, and replaced by its result. Raises what `update` raises, and PaymockError
    `store_unavailable` if no quorum can be read and written.
    """
    names = store.replicas(METADATA)
    quorum = len(names) // 2 + 1
    deadline = RetryDeadline()
    while True:
        replicas = await _read(store, names, quorum if update is None else len(names))
        if replicas.number >= quorum:
            current = replicas.latest(replicas.secret)
            metadata = current if update is None else update(current)
            failure = None if update is None else await _write(store, replicas.stored, metadata)
            if metadata == current:
                return metadata
        else:
            missing = {name: None for name, stored in replicas.stored.items() if stored is None}
            if replicas.failure and (len(replicas.stored) < quorum or not missing):
                raise replicas.failure
            # Where every replica is there and no quorum agrees, all processes choose the first.
            present = replicas.present
            metadata = replicas.latest(present[0].secret) if present else proposal
            failure = await _write(store, missing or replicas.stored, metadata)
        if failure is not None:
            raise failure
        deadline.check()


async def _read(store: Store, names: Sequence[str], enough: int) -> _Replicas:
    """Read the replicas, until so many have the same secret."""

    async def read(name: str) -> tuple[str, bytes | PaymockError | None]:
        try:
            [stored] = await store.get(name, STATE)
        except PaymockError as error:
            return name, error
        return name, stored

    stored: dict[str, bytes | None] = {}
    secrets: Counter[bytes] = Counter()
    failure: PaymockError | None = None
    tasks = [asyncio.create_task(read(name)) for name in names]
    try:
        for completed in asyncio.as_completed(tasks):
            name, reply = await completed
            if isinstance(reply, PaymockError):
                failure = reply
                continue
            stored[name] = reply
            if reply is not None:
                secret = records.decode_as(StoreMetadata, reply).secret
                secrets[secret] += 1
                if secrets[secret] >= enough:
                    break
    finally:
        for task in tasks:
            task.cancel()
    ordered = {name: stored[name] for name in names if name in stored}
    return _Replicas(ordered, *next(iter(secrets.most_common(1)), _NONE), failure)


async def _write(
    store: Store, replicas: Mapping[str, bytes | None], metadata: StoreMetadata
) -> PaymockError | None:
    """Replace the replicas that are still as they were read. Return an error if none can be written."""
    new = records.encode(metadata)

    async def write(name: str, old: bytes | None) -> PaymockError | None:
        try:
            await store.replace(name, STATE, old, new, expected_state=old)
        except PaymockError as error:
            return error
        return None

    outdated = (
        (name, old)
        for name, old in replicas.items()
        if old is None or records.decode_as(StoreMetadata, old) != metadata
    )
    failures = await asyncio.gather(*(write(name, old) for name, old in outdated))
    return failures[0] if failures and all(failures) else None
