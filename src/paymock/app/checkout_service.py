"""The use cases of the checkout: what a customer who has only the id of a payment can see of it."""

import asyncio
from collections.abc import AsyncGenerator
from typing import NamedTuple

from paymock.app.notifier import GAP_SECONDS, RESYNC_SECONDS
from paymock.app.payment_lookup import PaymentSnapshot, find
from paymock.app.sandboxes import Sandboxes
from paymock.resources import checkout
from paymock.resources.catalog import Catalog
from paymock.resources.checkout import Checkout
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import PAYMENT, token_in


class Shown(NamedTuple):
    """What the customer sees; for how many real seconds, or None: until somebody does something; and a mark
    that changes whenever more than the time does.
    """

    checkout: Checkout
    seconds: float | None
    mark: object


class CheckoutService:
    """What the checkout can show, without HTTP. All that it needs is the id of a payment, which nobody can
    guess.
    """

    def __init__(self, catalog: Catalog, sandboxes: Sandboxes) -> None:
        self._catalog = catalog
        self._sandboxes = sandboxes

    async def show(self, payment_id: str) -> Shown:
        """What the customer sees now. Raises PaymockError `payment_not_found`."""
        found = await self._found(payment_id)
        asked = found.record.request.receive
        chain = self._catalog.chains.get(asked.chain)
        asset = (self._catalog.assets(asked.chain) or {}).get(asked.asset)
        if chain is None or asset is None:
            raise PaymockError("payment_not_found", "The catalog no longer has the asset of this payment.")
        shown = checkout.checkout(
            found.record, found.state, found.elapsed, found.snapshot.clock.speed, chain, asset
        )
        return Shown(shown, found.seconds_to_change, _mark(found))

    async def follow(self, payment_id: str) -> AsyncGenerator[Checkout, None]:
        """What the customer sees, now and after every change; at least every RESYNC_SECONDS, since a clock
        that a page only counts drifts. Ends when the payment is forgotten, or the server stops. Raises
        PaymockError `payment_not_found` at its beginning.
        """
        await self.show(payment_id)  # a stream about an unknown payment does not begin
        told: Shown | None = None
        real, resync = asyncio.get_running_loop().time, 0.0
        with self._sandboxes.watch(self._sandbox(payment_id)) as changed:
            while not self._sandboxes.stopping:
                changed.clear()  # before the look, so that a change during the look leads to another one
                try:
                    shown = await self.show(payment_id)
                except PaymockError:
                    if told is None:
                        raise
                    return
                if told is None or shown.mark != told.mark or real() >= resync:
                    resync = real() + RESYNC_SECONDS
                    yield shown.checkout
                told, rested = shown, real() + GAP_SECONDS
                until = resync if shown.seconds is None else min(real() + shown.seconds, resync)
                await changed.until(until)
                await self._sandboxes.rest(rested)

    async def _found(self, payment_id: str) -> PaymentSnapshot:
        sandbox = self._sandbox(payment_id)
        try:
            return await find(self._sandboxes, sandbox, payment_id)
        except PaymockError as error:
            raise _unknown() if error.status == 404 else error from None

    def _sandbox(self, payment_id: str) -> str:
        token = token_in(payment_id, PAYMENT)
        if token is None:
            raise _unknown()
        return self._sandboxes.sandbox_of(token)


def _mark(found: PaymentSnapshot) -> object:
    snapshot = found.snapshot
    return snapshot.clock, snapshot.pending_change_ms > 0, found.stored, found.state


def _unknown() -> PaymockError:
    """The refusal in words for a customer, who knows of no API key."""
    return PaymockError(
        "payment_not_found", "No payment has this id. It may be mistyped, or its sandbox has been reset."
    )
