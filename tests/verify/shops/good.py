"""Shops that are right, each in a style of its own.

All deliver at `completed`, but for one that says so. A shop without a pace of its own leaves it to its caller
not to poll too often; the others wait as long as `Retry-After` says.
"""

import contextlib
import sqlite3
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

import httpx

from tests.verify.shops.base import CLOSED, PAUSE_SECONDS, TIMEOUT_SECONDS, Shop, creation, seconds

Json = dict[str, Any]

_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # unused; but without it, each client reads all certificates

TRIES = 5


def key_of(order_id: str) -> str:
    """The idempotency key for the payment of an order: the same in every try."""
    return f"payment-of-{order_id}"


def retry_after(reply: httpx.Response) -> float:
    """How many seconds the service asks to wait; 0 when it does not."""
    return seconds(reply.headers.get("Retry-After"))


class HttpxShop(Shop):
    """A shop whose client is `httpx`."""

    def __init__(self, url: str, api_key: str) -> None:
        super().__init__(url, api_key)
        self.settings: dict[str, Any] = {
            "base_url": url,
            "headers": self.headers,
            "timeout": TIMEOUT_SECONDS,
            "trust_env": False,
            "verify": _TLS,
        }
        self.http = httpx.Client(**self.settings)

    def close(self) -> None:
        super().close()
        self.http.close()


class Poller(HttpxShop):
    """Keeps its open orders in a dictionary. What fails waits for the next tick."""

    paid = frozenset({"completed"})
    failures: tuple[type[Exception], ...] = (httpx.HTTPError, ValueError)

    def order(self, order_id: str) -> None:
        self.open[order_id] = self.create(creation(order_id), key_of(order_id))

    def tick(self) -> None:
        for order_id, payment_id in list(self.open.items()):
            try:
                self.poll(order_id, payment_id)
            except self.failures as error:
                with contextlib.suppress(*self.failures):
                    self.failed(order_id, error)

    def failed(self, order_id: str, error: Exception) -> None:
        """Called when a poll has failed, which the next tick repeats."""

    def create(self, body: Json, key: str) -> str:
        reply = self.http.post("/v1/payments", json=body, headers={"Idempotency-Key": key})
        return str(reply.raise_for_status().json()["id"])

    def read(self, payment_id: str) -> Json:
        return dict(self.http.get(f"/v1/payments/{payment_id}").raise_for_status().json())

    def poll(self, order_id: str, payment_id: str) -> None:
        self.decide(order_id, self.read(payment_id))

    def decide(self, order_id: str, payment: Json) -> None:
        if payment["status"] in self.paid:
            self.delivered[order_id] += 1
        if self.closes(order_id, payment["status"]):
            del self.open[order_id]


class WelcomesCustomer(Poller):
    """Has a page to which the checkout leads back, which only thanks: money is what a read shows."""

    def __init__(self, url: str, api_key: str) -> None:
        super().__init__(url, api_key)
        shop = self

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                shop.welcome(self.path.removeprefix("/orders/"))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.page = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.run(self.page.serve_forever, 0.01)

    def welcome(self, order_id: str) -> None:
        """Called when the customer has come back."""

    def create(self, body: Json, key: str) -> str:
        url = f"http://127.0.0.1:{self.page.server_port}/orders/{body['order_id']}"
        return super().create({**body, "metadata": {"return_url": url}}, key)

    def close(self) -> None:
        self.page.shutdown()
        self.page.server_close()
        super().close()


class Worker(Poller):
    """One worker thread polls all open orders. Each order waits for its own `Retry-After`."""

    own_pace = True

    def poll(self, order_id: str, payment_id: str) -> None:
        if time.monotonic() >= self.not_before.get(order_id, 0):
            super().poll(order_id, payment_id)

    def failed(self, order_id: str, error: Exception) -> None:
        if isinstance(error, httpx.HTTPStatusError):
            self.not_before[order_id] = time.monotonic() + retry_after(error.response)


class RetryingClient(Worker):
    """Creates in a loop, with one key. A refused creation waits as long as `Retry-After` says, too."""

    own_pace = False

    def order(self, order_id: str) -> None:
        for _ in range(TRIES):
            try:
                return super().order(order_id)
            except httpx.HTTPStatusError as error:
                time.sleep(retry_after(error.response))
            except httpx.TransportError:
                pass
        raise ConnectionError(f"no payment for {order_id} after {TRIES} tries")


