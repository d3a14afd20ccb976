"""Users who call every operation, also in wrong ways, and record unexpected replies."""

import http.client
import json
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from harness.api_client import request_headers
from tests.system.faults.clients import new_api_key, order_body, seeded_random, threads
from tests.system.hostile.slow_clients import HALF_A_BODY, HALF_A_HEAD

TIMEOUT_SECONDS = 60.0
"""After this time a request counts as hanging. Latency is measured elsewhere."""

PAYMENTS = 150
"""A user resets the sandbox after so many creations, so that the stored data is bounded."""

SCENARIOS = ("happy_path", "late_payment", "underpaid_expired", "settlement_failed", None)


class UnexpectedReply(NamedTuple):
    """The times of a request and its reply, and what was unexpected."""

    started: float
    ended: float
    text: str


@dataclass
class UserLog:
    """The number of requests of all users of a server, and unexpected replies."""

    requests: int = 0
    unexpected: list[UnexpectedReply] = field(default_factory=list)


class User:
    def __init__(self, url: str, name: str, log: UserLog) -> None:
        self._address = urlsplit(url)
        self._log = log
        self._choice = seeded_random(name)
        self._api_key = new_api_key()
        self._connection = http.client.HTTPConnection(self._address.netloc, timeout=TIMEOUT_SECONDS)
        self._payments: list[str] = []
        self._created = 0

    def act(self) -> None:
        if self._created >= PAYMENTS:
            self._reset()
        else:
            [action] = self._choice.choices([*_ACTIONS], [*_ACTIONS.values()])
            action(self)

    def close(self) -> None:
        while self._reset() is None:
            time.sleep(1)  # the server is cut off from its store
        self._connection.close()

    def _create(self) -> None:
        key, scenario = f"soak-{uuid.uuid4()}", self._choice.choice(SCENARIOS)
        headers = {"X-Mock-Scenario": scenario} if scenario else {}
        for _ in range(self._choice.choice((1, 1, 2))):
            reply = self._send([201], "POST", "/v1/payments", order_body(key), headers, key)
        if reply:
            self._created += 1
            self._payments.append(json.loads(reply)["id"])

    def _request_of_the_table(self) -> None:
        [row] = self._choice.choices(_REQUESTS, [weight for weight, *_ in _REQUESTS])
        _, expected, method, path, *more = row
        if "{payment}" in path:
            while not self._payments:
                self._create()
            path = path.format(payment=self._choice.choice(self._payments[-20:]))
        self._send(expected, method, path, *more)

    def _reset(self) -> bytes | None:
        reply = self._send([204], "POST", "/_mock/reset")
        if reply is not None:
            self._created = 0
            self._payments.clear()
        return reply

    def _rule(self) -> None:
        """Add a rule that is for another operation than all others of this user, and let it apply.

        A rule whose creation was answered 503 in a cut may be stored, so rules are deleted first.
        """
        if self._send([204], "DELETE", "/_mock/faults") is None:
            return
        if self._send([201], "POST", "/_mock/faults", b'{"fault": "drop", "operation": "listChains"}'):
            for status in (0, 200):
                self._send([status], "GET", "/v1/chains")

    def _garbage(self) -> None:
        with closing(self._open(b"\x16\x03\x01 no HTTP at all\r\n\r\n")) as connection:
            self._check("garbage", [400], lambda: (int(connection.recv(4096)[9:12]), b""))

    def _disconnect(self) -> None:
        self._open(self._choice.choice((b"", HALF_A_HEAD, HALF_A_BODY))).close()

    def _send(
        self,
        expected: Sequence[int],
        method: str,
        path: str,
        body: bytes | None = None,
        more: Mapping[str, str] = {},
        key: str = "",
    ) -> bytes | None:
        headers = {"Idempotency-Key": key or f"soak-{uuid.uuid4()}", **more}

        def exchange() -> tuple[int, bytes]:
            try:
                self._connection.request(method, path, body, request_headers(headers, self._api_key))
                with self._connection.getresponse() as reply:
                    return reply.status, reply.read()
            except (OSError, http.client.HTTPException):
                self._connection.close()
                raise

        return self._check(f"{method} {path}", expected, exchange)

    def _check(
        self, what: str, expected: Sequence[int], exchange: Callable[[], tuple[int, bytes]]
    ) -> bytes | None:
        """The body of the reply if its status is expected (0: no reply). Otherwise the reply is recorded."""
        self._log.requests += 1
        started = time.monotonic()
        try:
            status, body = exchange()
        except (OSError, ValueError, http.client.HTTPException) as error:
            status, body = 0, repr(error).encode()
        if status in expected:
            return body
        text = f"{what}: {status} {body[:150]!r}"
        self._log.unexpected.append(UnexpectedReply(started, time.monotonic(), text))
        return None

    def _open(self, data: bytes) -> socket.socket:
        connection = socket.create_connection((self._address.hostname, self._address.port), TIMEOUT_SECONDS)
        connection.sendall(data)
        return connection


