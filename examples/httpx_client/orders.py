"""A shop that uses the client: it takes orders, polls their payments, and delivers each order once."""

from contextlib import suppress
from decimal import Decimal

from payments import DECIDED, NoReply, PaymentError, Payments


class Shop:
    """Sells things of one price."""

    def __init__(self, payments: Payments, price: Decimal) -> None:
        self.payments = payments
        self.price = price
        # A real shop has a database in place of these:
        self.payment_ids: dict[str, str | None] = {}  # of each order; None until the service has answered
        self.decided: set[str] = set()
        self.delivered: list[str] = []

    def order(self, order_id: str) -> str:
        """Takes an order, and returns the id of its payment. After an error, the customer orders again."""
        payment_id = self.payment_ids.setdefault(order_id, None)  # before anything can fail
        if payment_id is None:
            payment_id = self.payment_ids[order_id] = self.payments.create(order_id, self.price)["id"]
        return payment_id

    def poll(self) -> None:
        """Asks once for each open order, and delivers what is paid. An error says nothing about a payment."""
        for order_id in self.payment_ids.keys() - self.decided:
            with suppress(NoReply, PaymentError):
                status = self.payments.status(self.order(order_id))
                if status in DECIDED:
                    self.decided.add(order_id)
                if status == "completed":
                    self.delivered.append(order_id)

    def deliveries(self, order_id: str) -> int:
        """How often an order was delivered."""
        return self.delivered.count(order_id)
