"""`kill -9` under load, of the server, the Redis engine, both, or a master that a Sentinel replaces."""

import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

from harness.polling import wait_until
from harness.redis_engine import DURABLE, RedisEngine, RedisSentinel, redis_sentinel, redis_server
from tests.support.client import fresh_key
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
    """Then a replica takes over. What it had not received would be lost, so it receives all before."""


CASES = (
    Case("SQLite: the server"),
    Case("Redis: the engine", DURABLE, kills_server=False, kills_engine=True),
    Case("Redis: the server", DURABLE),
    Case("Redis: both", DURABLE, kills_engine=True),
    Case("Redis: a failover", DURABLE, kills_server=False, kills_engine=True, has_sentinel=True),
)
VOLATILE = Case("Redis without a file: the engine", (), kills_server=False, kills_engine=True)
"""A case in which data is lost, to show that the checks detect it."""


def kill_servers(case: Case, rounds: int, seed: int, folder: Path) -> Result:
    result, choice = Result(case.name), seeded_random(seed)
    api_key, history = new_api_key(), History()

    def work(client: Client, _: int, stop: threading.Event) -> None:
        while not stop.is_set() and client.create(server.url, fresh_key()).status == CREATED:
            pass

    def kill_once() -> None:
        start, sentinel = len(history), engine if isinstance(engine, RedisSentinel) else None
        with client_threads(CLIENTS, work, api_key, history) as stop:
            wait_until(lambda: len(history) >= start + MIN_PAYMENTS)
            stop.wait(choice.uniform(0, MAX_DELAY_SECONDS))
            victims: list[RestartableServer | RedisEngine] = [server] if case.kills_server else []
            if case.kills_engine and engine:
                victims.append(sentinel.master() if sentinel else engine)
            if sentinel:
                sentinel.hold_writes()
            choice.shuffle(victims)
            for victim in victims:
                victim.kill()
        if sentinel:
            sentinel.set_patience(1)
            wait_until(lambda: sentinel.master() not in victims)
            sentinel.set_patience(60)
        elif case.kills_engine and engine:
            engine.restart()
        if case.kills_server:
            server.start()
        else:
            started = time.monotonic()
            with closing(Client(api_key, history)) as client:
                until_known(lambda: client.create(server.url, f"recovery-{start}"))
            result.recoveries.append(time.monotonic() - started)
        if sentinel:
            for former in sentinel.nodes:
                if former in victims:
                    former.restart()
            wait_until(sentinel.replicates)
        events = history.since(start)
        result.slowest = max(result.slowest, slowest_refusal(events))
        known, unknown = acknowledged(events), unacknowledged(events)
        replay(result, [server.url], api_key, history, known)
        retry(result, [server.url], api_key, history, unknown)
        result.counts.update(rounds=1, acknowledged=len(known), unknown=len(unknown))

    with ExitStack() as stack:
        start_engine = redis_sentinel if case.has_sentinel else redis_server
        engine = None if case.engine is None else stack.enter_context(start_engine(*case.engine))
        store = f"sqlite://{folder}/payments.db" if engine is None else engine.url
        if isinstance(engine, RedisSentinel):
            engine.set_patience(60)
        [server] = stack.enter_context(restartable_servers(folder, [store]))
        for _ in range(rounds):
            kill_once()
        events = history.since()
        result.counts["stored"] = stored_unseen(events)
        replay(result, [server.url], api_key, history, acknowledged(events))
        verify(result, server.url, api_key, history)
    result.judge_times(MAX_REFUSAL_SECONDS, MAX_RECOVERY_SECONDS)
    return result
