"""Waits: for a change of a payment, for a payment of an order, and for the requests of the application.

Theory of operation: a wait looks, and sleeps on its Waiter until what it looked at may have changed, again
and again. It ends when what it awaits has come, at once if that cannot come any more, after its timeout in
real seconds, or when the server stops.

- A wait for a payment subscribes to the changes of its sandbox: of the clock, of a simulation, a reset. A
  change does not say of which payment, so each wait looks. A state that comes by the clock is a moment to
  wake at.
- A wait for an order without a payment, or for requests, depends on additions. Those come all the time, and
  wake no other wait. While a sandbox has such waits, one _Additions reads what is new once for all of them,
  and wakes those whose order or filter matches. The others sleep on, however many there are.
- A look waits too: for the turn of its API key (`yield_turn`), since one change may wake many waits; and in
  _Additions for _GAP_SECONDS, so that many additions are read at once.
- Other processes on a shared store change and add as well, and the notifier tells of either. But a request is
  recorded after its reply: what follows `after` one that the journal lacks counts only after _LATE_SECONDS.
- A failure of the store ends the wait that looks, and one of _Additions ends all that rest on it.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import chain, product, takewhile
from typing import NamedTuple, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from paymock.app.journal import Journal, StoredEntry, public_entry
from paymock.app.lookup import PaymentSnapshot, find_payment, loop_time, search_of_order
from paymock.cache import JOURNAL_LENGTH
from paymock.payments import records
from paymock.payments.records import PaymentHead, PaymentRecord
from paymock.rules.clock import ClockSetting
from paymock.rules.timeline import State
from paymock.sandbox.notifier import Index, Waiter
from paymock.sandbox.owner_limits import LARGE_REPLY
from paymock.sandbox.sandboxes import Sandboxes
from paymock.sandbox.scheduler import in_slices, yield_turn
from paymock.schemas import control as schemas
from paymock.schemas.public import PAYMENT_READS
from paymock.text import format_seconds

R = TypeVar("R", bound=schemas.OrderWaitResult)

RequestFilter = tuple[str | None, ...]
"""Selects entries by operation, order, payment and shown status; None matches all."""

_LIMITS = 16, 128, JOURNAL_LENGTH  # how many of the newest are read at first, and then, to find all new ones
_FEW = 100  # of which a reply is never large
_GAP_SECONDS = 0.005  # at least, between two reads of what is new in a sandbox
_LATE_SECONDS = 1.0  # at most, between a reply and its record by another process


class Waits:
    """The waits within sandboxes."""

    def __init__(self, sandboxes: Sandboxes, journal: Journal) -> None:
        self._sandboxes = sandboxes
        self._notifier = sandboxes.notifier
        self._journal = journal
        self._additions: dict[str, _Additions] = {}

    async def payment(
        self, sandbox: str, payment_id: str, query: schemas.WaitForPayment
    ) -> schemas.WaitResult:
        """Return when the payment has `status`, or has changed. Raises PaymockError `payment_not_found`."""
        find = partial(find_payment, self._sandboxes, sandbox, payment_id)
        deadline = loop_time() + query.timeout
        with self._notifier.subscribe(sandbox) as changes:
            return await self._wait_for_status(schemas.WaitResult, sandbox, changes, find, query, deadline)

    async def order(self, sandbox: str, query: schemas.WaitForOrder) -> schemas.OrderWaitResult:
        """Return when the order's newest payment, or the payment with that id, has reached `status` or,
        without one, exists.
        """
        deadline, changes = loop_time() + query.timeout, Waiter(self._notifier)
        newest = search_of_order(self._sandboxes, sandbox, query.order_id)
        with self._additions_of(sandbox) as additions, additions.orders.entry(query.order_id, changes):
            while await newest() is None and await changes.next(deadline):
                pass  # before its creation, no other change matters
            with self._notifier.subscribe(sandbox, changes):
                return await self._wait_for_status(
                    schemas.OrderWaitResult, sandbox, changes, newest, query, deadline
                )

    async def requests(self, sandbox: str, query: schemas.WaitForRequests) -> schemas.RequestWaitResult:
        """Return when the journal has `count` entries that match, of those `after` the request of that id."""
        deadline, count = loop_time() + query.timeout, query.count
        wanted = query.operation, query.order_id, query.payment_id, query.shown
        changes = Waiter(self._notifier)
        async with self._matching(sandbox, wanted, changes, query.after, deadline) as matching:
            while len(matching.entries) < count and await changes.next(deadline):
                pass
        if len(matching.entries) > _FEW and (begin := LARGE_REPLY.get(None)):
            await begin()
        data = await in_slices(map(public_entry, reversed(matching.entries)))
        message: str | UnsetType = UNSET
        if len(data) < count:
            free = "order_id", "payment_id", "after"  # whose values may be a secret: no reply repeats them
            given = [f"{name}={value}" for name in ("operation", "shown") if (value := getattr(query, name))]
            given += [f"that {name}" for name in free if getattr(query, name) is not None]
            conditions = f" with {', '.join(given)}" if given else ""
            clock = _clock((await self._sandboxes.snapshot(sandbox)).clock)
            message = f"{len(data)} of {count} awaited requests{conditions} have come; {clock}"
        gap = matching.has_gap or UNSET
        return schemas.RequestWaitResult(reached=len(data) >= count, data=data, gap=gap, message=message)

    @asynccontextmanager
    async def payment_reads(self, sandbox: str, payment_id: str) -> AsyncIterator["Matching"]:
        """Collect the requests for a payment from now on, within the block."""
        with self._notifier.subscribe(sandbox) as changes:
            wanted = None, None, payment_id, None
            async with self._matching(sandbox, wanted, changes, None, math.inf) as matching:
                matching.entries.clear()
                yield matching

    async def observed(
        self, sandbox: str, reads: "Matching", payment_id: str, at: int, deadline: float
    ) -> bool:
        """Return whether one of the `reads` shows the payment in the state that begins `at` milliseconds
        after its creation, or in a later one, until `deadline` by the clock of the event loop. Raises
        PaymockError `payment_not_found` after a reset.
        """
        while True:
            await find_payment(self._sandboxes, sandbox, payment_id)
            if any(
                entry.operation in PAYMENT_READS and (entry.shown_offset_seconds or 0) >= at / 1000
                for entry in reads.entries
            ):
                return True
            if not await reads.changes.next(deadline):
                return False

    async def _wait_for_status(
        self,
        result: type[R],
        sandbox: str,
        changes: Waiter,
        find: Callable[[], Awaitable[PaymentSnapshot | None]],
        query: schemas.WaitForPayment | schemas.WaitForOrder,
        deadline: float,
    ) -> R:
        """Wait until the payment that `find` returns, which may be another one later, has the status. Without
        one, wait for its next change or, of an order, until it exists.
        """
        first, is_order = None, isinstance(query, schemas.WaitForOrder)
        while True:
            await yield_turn()
            payment, outlook = await find(), _Outlook()
            if payment is not None:
                first = first or payment.state
                outlook = await _outlook(payment, query.status, None if is_order else first)
            if outlook.reached or not outlook.possible or not await changes.next(deadline, outlook.moment):
                break
        found = payment.payment if payment else None
        ended = result(reached=outlook.reached, possible=outlook.possible, payment=found)
        if outlook.reached:
            return ended
        clock = (await self._sandboxes.snapshot(sandbox)).clock
        standing = payment.standing if payment else "the order has no payment"
        awaited = query.status or ("a payment" if is_order else "the next change")
        message = f"{standing}; awaited: {awaited}{outlook.text}"
        if not outlook.possible:
            return replace(ended, message=message)
        frozen = UNSET if clock.speed else schemas.FrozenClock()
        return replace(ended, clock=frozen, message=f"{message}; {_clock(clock)}")

    @asynccontextmanager
    async def _matching(
        self, sandbox: str, wanted: RequestFilter, changes: Waiter, after: str | None, deadline: float
    ) -> AsyncIterator["Matching"]:
        """Collect what matches of the entries `after` a request; none if the deadline comes before."""
        matching, end = Matching(wanted, changes), math.inf
        with self._additions_of(sandbox) as additions, additions.requests.entry(wanted, matching):
            with additions.beginning.entry(after, matching):
                additions.changes.wake()
                while await changes.next(min(matching.counts_from, end)):
                    end = deadline  # the journal has been read once
                if loop_time() < matching.counts_from:
                    matching.entries.clear()
            yield matching

    @contextmanager
    def _additions_of(self, sandbox: str) -> Iterator["_Additions"]:
        additions = self._additions.get(sandbox)
        if additions is None or additions.task.done():
            additions = self._additions[sandbox] = _Additions(self._sandboxes, self._journal, sandbox)
        try:
            yield additions
        finally:
            if not (additions.orders or additions.requests):
                additions.task.cancel()
                if self._additions.get(sandbox) is additions:
                    del self._additions[sandbox]


class Matching:
    """What has matched in the journal: `entries`, oldest first, which count from the moment `counts_from` on,
    by the clock of the event loop. `changes` tells of each.
    """

    def __init__(self, wanted: RequestFilter, changes: Waiter) -> None:
        self.wanted, self.changes = wanted, changes
        self.entries: list[StoredEntry] = []
        self.counts_from = math.inf
        self.has_gap = False  # the journal lacks `after`: entries that followed it may be lost


Requests = Index[RequestFilter, Matching]


class _Additions:
    """Reads the new payments and journal entries of a sandbox, and wakes the waits that they can end."""

    def __init__(self, sandboxes: Sandboxes, journal: Journal, sandbox: str) -> None:
        self.orders: Index[str, Waiter] = Index()
        self.requests: Requests = Index()
        self.beginning: Index[str | None, Matching] = Index()  # by `after`
        self._sandboxes = sandboxes
        self._journal = journal
        self._sandbox = sandbox
        self.changes = Waiter(sandboxes.notifier)
        self.changes.wake()  # to begin with what there is
        self.task = asyncio.create_task(self._read_additions())

    async def _read_additions(self) -> None:
        notifier, failure = self._sandboxes.notifier, None
        newest_payment: bytes | None = None
        newest_entry: bytes | None = None
        try:
            with notifier.subscribe(self._sandbox, self.changes, additions=True):
                while await self.changes.next():
                    if self.orders:
                        newest_payment = await self._read_payments(newest_payment)
                    if self.requests:
                        newest_entry = await self._read_entries(newest_entry)
                    await notifier.sleep_until(loop_time() + _GAP_SECONDS)
        except Exception as error:  # noqa: BLE001 - raised by every wait
            failure = error
        for waiter in chain.from_iterable(self.orders.values()):
            waiter.wake(failure)
        for matching in chain.from_iterable(self.requests.values()):
            matching.changes.wake(failure)

    async def _read_payments(self, newest: bytes | None) -> bytes:
        """Wake the waits for the orders of the payments later than `newest`. Return the newest one."""
        orders = {*self.orders}  # at first, and when many are new, not all that are new are known: all look
        for limit in (1,) if newest is None else _LIMITS:
            page = await self._sandboxes.page(self._sandbox, PaymentRecord.KIND, limit=limit)
            stored = [payment for _, payment in page]
            number = stored.index(newest) if newest in stored else len(stored)
            if number < limit:
                orders = {records.decode_as(PaymentHead, new).order_id for new in stored[:number]}
                break
        for waiter in chain.from_iterable(self.orders.get(order, ()) for order in orders):
            waiter.wake()
        return stored[0] if stored else b""

    async def _read_entries(self, newest: bytes | None) -> bytes:
        """Dispatch the entries later than `newest`, and all to waits that begin. Return the newest one."""
        beginning = {after: {*matchings} for after, matchings in self.beginning.items()}
        for limit in (*_LIMITS[:-1], self._journal.length):
            stored = await self._journal.stored(self._sandbox, limit)
            new = [*takewhile(lambda entry: entry != newest, stored)]
            entries = await in_slices(
                records.decode_as(StoredEntry, entry) for entry in (stored if beginning else new)
            )
            numbers: dict[str | None, int] = {
                entry.request_id: number for number, entry in enumerate(entries)
            }
            is_known = newest is None or len(new) < len(stored)
            if len(stored) < limit or (is_known and beginning.keys() <= numbers.keys()):
                break
        _dispatch(entries[: len(new)], self.requests)
        for after, matchings in beginning.items():
            is_complete = after is None or after in numbers or self._sandboxes.is_synchronous
            counts_from = loop_time() + (0 if is_complete else _LATE_SECONDS)
            requests: Requests = Index()
            for matching in matchings:
                matching.entries, matching.counts_from = [], min(matching.counts_from, counts_from)
                matching.has_gap = after is not None and after not in numbers
                matching.changes.wake()
                requests.setdefault(matching.wanted, set()).add(matching)
            _dispatch(entries[: numbers.get(after, len(entries))], requests)
        return stored[0] if stored else b""


class _Outlook(NamedTuple):
    """Whether what is awaited has come or still can, the moment when it will, and the text about it."""

    reached: bool = False
    possible: bool = True
    moment: float = math.inf
    text: str = ""


async def _outlook(payment: PaymentSnapshot, status: str | None, first: State | None) -> _Outlook:
    """Return the outlook for `status`; without one, for another state than `first`."""
    reached = payment.has_been(status) if status else payment.state != first
    for state in payment.upcoming:
        if status in (None, state.status):
            seconds = payment.seconds_to(state.at)
            moment = math.inf if seconds is None else loop_time() + seconds
            left = format_seconds((state.at - payment.elapsed) / 1000)
            return _Outlook(reached, moment=moment, text=f", {left} s ahead")
    if reached or await payment.can_reach(status):
        return _Outlook(reached, text=", which needs a deposit")
    return _Outlook(possible=False, text=", which can no longer come")


def _clock(clock: ClockSetting) -> str:
    return f"the clock runs at speed {clock.speed:g}" if clock.speed else "the clock is frozen: advance it"


def _dispatch(newest: list[StoredEntry], requests: Requests) -> None:
    """Add these entries, newest first, to what matches them."""
    for entry in reversed(newest):
        fields = (entry.operation, entry.order_id, entry.payment_id, entry.shown)
        for wanted in product(*({None, field} for field in fields)):
            for matching in requests.get(wanted, ()):
                matching.entries.append(entry)
                matching.changes.wake()
