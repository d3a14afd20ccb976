"""A shop that uses the client: it takes orders, polls their payments, and delivers each order once."""

from contextlib import suppress

import httpx
from retries import GaveUp, RetryingClient

FINAL = {"completed", "failed", "underpaid_expired", "overpaid_review", "manual_review"}
# An expired payment stays open: the customer may pay late.
COIN = {"chain": "bsc", "asset": "USDT"}
BOOK = {
    "receive": {
        **COIN,
        "amount": "25000000000000000000",
        "address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    },
    "settlement": {"mode": "same_chain_merchant_payout"},
    "pay_with": [COIN],
}


class Shop:
    """Sells books. An order is open until a reply shows a final status."""

    def __init__(self, client: RetryingClient) -> None:
        self.client = client
        # A real shop has a database in place of these:
        self.payment_ids: dict[str, str | None] = {}  # of each order; None until the service has answered
        self.decided: set[str] = set()
        self.delivered: list[str] = []

    def order(self, order_id: str) -> str:
        """Takes an order, and returns the id of its payment. After an error, the customer orders again."""
        payment_id = self.payment_ids.setdefault(order_id, None)  # before anything can fail
        if payment_id is None:
            payment = self.client.create(BOOK | {"order_id": order_id})
            payment_id = self.payment_ids[order_id] = str(payment["id"])
        return payment_id

    def poll(self) -> None:
        """Asks once for each open order, and delivers what is paid."""
        for order_id in self.payment_ids.keys() - self.decided:
            with suppress(GaveUp, httpx.HTTPStatusError):  # says nothing about the payment
                status = self.client.payment(self.order(order_id))["status"]
                if status in FINAL:
                    self.decided.add(order_id)
                if status == "completed":
                    self.delivered.append(order_id)

    def deliveries(self, order_id: str) -> int:
        """How often an order was delivered."""
        return self.delivered.count(order_id)
