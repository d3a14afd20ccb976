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


class Payments:
    """Payments in one asset of one chain."""

    def __init__(self, url: str, api_key: str, chain: str = "bsc", asset: str = "USDT") -> None:
        self.coin = {"chain": chain, "asset": asset}
        self.http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {api_key}"}, timeout=10)

    def create(self, order_id: str, tokens: Decimal) -> dict[str, Any]:
        """Asks for so many tokens for an order. For the same order, it is the same payment."""
        order = {
            "order_id": order_id,
            "receive": {**self.coin, "amount": self.raw_units(tokens), "address": PAYOUT_ADDRESS},
            "settlement": {"mode": "same_chain_merchant_payout"},
            "pay_with": [self.coin],
        }
        headers = {"Idempotency-Key": f"payment-of-{order_id}"}
        return self._result(self.http.post("/v1/payments", json=order, headers=headers))

    def follow(
        self, payment_id: str, every: float = 2, sleep: Callable[[float], object] = time.sleep
    ) -> Iterator[str]:
        """The statuses of a payment as they change, from now until it is decided. It asks `every` so many
        seconds, which a real shop would do for hours, and more and more rarely.
        """
        seen = None
        while seen not in DECIDED:
            status = self._result(self.http.get(f"/v1/payments/{payment_id}"))["status"]
            if status == seen:
                sleep(every)
            else:
                yield status
            seen = status

    def raw_units(self, tokens: Decimal) -> str:
        """An amount as the service takes it: a whole number of the smallest units, as text."""
        assets = self._result(self.http.get(f"/v1/chains/{self.coin['chain']}/assets"))["data"]
        [decimals] = [asset["decimals"] for asset in assets if asset["id"] == self.coin["asset"]]
        return str(int(tokens.scaleb(decimals).to_integral_exact()))

    def close(self) -> None:
        self.http.close()

    @staticmethod
    def _result(reply: httpx.Response) -> dict[str, Any]:
        if reply.is_error:
            raise PaymentError(reply.json()["error"])
        return dict(reply.json())
