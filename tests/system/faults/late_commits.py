"""A commit that reaches the engine late, during reads from another server.

A deposit and a slower clock take effect 50 ms after the request. When the commit takes longer, other clients
have seen what would have happened without it.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from harness.redis_engine import DURABLE, redis_server
from harness.tcp_proxy import PASS_THROUGH, Behavior, Mode, TcpProxy, tcp_proxy
from tests.system.faults.checks import check_clocks, check_timelines
from tests.system.faults.clients import AMOUNT, Client, client_threads, new_api_key
from tests.system.faults.history import CREATED, History
from tests.system.faults.restartable_server import restartable_servers
from tests.system.faults.verification import Result

DELAY_SECONDS = 0.4
"""Of each commit of one server, less than its timeout."""

SPEED = 30.0
"""Of the sandbox clock. A payment expires after 30 virtual seconds, one real second after its creation."""

_DELAYED_COMMITS = Behavior(Mode.DELAY, delay=DELAY_SECONDS, pattern=b"EVALSHA")


@dataclass
class LateCommitResult(Result):
    """The outcome for one kind of change. `affected`: the rounds in which a client saw something go back."""

    affected: int = 0


class Deployment(NamedTuple):
    """The URLs of a server whose commits can be delayed, and of another."""

    delayed: str
    direct: str
    proxy: TcpProxy


def delay_deposits(rounds: int, folder: Path) -> LateCommitResult:
    """Pay payments just before they expire, with a delayed commit."""

    def change(client: Client, deployment: Deployment) -> None:
        event = client.create(deployment.delayed, "delayed-payment", scenario="no_payment_expired")
        assert event.status == CREATED, event

        def read(reader: Client, _: int, stop: threading.Event) -> None:
            while not stop.is_set():
                reader.read(deployment.direct, event.payment_id)

        with client_threads(1, read, client.api_key, client.history) as stop:
            stop.wait(DELAY_SECONDS)
            deployment.proxy.set(_DELAYED_COMMITS)
            client.deposit(deployment.delayed, event.payment_id, "delayed-deposit", AMOUNT)

    return _run("a deposit", rounds, folder, change)


def delay_clock_changes(rounds: int, folder: Path) -> LateCommitResult:
    """Stop clocks, with a delayed commit."""

    def change(client: Client, deployment: Deployment) -> None:
        def read(reader: Client, _: int, stop: threading.Event) -> None:
            while not stop.is_set():
                reader.read_clock(deployment.direct)

        with client_threads(1, read, client.api_key, client.history):
            deployment.proxy.set(_DELAYED_COMMITS)
            client.set_speed(deployment.delayed, 0)
            client.read_clock(deployment.direct)

    return _run("a slower clock", rounds, folder, change)


def _run(
    name: str, rounds: int, folder: Path, change: Callable[[Client, Deployment], None]
) -> LateCommitResult:
    result = LateCommitResult(name)
    with _deployment(folder) as deployment:
        for _ in range(rounds):
            with closing(Client(new_api_key(), History())) as client:
                client.set_speed(deployment.direct, SPEED)
                change(client, deployment)
                deployment.proxy.set(PASS_THROUGH)
                events = client.history.since()
            result.rounds += 1
            result.affected += any((*check_timelines(events), *check_clocks(events)))
    return result


@contextmanager
def _deployment(folder: Path) -> Iterator[Deployment]:
    with redis_server(*DURABLE) as engine, tcp_proxy(engine.port) as proxy:
        stores = [f"redis://127.0.0.1:{proxy.port}", engine.url]
        with restartable_servers(folder, stores, 1) as [delayed, direct]:
            yield Deployment(delayed.url, direct.url, proxy)
