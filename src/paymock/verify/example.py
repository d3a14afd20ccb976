"""The application of `paymock verify --example`: a shop that looks right, and loses money. Do not copy it."""

import json
import secrets
from collections import Counter
from contextlib import suppress
from typing import Any

from paymock.client.http import Client, Refused, Unreachable
from paymock.client.sandbox import payment_request
from paymock.rules.scenarios import TERMINAL_STATUSES

_CLOSED = TERMINAL_STATUSES | {"payment_finalized", "expired"}

_TIMEOUT = 0.3
"""Seconds until a request of the shop fails."""


class ExampleShop:
    """It sends an idempotency key, but a new one with each try; and it does not wait for the settlement."""

    def __init__(self, url: str, api_key: str) -> None:
        self._client = Client(url, api_key)
        self._open: dict[str, str] = {}
        self.delivered: Counter[str] = Counter()

    def order(self, order_id: str) -> None:
        """Raises Refused and Unreachable."""
        body = payment_request(order_id, "bsc", "USDT", "25000000000000000000")
        headers = {"Idempotency-Key": secrets.token_hex(16)}
        self._open[order_id] = self._send("POST", "/v1/payments", body, headers)["id"]

    def poll(self) -> None:
        for order_id, payment_id in [*self._open.items()]:
            with suppress(Refused, Unreachable):
                status = self._send("GET", f"/v1/payments/{payment_id}")["status"]
                if status == "payment_finalized":
                    self.delivered[order_id] += 1
                if status in _CLOSED:
                    del self._open[order_id]

    def close(self) -> None:
        self._client.close()

    def _send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        call = self._client.send(
            method, path, decode=json.loads, body=body, headers=headers, timeout=_TIMEOUT
        )
        return call.result()