def _requests() -> Iterator[tuple[Any, ...]]:
    """Weight, expected statuses, method, path, and maybe a body and headers."""
    for weight, *paths in (
        (35, "/v1/payments/{payment}", "/v1/payments/{payment}/attempts"),
        (11, "/v1/webhooks", "/v1/chains/bsc/assets", "/checkout/{payment}", "/checkout/{payment}.json"),
        (10, "/_mock/payments?limit=50", "/_mock/requests?limit=100", "/_mock/clock"),
        (2, "/_mock/payments/{payment}/wait?status=completed&timeout=0.1"),
        (3, "/", "/swagger/", "/openapi.yaml", "/_mock/openapi.yaml", "/livez"),
    ):
        for path in paths:
            yield weight / len(paths), [200], "GET", str(path)
    for step in (b'{"to": "next"}', b'{"seconds": 3}', b'{"to": "end"}'):
        yield 3, [200, 409], "POST", "/_mock/payments/{payment}/advance", step
    yield 6, [200, 409], "POST", "/_mock/payments/{payment}/deposits", b'{"amount": "1000"}'
    yield 2, [200], "POST", "/_mock/clock/advance", b'{"seconds": 2}'
    for fault, status in (
        *(("status=503; after", 503), ("status=502; html", 502), ("delay=20; after", 200)),
        *(("drop", 0), ("reset; before", 0), ("truncate=100", 0)),
    ):
        yield 1, [status], "GET", "/v1/payments/{payment}", None, {"X-Mock-Fault": fault}
    for fault, status in (("status=503", 503), ("status=429", 429), ("delay=20", 201), ("drop", 0)):
        yield 1, [status], "POST", "/v1/payments", order_body("soak-of-a-fault"), {"X-Mock-Fault": fault}
    yield 1, [404], "GET", "/v1/payments/pay_unknown"
    yield 1, [404], "GET", "/nowhere"
    yield 1, [405], "DELETE", "/v1/payments"
    for status, body in ((400, b"{"), (422, b"{}"), (413, b" " * 70_000)):
        yield 1, [status], "POST", "/v1/payments", body
    yield 1, [401], "GET", "/v1/chains", b"", {"Authorization": "Bearer nobody"}
    yield 1, [431], "GET", "/v1/chains", b"", {"X-Big": "x" * 20_000}


_REQUESTS = [*_requests()]
_ACTIONS: Mapping[Callable[[User], None], int] = {
    User._create: 25,
    User._request_of_the_table: 80,
    User._rule: 2,
    User._garbage: 1,
    User._disconnect: 2,
}
"""Actions and their weights."""


def users(
    url: str, name: str, count: int, log: UserLog, interval: float
) -> AbstractContextManager[threading.Event]:
    """So many users, who act every `interval` seconds until the block ends."""

    def run(number: int, stop: threading.Event) -> None:
        with closing(User(url, f"{name}-{number}", log)) as user:
            while not stop.wait(interval):
                user.act()

    return threads(*(partial(run, number) for number in range(count)))
