"""Limits what one owner, a key K with all its `K.NAME`, makes a process hold."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeVar
from weakref import WeakValueDictionary

from paymock.cache import BoundedCache
from paymock.payments import records
from paymock.payments.records import EndpointRecord, SandboxRecord
from paymock.rules.errors import PaymockError
from paymock.sandbox.clock import Clock

T = TypeVar("T", SandboxRecord, EndpointRecord)

MAX_OWNER_BYTES = 8 * 1024 * 1024
"""The most bytes of rules, overrides and endpoints in all sandboxes of an owner, stored by one process."""

MAX_LARGE_REPLIES = 2
"""How many replies of up to 2 MB are being made or sent for an owner; further requests wait for that."""

_SHARE = 9
"""The most payments of an owner, as a multiple of what is free for all."""

_CACHED_OWNERS = 10_000

LARGE_REPLY: ContextVar[Callable[[], Awaitable[None]]] = ContextVar("large_reply")
"""What a request that waits calls before it makes a large reply: that may have to wait for others."""


class OwnerLimits:
    """The owners of sandboxes, and the sizes of the records that count for each of them."""

    def __init__(self, clock: Clock, retention: int | None, capacity: int | None = None) -> None:
        """`retention` is that of the store, in seconds, and `capacity` its most payments, if it has these."""
        self.owners: BoundedCache[str, str] = BoundedCache(_CACHED_OWNERS)
        """The sandboxes of K, by those that a key `K.NAME` opened."""

        self._clock = clock
        self._retention = None if retention is None else retention * 1000
        self._sizes: dict[str, dict[tuple[str, str], tuple[int, int]]] = {}
        """By owner, of each sandbox and key: bytes, and the real time when they were stored."""

        self._capacity = capacity
        # the payments of a store with a capacity
        self._total, self._by_owner, self._by_sandbox = 0, Counter[str](), Counter[str]()
        self._large_replies: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def owner_of(self, sandbox: str) -> str:
        return self.owners.get(sandbox, sandbox)

    def count_payment(self, sandbox: str) -> None:
        """Count a new payment."""
        if self._capacity is not None:
            self._total += 1
            self._by_sandbox[sandbox] += 1
            self._by_owner[self.owner_of(sandbox)] += 1

    def check_share(self, sandbox: str) -> None:
        """Raise PaymockError `capacity_exceeded` if the owner has used up its share: nine times what is free,
        once another owner has a payment.
        """
        if self._capacity is None or len(self._by_owner) < 2:
            return
        if self._by_owner[self.owner_of(sandbox)] > _SHARE * (self._capacity - self._total):
            raise PaymockError(
                "capacity_exceeded",
                "The sandboxes of this API key have used up their share of the payments that this server "
                "keeps: some room is for other keys. Nothing was stored. Reset a sandbox.",
            )

    async def large_reply(self, owner: str) -> Callable[[], None]:
        """Wait until another large reply may be made for an owner. Return what to call once it is sent."""
        semaphore = self._large_replies.setdefault(owner, asyncio.Semaphore(MAX_LARGE_REPLIES))
        await semaphore.acquire()
        return semaphore.release

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
        owner, payments = self.owner_of(sandbox), self._by_sandbox.pop(sandbox, 0)
        self._total -= payments
        self._by_owner[owner] -= payments
        if not self._by_owner[owner]:
            del self._by_owner[owner]
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
