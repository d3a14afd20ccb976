"""What the followers of a sandbox are told: that what they were shown has changed.

All followers of a sandbox share one look at it. The more a look costs, and the more there are to tell, the
seldomer it is taken: so open pages take next to nothing from those who create payments.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from typing import NamedTuple

from paymock.app.journal import Journal
from paymock.app.notifier import GAP_SECONDS, RESYNC_SECONDS
from paymock.app.payment_lookup import PaymentSnapshot, find, newest, sleep_for
from paymock.app.sandboxes import Sandboxes, SandboxSnapshot
from paymock.rules.errors import PaymockError
from paymock.rules.times import to_rfc3339
from paymock.schemas import control as schemas

NEWEST = 200
"""How many of the newest payments are looked at for the next change."""

GAP_SECONDS_EACH = 0.01
"""What each follower adds to the gap between two looks."""

REST, MOST_REST_SECONDS = 20, 2.0
"""The next look waits so many times as long as the last one took, up to so many seconds."""

INFINITE = float("inf")


class _Look(NamedTuple):
    """A sandbox at one moment: marks that change with its payments and with its journal, and until when they
    hold, by the clock of the event loop; INFINITE: until somebody does something.
    """

    snapshot: SandboxSnapshot
    payments: tuple[object, ...]
    requests: bytes | None
    until: float

    def changed_since(self, before: "_Look") -> list[schemas.Changed]:
        """What is no longer as it was."""
        changed: list[schemas.Changed] = []
        if self.payments != before.payments:
            changed.append("payments")
        if self.requests != before.requests:
            changed.append("requests")
        return changed

    def with_payment(self, found: PaymentSnapshot | None) -> "_Look":
        """The same, with one payment more."""
        if found is None:
            return self
        return self._replace(
            payments=(*self.payments, *_mark(found)), until=min(self.until, _until(found, _now()))
        )


class Feed:
    """Follows sandboxes."""

    def __init__(self, sandboxes: Sandboxes, journal: Journal) -> None:
        self._sandboxes = sandboxes
        self._journal = journal
        self._following: Counter[str] = Counter()
        self._last: dict[str, _Look] = {}
        self._coming: dict[str, asyncio.Task[_Look]] = {}
        self._not_before: dict[str, float] = {}

    async def follow(
        self, sandbox: str, payment_id: str | None = None
    ) -> AsyncGenerator[schemas.Notice, None]:
        """A notice now, and after every change of the sandbox: what was asked of it, and what its newest
        payments and the one with `payment_id` do by themselves. At least every RESYNC_SECONDS, since a clock
        that a page only counts drifts. Ends when the server stops.
        """
        self._following[sandbox] += 1
        try:
            with self._sandboxes.watch(sandbox, closely=True) as changed:
                last = self._last.get(sandbox) or await self._look(sandbox)
                told = last.with_payment(await self._named(sandbox, payment_id))
                yield _notice(await self._sandboxes.snapshot(sandbox), ["payments", "requests"])
                resync = _now() + RESYNC_SECONDS
                while not self._sandboxes.stopping:
                    await changed.until(min(told.until, resync))
                    changed.clear()
                    look = await self._look(sandbox)
                    look = look.with_payment(await self._named(sandbox, payment_id))
                    differs = look.changed_since(told)
                    told = look
                    if differs or _now() >= resync:
                        yield _notice(look.snapshot, differs)
                        resync = _now() + RESYNC_SECONDS
        finally:
            self._following[sandbox] -= 1
            if not self._following[sandbox]:
                self._forget(sandbox)

    async def _look(self, sandbox: str) -> _Look:
        """A look at the sandbox that begins after this call, shared with all who call before it begins."""
        look = self._coming.get(sandbox)
        if look is None:
            look = self._coming[sandbox] = asyncio.create_task(self._look_when_due(sandbox))
            look.add_done_callback(_noted)
        return await asyncio.shield(look)

    async def _look_when_due(self, sandbox: str) -> _Look:
        await self._sandboxes.rest(self._not_before.get(sandbox, 0))
        self._coming.pop(sandbox, None)
        started = _now()
        look = await self._take(sandbox)
        ended = _now()
        following = self._following[sandbox]
        if following:
            rest = min(REST * (ended - started), MOST_REST_SECONDS)
            gap = max(GAP_SECONDS, following * GAP_SECONDS_EACH, rest)
            self._not_before[sandbox] = ended + gap
            self._last[sandbox] = look
        return look

    def _forget(self, sandbox: str) -> None:
        del self._following[sandbox]
        self._not_before.pop(sandbox, None)
        self._last.pop(sandbox, None)
        look = self._coming.pop(sandbox, None)
        if look is not None:
            look.cancel()

    async def _take(self, sandbox: str) -> _Look:
        snapshot, payments = await newest(self._sandboxes, sandbox, NEWEST)
        now, lead = _now(), snapshot.pending_change_ms
        return _Look(
            snapshot,
            (snapshot.state, lead > 0, *(mark for _, found in payments for mark in _mark(found))),
            await self._journal.mark(sandbox),
            min(
                [_until(found, now) for _, found in payments] + [now + sleep_for(lead)] * (lead > 0),
                default=INFINITE,
            ),
        )

    async def _named(self, sandbox: str, payment_id: str | None) -> PaymentSnapshot | None:
        if payment_id is None:
            return None
        try:
            return await find(self._sandboxes, sandbox, payment_id)
        except PaymockError as error:
            if error.status != 404:
                raise
            return None


def _mark(found: PaymentSnapshot) -> tuple[object, ...]:
    return found.record.token, found.stored, found.state.at


def _noted(look: asyncio.Task[_Look]) -> None:
    """Takes the exception of a look that nobody waits for any more: asyncio would complain of it."""
    if not look.cancelled():
        look.exception()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _until(found: PaymentSnapshot, now: float) -> float:
    seconds = found.seconds_to_change
    return INFINITE if seconds is None else now + seconds


def clock_of(snapshot: SandboxSnapshot) -> schemas.Clock:
    """The clock of a sandbox, as everybody is told of it."""
    return schemas.Clock(now=to_rfc3339(snapshot.now), speed=snapshot.clock.speed)


def _notice(snapshot: SandboxSnapshot, changed: list[schemas.Changed]) -> schemas.Notice:
    return schemas.Notice(clock=clock_of(snapshot), changed=changed)
