"""The journal: the last requests to a sandbox."""

from collections.abc import Awaitable
from itertools import islice

import msgspec

from paymock.app.sandboxes import Sandboxes
from paymock.resources import records
from paymock.schemas import control as schemas

LENGTH = 1_000
"""How many requests a journal holds."""

_LOG = "requests"


class StoredEntry(schemas.JournalEntry, array_like=True, gc=False):
    """An entry as stored: an array, since field names would double its size. `shown_at`: when the state began
    that the reply showed, in milliseconds after the creation of the payment.
    """

    shown_at: int | None


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
        stored = await self._sandboxes.tail(sandbox, _LOG, LENGTH if payment_id else limit)
        decoded = (records.decode_as(StoredEntry, entry) for entry in stored)
        entries = (entry for entry in decoded if payment_id in (None, entry.payment_id))
        return schemas.Journal(data=[_public(entry) for entry in islice(entries, limit)])

    async def mark(self, sandbox: str) -> bytes | None:
        """Return a mark that differs whenever the journal differs."""
        newest = await self._sandboxes.tail(sandbox, _LOG, 1)
        return newest[0] if newest else None

    async def clear(self, sandbox: str) -> None:
        """Empty the journal."""
        await self._sandboxes.clear_log(sandbox, _LOG)


def _public(entry: StoredEntry) -> schemas.JournalEntry:
    return msgspec.convert(entry, schemas.JournalEntry, from_attributes=True)
