"""A client of the payment service: create a payment, and follow it until it is decided."""

import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import httpx

DECIDED = {"completed", "expired", "failed", "underpaid_expired", "overpaid_review", "manual_review"}
PAYOUT_ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


class PaymentError(Exception):
    """The service refused a request: `code` is for programs, the message for developers."""

    def __init__(self, error: dict[str, Any]) -> None:
        problems = [f"{problem['field']} {problem['message']}" for problem in error.get("details", [])]
        super().__init__("; ".join(problems) or error["message"])
        self.code = error["code"]


class NoReply(Exception):
    """The service did not answer: nobody knows whether the request was carried out."""


class Payments:
    """Payments in one asset of one chain. `timeout`, in seconds, is how long it waits for a reply."""

    def __init__(
        self,
        url: str,
        api_key: str,
        chain: str = "bsc",
        asset: str = "USDT",
        timeout: float = 10,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.coin = {"chain": chain, "asset": asset}
        self.http = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {api_key}"}, timeout=timeout
        )
        self.sleep = sleep

    def create(self, order_id: str, tokens: Decimal) -> dict[str, Any]:
        """Asks for so many tokens for an order. For the same order, it is the same payment.

        This and all else raises PaymentError and NoReply.
        """
        order = {
            "order_id": order_id,
            "receive": {**self.coin, "amount": self.raw_units(tokens), "address": PAYOUT_ADDRESS},
            "settlement": {"mode": "same_chain_merchant_payout"},
            "pay_with": [self.coin],
        }
        headers = {"Idempotency-Key": f"payment-of-{order_id}"}
        return self._send("POST", "/v1/payments", json=order, headers=headers)

    def status(self, payment_id: str) -> str:
        """The status of a payment."""
        return str(self._send("GET", f"/v1/payments/{payment_id}")["status"])

    def follow(self, payment_id: str, every: float = 2) -> Iterator[str]:
        """The statuses of a payment as they change, from now until it is decided. It asks `every` so many
        seconds, which a real shop would do for hours, and more and more rarely.
        """
        seen = None
        while seen not in DECIDED:
            status = self.status(payment_id)
            if status == seen:
                self.sleep(every)
            else:
                yield status
            seen = status

    def raw_units(self, tokens: Decimal) -> str:
        """An amount as the service takes it: a whole number of the smallest units, as text."""
        assets = self._send("GET", f"/v1/chains/{self.coin['chain']}/assets")["data"]
        [decimals] = [asset["decimals"] for asset in assets if asset["id"] == self.coin["asset"]]
        return str(int(tokens.scaleb(decimals).to_integral_exact()))

    def close(self) -> None:
        self.http.close()

    def _send(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        try:
            reply = self.http.request(method, path, **request)
        except httpx.TransportError as error:
            raise NoReply(f"{method} {path}: {error!r}") from error
        by_the_service = reply.headers.get("Content-Type", "").startswith("application/json")
        if not by_the_service or reply.status_code == 429 or reply.status_code >= 500:
            raise NoReply(f"{method} {path}: status {reply.status_code}")
        if reply.is_error:
            raise PaymentError(reply.json()["error"])
        return dict(reply.json())
