"""The connection to Redis is cut under load, in five ways, by a proxy between server and engine."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from harness.polling import wait_until
from harness.redis_engine import DURABLE, redis_server
from harness.tcp_proxy import PASS_THROUGH, Behavior, Mode, TcpProxy, tcp_proxy
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


@dataclass
class CutResult(Result):
    """The outcome of one kind of cut. Times are in seconds."""

    acknowledged: int = 0
    refused: int = 0
    stored: int = 0
    slowest: float = 0.0
    recoveries: list[float] = field(default_factory=list)


def cut_connections(name: str, rounds: int, seconds: float, seed: int, folder: Path) -> CutResult:
    """Make so many cuts of one kind, each for at least so many seconds and MIN_REFUSALS refusals."""
    result = CutResult(name)
    api_key, history = new_api_key(), History()
    with (
        redis_server(*DURABLE) as engine,
        tcp_proxy(engine.port) as proxy,
        restartable_servers(folder, [f"redis://127.0.0.1:{proxy.port}"]) as [server],
    ):
        url = server.url
        for number in range(rounds):
            _run_round(CUTS[name], proxy, url, seconds, f"cut-{seed}-{number}", api_key, history, result)
        events = history.since()
        result.stored = stored_unseen(events)
        replay(result, [url], api_key, history, acknowledged(events))
        verify(result, url, api_key, history)
    if result.slowest > MAX_REFUSAL_SECONDS:
        result.late.append(f"refused after {result.slowest:.2f} s")
    if max(result.recoveries) > MAX_RECOVERY_SECONDS:
        result.late.append(f"no success within {max(result.recoveries):.2f} s after a cut")
    return result


def _run_round(
    cut: Cut,
    proxy: TcpProxy,
    url: str,
    seconds: float,
    prefix: str,
    api_key: str,
    history: History,
    result: CutResult,
) -> None:
    start = len(history)

    def work(client: Client, number: int, stop: threading.Event) -> None:
        count = 0
        while not stop.is_set():
            event = client.create(url, f"{prefix}-{number}-{count}")
            if event.status == CREATED:
                count += 1
                client.read(url, event.payment_id)
            else:
                stop.wait(PAUSE_SECONDS)

    with (
        client_threads(CLIENTS, work, api_key, history) as stop,
        closing(Client(api_key, History())) as prober,
    ):
        wait_until(lambda: len(history) >= start + MIN_PAYMENTS)
        proxy.set(cut.behavior)
        started = time.monotonic()
        probes = []

        def refused() -> bool:
            probes.append(prober.ready(url))
            stop.wait(PAUSE_SECONDS)
            refusals = [e for e in history.since(start) if e.status == UNAVAILABLE and e.started > started]
            return time.monotonic() >= started + seconds and len(refusals) >= MIN_REFUSALS

        wait_until(refused)
        ended = time.monotonic()
        proxy.set(PASS_THROUGH)
        wait_until(lambda: prober.ready(url).status == DONE)
        wait_until(lambda: len(created_since(history.since(start), ended)) >= MIN_PAYMENTS)
    events = history.since(start)
    during = [event for event in [*events, *probes] if event.started >= started and event.ended <= ended]
    result.violations += _check_refusals(cut, during)
    refusals = [event for event in [*events, *probes] if event.status == UNAVAILABLE]
    retry(result, [url], api_key, history, unacknowledged(events))
    result.rounds += 1
    result.acknowledged += len(acknowledged(events))
    result.refused += len(refusals)
    result.slowest = max(result.slowest, slowest_refusal(refusals))
    result.recoveries.append(min(event.ended for event in created_since(events, ended)) - ended)


def _check_refusals(cut: Cut, during: Sequence[Event]) -> Iterator[str]:
    """All that needs the engine is refused, unless it waited for a delayed reply."""
    for event in during:
        if event.kind is Kind.READY and not cut.complete:
            continue
        delayed = cut.behavior.mode is Mode.DELAY and event.seconds >= 2 * cut.behavior.delay
        if event.kind in (Kind.CREATE, Kind.READY) and event.status != UNAVAILABLE and not delayed:
            yield f"{event}: status {event.status} during the cut"
