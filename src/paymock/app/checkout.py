"""The use cases of the checkout, for customers who have only the id of a payment."""

from typing import NamedTuple

from paymock.app.lookup import find_payment, sleep_for
from paymock.payments import checkout
from paymock.payments.checkout import Checkout
from paymock.payments.files import Catalog
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import PAYMENT_PREFIX, parse_token
from paymock.rules.scenarios import PAYMENT_WINDOW
from paymock.sandbox.sandboxes import Sandboxes
from paymock.sandbox.scheduler import SCHEDULER, yield_turn


class CheckoutView(NamedTuple):
    """The checkout of a payment, for how many real seconds it holds (None: until a request), and whether its
    course goes on.
    """

    checkout: Checkout
    seconds: float | None
    lies_ahead: bool


class CheckoutService:
    """The checkouts of payments, without HTTP. The id of a payment, which cannot be guessed, gives access."""

    def __init__(self, catalog: Catalog, sandboxes: Sandboxes) -> None:
        self._catalog = catalog
        self._sandboxes = sandboxes

    async def show(self, payment_id: str) -> CheckoutView:
        """Return the current checkout. Raises PaymockError `payment_not_found`."""
        token = parse_token(payment_id, PAYMENT_PREFIX)
        if token is None:
            raise _unknown_payment()
        try:
            payment = await find_payment(self._sandboxes, self._sandboxes.sandbox_of(token), payment_id)
        except PaymockError as error:
            raise _unknown_payment() if error.status == 404 else error from None
        if payment.timeline.scripted is None:
            owner = self._sandboxes.owner_limits.owner_of(payment.sandbox.sandbox)
            SCHEDULER.set((self._sandboxes.notifier.scheduler, owner))
            await yield_turn()
        record, state, sandbox = payment.record, payment.state, payment.sandbox
        chain, assets = self._catalog.chains.get(record.chain), self._catalog.assets(record.chain) or {}
        shown = {record.asset, *(deposit.transfer.other_asset or record.asset for deposit in state.deposits)}
        if chain is None or not shown <= assets.keys():
            raise PaymockError("payment_not_found", "The catalog no longer has an asset of this payment.")
        current = checkout.checkout(record, state, payment.elapsed, sandbox.clock.speed, chain, assets)
        # The end of the window changes the view, but not every payment.
        ages = (*(state.at for state in payment.upcoming[:1]), PAYMENT_WINDOW)
        changes = [payment.seconds_to(age) for age in ages if age > payment.elapsed]
        if sandbox.pending_change_ms:  # then the speed changes
            changes.append(sleep_for(sandbox.pending_change_ms))
        seconds = min((change for change in changes if change is not None), default=None)
        return CheckoutView(current, seconds, bool(payment.upcoming))


def _unknown_payment() -> PaymockError:
    return PaymockError(
        "payment_not_found", "No payment has this id. It may be mistyped, or its sandbox has been reset."
    )
