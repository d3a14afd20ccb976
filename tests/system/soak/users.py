"""Users who call every operation, also in wrong ways, and record unexpected replies."""

import http.client
import json
import socket
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

from harness.api_client import request_headers
from tests.system.faults.clients import new_api_key, order_body, seeded_random, threads
from tests.system.hostile.slow_clients import HALF_A_BODY, HALF_A_HEAD

TIMEOUT_SECONDS = 60.0
"""After this time a request counts as hanging. Latency is measured elsewhere."""

PAYMENTS = 150
"""A user resets the sandbox after so many creations, so that the stored data is bounded."""

STREAMS = 3
"""The event streams that a user keeps open; a new one replaces the oldest."""

HALF_OPEN = 5
HALF_OPEN_SECONDS = 20.0
"""After this time the server has closed the connection of an incomplete request."""

SCENARIOS = ("happy_path", "late_payment", "underpaid_expired", "settlement_failed", None)


class UnexpectedReply(NamedTuple):
    """The times of a request and its reply, and what was unexpected."""

    started: float
    ended: float
    text: str


@dataclass
class UserLog:
    """The requests of all users of a server, by kind, and unexpected replies."""

    requests: Counter[str] = field(default_factory=Counter)
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
        self._streams: deque[socket.socket] = deque()
        self._half_open: deque[tuple[float, socket.socket]] = deque()

    def act(self) -> None:
        if self._created >= PAYMENTS:
            self._reset()
        elif self._half_open and self._half_open[0][0] < time.monotonic() - HALF_OPEN_SECONDS:
            self._check_disconnected(self._half_open.popleft()[1])
        else:
            [action] = self._choice.choices([*_ACTIONS], [*_ACTIONS.values()])
            action(self)

    def close(self) -> None:
        while self._reset() is None:
            time.sleep(1)  # the server is cut off from its store
        self._connection.close()
        for connection in (*self._streams, *(connection for _, connection in self._half_open)):
            connection.close()

    # Valid requests

    def _create(self) -> None:
        scenario = self._choice.choice(SCENARIOS)
        key, more = f"soak-{uuid.uuid4()}", {"X-Mock-Scenario": scenario} if scenario else {}
        for _ in range(self._choice.choice((1, 1, 2))):
            reply = self._post("create", "/v1/payments", order_body(key), more, key, expected=(201,))
        if reply:
            self._created += 1
            self._payments.append(json.loads(reply)["id"])

    def _read(self) -> None:
        [what] = self._choice.choices([*_READS], [weight for weight, *_ in _READS.values()])
        _, *paths = _READS[what]
        path = str(self._choice.choice(paths)).format(payment=self._payment())
        self._check(what, time.monotonic(), (200,), lambda: self._request("GET", path))

    def _advance(self) -> None:
        step = self._choice.choice(({"to": "next"}, {"seconds": 3}, {"to": "end"}))
        path = f"/_mock/payments/{self._payment()}/advance"
        self._post("advance", path, json.dumps(step).encode(), expected=(200, 409))

    def _deposit(self) -> None:
        path = f"/_mock/payments/{self._payment()}/deposits"
        self._post("deposit", path, b'{"amount": "1000"}', {}, f"soak-{uuid.uuid4()}", expected=(200, 409))

    def _advance_clock(self) -> None:
        self._post("clock", "/_mock/clock/advance", b'{"seconds": 2}')

    def _open_stream(self) -> None:
        path = self._choice.choice(("/_mock/events", f"/checkout/{self._payment()}/events"))
        lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {self._api_key}", "", ""]
        connection = self._open("\r\n".join(lines).encode())
        self._check("stream", time.monotonic(), (200,), lambda: (int(connection.recv(4096)[9:12]), b""))
        self._streams.append(connection)
        if len(self._streams) > STREAMS:
            self._streams.popleft().close()

    def _reset(self) -> bytes | None:
        reply = self._post("reset", "/_mock/reset", b"", expected=(204,))
        if reply is not None:
            self._created = 0
            self._payments.clear()
        return reply

    # Faults, mistakes and disconnects

    def _fault(self) -> None:
        fault, expected = self._choice.choice((("status=503", 503), ("status=429", 429), ("delay=20", 201)))
        key = f"soak-{uuid.uuid4()}"
        more = {"X-Mock-Fault": fault}
        self._post(f"fault {fault}", "/v1/payments", order_body(key), more, key, expected=(expected,))

    def _drop(self) -> None:
        key = f"soak-{uuid.uuid4()}"
        self._post("drop", "/v1/payments", order_body(key), {"X-Mock-Fault": "drop"}, key, expected=(0,))
        self._post("retry", "/v1/payments", order_body(key), {}, key, expected=(201,))

    def _fault_by_rule(self) -> None:
        key = f"soak-{uuid.uuid4()}"
        fault, expected = self._choice.choice(_FAULTS_OF_READS)
        rule = json.dumps({"fault": fault, "operation": "getPayment", "order_id": key}).encode()
        created = self._post("create", "/v1/payments", order_body(key), {}, key, expected=(201,))
        if not (created and self._post("rule", "/_mock/faults", rule, expected=(201,))):
            return
        self._created += 1
        path = f"/v1/payments/{json.loads(created)['id']}"
        for status in (expected, 200):
            self._check(f"rule {fault}", time.monotonic(), (status,), lambda: self._request("GET", path))
        self._check("rules", time.monotonic(), (204,), lambda: self._request("DELETE", "/_mock/faults"))

    def _mistake(self) -> None:
        expected, *request = self._choice.choice(_MISTAKES)
        self._check(f"mistake {expected}", time.monotonic(), (expected,), lambda: self._request(*request))

    def _garbage(self) -> None:
        with closing(self._open(b"\x16\x03\x01 no HTTP at all\r\n\r\n")) as connection:
            self._check("garbage", time.monotonic(), (400,), lambda: (int(connection.recv(4096)[9:12]), b""))

    def _disconnect(self) -> None:
        self._open(self._choice.choice((b"", HALF_A_HEAD, HALF_A_BODY))).close()
        self._log.requests["disconnect"] += 1

    def _leave_incomplete(self) -> None:
        if len(self._half_open) < HALF_OPEN:
            half = self._open(self._choice.choice((HALF_A_HEAD, HALF_A_BODY)))
            self._half_open.append((time.monotonic(), half))

    def _check_disconnected(self, connection: socket.socket) -> None:
        def read_refusal() -> tuple[int, bytes]:
            received = b"".join(iter(lambda: connection.recv(4096), b""))
            return int(received[9:12]), b""

        with closing(connection):
            self._check("incomplete", time.monotonic(), (400,), read_refusal)

    # Transport

    def _payment(self) -> str:
        while not self._payments:
            self._create()
        return self._choice.choice(self._payments[-20:])

    def _post(
        self,
        what: str,
        path: str,
        body: bytes,
        more: Mapping[str, str] = {},
        key: str = "soak-without-a-key",
        *,
        expected: Sequence[int] = (200,),
    ) -> bytes | None:
        headers = {"Idempotency-Key": key, **more}
        return self._check(
            what, time.monotonic(), expected, lambda: self._request("POST", path, body, headers)
        )

    def _request(
        self, method: str, path: str, body: bytes | None = None, more: Mapping[str, str] = {}
    ) -> tuple[int, bytes]:
        headers = request_headers(more, self._api_key)
        try:
            self._connection.request(method, path, body, headers)
            with self._connection.getresponse() as reply:
                return reply.status, reply.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return 0, repr(error).encode()

    def _check(
        self, what: str, started: float, expected: Sequence[int], send: Callable[[], tuple[int, bytes]]
    ) -> bytes | None:
        """The body of the reply if its status is expected. Otherwise the reply is recorded."""
        self._log.requests[what] += 1
        try:
            status, body = send()
        except (OSError, ValueError) as error:
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


