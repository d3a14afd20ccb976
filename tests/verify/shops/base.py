"""What all shops share: an order that the service understands, the deliveries, and a worker that ticks."""

import ssl
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, Self

import httpx

from paymock.client.sandbox import payment_request

TIMEOUT_SECONDS = 0.3
PAUSE_SECONDS = 0.02
"""Between two rounds of a worker."""

CLOSED = frozenset(
    {"completed", "expired", "underpaid_expired", "overpaid_review", "manual_review", "failed"}
)
"""The statuses after which a shop reads a payment no more."""

_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # unused; but without it, each client reads all certificates


def creation(order_id: str) -> dict[str, Any]:
    return payment_request(order_id, "bsc", "USDT", "25000000000000000000")


class Shop:
    """A merchant backend. With `own_pace`, a worker polls after `start`; without, `tick` polls once."""

    own_pace: ClassVar[bool] = False

    def __init__(self, url: str, api_key: str) -> None:
        self.settings: dict[str, Any] = {
            "base_url": url,
            "headers": {"Authorization": f"Bearer {api_key}"},
            "timeout": TIMEOUT_SECONDS,
            "trust_env": False,
            "verify": _TLS,
        }
        self.http = httpx.Client(**self.settings)
        self.delivered: Counter[str] = Counter()
        # What most shops remember of their orders, each as it needs it.
        self.open: dict[str, str] = {}
        self.not_before: dict[str, float] = {}
        self.counts: Counter[str] = Counter()
        self.closing = threading.Event()
        self.workers: list[threading.Thread] = []

    def order(self, order_id: str) -> None:
        """Take an order of a customer; raises when there is no payment for it yet."""
        raise NotImplementedError

    def deliveries(self, order_id: str) -> int:
        return self.delivered[order_id]

    def tick(self) -> None:
        raise NotImplementedError

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
        self.http.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
