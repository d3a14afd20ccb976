"""The journal: the last requests that a sandbox has seen."""

from itertools import islice

import msgspec

from paymock.app.sandboxes import Sandboxes
from paymock.schemas import control as schemas

LENGTH = 1_000
"""How many requests a sandbox remembers."""

_LOG = "requests"


class Line(schemas.JournalEntry, array_like=True, gc=False):
    """An entry as it is stored: without the names of its fields, which are half of it."""


_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Line).decode


class Journal:
    """The journals of sandboxes."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    async def add(self, sandbox: str, line: Line) -> None:
        """Adds a request to the journal."""
        await self._sandboxes.store.append(sandbox, _LOG, _encode(line), keep=LENGTH)
        self._sandboxes.wake(sandbox, minor=True)

    async def newest(self, sandbox: str, limit: int, payment_id: str | None = None) -> schemas.Journal:
        """The last requests, newest first: all, or those that are about one payment."""
        stored = await self._sandboxes.store.tail(sandbox, _LOG, LENGTH if payment_id else limit)
        wanted = (line for line in map(_decode, stored) if payment_id in (None, line.payment_id))
        return schemas.Journal(data=[_entry(line) for line in islice(wanted, limit)])

    async def mark(self, sandbox: str) -> bytes | None:
        """What differs whenever the journal does."""
        newest = await self._sandboxes.store.tail(sandbox, _LOG, 1)
        return newest[0] if newest else None

    async def clear(self, sandbox: str) -> None:
        """Empties the journal."""
        await self._sandboxes.store.clear_log(sandbox, _LOG)
        self._sandboxes.wake(sandbox, minor=True)


def _entry(line: Line) -> schemas.JournalEntry:
    return msgspec.convert(line, schemas.JournalEntry, from_attributes=True)
