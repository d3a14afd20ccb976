"""A stop in the middle of everything: requests in progress, requests that do not end, live pages."""

import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.load import Running
from benchmarks.pages import asked, opened
from harness.polling import wait_until
from harness.redis_engine import DURABLE, redis_server
from harness.server_process import ServerProcess, server_process
from tests.system.faults.checks import CREATED
from tests.system.faults.clients import Client, crew, fresh_sandbox
from tests.system.faults.history import NO_REPLY, History
from tests.system.faults.settling import acknowledged, judged, replay, retry, unacknowledged
from tests.system.hostile.crowd import HALF_A_BODY, HALF_A_HEAD

IN_PROGRESS = 100
"""How many clients create payments, one after another, each of which takes DELAY_SECONDS."""

DELAY_SECONDS = 1.0
MIDDLE_SECONDS = 0.3
"""How long after a creation has been answered the next one of the same client is in progress for certain."""

HALF_OPEN = 100
PAGES = 20
MOST_SECONDS = 5.0


class Case(NamedTuple):
    """A store and so many processes."""

    store: str
    workers: int

    @property
    def name(self) -> str:
        """For a table, or a test."""
        return f"{self.store}, {self.workers} worker{'s' * (self.workers > 1)}"


CASES = (Case("SQLite", 1), Case("SQLite", 2), Case("Redis", 1), Case("Redis", 2))


@dataclass
class Stopped:
    """What came of a stop: the seconds that it took, the payments acknowledged before it and during it."""

    name: str
    seconds: float = 0.0
    before: int = 0
    during: int = 0
    violations: list[str] = field(default_factory=list)


def stopped(case: Case, folder: Path) -> Stopped:
    """SIGTERM to a busy server; it is started again to see what was kept."""
    outcome, history, sandbox = Stopped(case.name), History(), fresh_sandbox()
    with _store(case, folder) as url:
        arguments = ("--store", url, "--workers", str(case.workers), "--no-access-log")
        with _started(folder / "first", arguments) as served:
            _stop(served, sandbox, history, outcome)
        with _started(folder / "second", arguments) as served:
            asked(served.url, sandbox, "DELETE", "/_mock/next")
            events = history.since()
            outcome.violations += replay([served.url], sandbox, history, acknowledged(events))
            outcome.violations += retry([served.url], sandbox, history, unacknowledged(events))
            outcome.violations += judged(served.url, sandbox, history)
    return outcome


def _stop(served: ServerProcess, sandbox: str, history: History, outcome: Stopped) -> None:
    def work(client: Client, number: int, enough: threading.Event) -> None:
        count = 0
        while client.create(served.url, f"stop-{number}-{count}").status == CREATED:
            count += 1

    with closing(Client(sandbox, history)) as client:
        payment = client.create(served.url, "stop-first").payment_id
    fault = {"fault": f"delay={DELAY_SECONDS * 1000:.0f}", "times": None}
    asked(served.url, sandbox, "POST", "/_mock/next", fault)
    pages = [(sandbox, "/_mock/events"), (sandbox, f"/checkout/{payment}/events")] * (PAGES // 2)
    server = Running(served.url, served.process.pid)
    with opened(server, pages), _half_open(served.port), crew(IN_PROGRESS, work, sandbox, history):
        wait_until(lambda: len(history) > IN_PROGRESS, 10 * DELAY_SECONDS)
        time.sleep(MIDDLE_SECONDS)
        outcome.before, asked_at = len(history), time.monotonic()
        status, _ = served.stop(signal.SIGTERM)
        outcome.seconds = time.monotonic() - asked_at
    in_progress = [event for event in history.since() if event.began < asked_at < event.ended]
    outcome.during = sum(event.status == CREATED for event in in_progress)
    lost = sum(event.status == NO_REPLY for event in in_progress)
    if status != 0:
        outcome.violations.append(f"exit status {status}")
    if outcome.seconds > MOST_SECONDS:
        outcome.violations.append(f"the stop took {outcome.seconds:.1f} s")
    if len(in_progress) < IN_PROGRESS or lost:
        outcome.violations.append(f"{lost} of {len(in_progress)} requests in progress got no reply")


@contextmanager
def _half_open(port: int) -> Iterator[None]:
    with ExitStack() as stack:
        for sent in (HALF_A_HEAD, HALF_A_BODY) * (HALF_OPEN // 2):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), 5))
            connection.sendall(sent)
        yield


@contextmanager
def _started(folder: Path, arguments: Sequence[str]) -> Iterator[ServerProcess]:
    folder.mkdir(parents=True)
    with server_process(folder, *arguments) as served:
        yield served


@contextmanager
def _store(case: Case, folder: Path) -> Iterator[str]:
    if case.store == "SQLite":
        yield f"sqlite://{folder}/payments.db"
    else:
        with redis_server(*DURABLE) as engine:
            yield engine.url
