"""Waits: for a change of a payment, for a payment of an order, and for the requests of the application."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager

from msgspec import UNSET, UnsetType

from paymock.app.journal import Journal, JournalReader, RequestFilter, StoredEntry, public_entry
from paymock.app.lookup import OrderSearch, PaymentSnapshot, find_payment
from paymock.payments import records
from paymock.payments.records import PaymentRecord
from paymock.rules.errors import PaymockError
from paymock.rules.timeline import State
from paymock.sandbox.notifier import TimedEvent
from paymock.sandbox.sandboxes import Sandboxes
from paymock.schemas import control as schemas
from paymock.schemas.public import PAYMENT_READS

Find = Callable[[], Awaitable[PaymentSnapshot | None]]

_PAGE = 50
"""How many new payments are read at a time."""


class Waits:
    """Waits within sandboxes. They end at the change, at once if it cannot come any more, after their timeout
    in real seconds, or when the server stops.
    """

    def __init__(self, sandboxes: Sandboxes, journal: Journal) -> None:
        self._sandboxes = sandboxes
        self._journal = journal
        self._creations = _Creations(sandboxes)

    async def payment(
        self, sandbox: str, payment_id: str, status: str | None, timeout: float
    ) -> schemas.WaitResult:
        """Return when the payment has reached `status` or, without one, has changed. Raises PaymockError
        `payment_not_found`.
        """

        async def find() -> PaymentSnapshot:
            return await find_payment(self._sandboxes, sandbox, payment_id)

        reached, possible, payment = await self._change(sandbox, find, status, timeout)
        return schemas.WaitResult(
            reached=reached,
            possible=possible,
            payment=(payment or await find()).payment,
            clock=await self._clock(sandbox, ran_out=possible and not reached),
        )

    async def order(
        self, sandbox: str, order_id: str, status: str | None, timeout: float
    ) -> schemas.OrderWaitResult:
        """Return when the newest payment of the order, which need not exist yet, has reached `status` or,
        without one, exists.
        """
        search = OrderSearch(self._sandboxes, sandbox, order_id)
        reached, possible, payment = await self._change(sandbox, search.newest, status, timeout, order_id)
        return schemas.OrderWaitResult(
            reached=reached,
            possible=possible,
            payment=payment.payment if payment else None,
            clock=await self._clock(sandbox, ran_out=possible and not reached),
        )

    async def requests(
        self,
        sandbox: str,
        count: int = 1,
        after: str | None = None,
        timeout: float = schemas.DEFAULT_WAIT,
        **filters: str | None,
    ) -> schemas.RequestWaitResult:
        """Return when the journal has `count` entries that match, of those `after` the request of that id.
        `filters` are the fields of a RequestFilter.
        """
        wanted = RequestFilter(**filters)
        deadline = asyncio.get_running_loop().time() + timeout
        with self._journal.reader(sandbox, wanted.matches, after) as reader:

            async def is_reached() -> bool:
                return len(reader.matching) >= count

            reached = await reader.until(is_reached, deadline)
            data = [*map(public_entry, reversed(reader.matching))]
        return schemas.RequestWaitResult(reached=reached, data=data)

    @contextmanager
    def payment_reads(self, sandbox: str, payment_id: str) -> Iterator[JournalReader]:
        """Read the replies that show the payment to the application, within the block."""

        def matches(entry: StoredEntry) -> bool:
            return (
                entry.payment_id == payment_id
                and entry.operation in PAYMENT_READS
                and entry.shown_offset_seconds is not None
            )

        notifier = self._sandboxes.notifier
        with (
            notifier.subscribe(sandbox) as changed,
            self._journal.reader(sandbox, matches, changed=changed) as reader,
        ):
            yield reader

    async def observed(
        self, sandbox: str, reads: JournalReader, payment_id: str, at: int, deadline: float
    ) -> bool:
        """Return whether one of the `reads` shows the payment in the state that begins `at` milliseconds
        after its creation, or in a later one, until `deadline` by the clock of the event loop. Raises
        PaymockError `payment_not_found` after a reset.
        """

        async def is_observed() -> bool:
            await find_payment(self._sandboxes, sandbox, payment_id)
            return any((read.shown_offset_seconds or 0) >= at / 1000 for read in reads.matching)

        return await reads.until(is_observed, deadline)

    async def _clock(self, sandbox: str, *, ran_out: bool) -> schemas.FrozenClock | UnsetType:
        if not ran_out or (await self._sandboxes.snapshot(sandbox)).clock.speed:
            return UNSET
        return schemas.FrozenClock()

    async def _change(
        self, sandbox: str, find: Find, status: str | None, timeout: float, order_id: str | None = None
    ) -> tuple[bool, bool, PaymentSnapshot | None]:
        """Wait until the payment that `find` returns has `status`. Without one, wait for its next change or,
        with an `order_id`, until there is one; a creation can replace it by another one. Return whether that
        is reached, whether it is or can still be reached, and the payment.
        """
        notifier, time = self._sandboxes.notifier, asyncio.get_running_loop().time
        deadline = time() + timeout
        first: list[tuple[str, State] | None] = []
        with ExitStack() as waiting:
            changed = waiting.enter_context(notifier.subscribe(sandbox))
            if order_id is not None:
                waiting.enter_context(self._creations.watch(sandbox, order_id, changed))
            while True:
                changed.clear()
                payment = await find()
                current = (payment.record.token, payment.state) if payment else None
                first = first or [current]
                upcoming: list[State] = []
                if payment is None:
                    reached, possible = False, True
                else:
                    upcoming = [state for state in payment.upcoming if status in (None, state.status)]
                    reached = payment.has_been(status) if status else bool(order_id) or current != first[0]
                    possible = reached or bool(upcoming) or payment.can_reach(status)
                now = time()
                if reached or not possible or now >= deadline or notifier.stopping:
                    return reached, possible, payment
                seconds = payment.seconds_to(upcoming[0].at) if payment and upcoming else None
                await changed.until(deadline if seconds is None else min(now + seconds, deadline))


class _Creations:
    """The new payments of sandboxes, read at each change once for all that wait for a payment of an order."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes
        self._watches: dict[str, _Watch] = {}

    @contextmanager
    def watch(self, sandbox: str, order_id: str, created: TimedEvent) -> Iterator[None]:
        """Set `created` whenever the order has got a payment within the block, and once at its beginning."""
        watch = self._watches.get(sandbox)
        if watch is None:
            watch = self._watches[sandbox] = _Watch(self._sandboxes, sandbox)
        watch.join(order_id, created)
        try:
            yield
        finally:
            watch.leave(created)
            if not watch.orders:
                del self._watches[sandbox]
                watch.close()


