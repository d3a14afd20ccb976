"""The journal: the last requests to a sandbox."""

from collections.abc import Iterable
from hashlib import blake2b
from itertools import islice

import msgspec
from msgspec.structs import replace

from paymock.cache import JOURNAL_LENGTH, BoundedCache
from paymock.payments import records
from paymock.rules.errors import PaymockError
from paymock.sandbox.log_buffer import Entry
from paymock.sandbox.sandboxes import Sandboxes
from paymock.sandbox.scheduler import in_slices, yield_turn
from paymock.sandbox.snapshot import SandboxSnapshot
from paymock.schemas import control as schemas

LOG = "requests"
_CACHED_KEYS = 10_000


class StoredEntry(schemas.JournalEntry, array_like=True, gc=False):
    """An entry as stored: an array, since field names would double its size."""

    virtual_at: str | None = None  # entries of earlier versions end before it, or before the next
    fetch_site: str | None = None
    payment_ahead_seconds: float | None = None
    key: str | None = None
    differs: list[str] = []  # noqa: RUF012 - msgspec copies it
    key_hash: bytes = b""


encode_entry = msgspec.msgpack.Encoder().encode


class Journal:
    """The journals of sandboxes."""

    def __init__(self, sandboxes: Sandboxes, length: int = JOURNAL_LENGTH) -> None:
        """`length`: how many requests are kept of each sandbox."""
        self.length = length
        self._sandboxes = sandboxes
        self._keys: BoundedCache[tuple[str, int, str, bytes], int] = BoundedCache(_CACHED_KEYS)
        self._counts: BoundedCache[tuple[str, int, str], int] = BoundedCache(_CACHED_KEYS)

    def key_of(self, sandbox: str, order_id: str, key: bytes) -> tuple[str, bytes]:
        """Return the number of a key among those that this process has seen of its order, and its hash."""
        key_hash = blake2b(key, digest_size=8, key=sandbox.encode()[:64]).digest()
        order = sandbox, self._sandboxes.known_record(sandbox).generation, order_id
        number = self._keys.get((*order, key_hash))
        if number is None:
            number = self._keys[(*order, key_hash)] = self._counts[order] = self._counts.get(order, 0) + 1
        return str(number), key_hash

    def add(self, sandbox: str, entry: Entry) -> None:
        self._sandboxes.append(sandbox, LOG, entry, keep=self.length)

    async def newest(self, sandbox: str, query: schemas.ListRequests) -> schemas.Journal:
        """Return the newest requests. Raises PaymockError `invalid_query`; all may ask for a thousand."""
        if query.limit > (most := max(self.length, JOURNAL_LENGTH)):
            raise PaymockError("invalid_query", f"limit must be an integer from 1 to {most}.")
        payment_id = query.payment_id
        needs_all = payment_id or not self._sandboxes.is_synchronous
        limit = self.length if needs_all else min(query.limit, self.length)
        stored = await decoded(await self.stored(sandbox, limit))
        entries = (entry for entry in stored if payment_id in (None, entry.payment_id))
        return schemas.Journal(data=await in_slices(map(public_entry, islice(entries, query.limit))))

    async def stored(self, sandbox: str, limit: int) -> list[bytes]:
        """Return the newest entries as stored, newest first."""
        return await self._sandboxes.tail(sandbox, LOG, limit)

    async def revision(self, sandbox: str) -> tuple[SandboxSnapshot, bytes]:
        """Return the sandbox now, and what differs after each change of it or of its journal."""
        return await self._sandboxes.revision(sandbox, LOG, self.length)

    async def clear(self, sandbox: str) -> None:
        await self._sandboxes.clear_log(sandbox, LOG)


async def decoded(stored: Iterable[bytes]) -> list[StoredEntry]:
    """Decode entries, newest first. Of two keys that two processes gave one number, one gets the next."""
    entries = await in_slices(records.decode_as(StoredEntry, entry) for entry in stored)
    numbers: dict[str | None, dict[bytes, int]] = {}
    for entry in reversed(entries):
        await yield_turn()
        if entry.key is not None:
            known = numbers.setdefault(entry.order_id, {})
            if entry.key_hash not in known:
                number, taken = int(entry.key), known.values()
                known[entry.key_hash] = max(taken) + 1 if number in taken else number
            entry.key = str(known[entry.key_hash])
    return entries


def without_times(entry: schemas.JournalEntry, **ignored: None) -> schemas.JournalEntry:
    """Return an entry without what differs between equal requests, and without the fields `ignored`."""
    times = {"at": "", "virtual_at": None, "shown_offset_seconds": None, "payment_ahead_seconds": None}
    return replace(entry, request_id="", duration_ms=0, **times, **ignored)


def public_entry(entry: StoredEntry) -> schemas.JournalEntry:
    return msgspec.convert(entry, schemas.JournalEntry, from_attributes=True)
