"""Clients that record requests and replies. They retry nothing by themselves."""

import http.client
import json
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from harness.api_client import ORDER, request_headers
from tests.system.faults.history import NO_REPLY, Event, History, Kind, ListedPayment

TIMEOUT_SECONDS = 60.0
"""After this time a request counts as hanging."""

PAUSE_SECONDS = 0.01
"""Between a refusal and the next request, so that clients leave the processor to a server that recovers."""

AMOUNT = "1000000000000000000"
_ORDER = json.loads(ORDER)

T = TypeVar("T")
R = TypeVar("R")


def new_api_key() -> str:
    return f"mk_test_{uuid.uuid4().hex}"


def seeded_random(seed: object) -> random.Random:
    return random.Random(str(seed))  # noqa: S311 - the choices are no secret


def order_body(key: str, amount: str = AMOUNT) -> bytes:
    """The body of a creation. The order id is the idempotency key, so that the list of payments shows it."""
    return json.dumps(_ORDER | {"order_id": key, "receive": _ORDER["receive"] | {"amount": amount}}).encode()


class Client:
    """The client of one thread: one API key, and one connection to each server."""

    def __init__(self, api_key: str, history: History) -> None:
        self.api_key = api_key
        self.history = history
        self._headers = request_headers(api_key=api_key)
        self._connections: dict[str, http.client.HTTPConnection] = {}

    def create(self, url: str, key: str, amount: str = AMOUNT) -> Event:
        headers = {"Idempotency-Key": key}
        event = self._request(url, "POST", "/v1/payments", order_body(key, amount), headers)
        return self.history.add(event._replace(kind=Kind.CREATE, key=key, amount=amount))

    def read(self, url: str, payment: str) -> Event:
        event = self._request(url, "GET", f"/v1/payments/{payment}")
        return self.history.add(event._replace(kind=Kind.READ, payment=payment))

    def advance(self, url: str, payment: str, step: Mapping[str, Any]) -> Event:
        body = json.dumps(step).encode()
        event = self._request(url, "POST", f"/_mock/payments/{payment}/advance", body)
        return self.history.add(event._replace(kind=Kind.ADVANCE, payment=payment))

    def deposit(self, url: str, payment: str, key: str, amount: str) -> Event:
        body, path = json.dumps({"amount": amount}).encode(), f"/_mock/payments/{payment}/deposits"
        event = self._request(url, "POST", path, body, {"Idempotency-Key": key})
        return self.history.add(event._replace(kind=Kind.DEPOSIT, payment=payment, key=key, amount=amount))

    def advance_clock(self, url: str, seconds: float) -> Event:
        body = json.dumps({"seconds": seconds}).encode()
        event = self._request(url, "POST", "/_mock/clock/advance", body)
        return self.history.add(event._replace(kind=Kind.CLOCK))

    def set_speed(self, url: str, speed: float) -> Event:
        event = self._request(url, "PUT", "/_mock/clock", json.dumps({"speed": speed}).encode())
        return self.history.add(event._replace(kind=Kind.CLOCK))

    def ready(self, url: str) -> Event:
        """Request `/readyz`. The event is not recorded."""
        return self._request(url, "GET", "/readyz")._replace(kind=Kind.READY)

    def listing(self, url: str) -> list[ListedPayment]:
        """All payments of the sandbox. A page that the server refuses with 503 is requested again."""
        entries: list[ListedPayment] = []
        cursor = ""
        while cursor is not None:
            path = f"/_mock/payments?limit=200{cursor and f'&cursor={cursor}'}"
            event = until_known(lambda path=path: self._request(url, "GET", path))  # type: ignore[misc]
            assert event.status == 200, event
            page = event.content
            entries += [ListedPayment(payment["id"], payment["order_id"]) for payment in page["data"]]
            cursor = page["next_cursor"]
        return entries

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _request(
        self, url: str, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] = {}
    ) -> Event:
        connection = self._connections.get(url)
        if connection is None:
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_SECONDS)
            self._connections[url] = connection
        started = time.monotonic()
        try:
            connection.request(method, path, body, {**self._headers, **headers})
            with connection.getresponse() as reply:
                content = reply.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return Event(Kind.READ, started, time.monotonic(), NO_REPLY)
        return Event(
            Kind.READ,
            started,
            time.monotonic(),
            reply.status,
            content,
            replayed=reply.getheader("Idempotent-Replayed") == "true",
            retry_after=reply.getheader("Retry-After"),
        )


def until_known(request: Callable[[], Event], seconds: float = TIMEOUT_SECONDS) -> Event:
    """Repeat a request until its outcome is known, for at most so many seconds. The last event."""
    deadline = time.monotonic() + seconds
    while (event := request()).unknown and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
    return event


@contextmanager
def threads(*jobs: Callable[[threading.Event], None]) -> Iterator[threading.Event]:
    """Run each job in a thread, with an event that is set when the block ends. Raises what one has raised."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(jobs)) as pool:
        running = [pool.submit(job, stop) for job in jobs]
        try:
            yield stop
        finally:
            stop.set()
        for job in running:
            job.result()


def client_threads(
    count: int, work: Callable[[Client, int, threading.Event], None], api_key: str, history: History
) -> AbstractContextManager[threading.Event]:
    """Threads that run `work` with a client, their number, and an event that is set when the block ends."""

    def run(number: int, stop: threading.Event) -> None:
        with closing(Client(api_key, history)) as client:
            work(client, number, stop)

    return threads(*(partial(run, number) for number in range(count)))


def map_with_clients(
    count: int, job: Callable[[Client, T], R], items: Iterable[T], api_key: str, history: History
) -> Sequence[R]:
    """The results of `job` for each item, with so many concurrent clients."""

    def run(item: T) -> R:
        with closing(Client(api_key, history)) as client:
            return job(client, item)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, items))