class _Watch:
    """Looks for new payments of a sandbox at each of its changes."""

    def __init__(self, sandboxes: Sandboxes, sandbox: str) -> None:
        self.orders: dict[TimedEvent, str] = {}
        self._beginning: set[TimedEvent] = set()
        self._sandboxes = sandboxes
        self._sandbox = sandbox
        self._generation: int | None = None
        self._position = -1  # of the newest payment that has been seen
        self._changed: TimedEvent | None = None
        self._following = asyncio.create_task(self._follow())

    def join(self, order_id: str, created: TimedEvent) -> None:
        self.orders[created] = order_id
        self._beginning.add(created)
        if self._changed is not None:
            self._changed.set()

    def leave(self, created: TimedEvent) -> None:
        del self.orders[created]
        self._beginning.discard(created)

    def close(self) -> None:
        self._following.cancel()

    async def _follow(self) -> None:
        notifier = self._sandboxes.notifier
        with notifier.subscribe(self._sandbox, additions=True) as self._changed:
            while not notifier.stopping:
                self._changed.clear()
                due, self._beginning = self._beginning, set()
                try:
                    orders = await self._new_orders()
                except PaymockError:  # each wait looks for itself, and gets the error or the payment
                    due = {*self.orders}
                else:
                    due |= {created for created, order_id in self.orders.items() if order_id in orders}
                for created in due:
                    created.set()
                await self._changed.wait()

    async def _new_orders(self) -> set[str]:
        """Return the orders of the payments that are new since the last call; at first, of the newest."""
        generation = (await self._sandboxes.snapshot(self._sandbox)).record.generation
        is_first, before = self._generation is None, None
        if generation != self._generation:
            self._generation, self._position = generation, -1
        seen, orders = self._position, set[str]()
        while True:
            page = await self._sandboxes.page(self._sandbox, PaymentRecord.KIND, limit=_PAGE, before=before)
            for position, stored in page:
                self._position = max(self._position, position)
                if position <= seen:
                    return orders
                orders.add(records.decode_head(stored).order_id)
                before = position
            if is_first or len(page) < _PAGE:
                return orders
