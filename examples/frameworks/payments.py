"""What the shops ask of the payment service, and how those without asyncio do."""

import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

COIN = {"chain": "bsc", "asset": "USDT"}
PRICE = "25000000000000000000"
PAYOUT_ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

FINAL = {"completed", "failed", "underpaid_expired", "overpaid_review", "manual_review"}
"""Statuses that do not change. An expired payment can: the customer may pay late."""

UNKNOWN = (httpx.HTTPError, ValueError, KeyError, TypeError)
"""No reply, an error, a page of a proxy, another JSON: nothing is known about the payment."""

TLS = ssl.create_default_context()  # reading its certificates takes longer than a request


def payment_of(order_id):
    """The request that creates the payment of an order. In each attempt it has the same idempotency key."""
    return {
        "json": {
            "order_id": order_id,
            "receive": {**COIN, "amount": PRICE, "address": PAYOUT_ADDRESS},
            "settlement": {"mode": "same_chain_merchant_payout"},
            "pay_with": [COIN],
        },
        "headers": {"Idempotency-Key": f"payment-of-{order_id}"},
    }


def asked_pause(error):
    """How many seconds the service asks to wait, at most a minute: by a number or an HTTP date."""
    asked = error.response.headers.get("Retry-After", "") if isinstance(error, httpx.HTTPStatusError) else ""
    if not asked.isdecimal():
        try:
            asked = (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):  # another text, or none
            return 0
    return max(0, min(float(asked), 60))


class Payments:
    """The service. Each call raises UNKNOWN."""

    def __init__(self, url, api_key, timeout):
        self.options = {
            "base_url": url,
            "headers": {"Authorization": f"Bearer {api_key}"},
            "timeout": timeout,
            "verify": TLS,
        }

    def create(self, order_id):
        """Returns the id of the payment of an order, which is created once."""
        return self._send("POST", "/v1/payments", **payment_of(order_id))["id"]

    def status(self, payment_id):
        return self._send("GET", f"/v1/payments/{payment_id}")["status"]

    def _send(self, method, path, **request):
        with httpx.Client(**self.options) as client:
            return client.request(method, path, **request).raise_for_status().json()