_MISTAKES = (
    (404, "GET", "/v1/payments/pay_unknown"),
    (404, "GET", "/nowhere"),
    (405, "DELETE", "/v1/payments"),
    (400, "POST", "/v1/payments", b"{", {"Idempotency-Key": "soak-mistake"}),
    (422, "POST", "/v1/payments", b"{}", {"Idempotency-Key": "soak-mistake"}),
    (413, "POST", "/v1/payments", b" " * 70_000, {"Idempotency-Key": "soak-mistake"}),
    (401, "GET", "/v1/chains", None, {"Authorization": "Bearer nobody"}),
    (431, "GET", "/v1/chains", None, {"X-Big": "x" * 20_000}),
)

_FAULTS_OF_READS = (
    ("status=503; after", 503),
    ("status=502; html", 502),
    ("delay=20; after", 200),
    ("drop", 0),
    ("reset; before", 0),
    ("truncate=100", 0),
)

_READS: Mapping[str, tuple[int, *tuple[str, ...]]] = {
    "read": (35, "/v1/payments/{payment}", "/v1/payments/{payment}/attempts"),
    "list": (3, "/_mock/payments?limit=50"),
    "wait": (2, "/_mock/payments/{payment}/wait?status=completed&timeout=0.1"),
    "journal": (3, "/_mock/requests?limit=100"),
    "resources": (6, "/v1/webhooks", "/v1/chains/bsc/assets"),
    "checkout": (5, "/checkout/{payment}", "/checkout/{payment}.json"),
    "page": (3, "/", "/swagger/", "/openapi.yaml", "/_mock/openapi.yaml", "/livez"),
}
"""By what is read: the weight, and the paths."""

_ACTIONS: Mapping[Callable[[User], None], int] = {
    User._create: 25,
    User._read: 57,
    User._advance: 8,
    User._deposit: 6,
    User._advance_clock: 2,
    User._open_stream: 2,
    User._fault: 3,
    User._drop: 1,
    User._fault_by_rule: 3,
    User._mistake: 5,
    User._garbage: 1,
    User._disconnect: 2,
    User._leave_incomplete: 2,
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
