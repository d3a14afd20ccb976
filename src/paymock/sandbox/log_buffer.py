"""Buffer of log entries, which are encoded when they are written: those of a shared store within a few
milliseconds, all at once, and those of the in-memory store when somebody reads the log.

No caller waits for its entry. At 10,000 requests a second a commit, or a round trip, for each would cost as
much as the requests. Most entries of a busy sandbox are never read, and never encoded.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

DELAY_SECONDS = 0.005
"""How long an entry waits for others."""

MAX_UNWRITTEN = 2_048
"""How many entries of the in-memory store are buffered: one takes three times the room of an encoded one."""

Entry = Callable[[], bytes]
"""Encodes an entry."""


class LogBuffer:
    """The entries that wait. `write` stores those of one log of a sandbox, which keeps a number of them.
    `until_read`: they wait until a log is read, or there are MAX_UNWRITTEN.
    """

    def __init__(
        self, write: Callable[[str, str, int, list[Entry]], Awaitable[None]], *, until_read: bool
    ) -> None:
        self._write = write
        self._until_read = until_read
        self._entries: dict[tuple[str, str, int], list[Entry]] = {}
        self._count = 0
        self._dropped: Counter[tuple[str, str, int]] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    def add(self, sandbox: str, log: str, keep: int, entry: Entry) -> None:
        """Add an entry. Without a reader, it is written within DELAY_SECONDS, unless the store is slow."""
        entries = self._entries.setdefault((sandbox, log, keep), [])
        entries.append(entry)
        self._count += 1
        if len(entries) > keep + keep // 8:  # not at every addition
            self._count -= len(entries) - keep
            self._dropped[sandbox, log, keep] += len(entries) - keep
            del entries[:-keep]
        if self._until_read:
            if self._count > MAX_UNWRITTEN and self._writing is None:
                self._start()
        elif self._timer is None and self._writing is None:
            self._schedule()

    def added(self, sandbox: str, log: str, keep: int) -> int:
        """Return how many entries have been added to a log since it was written last."""
        place = sandbox, log, keep
        return len(self._entries.get(place, ())) + self._dropped[place]

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
        entries, self._entries, self._count = self._entries, {}, 0
        self._dropped.clear()
        self._writing = asyncio.create_task(self._write_all(entries))

    async def _write_all(self, entries: dict[tuple[str, str, int], list[Entry]]) -> None:
        try:
            writes = (self._write(*log, batch) for log, batch in entries.items())
            if self._until_read:  # in memory, a task for each would take more room than the entries
                for write in writes:
                    await write
            else:
                await asyncio.gather(*writes)
        finally:
            self._writing = None
            if self._entries and not self._until_read:
                self._schedule()
