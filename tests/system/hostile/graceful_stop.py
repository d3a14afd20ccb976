"""Stop of a busy server: requests in progress, incomplete requests, and requests that wait."""

import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from harness.api_client import call
from harness.polling import wait_until
from harness.redis_engine import DURABLE
from harness.server_process import ServerProcess, server_process, servers_on_one_port
from paymock.server.server import GRACE_SECONDS
from tests.system.faults.clients import Client, client_threads, new_api_key
from tests.system.faults.history import CREATED, NO_REPLY, History
from tests.system.faults.restartable_server import new_store
from tests.system.faults.verification import Result, acknowledged, replay, retry, unacknowledged, verify
from tests.system.hostile.slow_clients import HALF_A_BODY, HALF_A_HEAD

IN_PROGRESS = 100
"""The number of clients that create payments, one after another, each of which takes DELAY_SECONDS."""

DELAY_SECONDS = 1.0
MIDDLE_SECONDS = 0.3
"""After this time since a client's last reply, its next creation is in progress."""

HALF_OPEN = 100
WAITING = 20
MAX_SECONDS = 5.0


class Case(NamedTuple):
    """A store, and the number of servers on one port, of which one is stopped."""

    store: str
    servers: int

    @property
    def name(self) -> str:
        return f"{self.store}, {'one of two servers' if self.servers > 1 else 'one server'}"


CASES = (Case("SQLite", 1), Case("SQLite", 2), Case("Redis", 1), Case("Redis", 2))


@dataclass
class StopResult(Result):
    """The duration of the stop, the payments acknowledged before it and during it, and the requests that
    came later, while another server had the port, and got no reply.
    """

    seconds: float = 0.0
    before: int = 0
    during: int = 0
    reset: int = 0


def stop_busy_server(case: Case, folder: Path) -> StopResult:
    """Send SIGTERM to a busy server, start one again, and check that nothing acknowledged is lost."""
    result, history, api_key = StopResult(case.name), History(), new_api_key()
    first, second = folder / "first", folder / "second"  # with a ready file each
    first.mkdir()
    second.mkdir()
    with new_store(case.store, folder, *DURABLE) as store:
        arguments = ("--store", store, "--no-access-log")
        with servers_on_one_port(first, case.servers, *arguments) as [server, *others]:
            _stop(server, api_key, history, result, goes_on=bool(others))
        with server_process(second, *arguments) as server:
            call(server.url, api_key, "DELETE", "/_mock/faults")
            events = history.since()
            replay(result, [server.url], api_key, history, acknowledged(events))
            retry(result, [server.url], api_key, history, unacknowledged(events))
            verify(result, server.url, api_key, history)
    return result


def _stop(
    server: ServerProcess, api_key: str, history: History, result: StopResult, *, goes_on: bool
) -> None:
    def work(client: Client, number: int, stop: threading.Event) -> None:
        count = 0
        while client.create(server.url, f"stop-{number}-{count}").status == CREATED and not stop.is_set():
            count += 1

    with closing(Client(api_key, history)) as client:
        client.create(server.url, "stop-first")
    fault = {"fault": f"delay={DELAY_SECONDS * 1000:.0f}", "operation": "createPayment", "times": None}
    call(server.url, api_key, "POST", "/_mock/faults", fault)
    with _open_requests(server.port, api_key), client_threads(IN_PROGRESS, work, api_key, history):
        wait_until(lambda: len(history) > IN_PROGRESS)
        time.sleep(MIDDLE_SECONDS)
        result.before, stopped_at = len(history), time.monotonic()
        status, _ = server.stop(signal.SIGTERM)
        result.seconds = time.monotonic() - stopped_at
    in_progress = [event for event in history.since() if event.started < stopped_at < event.ended]
    later = [event for event in history.since() if event.started > stopped_at]
    result.reset = sum(event.status == NO_REPLY for event in later) if goes_on else 0
    result.during = sum(event.status == CREATED for event in in_progress)
    if status != 0:
        result.violations.append(f"exit status {status}")
    if result.seconds > MAX_SECONDS:
        result.late.append(f"the stop took {result.seconds:.1f} s")
    lost = sum(event.status == NO_REPLY for event in in_progress)
    if lost:
        # After the grace period, the server closes connections without a reply.
        violations = result.violations if result.seconds < GRACE_SECONDS else result.late
        violations.append(f"{lost} of {len(in_progress)} requests in progress got no reply")


@contextmanager
def _open_requests(port: int, api_key: str) -> Iterator[None]:
    path, authorization = "/_mock/requests/wait?count=99&timeout=60", f"Authorization: Bearer {api_key}_idle"
    waiting = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}\r\n\r\n"
    with ExitStack() as stack:
        for data in (*(HALF_A_HEAD, HALF_A_BODY) * (HALF_OPEN // 2), *[waiting.encode()] * WAITING):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
            connection.sendall(data)
        yield
