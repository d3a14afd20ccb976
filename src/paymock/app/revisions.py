"""What pages poll: the revision of a sandbox, and when one of its payments changes by itself.

As long as neither is new, a page has nothing to draw. A poll then reads the sandbox record and a
number, however many payments there are.
"""

import asyncio
from hashlib import blake2b
from typing import NamedTuple
from weakref import WeakValueDictionary

from paymock.app.journal import Journal
from paymock.app.lookup import PaymentFilter, loop_time, newest_payments
from paymock.cache import BoundedCache
from paymock.rules.timeline import visible
from paymock.rules.times import LATEST, to_rfc3339
from paymock.sandbox.sandboxes import Sandboxes
from paymock.sandbox.scheduler import yield_turn
from paymock.sandbox.snapshot import SandboxSnapshot
from paymock.schemas import control as schemas

NEWEST = 1_000
"""Of how many of the newest payments the next change is found."""

_MAX_KNOWN = 1_000
"""Of how many sandboxes the next change is kept."""

_QUICK = 100
"""Of how many payments it is found at once; of more, after 1 ms for each: a few percent of the time."""


class _NextChange(NamedTuple):
    """The next change at a revision, in virtual milliseconds since the epoch: None if none comes by itself;
    and when, by the clock of the event loop, the payments may be read again.
    """

    revision: str
    at: int | None
    not_before: float

    def is_current(self, revision: str, now: int) -> bool:
        return self.revision == revision and (self.at is None or now < self.at)


class Revisions:
    """The revisions of sandboxes, and their next changes, each found once for all pages."""

    def __init__(self, sandboxes: Sandboxes, journal: Journal) -> None:
        self._sandboxes = sandboxes
        self._journal = journal
        self._known: BoundedCache[str, _NextChange] = BoundedCache(_MAX_KNOWN)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def clock(self, sandbox: str) -> schemas.PolledClock:
        snapshot, changes = await self._journal.revision(sandbox)
        revision = blake2b(changes, digest_size=8).hexdigest()
        known = self._known.get(sandbox)
        if known and known.is_current(revision, snapshot.now):
            at = known.at
        else:
            async with self._locks.setdefault(sandbox, asyncio.Lock()):
                at = await self._next_change(snapshot, revision)
        return schemas.PolledClock(
            now=to_rfc3339(snapshot.now),
            speed=snapshot.clock.speed,
            revision=revision,
            next_change_at=None if at is None else to_rfc3339(at),
        )

    async def _next_change(self, snapshot: SandboxSnapshot, revision: str) -> int | None:
        """Return the virtual time of the next change; now, if that is not known."""
        known = self._known.get(snapshot.sandbox)
        if known and known.is_current(revision, snapshot.now):
            return known.at
        if known and loop_time() < known.not_before:
            return snapshot.now
        page = await newest_payments(self._sandboxes, snapshot.sandbox, NEWEST, None, PaymentFilter())
        ahead = []
        for _, payment in page.payments:
            await yield_turn()
            elapsed, timeline = payment.elapsed, payment.timeline
            age = next((state.at for state in visible(timeline.outline) if state.at > elapsed), None)
            if age is not None:
                ahead.append(timeline.created_at + age - timeline.simulation.time_offset)
        at = min((change for change in ahead if change <= LATEST), default=None)
        number = len(page.payments)
        not_before = loop_time() + number / 1000 if number > _QUICK else 0.0
        self._known[snapshot.sandbox] = _NextChange(revision, at, not_before)
        return at
