"""The journal: the last requests to a sandbox."""

from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from paymock.payments import records
from paymock.sandbox.log_buffer import Entry
from paymock.sandbox.sandboxes import Sandboxes
from paymock.schemas import control as schemas

LENGTH = schemas.JOURNAL_LENGTH
LOG = "requests"


class StoredEntry(schemas.JournalEntry, array_like=True, gc=False):
    """An entry as stored: an array, since field names would double its size."""

    virtual_at: str | None = None  # entries of earlier versions end before it, or before the next
    fetch_site: str | None = None
    payment_ahead_seconds: float | None = None


encode_entry = msgspec.msgpack.Encoder().encode


class Journal:
    """The journals of sandboxes."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    def add(self, sandbox: str, entry: Entry) -> None:
        self._sandboxes.append(sandbox, LOG, entry, keep=LENGTH)

    async def newest(self, sandbox: str, query: schemas.ListRequests) -> schemas.Journal:
        payment_id = query.payment_id
        stored = await self.stored(sandbox, LENGTH if payment_id else query.limit)
        decoded = (records.decode_as(StoredEntry, entry) for entry in stored)
        entries = (entry for entry in decoded if payment_id in (None, entry.payment_id))
        return schemas.Journal(data=[public_entry(entry) for entry in islice(entries, query.limit)])

    async def mark(self, sandbox: str) -> bytes | None:
        newest = await self.stored(sandbox, 1)
        return newest[0] if newest else None

    async def stored(self, sandbox: str, limit: int) -> list[bytes]:
        """Return the newest entries as stored, newest first."""
        return await self._sandboxes.tail(sandbox, LOG, limit)

    async def clear(self, sandbox: str) -> None:
        await self._sandboxes.clear_log(sandbox, LOG)


class RequestFilter(NamedTuple):
    """Selects entries by operation, order, payment and shown status; None matches all."""

    operation: str | None = None
    order_id: str | None = None
    payment_id: str | None = None
    shown: str | None = None


def without_times(entry: schemas.JournalEntry, **ignored: None) -> schemas.JournalEntry:
    """Return an entry without what differs between equal requests, and without the fields `ignored`."""
    times = {"at": "", "virtual_at": None, "shown_offset_seconds": None, "payment_ahead_seconds": None}
    return replace(entry, request_id="", duration_ms=0, **times, **ignored)


def public_entry(entry: StoredEntry) -> schemas.JournalEntry:
    return msgspec.convert(entry, schemas.JournalEntry, from_attributes=True)
