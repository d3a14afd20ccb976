"""Buffer of log entries, which are encoded when they are written: those of a shared store within a few
milliseconds, up to LOGS_PER_STEP logs in one step, and those of the in-memory store when somebody reads the
log.

No caller waits for its entry. At 10,000 requests a second a commit, or a round trip, for each would cost as
much as the requests. Most entries of a busy sandbox are never read, and never encoded.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain, islice

from paymock.sandbox.scheduler import SCHEDULER, FairScheduler, in_slices
from paymock.stores.base import LogEntries

DELAY_SECONDS = 0.005
"""How long an entry waits for others."""

LOGS_PER_STEP = 64
"""How many logs of a shared store are written in one step, which takes an engine less than a millisecond."""

MAX_UNWRITTEN = 2_048
"""How many entries of the in-memory store are buffered: one takes three times the room of an encoded one.
Beyond twice as many, an entry is encoded when it is added: whoever is faster than the store pays for it.
"""

Write = Callable[[Sequence[LogEntries]], Awaitable[None]]

Entry = Callable[[], bytes]
"""Encodes an entry."""

Log = tuple[str, str, int]
"""A sandbox, the name of its log, and how many entries that keeps."""


class LogBuffer:
    """The entries that wait. `write` stores those of some logs in one step. `until_read`: they wait until
    their log is read, or there are MAX_UNWRITTEN.
    """

    def __init__(self, write: Write, scheduler: FairScheduler, *, until_read: bool) -> None:
        self._write = write
        self._scheduler = scheduler
        self._until_read = until_read
        self._logs_per_step = 1 if until_read else LOGS_PER_STEP
        self._entries: dict[Log, list[Entry | bytes]] = {}
        self._count = 0  # of those that are not encoded
        self._dropped: Counter[Log] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._steps: dict[Log, asyncio.Future[None]] = {}
        """By log, what is done when the entries that are being written have been."""

    def add(self, log: Log, entry: Entry) -> None:
        """Add an entry. Without a reader, it is written within DELAY_SECONDS, unless the store is slow."""
        entries, keep = self._entries.setdefault(log, []), log[2]
        if self._count < 2 * MAX_UNWRITTEN:
            entries.append(entry)
            self._count += 1
        else:
            entries.append(entry())
        if len(entries) > keep + keep // 8:  # not at every addition
            self._count -= sum(map(callable, entries[:-keep]))
            self._dropped[log] += len(entries) - keep
            del entries[:-keep]
        if self._timer is None and self._writing is None:
            self._schedule()

    def added(self, log: Log) -> int:
        """Return how many entries have been added to a log since it was written last."""
        return len(self._entries.get(log, ())) + self._dropped[log]

    async def flush(self, sandbox: str | None = None) -> None:
        """Return when the entries that were added so far, of a sandbox or of all, are written, or lost since
        the store failed: not since a reader is cancelled.
        """
        logs = [log for log in {**self._entries, **self._steps} if sandbox in (None, log[0])]
        for begin in range(0, len(logs), self._logs_per_step):
            await asyncio.shield(self._step(logs[begin : begin + self._logs_per_step]))

    def _schedule(self) -> None:
        if not self._until_read:
            self._timer = asyncio.get_running_loop().call_later(DELAY_SECONDS, self._start)
        elif self._count > MAX_UNWRITTEN:
            self._start()

    def _start(self) -> None:
        self._timer = None
        self._writing = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        try:
            await self.flush()
        finally:
            self._writing = None
        if self._entries:
            self._schedule()

    async def _step(self, logs: Sequence[Log]) -> None:
        SCHEDULER.set((self._scheduler, "journal"))  # other keys wait for this, too
        while busy := {self._steps[log] for log in logs if log in self._steps}:
            await asyncio.wait(busy)
        taken = {log: self._entries.pop(log) for log in logs if log in self._entries}
        if not taken:
            return
        self._count -= sum(map(callable, chain.from_iterable(taken.values())))
        done = asyncio.get_running_loop().create_future()
        self._steps |= dict.fromkeys(taken, done)
        try:
            entries = chain.from_iterable(taken.values())
            encoded = iter(await in_slices(one if isinstance(one, bytes) else one() for one in entries))
            step = [LogEntries(*log, [*islice(encoded, len(added))]) for log, added in taken.items()]
            await self._write(step)
        finally:
            for log in taken:
                del self._steps[log], self._dropped[log]
            done.set_result(None)
