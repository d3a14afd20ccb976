"""What all shops share: an order that the service understands, the deliveries, and a worker that ticks."""

import contextlib
import email.utils
import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from paymock.client.sandbox import payment_request

TIMEOUT_SECONDS = 0.3
PAUSE_SECONDS = 0.02
"""Between two rounds of a worker."""

CLOSED = frozenset(
    {"completed", "expired", "underpaid_expired", "overpaid_review", "manual_review", "failed"}
)
"""The statuses after which a shop reads a payment no more, an expired one after some further reads."""


def creation(order_id: str) -> dict[str, Any]:
    return payment_request(order_id, "bsc", "USDT", "25000000000000000000")


def seconds(retry_after: str | None) -> float:
    """How many seconds a `Retry-After` asks to wait, whether it is a number or a date."""
    try:
        return float(retry_after or 0)
    except ValueError:
        asked = email.utils.parsedate_to_datetime(retry_after or "")
        return max(0.0, asked.timestamp() - time.time())


class Refused(ConnectionError):
    """A reply that is an error. `retry_after`: how many seconds the service asks to wait."""

    def __init__(self, reply: http.client.HTTPResponse) -> None:
        super().__init__(f"status {reply.status}")
        self.retry_after = seconds(reply.headers.get("Retry-After"))


class Shop:
    """A merchant backend. With `own_pace`, a worker polls after `start`; without, `tick` polls once."""

    own_pace: ClassVar[bool] = False
    closed: ClassVar[frozenset[str]] = CLOSED
    further_reads: ClassVar[int] = 10
    """Of an expired payment: money may come late."""

    def __init__(self, url: str, api_key: str) -> None:
        self.url = url
        self.headers = {"Authorization": f"Bearer {api_key}"}
        self.delivered: Counter[str] = Counter()
        # What most shops remember of their orders, each as it needs it.
        self.open: dict[str, str] = {}
        self.not_before: dict[str, float] = {}
        self.counts: Counter[str] = Counter()
        self.expired_reads: Counter[str] = Counter()
        self.keys: dict[str, str] = {}
        self.closing = threading.Event()
        self.workers: list[threading.Thread] = []

    def order(self, order_id: str) -> None:
        """Take an order of a customer; raises when there is no payment for it yet."""
        raise NotImplementedError

    def deliveries(self, order_id: str) -> int:
        return self.delivered[order_id]

    def tick(self) -> None:
        raise NotImplementedError

    def call(
        self, method: str, path: str, body: dict[str, Any] | None = None, key: str | None = None
    ) -> dict[str, Any]:
        """Send a request by `http.client`. Raises OSError, HTTPException."""
        headers = {**self.headers, "Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        address = urlsplit(self.url).netloc
        with contextlib.closing(http.client.HTTPConnection(address, timeout=TIMEOUT_SECONDS)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            reply = connection.getresponse()
            if reply.status >= 400:
                raise Refused(reply)
            return dict(json.load(reply))

    def closes(self, order_id: str, status: str) -> bool:
        """Whether the payment of an order is read no more after it was read with this status."""
        self.expired_reads[order_id] += status == "expired"
        return status in self.closed and (
            status != "expired" or self.expired_reads[order_id] > self.further_reads
        )

    def start(self) -> None:
        if self.own_pace:
            self.run(self.ticks)

    def ticks(self) -> None:
        while not self.closing.wait(PAUSE_SECONDS):
            self.tick()

    def run(self, target: Callable[..., None], *args: object) -> None:
        """Run `target` in a thread that `close` waits for."""
        worker = threading.Thread(target=target, args=args, daemon=True)
        self.workers.append(worker)
        worker.start()

    def close(self) -> None:
        self.closing.set()
        for worker in self.workers:
            worker.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
