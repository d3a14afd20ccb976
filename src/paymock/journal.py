"""The journal: the last requests that a sandbox has seen."""

import msgspec

from paymock.core import control_wire as wire
from paymock.sandboxes import Sandboxes

LENGTH = 1_000
"""How many requests a sandbox remembers."""

_LOG = "requests"


class Journal:
    """The journals of sandboxes."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes

    async def add(self, sandbox: str, entry: wire.JournalEntry) -> None:
        """Adds a request to the journal."""
        await self._sandboxes.store.append(sandbox, _LOG, msgspec.json.encode(entry), keep=LENGTH)

    async def newest(self, sandbox: str, limit: int) -> wire.Journal:
        """The last requests, newest first."""
        entries = await self._sandboxes.store.tail(sandbox, _LOG, limit)
        return wire.Journal(data=[msgspec.json.decode(entry, type=wire.JournalEntry) for entry in entries])

    async def clear(self, sandbox: str) -> None:
        """Empties the journal."""
        await self._sandboxes.store.clear_log(sandbox, _LOG)
