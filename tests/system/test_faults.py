"""Short forms of `python -m tests.system.faults`, and tests of its checks and of the proxy.

Violations of time limits, which a busy machine can cause, are judged by the long form alone.
"""

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from harness.tcp_proxy import PASS_THROUGH, Behavior, Mode, TcpProxy, tcp_proxy
from tests.system.faults import concurrent_creations, random_faults
from tests.system.faults.checks import violations
from tests.system.faults.concurrent_creations import Reply, check_replies, create_concurrently
from tests.system.faults.connection_cuts import CUTS, cut_connections
from tests.system.faults.history import Event, Kind, ListedPayment
from tests.system.faults.node_failures import kill_nodes
from tests.system.faults.random_faults import inject_faults
from tests.system.faults.server_kills import CASES, VOLATILE, Case, kill_servers

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find workers")

TIMEOUT_SECONDS = 60
SEED = 20_261
NEEDS_REDIS = pytest.mark.redis


def with_markers(names: Iterable[str]) -> list[Any]:
    """Parameters by the name of a store, with a marker where it is Redis."""
    return [pytest.param(name, marks=[NEEDS_REDIS] * name.startswith("Redis")) for name in names]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=[NEEDS_REDIS] * bool(case.engine)) for case in CASES]
)
def test_kill_9_under_load_loses_and_duplicates_nothing(case: Case, tmp_path: Path) -> None:
    result = kill_servers(case, 1, SEED, tmp_path)
    assert not result.violations
    assert result.acknowledged
    assert result.unknown


@pytest.mark.redis
def test_the_checks_detect_an_engine_that_loses_data(tmp_path: Path) -> None:
    found = " ".join(kill_servers(VOLATILE, 1, SEED, tmp_path).violations)
    assert "lost, and executed again after it was acknowledged" in found
    assert "the replies differ" in found


@pytest.mark.redis
@pytest.mark.parametrize("name", CUTS)
def test_a_server_without_redis_refuses_and_loses_nothing(name: str, tmp_path: Path) -> None:
    result = cut_connections(name, 1, 0, SEED, tmp_path)
    assert not result.violations
    assert result.refused
    if "commits" in name:
        assert result.stored


@pytest.mark.redis
def test_a_killed_cluster_node_affects_only_its_own_sandboxes(tmp_path: Path) -> None:
    result = kill_nodes(1, 0, tmp_path)
    assert not result.violations
    assert result.served
    assert result.refused


@pytest.mark.parametrize("name", with_markers(concurrent_creations.STORES))
def test_500_identical_creations_on_two_servers_create_one_payment(name: str, tmp_path: Path) -> None:
    result = create_concurrently(name, 2, tmp_path)
    assert not result.violations
    assert result.replies == 1000


@pytest.mark.parametrize("name", with_markers(random_faults.STORES))
def test_random_requests_and_faults_give_a_consistent_history(name: str, tmp_path: Path) -> None:
    result = inject_faults(name, 3, SEED, tmp_path)
    assert not result.violations, f"seed {SEED}: {result.violations}"
    assert result.faults


# The checks

FIRST, LATER = "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:05.000Z"


def event(kind: Kind, at: float, status: int, body: bytes = b"", **more: object) -> Event:
    """A request that took a second."""
    return Event(kind, at, at + 1, status, body, **more)  # type: ignore[arg-type]


def payment_body(
    status: str = "awaiting_payment", at: str = FIRST, *amounts: int, name: str = "pay_1"
) -> bytes:
    deposits = ", ".join(f'{{"amount": "{amount}"}}' for amount in amounts)
    return (
        f'{{"id": "{name}", "status": "{status}", "updated_at": "{at}", '
        f'"attempts": [{{"deposits": [{deposits}]}}]}}'
    ).encode()


def created(at: float, **more: object) -> Event:
    details = {"key": "order-1", "amount": "1", "body": payment_body(), **more}
    return event(Kind.CREATE, at, 201, **details)  # type: ignore[arg-type]


def read(at: float, body: bytes, status: int = 200) -> Event:
    return event(Kind.READ, at, status, body, payment="pay_1")


def deposit(at: float, status: int = 200, **more: object) -> Event:
    body = payment_body("payment_detected", LATER, 7) if status == 200 else refusal()
    details = {"payment": "pay_1", "key": "deposit-1", "amount": "7", "retry_after": "1", **more}
    return event(Kind.DEPOSIT, at, status, body, **details)


def refusal(code: str = "store_unavailable") -> bytes:
    return f'{{"error": {{"code": "{code}"}}}}'.encode()


LISTED = [ListedPayment("pay_1", "order-1")]
CONFLICT = "idempotency_key_reused_with_different_payload"
CONSISTENT = [
    event(Kind.CREATE, 0, 0, key="order-1", amount="1"),
    event(Kind.CREATE, 1, 503, refusal(), key="order-1", amount="2", retry_after="1"),
    created(2),
    created(2.5, replayed=True),
    event(Kind.CREATE, 4, 409, refusal(CONFLICT), key="order-1", amount="2"),
    read(4, payment_body()),
    deposit(5, 503),
    deposit(7),
    deposit(9, replayed=True),
    read(11, payment_body("payment_detected", LATER, 7)),
]


