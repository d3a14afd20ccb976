"""A node of a Redis Cluster is killed under load: only its own sandboxes may be affected."""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from redis.crc import key_slot

from harness.polling import wait_until
from harness.redis_engine import DURABLE, RedisCluster, RedisEngine, redis_cluster
from paymock.rules.identifiers import sandbox_of
from tests.system.faults.clients import PAUSE_SECONDS, Client, client_threads, new_api_key
from tests.system.faults.connection_cuts import MAX_REFUSAL_SECONDS
from tests.system.faults.history import CREATED, UNAVAILABLE, Event, History, created_since
from tests.system.faults.restartable_server import restartable_servers
from tests.system.faults.server_kills import MAX_RECOVERY_SECONDS
from tests.system.faults.verification import (
    Result,
    acknowledged,
    replay,
    retry,
    slowest_refusal,
    unacknowledged,
    verify,
)

SANDBOXES = 2
"""On each node, each with a client of its own."""

MIN_PAYMENTS = 5
"""So many requests are completed in each sandbox before the kill, and after the cluster has noticed it."""

MAX_REQUEST_SECONDS = 1.0
"""For requests that do not need the killed node."""

MAX_REFUSED_SHARE = 0.1
"""Of the requests that do not need the killed node: a machine under load can cause some refusals, a defect
refuses all that wait for the node.
"""


@dataclass
class NodeFailureResult(Result):
    """The outcome of the kills. Times are in seconds."""

    served: int = 0
    slowest: float = 0.0
    refused: int = 0
    slowest_refusal: float = 0.0
    recoveries: list[float] = field(default_factory=list)


def kill_nodes(rounds: int, seconds: float, folder: Path) -> NodeFailureResult:
    """Kill one node after another, each for at least so many seconds and until the others know of it."""
    result = NodeFailureResult("a cluster node")
    with redis_cluster(3, *DURABLE) as cluster, restartable_servers(folder, [cluster.url], 2) as [server]:
        nodes = _nodes_by_api_key(cluster)
        histories = {api_key: History() for api_key in nodes}
        for number in range(rounds):
            wait_until(lambda: not any({"fail", "fail?"} & _flags(node) for node in cluster.nodes))
            victim = cluster.nodes[number % len(cluster.nodes)]
            _run_round(f"node-{number}", victim, nodes, histories, server.url, seconds, result)
        for api_key, history in histories.items():
            replay(result, [server.url], api_key, history, acknowledged(history.since()))
            verify(result, server.url, api_key, history)
    return result


class _Outage(NamedTuple):
    """When a node was killed, started again and ready, and the requests of `/readyz` meanwhile."""

    killed: float
    restarted: float
    ready: float
    probes: list[Event]


def _run_round(
    prefix: str,
    victim: RedisEngine,
    nodes: Mapping[str, RedisEngine],
    histories: Mapping[str, History],
    url: str,
    seconds: float,
    result: NodeFailureResult,
) -> None:
    starts = {api_key: len(history) for api_key, history in histories.items()}
    outage = _kill_under_load(prefix, victim, nodes, histories, url, seconds)
    events = {api_key: history.since(starts[api_key]) for api_key, history in histories.items()}
    unaffected = [event for api_key in nodes if nodes[api_key] is not victim for event in events[api_key]]
    result.rounds += 1
    result.served += len(unaffected)
    result.slowest = max(result.slowest, *(event.seconds for event in unaffected))
    _check_unaffected(result, [*unaffected, *outage.probes])
    for api_key in nodes:
        if nodes[api_key] is victim:
            _check_affected(result, events[api_key], outage)
        retry(result, [url], api_key, histories[api_key], unacknowledged(events[api_key]))


def _kill_under_load(
    prefix: str,
    victim: RedisEngine,
    nodes: Mapping[str, RedisEngine],
    histories: Mapping[str, History],
    url: str,
    seconds: float,
) -> _Outage:
    survivor = next(node for node in nodes.values() if node is not victim)
    affected = [histories[api_key] for api_key, node in nodes.items() if node is victim]
    started = time.monotonic()

    def completed(since: float) -> bool:
        """Whether each sandbox has seen enough requests from then on."""
        return all(
            sum(event.started > since for event in history.since()) >= MIN_PAYMENTS
            for history in histories.values()
        )

    def work(client: Client, _: int, stop: threading.Event) -> None:
        count = 0
        while not stop.is_set():
            event = client.create(url, f"{prefix}-{count}")
            if event.status == CREATED:
                count += 1
                client.read(url, event.payment_id)
            stop.wait(PAUSE_SECONDS)

    with ExitStack() as stack:
        prober = stack.enter_context(closing(Client(next(iter(nodes)), History())))
        for api_key, history in histories.items():
            stack.enter_context(client_threads(1, work, api_key, history))
        wait_until(lambda: completed(started))
        victim.kill()
        killed, probes = time.monotonic(), []

        def noticed() -> bool:
            probes.append(prober.ready(url))
            return time.monotonic() >= killed + seconds and "fail" in _flags(survivor)

        wait_until(noticed)
        noticed_at = time.monotonic()
        wait_until(lambda: completed(noticed_at))
        restarted = time.monotonic()
        victim.restart()
        wait_until(lambda: victim.execute("CLUSTER INFO")["cluster_state"] == "ok")
        ready = time.monotonic()
        wait_until(lambda: all(created_since(history.since(), ready) for history in affected))
    return _Outage(killed, restarted, ready, probes)


def _check_unaffected(result: NodeFailureResult, events: Sequence[Event]) -> None:
    refused = sum(event.unknown for event in events)
    if refused > MAX_REFUSED_SHARE * len(events):
        result.violations.append(f"{refused} of {len(events)} requests to other nodes were refused")
    result.late += [
        f"{event}: {event.status} in {event.seconds:.2f} s, and its node is alive"
        for event in events
        if event.unknown or event.seconds > MAX_REQUEST_SECONDS
    ]


def _check_affected(result: NodeFailureResult, events: Sequence[Event], outage: _Outage) -> None:
    during = [event for event in events if event.started >= outage.killed and event.ended <= outage.restarted]
    result.violations += [
        f"{event}: {event.status}, and its node is dead" for event in during if event.status != UNAVAILABLE
    ]
    result.refused += len(during)
    slowest = slowest_refusal(during)
    recovery = max(0.0, created_since(events, outage.restarted)[0].ended - outage.ready)
    result.slowest_refusal = max(result.slowest_refusal, slowest)
    result.recoveries.append(recovery)
    if slowest > MAX_REFUSAL_SECONDS:
        result.late.append(f"refused after {slowest:.2f} s")
    if recovery > MAX_RECOVERY_SECONDS:
        result.late.append(f"no success within {recovery:.2f} s after the restart")


def _flags(node: RedisEngine) -> set[str]:
    """The flags of all nodes, as this one sees them. One that is back is flagged as failed for a while."""
    return {flag for other in node.execute("CLUSTER NODES").values() for flag in other["flags"].split(",")}


def _nodes_by_api_key(cluster: RedisCluster) -> dict[str, RedisEngine]:
    nodes: dict[str, RedisEngine] = {}
    while len(nodes) < SANDBOXES * len(cluster.nodes):
        api_key = new_api_key()
        node = cluster.owner(key_slot(f"{{{sandbox_of(api_key)}}}".encode()))
        if list(nodes.values()).count(node) < SANDBOXES:
            nodes[api_key] = node
    return nodes
