"""The creations of payments in sandboxes, for those that wait for a payment of an order: the new payments are
read at each change once for all of them.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from paymock.payments import records
from paymock.payments.records import PaymentRecord
from paymock.rules.errors import PaymockError
from paymock.sandbox.notifier import TimedEvent
from paymock.sandbox.sandboxes import Sandboxes

_PAGE = 50


class Creations:
    """The creations in the sandboxes of a store."""

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