def test_a_consistent_history_has_no_violations() -> None:
    assert violations(CONSISTENT, LISTED) == []


@pytest.mark.parametrize(
    ("inconsistent", "expected"),
    [
        (created(20, body=payment_body(name="pay_2"), replayed=True), "the replies differ"),
        (created(2), "executed 2 times"),
        (created(20), "lost, and executed again after it was acknowledged"),
        (created(20, amount="2", replayed=True), "2 different bodies were accepted"),
        (
            event(Kind.CREATE, 20, 409, refusal(CONFLICT), key="order-1", amount="1"),
            "was refused as different",
        ),
        (event(Kind.CREATE, 20, 0, key="order-2", amount="1"), "no retry was acknowledged"),
        (event(Kind.CREATE, 20, 500, b"", key="order-1", amount="1"), "status 500"),
        (event(Kind.CREATE, 20, 503, refusal(), key="order-1", amount="1"), "503 without Retry-After"),
        (event(Kind.READ, 20, 503, refusal("capacity_exceeded"), retry_after="1"), "503 capacity_exceeded"),
        (read(20, b"", 404), "404 after it was acknowledged"),
        (read(20, payment_body()), f"back from {LATER}"),
        (
            read(20, payment_body("awaiting_payment", "2026-01-02T00:00:00.000Z", 7)),
            "back from payment_detected",
        ),
        (read(20, payment_body("payment_detected", LATER, 7, 8)), "two states of"),
        (read(20, payment_body("payment_finalized", "2026-01-02T00:00:00.000Z", 7, 7)), "counts 2 times"),
        (
            read(20, payment_body("payment_finalized", "2026-01-02T00:00:00.000Z")),
            "the deposit of 7 was lost",
        ),
        (deposit(20), "deposit deposit-1: executed 2 times"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_inconsistent_history_is_detected(inconsistent: Event, expected: str) -> None:
    assert [
        violation for violation in violations([*CONSISTENT, inconsistent], LISTED) if expected in violation
    ]


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        ([], "pay_1 is not listed"),
        ([*LISTED, *LISTED], "listed 2 times"),
        ([*LISTED, ListedPayment("pay_2", "order-1")], "2 payments are listed"),
        ([*LISTED, ListedPayment("pay_2", "order-2")], "no request has created it"),
    ],
)
def test_an_inconsistent_list_is_detected(listing: list[ListedPayment], expected: str) -> None:
    assert [violation for violation in violations(CONSISTENT, listing) if expected in violation]


def test_time_that_runs_backwards_is_detected() -> None:
    clocks = [
        event(Kind.CLOCK, at, 200, f'{{"now": "{now}"}}'.encode()) for at, now in ((0, LATER), (2, FIRST))
    ]
    assert violations(clocks) == [f"clock: back from {LATER} to {FIRST}"]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(503, replayed=False, body=b"{}"), "1 replies of 3 were not 201"),
        (Reply(201, replayed=False, body=b"{}"), "created 2 times"),
        (Reply(201, replayed=True, body=b"{ }"), "the replies differ"),
    ],
)
def test_inconsistent_replies_to_identical_creations_are_detected(reply: Reply, expected: str) -> None:
    good = [Reply(201, replayed=False, body=b"{}"), Reply(201, replayed=True, body=b"{}")]
    assert not [*check_replies("key", good)]
    assert expected in " ".join(check_replies("key", [*good, reply]))


# The proxy


@contextmanager
def echo() -> Iterator[int]:
    """The port of a server that replies with what it receives."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection, suppress(ConnectionError):
                    while data := connection.recv(1024):
                        connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(TIMEOUT_SECONDS)


def connect(proxy: TcpProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), TIMEOUT_SECONDS)


def send(connection: socket.socket, text: bytes) -> bytes:
    """The reply."""
    connection.sendall(text)
    return connection.recv(1024)


def test_a_proxy_forwards_delays_and_holds_back_data() -> None:
    with echo() as port, tcp_proxy(port) as proxy, connect(proxy) as connection:
        assert send(connection, b"forwarded") == b"forwarded"
        for behavior in (Behavior(Mode.BLACK_HOLE), Behavior(Mode.DELAY, delay=600, pattern=b"held")):
            proxy.set(behavior)
            connection.sendall(b"held")
            connection.settimeout(0.1)
            with pytest.raises(TimeoutError):
                connection.recv(1024)
            connection.settimeout(TIMEOUT_SECONDS)
            proxy.set(PASS_THROUGH)
            assert connection.recv(1024) == b"held"
        proxy.set(Behavior(Mode.DELAY, delay=600, pattern=b"other"))
        assert send(connection, b"not matched") == b"not matched"


def test_a_proxy_drops_replies_and_resets_connections() -> None:
    with echo() as port, tcp_proxy(port) as proxy:
        with connect(proxy) as connection:
            proxy.set(Behavior(Mode.DROP_REPLY, pattern=b"lost"))
            assert send(connection, b"not matched") == b"not matched"
            assert send(connection, b"lost") == b""
        proxy.set(PASS_THROUGH)
        with connect(proxy) as connection:
            assert send(connection, b"again") == b"again"
            proxy.set(Behavior(Mode.RESET))
            with pytest.raises(ConnectionError):
                send(connection, b"reset")
