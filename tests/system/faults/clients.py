"""Clients that note what they ask and what they are told. Nothing is retried but by who says so."""

import http.client
import json
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tests.system.faults.history import NO_REPLY, Event, History, Kind, Listed

PATIENCE_SECONDS = 10.0
"""How long a client waits for a reply; no request may take so long."""

PAUSE_SECONDS = 0.01
"""Between a refusal and the next request: refusals must not take the processor from who recovers."""

AMOUNT = "1000000000000000000"
_ORDER = json.loads((Path(__file__).parents[3] / "examples" / "order.json").read_text(encoding="utf-8"))

T = TypeVar("T")
R = TypeVar("R")


def fresh_sandbox() -> str:
    """An API key that was never used."""
    return f"mk_test_{uuid.uuid4().hex}"


def seeded(seed: object) -> random.Random:
    """Choices that are the same whenever the seed is."""
    return random.Random(str(seed))  # noqa: S311 - what is chosen is no secret


def order_of(key: str, amount: str = AMOUNT) -> bytes:
    """The body of a creation; its order is the idempotency key, so that the list of payments shows it."""
    return json.dumps(_ORDER | {"order_id": key, "receive": _ORDER["receive"] | {"amount": amount}}).encode()


class Client:
    """One thread's client of a sandbox: a connection to each server, kept while it can be."""

    def __init__(self, sandbox: str, history: History) -> None:
        self.sandbox = sandbox
        self.history = history
        self._headers = {"Authorization": f"Bearer {sandbox}", "Content-Type": "application/json"}
        self._connections: dict[str, http.client.HTTPConnection] = {}

    def create(self, url: str, key: str, amount: str = AMOUNT, scenario: str | None = None) -> Event:
        """Creates the payment of an idempotency key; without a scenario, it meets what is pending."""
        headers = {"Idempotency-Key": key, **({"X-Mock-Scenario": scenario} if scenario else {})}
        event = self._asked(url, "POST", "/v1/payments", order_of(key, amount), headers)
        return self.history.add(event._replace(kind=Kind.CREATE, key=key, wanted=amount))

    def read(self, url: str, payment: str) -> Event:
        """Reads a payment."""
        event = self._asked(url, "GET", f"/v1/payments/{payment}")
        return self.history.add(event._replace(kind=Kind.READ, payment=payment))

    def advance(self, url: str, payment: str, step: Mapping[str, Any]) -> Event:
        """Moves one payment ahead."""
        event = self._asked(url, "POST", f"/_mock/payments/{payment}/advance", json.dumps(step).encode())
        return self.history.add(event._replace(kind=Kind.ADVANCE, payment=payment))

    def deposit(self, url: str, payment: str, key: str, amount: str) -> Event:
        """Pays a payment, once for each idempotency key."""
        body, path = json.dumps({"amount": amount}).encode(), f"/_mock/payments/{payment}/deposits"
        event = self._asked(url, "POST", path, body, {"Idempotency-Key": key})
        return self.history.add(event._replace(kind=Kind.DEPOSIT, payment=payment, key=key, wanted=amount))

    def move_clock(self, url: str, seconds: float) -> Event:
        """Moves the sandbox ahead."""
        body = json.dumps({"seconds": seconds}).encode()
        event = self._asked(url, "POST", "/_mock/clock/advance", body)
        return self.history.add(event._replace(kind=Kind.CLOCK))

    def set_speed(self, url: str, speed: float) -> Event:
        """Says how fast the sandbox's clock runs."""
        event = self._asked(url, "PUT", "/_mock/clock", json.dumps({"speed": speed}).encode())
        return self.history.add(event._replace(kind=Kind.CLOCK))

    def read_clock(self, url: str) -> Event:
        """Asks what time it is in the sandbox."""
        return self.history.add(self._asked(url, "GET", "/_mock/clock")._replace(kind=Kind.CLOCK))

    def ready(self, url: str) -> Event:
        """Asks whether the server can serve."""
        return self._asked(url, "GET", "/readyz")._replace(kind=Kind.READY)

    def listing(self, url: str) -> list[Listed]:
        """The payments of the sandbox, from the first page to the last."""
        found: list[Listed] = []
        cursor = ""
        while cursor is not None:
            event = self._asked(url, "GET", f"/_mock/payments?limit=200{cursor and f'&cursor={cursor}'}")
            assert event.status == 200, event
            page = event.content
            found += [Listed(payment["id"], payment["order_id"]) for payment in page["data"]]
            cursor = page["next_cursor"]
        return found

    def close(self) -> None:
        """Ends the connections."""
        for connection in self._connections.values():
            connection.close()

    def _asked(
        self, url: str, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}
    ) -> Event:
        connection = self._connections.get(url)
        if connection is None:
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_SECONDS)
            self._connections[url] = connection
        began = time.monotonic()
        try:
            connection.request(method, path, body, {**self._headers, **headers})
            with connection.getresponse() as reply:
                answer = reply.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return Event(Kind.READ, began, time.monotonic(), NO_REPLY)
        return Event(
            Kind.READ,
            began,
            time.monotonic(),
            reply.status,
            answer,
            replayed=reply.getheader("Idempotent-Replayed") == "true",
            retry_after=reply.getheader("Retry-After"),
        )


@contextmanager
def crew(
    count: int, work: Callable[[Client, int, threading.Event], None], sandbox: str, history: History
) -> Iterator[threading.Event]:
    """Threads that work during the block, each with a client and a number, until the event is set that they
    are given; it is when the block ends. Raises what one of them has raised.
    """
    enough = threading.Event()

    def run(number: int) -> None:
        with closing(Client(sandbox, history)) as client:
            work(client, number, enough)

    with ThreadPoolExecutor(count) as pool:
        running = [pool.submit(run, number) for number in range(count)]
        try:
            yield enough
        finally:
            enough.set()
        for one in running:
            one.result()


def spread(
    count: int, job: Callable[[Client, T], R], over: Iterable[T], sandbox: str, history: History
) -> Sequence[R]:
    """The outcomes of a job for each item, with so many clients at once."""
    with ExitStack() as stack:
        local = threading.local()
        lock = threading.Lock()

        def run(item: T) -> R:
            if not hasattr(local, "client"):
                with lock:
                    local.client = stack.enter_context(closing(Client(sandbox, history)))
            return job(local.client, item)

        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(run, over))
