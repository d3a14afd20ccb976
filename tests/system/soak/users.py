"""Users who do everything that the service knows, and some more, and note what surprises them."""

import http.client
import json
import socket
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.system.faults.clients import fresh_sandbox, order_of, seeded
from tests.system.hostile.crowd import HALF_A_BODY, HALF_A_HEAD

PATIENCE_SECONDS = 30.0
"""A reply that has not come by then is lost. How soon it comes is judged elsewhere: here, three servers and
their users share a machine, which may keep all of them waiting for ten seconds while it does something else.
"""

PAYMENTS = 150
"""How many payments a user creates before the sandbox is emptied: what is stored is bounded."""

STREAMS = 3
"""How many live pages a user keeps open; each new one takes the place of the oldest."""

HALF_OPEN = 5
HALF_OPEN_SECONDS = 20.0
"""After so long, the server has let go of a request that does not come to its end."""

SCENARIOS = ("happy_path", "late_payment", "underpaid_expired", "settlement_failed", None)
TARGETS = ("/", "/swagger/", "/openapi.yaml", "/_mock/openapi.yaml", "/livez")


class Surprise(NamedTuple):
    """When something was asked, when it was answered, and what was wrong with it."""

    began: float
    ended: float
    what: str


@dataclass
class Diary:
    """What the users of a server have asked, by what it was, and what they did not expect."""

    asked: Counter[str] = field(default_factory=Counter)
    surprises: list[Surprise] = field(default_factory=list)


