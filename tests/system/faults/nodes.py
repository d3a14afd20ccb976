"""A node of a cluster is killed under load: its sandboxes wait for it, the others notice nothing."""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from redis.crc import key_slot

from harness.polling import wait_until
from harness.redis_engine import DURABLE, ENGINE_TIMEOUT_SECONDS, RedisCluster, RedisEngine, redis_cluster
from paymock.rules.identifiers import sandbox_of
from tests.system.faults.checks import CREATED, DONE
from tests.system.faults.clients import PAUSE_SECONDS, Client, crew, fresh_sandbox
from tests.system.faults.cuts import PATIENCE_SECONDS
from tests.system.faults.history import Event, History, Kind
from tests.system.faults.kills import RECOVERY_SECONDS
from tests.system.faults.servers import servers
from tests.system.faults.settling import acknowledged, judged, replay, retry, unacknowledged

SANDBOXES = 2
"""On each node, each with a client of its own."""

LEAST_PAYMENTS = 5
"""So many are acknowledged in each sandbox before the node is killed."""

DELAY_SECONDS = 1.0
"""The longest that anything in another node's sandbox may take."""


@dataclass
class Bereaved:
    """What came of the kills of nodes. Times are in seconds."""

    rounds: int = 0
    served: int = 0
    slowest: float = 0.0
    refused: int = 0
    slowest_refusal: float = 0.0
    recoveries: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


def bereaved(rounds: int, seconds: float, folder: Path) -> Bereaved:
    """Kills one node after another, each for so many seconds."""
    outcome = Bereaved()
    with redis_cluster(3, *DURABLE) as cluster, servers(folder, [cluster.url], 2) as [server]:
        homes = _homes(cluster)
        histories = {sandbox: History() for sandbox in homes}
        for number in range(rounds):
            wait_until(lambda: all(map(_knows_of_no_failure, cluster.nodes)), ENGINE_TIMEOUT_SECONDS)
            dead = cluster.nodes[number % len(cluster.nodes)]
            _round(f"node-{number}", dead, homes, histories, server.url, seconds, outcome)
        for sandbox, history in histories.items():
            outcome.violations += replay([server.url], sandbox, history, acknowledged(history.since()))
            outcome.violations += judged(server.url, sandbox, history)
    return outcome


def _round(
    prefix: str,
    dead: RedisEngine,
    homes: Mapping[str, RedisEngine],
    histories: Mapping[str, History],
    url: str,
    seconds: float,
    outcome: Bereaved,
) -> None:
    starts = {sandbox: len(history) for sandbox, history in histories.items()}

    def events(sandbox: str) -> list[Event]:
        return histories[sandbox].since(starts[sandbox])

    def work(client: Client, _: int, enough: threading.Event) -> None:
        count = 0
        while not enough.is_set():
            event = client.create(url, f"{prefix}-{count}")
            if event.status == CREATED:
                count += 1
                client.read(url, event.payment_id)
            enough.wait(PAUSE_SECONDS)

    with ExitStack() as stack:
        prober = stack.enter_context(closing(Client(next(iter(homes)), History())))
        crews = [stack.enter_context(crew(1, work, *pair)) for pair in histories.items()]
        wait_until(lambda: all(len(events(sandbox)) >= LEAST_PAYMENTS for sandbox in homes))
        dead.kill()
        killed, probes = time.monotonic(), []
        while time.monotonic() < killed + seconds:
            probes.append(prober.ready(url))
            crews[0].wait(5 * PAUSE_SECONDS)
        restarted = time.monotonic()
        dead.restart()
        wait_until(lambda: dead.execute("CLUSTER INFO")["cluster_state"] == "ok", ENGINE_TIMEOUT_SECONDS)
        back = time.monotonic()
        of_the_dead = [sandbox for sandbox, home in homes.items() if home is dead]
        wait_until(lambda: all(_successes(events(each), back) for each in of_the_dead), RECOVERY_SECONDS)
    outcome.rounds += 1
    outcome.violations += [
        f"readyz: {event.status} in {event.seconds:.2f} s while one node of three was dead"
        for event in probes
        if event.status != DONE or event.seconds > DELAY_SECONDS
    ]
    for sandbox, home in homes.items():
        seen = events(sandbox)
        if home is not dead:
            outcome.violations += _disturbed(seen)
            outcome.served += len(seen)
            outcome.slowest = max(outcome.slowest, *(event.seconds for event in seen))
            continue
        during = [event for event in seen if event.began >= killed and event.ended <= restarted]
        outcome.violations += _unrefused(during)
        outcome.refused += len(during)
        outcome.slowest_refusal = max(outcome.slowest_refusal, *(event.seconds for event in during))
        outcome.recoveries.append(max(0.0, _successes(seen, restarted)[0].ended - back))
        outcome.violations += retry([url], sandbox, histories[sandbox], unacknowledged(seen))


def _knows_of_no_failure(node: RedisEngine) -> bool:
    """A node that is back counts as failed for a while, and a cluster without a majority serves nobody."""
    return not any("fail" in other["flags"] for other in node.execute("CLUSTER NODES").values())


def _disturbed(seen: Sequence[Event]) -> Iterator[str]:
    for event in seen:
        if event.unknown or event.seconds > DELAY_SECONDS:
            yield f"{event.kind} {event.key}: {event.status} in {event.seconds:.2f} s, though its node lives"


def _unrefused(during: Sequence[Event]) -> Iterator[str]:
    if not during:
        yield "nothing was asked of the dead node's sandboxes"
    for event in during:
        if event.status != 503 or event.seconds > PATIENCE_SECONDS:
            yield f"{event.kind} {event.key}: {event.status} in {event.seconds:.2f} s, with its node dead"


def _successes(seen: Sequence[Event], since: float) -> list[Event]:
    return [e for e in seen if e.kind is Kind.CREATE and e.status == CREATED and e.ended > since]


def _homes(cluster: RedisCluster) -> dict[str, RedisEngine]:
    """New sandboxes, so many for each node, and the node of each."""
    homes: dict[str, RedisEngine] = {}
    while len(homes) < SANDBOXES * len(cluster.nodes):
        sandbox = fresh_sandbox()
        node = cluster.owner(key_slot(f"{{{sandbox_of(sandbox)}}}".encode()))
        if list(homes.values()).count(node) < SANDBOXES:
            homes[sandbox] = node
    return homes
