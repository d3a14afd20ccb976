"""The connection to Redis is cut under load, in five ways, by a proxy between server and engine."""

import threading
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from harness.polling import wait_until
from harness.process_info import count_open_files
from harness.redis_engine import DURABLE, redis_server
from harness.tcp_proxy import PASS_THROUGH, Behavior, Mode, tcp_proxy
from tests.support.client import fresh_key
from tests.system.faults.clients import PAUSE_SECONDS, Client, client_threads, new_api_key
from tests.system.faults.history import CREATED, DONE, UNAVAILABLE, Event, History, Kind, created_since
from tests.system.faults.restartable_server import restartable_servers
from tests.system.faults.server_kills import MAX_RECOVERY_SECONDS, MAX_REFUSAL_SECONDS
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

CLIENTS = 8
MIN_PAYMENTS = 40
"""So many requests are completed before a cut, and so many payments are created after it."""

MIN_REFUSALS = CLIENTS
"""So many creations are refused during a cut."""


class Cut(NamedTuple):
    """A way to cut the connection; `complete` if no reply gets through."""

    behavior: Behavior
    complete: bool = True


CUTS: Mapping[str, Cut] = {
    "connections reset": Cut(Behavior(Mode.RESET)),
    "black hole": Cut(Behavior(Mode.BLACK_HOLE)),
    "a delay of 1 s, each way": Cut(Behavior(Mode.DELAY, delay=1.0)),
    "every reply lost": Cut(Behavior(Mode.DROP_REPLY)),
    "replies of commits lost": Cut(Behavior(Mode.DROP_REPLY, pattern=b"EVALSHA"), complete=False),
}


def cut_connections(name: str, rounds: int, seconds: float, folder: Path) -> Result:
    """Make so many cuts of one kind, each for at least so many seconds and MIN_REFUSALS refusals."""
    result, cut = Result(name), CUTS[name]
    api_key, history = new_api_key(), History()

    def work(client: Client, _: int, stop: threading.Event) -> None:
        key = fresh_key()
        while not stop.is_set():
            event = client.create(url, key)
            if event.status == CREATED:
                key = fresh_key()
                client.read(url, event.payment_id)
            else:
                stop.wait(PAUSE_SECONDS)

    def cut_once() -> None:
        start, probes = len(history), list[Event]()

        def refused() -> bool:
            probes.append(prober.ready(url))
            stop.wait(PAUSE_SECONDS)
            refusals = [e for e in history.since(start) if e.status == UNAVAILABLE and e.started > started]
            return time.monotonic() >= started + seconds and len(refusals) >= MIN_REFUSALS

        with client_threads(CLIENTS, work, api_key, history) as stop:
            wait_until(lambda: len(history) >= start + MIN_PAYMENTS)
            proxy.set(cut.behavior)
            started = time.monotonic()
            wait_until(refused)
            ended = time.monotonic()
            proxy.set(PASS_THROUGH)
            wait_until(lambda: prober.ready(url).status == DONE)
            wait_until(lambda: len(created_since(history.since(start), ended)) >= MIN_PAYMENTS)
        events = history.since(start)
        # All that needs the engine is refused, unless it waited for a delayed reply.
        needing = [
            *(event for event in events if event.kind is Kind.CREATE),
            *(probes if cut.complete else ()),
        ]
        for event in needing:
            during = event.started >= started and event.ended <= ended
            delayed = cut.behavior.mode is Mode.DELAY and event.seconds >= 2 * cut.behavior.delay
            if during and event.status != UNAVAILABLE and not delayed:
                result.violations.append(f"{event}: status {event.status} during the cut")
        refusals = [event for event in [*events, *probes] if event.status == UNAVAILABLE]
        retry(result, [url], api_key, history, unacknowledged(events))
        result.counts.update(rounds=1, acknowledged=len(acknowledged(events)), refused=len(refusals))
        result.slowest = max(result.slowest, slowest_refusal(refusals))
        result.recoveries.append(min(event.ended for event in created_since(events, ended)) - ended)

    with (
        redis_server(*DURABLE) as engine,
        tcp_proxy(engine.port) as proxy,
        restartable_servers(folder, [f"redis://127.0.0.1:{proxy.port}"]) as [server],
        closing(Client(api_key, History())) as prober,
    ):
        url = server.url
        prober.ready(url)
        files = count_open_files(server.pids[0])
        for _ in range(rounds):
            cut_once()
        wait_until(lambda: count_open_files(server.pids[0]) <= files)
        events = history.since()
        result.counts["stored"] = stored_unseen(events)
        replay(result, [url], api_key, history, acknowledged(events))
        verify(result, url, api_key, history)
    result.judge_times(MAX_REFUSAL_SECONDS, MAX_RECOVERY_SECONDS)
    return result
