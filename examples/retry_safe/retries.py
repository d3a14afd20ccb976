"""A client that may retry: whatever gets lost on the way, an order has one payment.

Three rules make it so:
1. The idempotency key belongs to the order. It is the same in every try, also after a restart.
2. What may succeed later is tried again: no reply, the page of a gateway, 5xx, 429. What was refused will be
   refused again.
3. Between tries it waits longer and longer, at random, so that many clients do not come back at once.
"""

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

TRIES = 5
FIRST_PAUSE, LONGEST_PAUSE, LONGEST_ASKED = 0.5, 8.0, 60.0


class GaveUp(Exception):
    """Nothing helped: it is not known whether the request was carried out. Try the same again later."""


class RetryingClient:
    """An API key of a payment service. `timeout`, in seconds, is how long it waits for one reply."""

    def __init__(
        self,
        url: str,
        api_key: str,
        timeout: float = 10,
        sleep: Callable[[float], object] = time.sleep,
        tries: int = TRIES,
    ) -> None:
        self.http = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {api_key}"}, timeout=timeout
        )
        self.sleep = sleep
        self.tries = tries

    def create(self, order: dict[str, Any]) -> dict[str, Any]:
        """The payment of an order, which is created by the first call that reaches the service.

        Raises GaveUp, and httpx.HTTPStatusError when the service refuses the order.
        """
        headers = {"Idempotency-Key": f"payment-of-{order['order_id']}"}
        return self._send("POST", "/v1/payments", json=order, headers=headers)

    def payment(self, payment_id: str) -> dict[str, Any]:
        """The payment as it stands; raises the same."""
        return self._send("GET", f"/v1/payments/{payment_id}")

    def _send(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        for tried in range(self.tries):
            try:
                reply = self.http.request(method, path, **request)
            except httpx.TransportError as error:  # not sent, or no reply: nobody knows which
                problem, asked = str(error) or repr(error), 0.0
            else:
                by_the_service = reply.headers.get("Content-Type", "").startswith("application/json")
                if by_the_service and reply.status_code < 500 and reply.status_code != 429:
                    return dict(reply.raise_for_status().json())
                problem, asked = (
                    f"status {reply.status_code}",
                    asked_pause(reply.headers.get("Retry-After", "")),
                )
            if tried < self.tries - 1:
                longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2**tried)
                self.sleep(max(asked, random.uniform(0, longest)))
        raise GaveUp(f"{method} {path}: {problem}, {self.tries} times")


def asked_pause(retry_after: str) -> float:
    """The seconds that a `Retry-After` asks for, at most LONGEST_ASKED: it is a number or an HTTP date."""
    if retry_after.isdecimal():
        seconds = float(retry_after)
    else:
        try:
            seconds = (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):  # another text, or none
            return 0
    return max(0, min(seconds, LONGEST_ASKED))
