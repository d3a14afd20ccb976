"""Limits what one owner, a key K with all its `K.NAME`, makes a process remember."""

from typing import TypeVar

from paymock.cache import BoundedCache
from paymock.payments import records
from paymock.payments.records import EndpointRecord, SandboxRecord
from paymock.rules.errors import PaymockError
from paymock.sandbox.clock import Clock

T = TypeVar("T", SandboxRecord, EndpointRecord)

MAX_OWNER_BYTES = 8 * 1024 * 1024
"""The most bytes of rules, overrides and endpoints in all sandboxes of an owner, stored by one process."""

_CACHED_OWNERS = 10_000


class OwnerLimits:
    """The owners of sandboxes, and the sizes of the records that count for each of them."""

    def __init__(self, clock: Clock, retention: int | None) -> None:
        """`retention` is that of the store, in seconds."""
        self.owners: BoundedCache[str, str] = BoundedCache(_CACHED_OWNERS)
        """The sandboxes of K, by those that a key `K.NAME` opened."""

        self._clock = clock
        self._retention = None if retention is None else retention * 1000
        self._sizes: dict[str, dict[tuple[str, str], tuple[int, int]]] = {}
        """By owner, of each sandbox and key: bytes, and the real time when they were stored."""

    def owner_of(self, sandbox: str) -> str:
        return self.owners.get(sandbox, sandbox)

    def record_size(self, sandbox: str, key: str, size: int) -> None:
        """Count `size` bytes under a key for the owner of a sandbox; 0: no more."""
        owner = self.owner_of(sandbox)
        sizes = self._sizes.setdefault(owner, {})
        sizes.pop((sandbox, key), None)
        if size:
            sizes[sandbox, key] = size, self._clock()
        elif not sizes:
            del self._sizes[owner]

    def forget(self, sandbox: str) -> None:
        """Count nothing of a sandbox any more."""
        for name, key in [*self._sizes.get(self.owner_of(sandbox), ())]:
            if name == sandbox:
                self.record_size(sandbox, key, 0)

    def check_room(self, sandbox: str, key: str, record: T) -> T:
        """Return the record if the owner has room for it. Raises PaymockError `capacity_exceeded`."""
        sizes = self._sizes.get(self.owner_of(sandbox), {})
        oldest = 0 if self._retention is None else self._clock() - self._retention
        for place in [place for place, (_, stored_at) in sizes.items() if stored_at < oldest]:
            del sizes[place]  # the store deletes it
        others = sum(size for place, (size, _) in sizes.items() if place != (sandbox, key))
        if others + len(records.encode(record)) > MAX_OWNER_BYTES:
            raise PaymockError(
                "capacity_exceeded",
                "The sandboxes of this API key have 8 MiB of fault rules, overrides and endpoints in this "
                "process. Nothing was stored. Delete some, or reset a sandbox.",
            )
        return record
