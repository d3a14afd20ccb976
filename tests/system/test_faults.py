"""What `python -m tests.system.faults` proves at length, in short; and that its checks can fail."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from harness.tcp_proxy import PASS_THROUGH, Behavior, Mode, tcp_proxy
from tests.system.faults.checks import violations
from tests.system.faults.crowds import STORES as CROWDED
from tests.system.faults.crowds import Reply, crowded, judge
from tests.system.faults.cuts import CUTS, severed
from tests.system.faults.history import Event, Kind, Listed
from tests.system.faults.kills import CASES, FORGETFUL, Case, killed
from tests.system.faults.mixture import STORES as MIXED
from tests.system.faults.mixture import mixed
from tests.system.faults.nodes import bereaved

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find workers")

PATIENCE = 30
SEED = 20_261


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kill_9_under_load_loses_nothing_and_doubles_nothing(case: Case, tmp_path: Path) -> None:
    outcome = killed(case, 2, SEED, tmp_path)
    assert not outcome.violations
    assert outcome.rounds == 2
    assert outcome.acknowledged
    assert outcome.unknown


def test_the_checks_notice_an_engine_that_forgets(tmp_path: Path) -> None:
    found = " ".join(killed(FORGETFUL, 1, SEED, tmp_path).violations)
    assert "lost, and done anew after it was acknowledged" in found
    assert "the replies differ" in found


@pytest.mark.parametrize("name", CUTS)
def test_a_cut_from_redis_refuses_in_time_and_loses_nothing(name: str, tmp_path: Path) -> None:
    silent = CUTS[name].way.mode in (
        Mode.BLACK_HOLE,
        Mode.DELAY,
    )  # so that a request behind another ends, too
    # A batch behind another takes 1.8 seconds, and a third would make that 2.7: a busy machine gets the rest.
    outcome = severed(name, 1, 2.2 if silent else 0.6, SEED, tmp_path, patience=2.4)
    assert not outcome.violations
    assert outcome.refused
    assert max(outcome.recoveries) < 2
    if "commits" in name:
        assert outcome.stored


def test_a_dead_node_of_the_cluster_is_noticed_by_its_own_sandboxes_alone(tmp_path: Path) -> None:
    outcome = bereaved(1, 2.5, tmp_path)
    assert not outcome.violations
    assert outcome.served
    assert outcome.refused


@pytest.mark.parametrize("name", CROWDED)
def test_500_identical_creations_on_two_servers_make_one_payment(name: str, tmp_path: Path) -> None:
    outcome = crowded(name, 2, tmp_path)
    assert not outcome.violations
    assert outcome.replies == 1000


@pytest.mark.parametrize("name", MIXED)
def test_a_random_history_with_random_faults_holds_together(name: str, tmp_path: Path) -> None:
    outcome = mixed(name, 3, SEED, tmp_path)
    assert not outcome.violations, f"seed {SEED}: {outcome.violations}"
    assert outcome.faults


# The checks themselves

FIRST, LATER = "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:05.000Z"


def event(kind: Kind, at: float, status: int, body: bytes = b"", **more: object) -> Event:
    """A request that took a second."""
    return Event(kind, at, at + 1, status, body, **more)  # type: ignore[arg-type]


def shown(status: str = "awaiting_payment", at: str = FIRST, *amounts: int, name: str = "pay_1") -> bytes:
    deposits = ", ".join(f'{{"amount": "{amount}"}}' for amount in amounts)
    return (
        f'{{"id": "{name}", "status": "{status}", "updated_at": "{at}", '
        f'"attempts": [{{"deposits": [{deposits}]}}]}}'
    ).encode()


def created(at: float, **more: object) -> Event:
    details = {"key": "order-1", "wanted": "1", "body": shown(), **more}
    return event(Kind.CREATE, at, 201, **details)  # type: ignore[arg-type]


def read(at: float, body: bytes, status: int = 200) -> Event:
    return event(Kind.READ, at, status, body, payment="pay_1")


def paid(at: float, status: int = 200, **more: object) -> Event:
    body = shown("payment_detected", LATER, 7) if status == 200 else refusal()
    details = {"payment": "pay_1", "key": "deposit-1", "wanted": "7", "retry_after": "1", **more}
    return event(Kind.DEPOSIT, at, status, body, **details)


def refusal(code: str = "store_unavailable") -> bytes:
    return f'{{"error": {{"code": "{code}"}}}}'.encode()


LISTED = [Listed("pay_1", "order-1")]
CONFLICT = "idempotency_key_reused_with_different_payload"
GOOD = [
    event(Kind.CREATE, 0, 0, key="order-1", wanted="1"),
    event(Kind.CREATE, 1, 503, refusal(), key="order-1", wanted="2", retry_after="1"),
    created(2),
    created(2.5, replayed=True),
    event(Kind.CREATE, 4, 409, refusal(CONFLICT), key="order-1", wanted="2"),
    read(4, shown()),
    paid(5, 503),
    paid(7),
    paid(9, replayed=True),
    read(11, shown("payment_detected", LATER, 7)),
]


def test_a_history_that_can_be_is_no_violation() -> None:
    assert violations(GOOD, LISTED) == []


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        (created(20, body=shown(name="pay_2"), replayed=True), "the replies differ"),
        (created(2), "done 2 times"),
        (created(20), "lost, and done anew after it was acknowledged"),
        (created(20, wanted="2", replayed=True), "2 different bodies were accepted"),
        (
            event(Kind.CREATE, 20, 409, refusal(CONFLICT), key="order-1", wanted="1"),
            "was refused as different",
        ),
        (event(Kind.CREATE, 20, 0, key="order-2", wanted="1"), "no retry was acknowledged"),
        (event(Kind.CREATE, 20, 500, b"", key="order-1", wanted="1"), "status 500"),
        (event(Kind.CREATE, 20, 503, refusal(), key="order-1", wanted="1"), "503 without Retry-After"),
        (event(Kind.READ, 20, 503, refusal("capacity_exceeded"), retry_after="1"), "503 capacity_exceeded"),
        (read(20, b"", 404), "404 after it was acknowledged"),
        (read(20, shown()), f"back from {LATER}"),
        (read(20, shown("awaiting_payment", "2026-01-02T00:00:00.000Z", 7)), "back from payment_detected"),
        (read(20, shown("payment_detected", LATER, 7, 8)), "two states of"),
        (read(20, shown("payment_finalized", "2026-01-02T00:00:00.000Z", 7, 7)), "counts 2 times"),
        (read(20, shown("payment_finalized", "2026-01-02T00:00:00.000Z")), "the deposit of 7 was lost"),
        (paid(20), "deposit deposit-1: done 2 times"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_forged_history_is_found_out(bad: Event, found: str) -> None:
    assert [violation for violation in violations([*GOOD, bad], LISTED) if found in violation]


@pytest.mark.parametrize(
    ("listing", "found"),
    [
        ([], "pay_1 is not listed"),
        ([*LISTED, *LISTED], "listed 2 times"),
        ([*LISTED, Listed("pay_2", "order-1")], "2 payments are listed"),
        ([*LISTED, Listed("pay_2", "order-2")], "nobody has asked for it"),
    ],
)
def test_a_forged_list_is_found_out(listing: list[Listed], found: str) -> None:
    assert [violation for violation in violations(GOOD, listing) if found in violation]


def test_time_that_runs_backwards_is_found_out() -> None:
    clocks = [
        event(Kind.CLOCK, at, 200, f'{{"now": "{now}"}}'.encode()) for at, now in ((0, LATER), (2, FIRST))
    ]
    assert violations(clocks) == [f"clock: back from {LATER} to {FIRST}"]


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        (Reply(503, replayed=False, body=b"{}"), "1 replies of 3 were no 201"),
        (Reply(201, replayed=False, body=b"{}"), "created 2 times"),
        (Reply(201, replayed=True, body=b"{ }"), "the replies differ"),
    ],
)
def test_a_forged_crowd_is_found_out(reply: Reply, found: str) -> None:
    good = [Reply(201, replayed=False, body=b"{}"), Reply(201, replayed=True, body=b"{}")]
    assert not [*judge("key", good)]
    assert found in " ".join(judge("key", [*good, reply]))


# The proxy itself


@contextmanager
def echo() -> Iterator[int]:
    """The port of an engine that answers with what it is told."""
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
    thread.join(5)


def test_the_proxy_does_what_its_mode_says() -> None:
    with echo() as port, tcp_proxy(port) as proxy:

        def asked(connection: socket.socket, text: bytes) -> bytes:
            connection.sendall(text)
            return connection.recv(1024)

        def answered(connection: socket.socket, text: bytes) -> bool:
            connection.settimeout(0.3)
            try:
                return asked(connection, text) == text
            except TimeoutError:
                return False
            finally:
                connection.settimeout(PATIENCE)

        def connection() -> socket.socket:
            return socket.create_connection(("127.0.0.1", proxy.port), PATIENCE)

        with connection() as link:
            assert asked(link, b"passes") == b"passes"
            proxy.set(Behavior(Mode.BLACK_HOLE))
            assert not answered(link, b"held")
            proxy.set(PASS_THROUGH)
            assert link.recv(1024) == b"held"
            proxy.set(Behavior(Mode.DELAY, delay=5, pattern=b"late"))
            assert asked(link, b"in time") == b"in time"
            assert not answered(link, b"late")
            proxy.set(PASS_THROUGH)
            assert link.recv(1024) == b"late"
            proxy.set(Behavior(Mode.DROP_REPLY, pattern=b"lost"))
            assert asked(link, b"spared") == b"spared"
            assert asked(link, b"lost") == b""
        proxy.set(PASS_THROUGH)
        with connection() as link:
            assert asked(link, b"again") == b"again"
            proxy.set(Behavior(Mode.RESET))
            with pytest.raises(ConnectionError):
                asked(link, b"reset")
