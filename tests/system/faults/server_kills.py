"""`kill -9` under load, of the server, the Redis engine, both, or a master that a Sentinel replaces."""

import random
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from harness.polling import wait_until
from harness.redis_engine import DURABLE, RedisEngine, RedisSentinel, redis_sentinel, redis_server
from tests.system.faults.clients import Client, client_threads, new_api_key, seeded_random, until_known
from tests.system.faults.history import CREATED, History
from tests.system.faults.restartable_server import RestartableServer, restartable_servers
from tests.system.faults.verification import (
    Result,
    acknowledged,
    replay,
    retry,
    slowest_refusal,
    stored_unseen,
    unacknowledged,
    verify,
)

CLIENTS = 16
MIN_PAYMENTS = 40
"""So many requests are completed in a round before the kill."""

MAX_DELAY_SECONDS = 0.25
"""The kill comes within this time after them."""

MAX_REFUSAL_SECONDS = 2.0
MAX_RECOVERY_SECONDS = 2.0
"""From the engine's first reply to the first new payment."""


class Case(NamedTuple):
    """What is killed. `engine` has the options of a Redis engine; None means an SQLite file."""

    name: str
    engine: tuple[str, ...] | None = None
    kills_server: bool = True
    kills_engine: bool = False
    has_sentinel: bool = False
    """Then a replica takes over. What it had not received would be lost: on one machine, hardly anything."""


CASES = (
    Case("SQLite: the server"),
    Case("Redis: the engine", DURABLE, kills_server=False, kills_engine=True),
    Case("Redis: the server", DURABLE),
    Case("Redis: both", DURABLE, kills_engine=True),
    Case("Redis: a failover", DURABLE, kills_server=False, kills_engine=True, has_sentinel=True),
)
VOLATILE = Case("Redis without a file: the engine", (), kills_server=False, kills_engine=True)
"""A case in which data is lost, to show that the checks detect it."""


@dataclass
class KillResult(Result):
    """The outcome of a case. Recoveries are in seconds."""

    acknowledged: int = 0
    unknown: int = 0
    stored: int = 0
    recoveries: list[float] = field(default_factory=list)


def kill_servers(case: Case, rounds: int, seed: int, folder: Path) -> KillResult:
    result, choice = KillResult(case.name), seeded_random(seed)
    api_key, history = new_api_key(), History()
    with ExitStack() as stack:
        start = redis_sentinel if case.has_sentinel else redis_server
        engine = None if case.engine is None else stack.enter_context(start(*case.engine))
        store = f"sqlite://{folder}/payments.db" if engine is None else engine.url
        [server] = stack.enter_context(restartable_servers(folder, [store]))
        for number in range(rounds):
            prefix = f"kill-{seed}-{number}"
            _run_round(case, server, engine, prefix, choice, api_key, history, result)
        events = history.since()
        result.stored = stored_unseen(events)
        replay(result, [server.url], api_key, history, acknowledged(events))
        verify(result, server.url, api_key, history)
    return result


def _run_round(
    case: Case,
    server: RestartableServer,
    engine: RedisEngine | None,
    prefix: str,
    choice: random.Random,
    api_key: str,
    history: History,
    result: KillResult,
) -> None:
    start, url = len(history), server.url

    def work(client: Client, number: int, stop: threading.Event) -> None:
        count = 0
        while not stop.is_set() and client.create(url, f"{prefix}-{number}-{count}").status == CREATED:
            count += 1

    with client_threads(CLIENTS, work, api_key, history) as stop:
        wait_until(lambda: len(history) >= start + MIN_PAYMENTS)
        stop.wait(choice.uniform(0, MAX_DELAY_SECONDS))
        victims: list[RestartableServer | RedisEngine] = [server] if case.kills_server else []
        if case.kills_engine and engine:
            victims.append(engine.master() if isinstance(engine, RedisSentinel) else engine)
        choice.shuffle(victims)
        for victim in victims:
            victim.kill()
    if isinstance(engine, RedisSentinel):
        wait_until(lambda: engine.master() not in victims)
    elif case.kills_engine and engine:
        engine.restart()
    if case.kills_server:
        server.start()
    else:
        _measure_recovery(result, url, f"{prefix}-recovery", api_key, history)
    if isinstance(engine, RedisSentinel):
        for former in engine.nodes:
            if former in victims:
                former.restart()
        wait_until(engine.replicates)
    events = history.since(start)
    if (slowest := slowest_refusal(events)) > MAX_REFUSAL_SECONDS:
        result.late.append(f"refused after {slowest:.2f} s")
    known, unknown = acknowledged(events), unacknowledged(events)
    replay(result, [server.url], api_key, history, known)
    retry(result, [server.url], api_key, history, unknown)
    result.rounds += 1
    result.acknowledged += len(known)
    result.unknown += len(unknown)


def _measure_recovery(result: KillResult, url: str, key: str, api_key: str, history: History) -> None:
    started = time.monotonic()
    with closing(Client(api_key, history)) as client:
        until_known(lambda: client.create(url, key))
    seconds = time.monotonic() - started
    result.recoveries.append(seconds)
    if seconds > MAX_RECOVERY_SECONDS:
        result.late.append(f"no new payment within {seconds:.2f} s after the engine's restart")
