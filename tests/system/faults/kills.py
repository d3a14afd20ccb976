"""`kill -9` under load, of the server, the engine or both: what was acknowledged must be there afterwards."""

import random
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from harness.polling import wait_until
from harness.redis_engine import DURABLE, RedisEngine, redis_server
from tests.system.faults.checks import CREATED
from tests.system.faults.clients import Client, crew, fresh_sandbox, seeded
from tests.system.faults.history import History
from tests.system.faults.servers import Server, seconds_until, servers
from tests.system.faults.settling import acknowledged, judged, replay, retry, stored_unseen, unacknowledged

CLIENTS = 16
LEAST_PAYMENTS = 40
"""So many are acknowledged in a round before the kill comes."""

SOONEST_SECONDS, LATEST_SECONDS = 0.0, 0.25
RECOVERY_SECONDS = 2.0


class Case(NamedTuple):
    """What is killed. `engine` has the options of a Redis engine; without, the store is an SQLite file."""

    name: str
    workers: int
    engine: tuple[str, ...] | None = None
    kills_server: bool = True
    kills_engine: bool = False


CASES = (
    Case("SQLite, 1 worker: the server", 1),
    Case("SQLite, 2 workers: the server", 2),
    Case("Redis: the engine", 2, DURABLE, kills_server=False, kills_engine=True),
    Case("Redis: the server", 2, DURABLE),
    Case("Redis: both", 2, DURABLE, kills_engine=True),
)
FORGETFUL = Case("Redis without a file: the engine", 1, (), kills_server=False, kills_engine=True)
"""A case that must fail: what it loses, the checks must find."""


@dataclass
class Killed:
    """What came of a case."""

    name: str
    rounds: int = 0
    acknowledged: int = 0
    unknown: int = 0
    stored: int = 0
    recoveries: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


class Target(NamedTuple):
    """What can be killed: a server, and the engine of its store if it has one."""

    server: Server
    engine: RedisEngine | None


def killed(case: Case, rounds: int, seed: int, folder: Path) -> Killed:
    """So many rounds of a case on one store."""
    outcome, choice = Killed(case.name), seeded(seed)
    sandbox, history = fresh_sandbox(), History()
    with _target(case, folder) as target:
        for number in range(rounds):
            _round(case, target, f"kill-{seed}-{number}", choice, sandbox, history, outcome)
        events = history.since()
        outcome.stored = stored_unseen(events)
        urls = [target.server.url]
        outcome.violations += replay(urls, sandbox, history, acknowledged(events))
        outcome.violations += judged(urls[0], sandbox, history)
    return outcome


def _round(
    case: Case,
    target: Target,
    prefix: str,
    choice: random.Random,
    sandbox: str,
    history: History,
    outcome: Killed,
) -> None:
    start, url = len(history), target.server.url

    def work(client: Client, number: int, enough: threading.Event) -> None:
        count = 0
        while not enough.is_set() and client.create(url, f"{prefix}-{number}-{count}").status == CREATED:
            count += 1

    with crew(CLIENTS, work, sandbox, history) as enough:
        wait_until(lambda: len(history) >= start + LEAST_PAYMENTS)
        enough.wait(choice.uniform(SOONEST_SECONDS, LATEST_SECONDS))
        victims: list[Server | RedisEngine] = [
            *([target.server] if case.kills_server else []),
            *([target.engine] if case.kills_engine and target.engine else []),
        ]
        choice.shuffle(victims)
        for victim in victims:
            victim.kill()
    if case.kills_engine and target.engine:
        target.engine.restart()
    if case.kills_server:
        target.server.start()
    else:
        outcome.recoveries.append(_recovery(url, f"{prefix}-again", sandbox, history))
    events = history.since(start)
    known, unknown = acknowledged(events), unacknowledged(events)
    urls = [target.server.url]
    outcome.violations += replay(urls, sandbox, history, known)
    outcome.violations += retry(urls, sandbox, history, unknown)
    outcome.rounds += 1
    outcome.acknowledged += len(known)
    outcome.unknown += len(unknown)


def _recovery(url: str, key: str, sandbox: str, history: History) -> float:
    with closing(Client(sandbox, history)) as client:
        return seconds_until(lambda: client.create(url, key).status == CREATED, RECOVERY_SECONDS)


@contextmanager
def _target(case: Case, folder: Path) -> Iterator[Target]:
    if case.engine is None:
        with servers(folder, [f"sqlite://{folder}/payments.db"], case.workers) as [server]:
            yield Target(server, None)
    else:
        with redis_server(*case.engine) as engine, servers(folder, [engine.url], case.workers) as [server]:
            yield Target(server, engine)