class ThreadPerOrder(HttpxShop):
    """Each order has a thread, which creates and polls. After a failure it waits twice as long."""

    own_pace = True
    longest_pause = 0.2

    def start(self) -> None:
        pass  # each order starts a thread

    def order(self, order_id: str) -> None:
        self.run(self.follow, order_id)

    def follow(self, order_id: str) -> None:
        payment: Json | None = None
        pause = PAUSE_SECONDS
        with httpx.Client(**self.settings) as http:
            while payment is None or not self.closes(order_id, payment["status"]):
                if self.closing.wait(pause):
                    return
                try:
                    reply = self.send(http, order_id, payment)
                    pause = max(retry_after(reply), pause)
                    payment = reply.raise_for_status().json()
                    pause = PAUSE_SECONDS
                except (httpx.HTTPError, ValueError):
                    pause = max(pause, min(2 * pause, self.longest_pause))
        self.delivered[order_id] += payment["status"] == "completed"

    def send(self, http: httpx.Client, order_id: str, payment: Json | None) -> httpx.Response:
        if payment is not None:
            return http.get(f"/v1/payments/{payment['id']}")
        headers = {"Idempotency-Key": f"{order_id}/payment"}
        return http.post("/v1/payments", json=creation(order_id), headers=headers)


class Outbox(HttpxShop):
    """An order only writes a row, with the key. What the row still needs is done by the next ticks."""

    paid: tuple[str, ...] = ("completed",)

    def __init__(self, url: str, api_key: str) -> None:
        super().__init__(url, api_key)
        self.db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self.db.execute("CREATE TABLE orders (id PRIMARY KEY, key, payment_id, status)")

    def order(self, order_id: str) -> None:
        row = (order_id, str(uuid4()))
        self.db.execute("INSERT OR IGNORE INTO orders VALUES (?, ?, NULL, 'awaiting_payment')", row)

    def deliveries(self, order_id: str) -> int:
        statuses = self.db.execute("SELECT status FROM orders WHERE id = ?", [order_id]).fetchall()
        return sum(status in self.paid for (status,) in statuses)

    def tick(self) -> None:
        for order_id, key, payment_id, status in self.db.execute("SELECT * FROM orders").fetchall():
            if self.closes(order_id, status):
                continue
            try:
                if payment_id is None:
                    headers = {"Idempotency-Key": key}
                    reply = self.http.post("/v1/payments", json=creation(order_id), headers=headers)
                else:
                    reply = self.http.get(f"/v1/payments/{payment_id}")
                payment = reply.raise_for_status().json()
            except (httpx.HTTPError, ValueError):
                continue
            row = (payment["id"], payment["status"], order_id)
            self.db.execute("UPDATE orders SET payment_id = ?, status = ? WHERE id = ?", row)

    def close(self) -> None:
        super().close()
        self.db.close()


class AttemptReader(Poller):
    """Reads the attempts too, to show the confirmations; delivers when both reads agree."""

    def poll(self, order_id: str, payment_id: str) -> None:
        [attempt] = self.attempts(payment_id)
        deposits = attempt.get("deposits", [])
        self.counts[order_id] = max((deposit["confirmations"] for deposit in deposits), default=0)
        payment = self.read(payment_id)
        if payment["status"] != "completed" or attempt["status"] == "payment_finalized":
            self.decide(order_id, payment)

    def attempts(self, payment_id: str) -> list[Json]:
        reply = self.http.get(f"/v1/payments/{payment_id}/attempts")
        return list(reply.raise_for_status().json()["data"])


class FulfilmentTable(Poller):
    """Reads `completed` more than once, and delivers into a table that takes each order once."""

    closed = CLOSED - {"completed"}
    sightings = 3

    def decide(self, order_id: str, payment: Json) -> None:
        if payment["status"] in self.paid:
            self.delivered[order_id] = 1
            self.counts[order_id] += 1
        if self.closes(order_id, payment["status"]) or self.counts[order_id] == self.sightings:
            del self.open[order_id]


class Catalog(RetryingClient):
    """Looks up the decimals of the asset before each creation."""

    def create(self, body: Json, key: str) -> str:
        assets = self.http.get("/v1/chains/bsc/assets").raise_for_status().json()["data"]
        [decimals] = [asset["decimals"] for asset in assets if asset["id"] == "USDT"]
        body["receive"]["amount"] = str(25 * 10**decimals)
        return super().create(body, key)


class EarlyDelivery(Poller):
    """Delivers once the funds are final, and bears the risk of the settlement: it delivers even when it reads
    nothing between the two, and the settlement has failed. Judged with `fulfil_at="payment_finalized"`.
    """

    def decide(self, order_id: str, payment: Json) -> None:
        if payment["attempts"][0]["status"] == "payment_finalized":
            self.delivered[order_id] += 1
            del self.open[order_id]
        elif self.closes(order_id, payment["status"]):
            del self.open[order_id]


