"""The journal: the last requests to a sandbox."""

from collections.abc import Awaitable
from itertools import islice
from typing import NamedTuple

import msgspec

from paymock.app.sandboxes import Sandboxes
from paymock.resources import records
from paymock.schemas import control as schemas

LENGTH = schemas.JOURNAL_LENGTH
_LOG = "requests"
_FEW = (16, 128)
"""How many of the newest entries a reader looks at first, and then, before it looks at all."""


class StoredEntry(schemas.JournalEntry, array_like=True, gc=False):
    """An entry as stored: an array, since field names would double its size."""

    virtual_at: str | None = None  # entries of earlier versions end before it


_encode = msgspec.msgpack.Encoder().encode


class Journal:
    """The journals of sandboxes."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    def add(self, sandbox: str, entry: StoredEntry) -> Awaitable[None]:
        """Add a request to the journal."""
        return self._sandboxes.append(sandbox, _LOG, _encode(entry), keep=LENGTH)

    async def newest(self, sandbox: str, limit: int, payment_id: str | None = None) -> schemas.Journal:
        """Return the last requests, newest first: all, or those about one payment."""
        stored = await self.stored(sandbox, LENGTH if payment_id else limit)
        decoded = (records.decode_as(StoredEntry, entry) for entry in stored)
        entries = (entry for entry in decoded if payment_id in (None, entry.payment_id))
        return schemas.Journal(data=[public_entry(entry) for entry in islice(entries, limit)])

    async def mark(self, sandbox: str) -> bytes | None:
        """Return a mark that differs whenever the journal differs."""
        newest = await self.stored(sandbox, 1)
        return newest[0] if newest else None

    async def stored(self, sandbox: str, limit: int) -> list[bytes]:
        """Return the newest entries as stored, newest first."""
        return await self._sandboxes.tail(sandbox, _LOG, limit)

    async def clear(self, sandbox: str) -> None:
        """Empty the journal."""
        await self._sandboxes.clear_log(sandbox, _LOG)


class RequestFilter(NamedTuple):
    """Selects entries by operation, order, payment and shown status; None matches all."""

    operation: str | None = None
    order_id: str | None = None
    payment_id: str | None = None
    shown: str | None = None

    def matches(self, entry: StoredEntry) -> bool:
        """Whether the filter matches this entry."""
        return (
            self.operation in (None, entry.operation)
            and self.order_id in (None, entry.order_id)
            and self.payment_id in (None, entry.payment_id)
            and self.shown in (None, entry.shown)
        )


class JournalReader:
    """Reads each entry of a journal once. It begins `after` the request with that id, or without one, with
    the oldest entry. While the journal has room and no such request, that has not been recorded yet.
    """

    def __init__(self, journal: Journal, sandbox: str, after: str | None = None) -> None:
        self._journal = journal
        self._sandbox = sandbox
        self._after = after
        self._newest: bytes | None = None

    async def skip(self) -> None:
        """Skip the entries that there are."""
        self._newest = await self._journal.mark(self._sandbox)

    async def new(self) -> list[StoredEntry]:
        """Return the entries since the last call, oldest first."""
        stored = await self._stored()
        if not stored:
            return []
        entries = [records.decode_as(StoredEntry, entry) for entry in stored]
        if self._after is not None:
            older = [number for number, entry in enumerate(entries) if entry.request_id == self._after]
            if not older and len(entries) < LENGTH:
                return []
            del entries[older[0] if older else len(entries) :]
            self._after = None
        self._newest = stored[0]
        return entries[::-1]

    async def _stored(self) -> list[bytes]:
        """Return what is stored since the last entry that was read, or at least since the request that it
        begins after, newest first.
        """
        for limit in (*(few for few in _FEW if few < LENGTH), LENGTH):
            stored = await self._journal.stored(self._sandbox, limit)
            if self._newest in stored:
                return stored[: stored.index(self._newest)]
            if len(stored) < limit or (self._after and any(map(self._is_first, stored))):
                break
        return stored

    def _is_first(self, entry: bytes) -> bool:
        return records.decode_as(StoredEntry, entry).request_id == self._after


def public_entry(entry: StoredEntry) -> schemas.JournalEntry:
    """Return an entry as a reply shows it."""
    return msgspec.convert(entry, schemas.JournalEntry, from_attributes=True)
