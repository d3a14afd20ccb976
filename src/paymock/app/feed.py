"""The feed of a sandbox: notifies followers that payments or requests have changed.

All followers of a sandbox share its snapshots. These are throttled by their cost and by the number of
followers, so that open pages hardly slow down clients that create payments.
"""

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from paymock.app.journal import Journal
from paymock.app.lookup import PaymentSnapshot, find_payment, loop_time, newest_payments, sleep_for
from paymock.rules.errors import PaymockError
from paymock.rules.times import to_rfc3339
from paymock.sandbox.notifier import MIN_GAP_SECONDS, Observation, in_slices
from paymock.sandbox.sandboxes import Sandboxes, SandboxSnapshot
from paymock.schemas import control as schemas

NEWEST = 200
"""How many of the newest payments a snapshot covers."""

GAP_SECONDS_PER_FOLLOWER = 0.01
"""How much each follower adds to the minimum gap between two snapshots."""

COST_FACTOR, MAX_GAP_SECONDS = 20, 2.0
"""The gap after a snapshot is this multiple of its duration, up to this number of seconds."""


class _Snapshot(NamedTuple):
    """A sandbox at one moment: marks that differ when its payments or its journal have changed, and the time
    of the event loop until which they hold without another request.
    """

    sandbox: SandboxSnapshot
    payments: tuple[object, ...]
    requests: list[bytes]
    until: float

    async def with_payments(self, payments: list[PaymentSnapshot]) -> "_Snapshot":
        now, seconds = loop_time(), await in_slices(payment.seconds_to_change for payment in payments)
        marks = ((payment.record.token, payment.stored, payment.state.at) for payment in payments)
        return self._replace(
            payments=(*self.payments, *await in_slices(marks)),
            until=min([self.until, *(now + change for change in seconds if change is not None)]),
        )


class Feed:
    """The feeds of sandboxes."""

    def __init__(self, sandboxes: Sandboxes, journal: Journal) -> None:
        self._sandboxes = sandboxes
        self._journal = journal
        self._shared: dict[str, _SharedSnapshots] = {}

    async def follow(
        self, sandbox: str, payment_id: str | None = None
    ) -> AsyncGenerator[schemas.SandboxChanged, None]:
        """Tell the changes of the journal, of the newest payments, and of the payment with `payment_id`: at
        first all, then each, and at least every RESYNC_SECONDS the time, until the server stops.
        """
        if sandbox not in self._shared:
            self._shared[sandbox] = _SharedSnapshots(self._sandboxes, self._journal, sandbox)
        shared = self._shared[sandbox]
        last, started = shared.last, to_rfc3339(self._sandboxes.started)

        async def observe() -> Observation[_Snapshot]:
            nonlocal last
            snapshot, last = last or await shared.next(), None
            if payment_id is not None:
                try:
                    payment = await find_payment(self._sandboxes, sandbox, payment_id)
                    snapshot = await snapshot.with_payments([payment])
                except PaymockError as error:
                    if error.status != 404:
                        raise
            return Observation(snapshot, (snapshot.payments, snapshot.requests), snapshot.until)

        shared.followers += 1
        try:
            following = self._sandboxes.notifier.follow(sandbox, observe, additions=True)
            async with aclosing(following) as observations:
                async for current, previous in observations:
                    now, changed = current.value.sandbox, list[schemas.Changed]()
                    if previous is None:
                        now = await self._sandboxes.snapshot(sandbox)
                    if previous is None or previous.value.payments != current.value.payments:
                        changed.append("payments")
                    if previous is None or previous.value.requests != current.value.requests:
                        changed.append("requests")
                    yield schemas.SandboxChanged(clock=clock_of(now), changed=changed, started=started)
        finally:
            shared.followers -= 1
            if not shared.followers:
                del self._shared[sandbox]
                if shared.task is not None:
                    shared.task.cancel()


class _SharedSnapshots:
    """The snapshots of a sandbox, each taken once for all followers."""

    def __init__(self, sandboxes: Sandboxes, journal: Journal, sandbox: str) -> None:
        self.followers = 0
        self.last: _Snapshot | None = None
        self.task: asyncio.Task[_Snapshot] | None = None
        """Waits to take the next one."""

        self._sandboxes = sandboxes
        self._journal = journal
        self._sandbox = sandbox
        self._not_before = 0.0

    async def next(self) -> _Snapshot:
        """Return a snapshot taken after this call; concurrent calls share one."""
        if self.task is None:
            self.task = asyncio.create_task(self._take())
            # retrieve the exception when those who wait are gone, which asyncio would log otherwise
            self.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self.task)

    async def _take(self) -> _Snapshot:
        await self._sandboxes.notifier.sleep_until(self._not_before)
        self.task, began = None, loop_time()
        sandbox, payments, _ = await newest_payments(self._sandboxes, self._sandbox, NEWEST)
        pending = sandbox.pending_change_ms
        bare = _Snapshot(
            sandbox,
            (sandbox.state, pending > 0),
            await self._journal.stored(self._sandbox, 1),
            loop_time() + sleep_for(pending) if pending else math.inf,
        )
        snapshot = await bare.with_payments([payment for _, payment in payments])
        ended = loop_time()
        cost = min(COST_FACTOR * (ended - began), MAX_GAP_SECONDS)
        self._not_before = ended + max(MIN_GAP_SECONDS, self.followers * GAP_SECONDS_PER_FOLLOWER, cost)
        self.last = snapshot
        return snapshot


def clock_of(snapshot: SandboxSnapshot) -> schemas.VirtualClock:
    return schemas.VirtualClock(now=to_rfc3339(snapshot.now), speed=snapshot.clock.speed)
