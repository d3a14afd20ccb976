"""The journal: the last requests to a sandbox."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from paymock.payments import records
from paymock.sandbox.log_buffer import Entry
from paymock.sandbox.notifier import TimedEvent
from paymock.sandbox.sandboxes import Sandboxes
from paymock.schemas import control as schemas

LENGTH = schemas.JOURNAL_LENGTH
LOG = "requests"
_FEW = (16, 128)
"""How many of the newest entries are read at first, and then, before all are."""

_LATE_SECONDS = 1.0
"""How much later than the reply another process may record a request on a shared store."""


class StoredEntry(schemas.JournalEntry, array_like=True, gc=False):
    """An entry as stored: an array, since field names would double its size."""

    virtual_at: str | None = None  # entries of earlier versions end before it, or before the next
    fetch_site: str | None = None
    payment_ahead_seconds: float | None = None


encode_entry = msgspec.msgpack.Encoder().encode


Matches = Callable[[StoredEntry], bool]


class Journal:
    """The journals of sandboxes."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes
        self._tails: dict[str, _Tail] = {}

    @contextmanager
    def reader(
        self, sandbox: str, matches: Matches, after: str | None = None, changed: TimedEvent | None = None
    ) -> Iterator["JournalReader"]:
        """Read the entries that match, after the request `after` or all, within the block. `changed` is set
        at each of them.
        """
        tail = self._tails.get(sandbox)
        if tail is None or tail.has_ended:
            tail = self._tails[sandbox] = _Tail(self, sandbox, self._sandboxes)
        reader = JournalReader(tail, matches, after, changed or TimedEvent())
        tail.join(reader)
        try:
            yield reader
        finally:
            tail.readers.discard(reader)
            if not tail.readers:
                tail.close()
                if self._tails.get(sandbox) is tail:
                    del self._tails[sandbox]

    def add(self, sandbox: str, entry: Entry) -> None:
        self._sandboxes.append(sandbox, LOG, entry, keep=LENGTH)

    async def newest(self, sandbox: str, limit: int, payment_id: str | None = None) -> schemas.Journal:
        stored = await self.stored(sandbox, LENGTH if payment_id else limit)
        decoded = (records.decode_as(StoredEntry, entry) for entry in stored)
        entries = (entry for entry in decoded if payment_id in (None, entry.payment_id))
        return schemas.Journal(data=[public_entry(entry) for entry in islice(entries, limit)])

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

    def matches(self, entry: StoredEntry) -> bool:
        return (
            self.operation in (None, entry.operation)
            and self.order_id in (None, entry.order_id)
            and self.payment_id in (None, entry.payment_id)
            and self.shown in (None, entry.shown)
        )


class JournalReader:
    """Reads what matches in a journal: after the request `after`, or all. Readers of one journal share each
    step of the store.

    An `after` that the journal lacks counts as passed. On a shared store, another process may record it a
    moment later, so nothing counts until it is found or _LATE_SECONDS have passed.
    """

    def __init__(self, tail: "_Tail", matches: Matches, after: str | None, changed: TimedEvent) -> None:
        self.after = after
        self.changed = changed
        self.failure: Exception | None = None
        self._tail = tail
        self._matches = matches
        self._matching: list[StoredEntry] = []
        self._counts_from: float | None = None  # by the clock of the event loop; None: nothing has been read

    @property
    def has_begun(self) -> bool:
        return self._counts_from is not None

    @property
    def matching(self) -> list[StoredEntry]:
        """The entries that have matched, oldest first."""
        return self._matching if self._counts() else []

    async def skip(self) -> None:
        await self.until(_at_once, math.inf)
        self._matching.clear()

    async def until(self, reached: Callable[[], Awaitable[bool]], deadline: float) -> bool:
        """Return True as soon as `reached` does, which is asked again when an entry matches or `changed` is
        set, or False at the deadline, by the clock of the event loop, or when the server stops. Raises what
        reading raises.
        """
        while True:
            self.changed.clear()
            if self.failure is not None:
                raise self.failure
            counts = self._counts()
            if counts and await reached():
                return True
            if (counts and _now() >= deadline) or self._tail.stopping:
                return False
            await self.changed.until(deadline if counts else self._counts_from)

    def add(self, entries: Iterable[StoredEntry]) -> None:
        """Add the new entries, oldest first; at first, all that the journal has."""
        begins, known = not self.has_begun, len(self._matching)
        for entry in entries:
            if entry.request_id == self.after:
                self.after, begins = None, True
                self._matching.clear()
            elif self._matches(entry):
                self._matching.append(entry)
        if begins:
            self._counts_from = _now() + (self._tail.late_seconds if self.after else 0)
        if begins or len(self._matching) > known:
            self.changed.set()

    def _counts(self) -> bool:
        return self._counts_from is not None and _now() >= self._counts_from


class _Tail:
    """The end of a journal, which is read and decoded at each change once for all readers."""

    def __init__(self, journal: Journal, sandbox: str, sandboxes: Sandboxes) -> None:
        self.readers: set[JournalReader] = set()
        self.late_seconds = 0.0 if sandboxes.never_waits else _LATE_SECONDS
        self._journal = journal
        self._sandbox = sandbox
        self._notifier = sandboxes.notifier
        self._newest = b""
        self._changed: TimedEvent | None = None
        self._following = asyncio.create_task(self._follow())

    @property
    def stopping(self) -> bool:
        return self._notifier.stopping

    @property
    def has_ended(self) -> bool:
        return self._following.done()

    def join(self, reader: JournalReader) -> None:
        self.readers.add(reader)
        if self._changed is not None:
            self._changed.set()

    def close(self) -> None:
        self._following.cancel()

    async def _follow(self) -> None:
        failure = None
        try:
            with self._notifier.subscribe(self._sandbox, additions=True) as self._changed:
                while not self.stopping:
                    self._changed.clear()
                    await self._read()
                    await self._changed.wait()
        except Exception as error:  # noqa: BLE001 - raised by every reader
            failure = error
        for reader in self.readers:
            reader.failure = failure
            reader.changed.set()

    async def _read(self) -> None:
        """Read the new entries for those that have begun, and for the others what they begin with."""
        beginning = [reader for reader in self.readers if not reader.has_begun]
        others = [reader for reader in self.readers if reader.has_begun]
        wanted = {reader.after for reader in beginning}
        for limit in (*(few for few in _FEW if few < LENGTH), LENGTH):
            stored = await self._journal.stored(self._sandbox, limit)
            is_known = self._newest in stored
            number = stored.index(self._newest) if is_known else len(stored)
            needed = stored if beginning else stored[:number]
            entries = [records.decode_as(StoredEntry, entry) for entry in needed]
            suffices = (is_known or not others) and wanted <= {entry.request_id for entry in entries}
            if suffices or len(stored) < limit:
                break
        self._newest = stored[0] if stored else b""
        for reader in beginning:
            reader.add(reversed(entries))
        for reader in others:
            reader.add(reversed(entries[:number]))


async def _at_once() -> bool:
    return True


def _now() -> float:
    return asyncio.get_running_loop().time()


def without_times(entry: schemas.JournalEntry, **ignored: None) -> schemas.JournalEntry:
    """Return an entry without what differs between equal requests, and without the fields `ignored`."""
    times = {"at": "", "virtual_at": None, "shown_offset_seconds": None, "payment_ahead_seconds": None}
    return replace(entry, request_id="", duration_ms=0, **times, **ignored)


def public_entry(entry: StoredEntry) -> schemas.JournalEntry:
    return msgspec.convert(entry, schemas.JournalEntry, from_attributes=True)
