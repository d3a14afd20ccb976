"""The feed of a sandbox: notifies followers that payments or requests have changed.

All followers of a sandbox share its snapshots. These are throttled by their cost and by the number of
followers, so that open pages hardly slow down clients that create payments.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from paymock.app.journal import Journal
from paymock.app.lookup import PaymentSnapshot, find_payment, newest_payments, sleep_for
from paymock.rules.errors import PaymockError
from paymock.rules.times import to_rfc3339
from paymock.sandbox.notifier import MIN_GAP_SECONDS, Observation
from paymock.sandbox.sandboxes import Sandboxes, SandboxSnapshot
from paymock.schemas import control as schemas

NEWEST = 200
"""How many of the newest payments a snapshot covers."""

GAP_SECONDS_PER_FOLLOWER = 0.01
"""How much each follower adds to the minimum gap between two snapshots."""

COST_FACTOR, MAX_GAP_SECONDS = 20, 2.0
"""The gap after a snapshot is this multiple of its duration, up to this number of seconds."""

_NEVER = float("inf")


class _Snapshot(NamedTuple):
    """A sandbox at one moment: marks that differ when its payments or its journal have changed, and the time
    of the event loop until which they hold without another request.
    """

    sandbox: SandboxSnapshot
    payments: tuple[object, ...]
    requests: bytes | None
    until: float

    @property
    def mark(self) -> object:
        return self.payments, self.requests

    def changed_since(self, previous: "_Snapshot") -> list[schemas.Changed]:
        changed: list[schemas.Changed] = []
        if self.payments != previous.payments:
            changed.append("payments")
        if self.requests != previous.requests:
            changed.append("requests")
        return changed

    def with_payment(self, payment: PaymentSnapshot | None) -> "_Snapshot":
        if payment is None:
            return self
        until = min(self.until, _until(payment, _now()))
        return self._replace(payments=(*self.payments, *_mark(payment)), until=until)


class Feed:
    """The feeds of sandboxes."""

    def __init__(self, sandboxes: Sandboxes, journal: Journal) -> None:
        self._sandboxes = sandboxes
        self._journal = journal
        self._followers: Counter[str] = Counter()
        self._last: dict[str, _Snapshot] = {}
        self._scheduled: dict[str, asyncio.Task[_Snapshot]] = {}
        self._not_before: dict[str, float] = {}

    async def follow(
        self, sandbox: str, payment_id: str | None = None, owner: str | None = None
    ) -> AsyncGenerator[schemas.SandboxChanged, None]:
        """Yield a notice now, after every change of the journal, of the newest payments, or of the payment
        with `payment_id`, and at least every RESYNC_SECONDS, until the server stops.
        """

        shared: _Snapshot | None = None

        async def observe() -> Observation[_Snapshot]:
            nonlocal shared
            snapshot = shared or await self._next_snapshot(sandbox)
            shared = None
            snapshot = snapshot.with_payment(await self._find(sandbox, payment_id))
            return Observation(snapshot, snapshot.mark, snapshot.until)

        self._followers[sandbox] += 1
        try:
            shared = self._last.get(sandbox)
            following = self._sandboxes.notifier.follow(sandbox, observe, owner=owner, additions=True)
            async with aclosing(following) as observations:
                async for current, previous in observations:
                    if previous is None:
                        yield self._notice(await self._sandboxes.snapshot(sandbox), ["payments", "requests"])
                    else:
                        changed = current.value.changed_since(previous.value)
                        yield self._notice(current.value.sandbox, changed)
        finally:
            self._followers[sandbox] -= 1
            if not self._followers[sandbox]:
                self._forget(sandbox)

    def _notice(self, snapshot: SandboxSnapshot, changed: list[schemas.Changed]) -> schemas.SandboxChanged:
        started = to_rfc3339(self._sandboxes.started)
        return schemas.SandboxChanged(clock=clock_of(snapshot), changed=changed, started=started)

    async def _next_snapshot(self, sandbox: str) -> _Snapshot:
        """Return a snapshot taken after this call; concurrent calls share one."""
        task = self._scheduled.get(sandbox)
        if task is None:
            task = self._scheduled[sandbox] = asyncio.create_task(self._take_when_due(sandbox))
            task.add_done_callback(_retrieve_exception)
        return await asyncio.shield(task)

    async def _take_when_due(self, sandbox: str) -> _Snapshot:
        await self._sandboxes.notifier.sleep_until(self._not_before.get(sandbox, 0))
        self._scheduled.pop(sandbox, None)
        started = _now()
        snapshot = await self._take(sandbox)
        ended = _now()
        followers = self._followers[sandbox]
        if followers:
            cost = min(COST_FACTOR * (ended - started), MAX_GAP_SECONDS)
            gap = max(MIN_GAP_SECONDS, followers * GAP_SECONDS_PER_FOLLOWER, cost)
            self._not_before[sandbox] = ended + gap
            self._last[sandbox] = snapshot
        return snapshot

    def _forget(self, sandbox: str) -> None:
        del self._followers[sandbox]
        self._not_before.pop(sandbox, None)
        self._last.pop(sandbox, None)
        task = self._scheduled.pop(sandbox, None)
        if task is not None:
            task.cancel()

    async def _take(self, sandbox: str) -> _Snapshot:
        snapshot, payments, _ = await newest_payments(self._sandboxes, sandbox, NEWEST)
        now, pending = _now(), snapshot.pending_change_ms
        return _Snapshot(
            snapshot,
            (snapshot.state, pending > 0, *(mark for _, payment in payments for mark in _mark(payment))),
            await self._journal.mark(sandbox),
            min(
                [_until(payment, now) for _, payment in payments]
                + [now + sleep_for(pending)] * (pending > 0),
                default=_NEVER,
            ),
        )

    async def _find(self, sandbox: str, payment_id: str | None) -> PaymentSnapshot | None:
        if payment_id is None:
            return None
        try:
            return await find_payment(self._sandboxes, sandbox, payment_id)
        except PaymockError as error:
            if error.status != 404:
                raise
            return None


def _mark(payment: PaymentSnapshot) -> tuple[object, ...]:
    return payment.record.token, payment.stored, payment.state.at


def _retrieve_exception(task: asyncio.Task[_Snapshot]) -> None:
    """Retrieve the exception of a task whose waiters are gone, which asyncio would log otherwise."""
    if not task.cancelled():
        task.exception()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _until(payment: PaymentSnapshot, now: float) -> float:
    seconds = payment.seconds_to_change
    return _NEVER if seconds is None else now + seconds


def clock_of(snapshot: SandboxSnapshot) -> schemas.VirtualClock:
    return schemas.VirtualClock(now=to_rfc3339(snapshot.now), speed=snapshot.clock.speed)
