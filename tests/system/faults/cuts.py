"""The engine is cut off under load, in five ways, by a proxy between it and the server."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from harness.polling import wait_until
from harness.redis_engine import DURABLE, redis_server
from harness.tcp_proxy import PASS_THROUGH, Behavior, Mode, TcpProxy, tcp_proxy
from tests.system.faults.checks import CREATED, DONE
from tests.system.faults.clients import PAUSE_SECONDS, Client, crew, fresh_sandbox
from tests.system.faults.history import REFUSED, Event, History, Kind
from tests.system.faults.kills import RECOVERY_SECONDS
from tests.system.faults.servers import servers
from tests.system.faults.settling import acknowledged, judged, replay, retry, stored_unseen, unacknowledged

CLIENTS = 8
LEAST_PAYMENTS = 40
PATIENCE_SECONDS = 2.0
"""How soon a refusal must come."""


class Cut(NamedTuple):
    """A way to be cut off; `whole` if nothing of the engine gets through."""

    way: Behavior
    whole: bool = True


CUTS: Mapping[str, Cut] = {
    "connections reset": Cut(Behavior(Mode.RESET)),
    "black hole": Cut(Behavior(Mode.BLACK_HOLE)),
    "a second late, each way": Cut(Behavior(Mode.DELAY, delay=1.0)),
    "every reply lost": Cut(Behavior(Mode.DROP_REPLY)),
    "replies of commits lost": Cut(Behavior(Mode.DROP_REPLY, pattern=b"EVALSHA"), whole=False),
}


@dataclass
class Severed:
    """What came of a way to be cut off. Times are in seconds."""

    name: str
    rounds: int = 0
    acknowledged: int = 0
    refused: int = 0
    stored: int = 0
    slowest: float = 0.0
    recoveries: list[float] = field(default_factory=list)
    last_refusals: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


class Lines(NamedTuple):
    """A server, and the proxy before its engine."""

    url: str
    proxy: TcpProxy


def severed(
    name: str, rounds: int, seconds: float, seed: int, folder: Path, patience: float = PATIENCE_SECONDS
) -> Severed:
    """So many cuts of one kind, each of so many seconds. Refusals must come within `patience` seconds."""
    outcome = Severed(name)
    sandbox, history = fresh_sandbox(), History()
    with _lines(folder) as lines:
        for number in range(rounds):
            _round(CUTS[name], lines, seconds, f"cut-{seed}-{number}", sandbox, history, outcome)
        events = history.since()
        outcome.stored = stored_unseen(events)
        outcome.violations += replay([lines.url], sandbox, history, acknowledged(events))
        outcome.violations += judged(lines.url, sandbox, history)
    if outcome.slowest > patience:
        outcome.violations.append(f"refused after {outcome.slowest:.2f} s")
    return outcome


def _round(
    cut: Cut, lines: Lines, seconds: float, prefix: str, sandbox: str, history: History, outcome: Severed
) -> None:
    start = len(history)

    def work(client: Client, number: int, enough: threading.Event) -> None:
        count = 0
        while not enough.is_set():
            event = client.create(lines.url, f"{prefix}-{number}-{count}")
            if event.status == CREATED:
                count += 1
                client.read(lines.url, event.payment_id)
            else:
                enough.wait(PAUSE_SECONDS)

    with crew(CLIENTS, work, sandbox, history) as enough, closing(Client(sandbox, History())) as prober:
        wait_until(lambda: len(history) >= start + LEAST_PAYMENTS)
        lines.proxy.set(cut.way)
        began = time.monotonic()
        probes = []
        while time.monotonic() < began + seconds:
            probes.append(prober.ready(lines.url))
            enough.wait(PAUSE_SECONDS)
        ended = time.monotonic()
        lines.proxy.set(PASS_THROUGH)
        wait_until(lambda: prober.ready(lines.url).status == DONE, RECOVERY_SECONDS)
        wait_until(lambda: len(_successes(history.since(start), ended)) >= LEAST_PAYMENTS, RECOVERY_SECONDS)
    events = history.since(start)
    during = [event for event in [*events, *probes] if event.began >= began and event.ended <= ended]
    outcome.violations += _while_cut(cut, during)
    refusals = [event for event in [*events, *probes] if event.status == REFUSED]
    outcome.violations += retry([lines.url], sandbox, history, unacknowledged(events))
    outcome.rounds += 1
    outcome.acknowledged += len(acknowledged(events))
    outcome.refused += len(refusals)
    outcome.slowest = max([outcome.slowest, *(event.seconds for event in refusals)])
    outcome.recoveries.append(min(event.ended for event in _successes(events, ended)) - ended)
    outcome.last_refusals.append(max(0.0, *(event.ended - ended for event in refusals)))


def _while_cut(cut: Cut, during: Sequence[Event]) -> Iterator[str]:
    """All that must be refused is refused, and something was asked at all."""
    for kind in (Kind.CREATE, Kind.READY):
        asked = [event for event in during if event.kind is kind]
        if kind is Kind.READY and not cut.whole:
            continue
        if not asked:
            yield f"{kind}: nothing was asked while the engine was cut off"
        for event in asked:
            if event.status != REFUSED or event.retry_after is None:
                yield f"{kind} {event.key}: status {event.status} while the engine was cut off"


def _successes(events: Sequence[Event], since: float) -> list[Event]:
    return [e for e in events if e.kind is Kind.CREATE and e.status == CREATED and e.ended > since]


@contextmanager
def _lines(folder: Path) -> Iterator[Lines]:
    with (
        redis_server(*DURABLE) as engine,
        tcp_proxy(engine.port) as proxy,
        servers(folder, [f"redis://127.0.0.1:{proxy.port}"], 2) as [server],
    ):
        yield Lines(server.url, proxy)
