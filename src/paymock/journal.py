"""The journal: the last requests that a sandbox has seen."""

from itertools import islice

import msgspec

from paymock.core import control_wire as wire
from paymock.sandboxes import Sandboxes

LENGTH = 1_000
"""How many requests a sandbox remembers."""

_LOG = "requests"
_encode = msgspec.json.Encoder().encode


class Journal:
    """The journals of sandboxes."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    async def add(self, sandbox: str, entry: wire.JournalEntry) -> None:
        """Adds a request to the journal."""
        await self._sandboxes.store.append(sandbox, _LOG, _encode(entry), keep=LENGTH)
        self._sandboxes.wake(sandbox, minor=True)

    async def newest(self, sandbox: str, limit: int, payment_id: str | None = None) -> wire.Journal:
        """The last requests, newest first: all, or those that are about one payment."""
        stored = await self._sandboxes.store.tail(sandbox, _LOG, LENGTH if payment_id else limit)
        entries = (msgspec.json.decode(entry, type=wire.JournalEntry) for entry in stored)
        wanted = (entry for entry in entries if payment_id in (None, entry.payment_id))
        return wire.Journal(data=list(islice(wanted, limit)))

    async def mark(self, sandbox: str) -> bytes | None:
        """What differs whenever the journal does."""
        newest = await self._sandboxes.store.tail(sandbox, _LOG, 1)
        return newest[0] if newest else None

    async def clear(self, sandbox: str) -> None:
        """Empties the journal."""
        await self._sandboxes.store.clear_log(sandbox, _LOG)
        self._sandboxes.wake(sandbox, minor=True)
