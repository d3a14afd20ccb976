"""Buffer of log entries for a shared store: those of a few milliseconds are written at once.

No caller waits for its entry. At 10,000 requests a second a commit, or a round trip, for each would cost as
much as the requests.
"""

import asyncio
from collections.abc import Awaitable, Callable

DELAY_SECONDS = 0.005
"""How long an entry waits for others."""


class LogBuffer:
    """The entries that wait. `write` stores those of one log of a sandbox, which keeps a number of them."""

    def __init__(self, write: Callable[[str, str, int, list[bytes]], Awaitable[None]]) -> None:
        self._write = write
        self._entries: dict[tuple[str, str, int], list[bytes]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    def add(self, sandbox: str, log: str, keep: int, entry: bytes) -> None:
        """Add an entry, which is written within DELAY_SECONDS, unless the store is slow."""
        entries = self._entries.setdefault((sandbox, log, keep), [])
        entries.append(entry)
        if len(entries) > 2 * keep:  # while the store does not answer
            del entries[:-keep]
        if self._timer is None and self._writing is None:
            self._schedule()

    async def flush(self) -> None:
        """Return when the entries added so far are written, or lost since the store failed."""
        for _ in range(2):  # first those that are being written
            if self._entries and self._writing is None:
                self._start()
            if self._writing is not None:
                await asyncio.wait([self._writing])

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(DELAY_SECONDS, self._start)

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        entries, self._entries = self._entries, {}
        self._writing = asyncio.create_task(self._write_all(entries))

    async def _write_all(self, entries: dict[tuple[str, str, int], list[bytes]]) -> None:
        try:
            await asyncio.gather(*(self._write(*log, batch) for log, batch in entries.items()))
        finally:
            self._writing = None
            if self._entries:
                self._schedule()