class User:
    """One of them, with a sandbox and a connection."""

    def __init__(self, url: str, name: str, diary: Diary) -> None:
        self._address = urlsplit(url)
        self._diary = diary
        self._choice = seeded(name)
        self._sandbox = fresh_sandbox()
        self._connection = http.client.HTTPConnection(self._address.netloc, timeout=PATIENCE_SECONDS)
        self._payments: list[str] = []
        self._created = 0
        self._streams: deque[socket.socket] = deque()
        self._half_open: deque[tuple[float, socket.socket]] = deque()

    def act(self) -> None:
        """Does something."""
        if self._created >= PAYMENTS:
            self._reset()
        elif self._half_open and self._half_open[0][0] < time.monotonic() - HALF_OPEN_SECONDS:
            self._see_that_it_was_let_go(self._half_open.popleft()[1])
        else:
            [action] = self._choice.choices([*_ACTIONS], [*_ACTIONS.values()])
            action(self)

    def close(self) -> None:
        """Leaves nothing behind."""
        while self._reset() is None:
            time.sleep(1)  # it is cut off from its store
        self._connection.close()
        for connection in (*self._streams, *(one for _, one in self._half_open)):
            connection.close()

    # What is asked as it should be

    def _create(self) -> None:
        scenario = self._choice.choice(SCENARIOS)
        key, more = f"soak-{uuid.uuid4()}", {"X-Mock-Scenario": scenario} if scenario else {}
        for _ in range(self._choice.choice((1, 1, 2))):
            made = self._post("create", "/v1/payments", order_of(key), more, key, expected=(201,))
        if made:
            self._created += 1
            self._payments.append(json.loads(made)["id"])

    def _read(self) -> None:
        self._get("read", f"/v1/payments/{self._payment()}{self._choice.choice(('', '/attempts'))}")

    def _list(self) -> None:
        self._get("list", "/_mock/payments?limit=50")

    def _advance(self) -> None:
        step = self._choice.choice(({"to": "next"}, {"seconds": 3}, {"to": "end"}))
        path = f"/_mock/payments/{self._payment()}/advance"
        self._post("advance", path, json.dumps(step).encode(), expected=(200, 409))

    def _deposit(self) -> None:
        path = f"/_mock/payments/{self._payment()}/deposits"
        self._post("deposit", path, b'{"amount": "1000"}', {}, f"soak-{uuid.uuid4()}", expected=(200, 409))

    def _move_clock(self) -> None:
        self._post("clock", "/_mock/clock/advance", b'{"seconds": 2}')

    def _wait(self) -> None:
        self._get("wait", f"/_mock/payments/{self._payment()}/wait?status=completed&timeout=0.1")

    def _see_journal(self) -> None:
        self._get("journal", "/_mock/requests?limit=100")

    def _webhook(self) -> None:
        self._get("webhooks", "/v1/webhooks")
        self._get("chains", "/v1/chains/bsc/assets")

    def _checkout(self) -> None:
        self._get("checkout", f"/checkout/{self._payment()}{self._choice.choice(('', '.json'))}")

    def _page(self) -> None:
        self._get("page", self._choice.choice(TARGETS))

    def _follow(self) -> None:
        path = self._choice.choice(("/_mock/events", f"/checkout/{self._payment()}/events"))
        lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {self._sandbox}", "", ""]
        connection = self._open("\r\n".join(lines).encode())
        self._judge("follow", time.monotonic(), (200,), lambda: (int(connection.recv(4096)[9:12]), b""))
        self._streams.append(connection)
        if len(self._streams) > STREAMS:
            self._streams.popleft().close()

    def _reset(self) -> bytes | None:
        done = self._post("reset", "/_mock/reset", b"", expected=(204,))
        if done is not None:
            self._created = 0
            self._payments.clear()
        return done

    # What is not

    def _fault(self) -> None:
        fault, expected = self._choice.choice((("status=503", 503), ("status=429", 429), ("delay=20", 201)))
        key = f"soak-{uuid.uuid4()}"
        more = {"X-Mock-Fault": fault}
        self._post(f"fault {fault}", "/v1/payments", order_of(key), more, key, expected=(expected,))

    def _drop(self) -> None:
        key = f"soak-{uuid.uuid4()}"
        self._post("drop", "/v1/payments", order_of(key), {"X-Mock-Fault": "drop"}, key, expected=(0,))
        self._post("retry", "/v1/payments", order_of(key), {}, key, expected=(201,))

    def _mistake(self) -> None:
        expected, *asked = self._choice.choice(_MISTAKES)
        self._judge(f"mistake {expected}", time.monotonic(), (expected,), lambda: self._ask(*asked))

    def _garbage(self) -> None:
        with closing(self._open(b"\x16\x03\x01 no HTTP at all\r\n\r\n")) as connection:
            self._judge("garbage", time.monotonic(), (400,), lambda: (int(connection.recv(4096)[9:12]), b""))

    def _leave(self) -> None:
        self._open(self._choice.choice((b"", HALF_A_HEAD, HALF_A_BODY))).close()
        self._diary.asked["leave"] += 1

    def _do_not_end(self) -> None:
        if len(self._half_open) < HALF_OPEN:
            half = self._open(self._choice.choice((HALF_A_HEAD, HALF_A_BODY)))
            self._half_open.append((time.monotonic(), half))

    def _see_that_it_was_let_go(self, connection: socket.socket) -> None:
        def ending() -> tuple[int, bytes]:
            received = b"".join(iter(lambda: connection.recv(4096), b""))
            return int(received[9:12]), b""

        with closing(connection):
            self._judge("let go", time.monotonic(), (400,), ending)

    # How it is asked

    def _payment(self) -> str:
        while not self._payments:
            self._create()
        return self._choice.choice(self._payments[-20:])

    def _get(self, what: str, path: str) -> None:
        self._judge(what, time.monotonic(), (200,), lambda: self._ask("GET", path))

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
        return self._judge(what, time.monotonic(), expected, lambda: self._ask("POST", path, body, headers))

    def _ask(
        self, method: str, path: str, body: bytes | None = None, more: Mapping[str, str] = {}
    ) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {self._sandbox}", "Content-Type": "application/json", **more}
        try:
            self._connection.request(method, path, body, headers)
            with self._connection.getresponse() as reply:
                return reply.status, reply.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return 0, repr(error).encode()

    def _judge(
        self, what: str, began: float, expected: Sequence[int], ask: Callable[[], tuple[int, bytes]]
    ) -> bytes | None:
        """The body of the reply, if its status is one that was expected; otherwise the user is surprised."""
        self._diary.asked[what] += 1
        try:
            status, body = ask()
        except (OSError, ValueError) as error:
            status, body = 0, repr(error).encode()
        if status in expected:
            return body
        found = f"{what}: {status} {body[:150]!r}"
        self._diary.surprises.append(Surprise(began, time.monotonic(), found))
        return None

    def _open(self, sent: bytes) -> socket.socket:
        connection = socket.create_connection((self._address.hostname, self._address.port), PATIENCE_SECONDS)
        connection.sendall(sent)
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

_ACTIONS: Mapping[Callable[[User], None], int] = {
    User._create: 25,
    User._read: 35,
    User._list: 3,
    User._advance: 8,
    User._deposit: 6,
    User._move_clock: 2,
    User._wait: 2,
    User._see_journal: 3,
    User._webhook: 3,
    User._checkout: 5,
    User._page: 3,
    User._follow: 2,
    User._fault: 3,
    User._drop: 1,
    User._mistake: 5,
    User._garbage: 1,
    User._leave: 2,
    User._do_not_end: 2,
}
"""What users do, and how often."""


@contextmanager
def users(url: str, name: str, many: int, diary: Diary, each_seconds: float) -> Iterator[None]:
    """So many users, who act every so often, until the block ends. Raises what one of them has raised."""
    enough = threading.Event()

    def live(number: int) -> None:
        with closing(User(url, f"{name}-{number}", diary)) as user:
            while not enough.wait(each_seconds):
                user.act()

    with ThreadPoolExecutor(many) as pool:
        living = [pool.submit(live, number) for number in range(many)]
        try:
            yield
        finally:
            enough.set()
        for one in living:
            one.result()