class Renews(Poller):
    """Makes a new payment, up to two, when it reads that one has expired. Any of them pays the order."""

    most = 2

    def decide(self, name: str, payment: Json) -> None:
        order_id, *renewals = name.split("+")
        if payment["status"] == "expired" and not self.expired_reads[name] and len(renewals) < self.most:
            self.open[f"{name}+"] = self.create(creation(order_id), key_of(f"{name}+"))
        super().decide(name, payment)

    def deliveries(self, order_id: str) -> int:
        return any(self.delivered[order_id + "+" * number] for number in range(self.most + 1))


class TakesLateMoney(Renews):
    """Judged with `fulfil_at` of `completed` and `manual_review`."""

    paid = frozenset({"completed", "manual_review"})


class ThreeItems(Poller):
    """Delivers three items, and reads before each that the payment stands. It goes on where a read failed."""

    def decide(self, order_id: str, payment: Json) -> None:
        while payment["status"] in self.paid and self.counts[order_id] < 3:
            self.read(self.open[order_id])
            self.counts[order_id] += 1
        super().decide(order_id, payment)


class TwoReaders(Worker):
    """Two threads read all orders, each of them every 0.1 s. The status of an order that has ended stays."""

    def __init__(self, url: str, api_key: str) -> None:
        super().__init__(url, api_key)
        self.http.timeout = httpx.Timeout(1)
        self.statuses: dict[str, str] = {}
        self.lock = threading.Lock()
        self.claims: dict[str, float] = {}

    def start(self) -> None:
        super().start()
        super().start()

    def poll(self, order_id: str, payment_id: str) -> None:
        with self.lock:
            if time.monotonic() < self.claims.get(order_id, 0):
                return
            self.claims[order_id] = time.monotonic() + 0.1
        super().poll(order_id, payment_id)

    def decide(self, order_id: str, payment: Json) -> None:
        if order_id in self.open:
            self.statuses[order_id] = payment["status"]
        if self.closes(order_id, payment["status"]):
            self.open.pop(order_id, None)

    def deliveries(self, order_id: str) -> int:
        return self.statuses.get(order_id) == "completed"


# Outages


class Breaker(Worker):
    """A circuit breaker for all orders: after five failed reads in a row it opens. A second later it lets one
    through, which closes it if it succeeds.
    """

    limit = 5
    seconds = 1.0
    failed_reads = 0
    open_until = 0.0

    def poll(self, order_id: str, payment_id: str) -> None:
        if time.monotonic() >= self.open_until:
            super().poll(order_id, payment_id)

    def read(self, payment_id: str) -> Json:
        payment = super().read(payment_id)
        self.failed_reads = 0
        return payment

    def failed(self, order_id: str, error: Exception) -> None:
        super().failed(order_id, error)
        self.failed_reads += 1
        if self.failed_reads >= self.limit:
            self.open_until = time.monotonic() + self.seconds


class SupervisedLoop(Poller):
    """The polling loop ends at the first failed read, and its supervisor starts it again after a pause."""

    own_pace = True
    failures = ()

    def ticks(self) -> None:
        while not self.closing.is_set():
            try:
                super().ticks()
            except httpx.HTTPStatusError as error:
                self.closing.wait(max(0.1, retry_after(error.response)))
            except (httpx.TransportError, ValueError):
                self.closing.wait(0.1)


class Backoff(Worker):
    """Pauses longer after each failed read of an order in a row, up to 16 s, and never gives up."""

    first_seconds = 0.2
    most_seconds = 16.0

    def decide(self, order_id: str, payment: Json) -> None:
        self.counts[order_id] = 0
        super().decide(order_id, payment)

    def failed(self, order_id: str, error: Exception) -> None:
        super().failed(order_id, error)
        pause = min(self.first_seconds * 2 ** self.counts[order_id], self.most_seconds)
        self.counts[order_id] += 1
        self.not_before[order_id] = max(self.not_before.get(order_id, 0), time.monotonic() + pause)


def sums(payment: Json) -> tuple[int, int]:
    """What was received and what is due, in raw units."""
    [attempt] = payment["attempts"]
    received = attempt.get("funding", {}).get("amount_received_finalized", "0")
    return int(received), int(attempt["instructions"]["amounts"]["due"])


# One order several times at once


class KeyFromOrderId(Worker):
    """An order that comes several times at once has one key. What was delivered is not delivered again."""

    def decide(self, order_id: str, payment: Json) -> None:
        if self.delivered[order_id]:
            del self.open[order_id]
        else:
            super().decide(order_id, payment)
