"""Random requests of many clients to two servers, during random faults of servers, engine and connections."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from harness.redis_engine import DURABLE, redis_server
from harness.tcp_proxy import PASS_THROUGH, Behavior, Mode, TcpProxy, tcp_proxy
from tests.system.faults.clients import (
    AMOUNT,
    PAUSE_SECONDS,
    Client,
    client_threads,
    map_with_clients,
    new_api_key,
    seeded_random,
    until_known,
)
from tests.system.faults.connection_cuts import CUTS
from tests.system.faults.history import CONFLICT, CREATED, Event, History, Kind, by_key
from tests.system.faults.restartable_server import RestartableServer, restartable_servers
from tests.system.faults.verification import Result, judge_recovery, slowest_refusal, verify

CLIENTS = 10
STORES = ("SQLite", "Redis")
SPEED = 5
"""Of the sandbox clock, so that payments reach their final state during the run."""

AMOUNTS = (AMOUNT, "2000000000000000000")
"""Two bodies for one idempotency key."""

ACTIVE_KEYS = 12
"""The number of idempotency keys in use at a time."""

KEY_SECONDS = 0.25
"""The interval at which a new key replaces the oldest."""

DEPOSITS = 3
"""The number of deposit keys of each payment."""

PAUSES = (0.1, 0.6)
"""The least and the most seconds between two faults."""


class SharedKeys:
    def __init__(self) -> None:
        self._started = time.monotonic()
        self._known: set[str] = set()
        self.payments: list[tuple[str, str]] = []

    def record(self, event: Event) -> Event:
        if event.status == CREATED and event.key not in self._known:
            self._known.add(event.key)
            self.payments.append((event.payment_id, event.key))
        return event

    def key(self, choice: random.Random) -> str:
        oldest = int((time.monotonic() - self._started) / KEY_SECONDS)
        return f"mix-order-{oldest + choice.randrange(ACTIVE_KEYS)}"

    def payment(self, choice: random.Random) -> tuple[str, str]:
        """The id and key of a payment, mostly a recent one."""
        recent = self.payments[-3 * ACTIVE_KEYS :]
        return choice.choice(recent if choice.random() < 0.8 else self.payments)


def inject_faults(name: str, seconds: float, seed: int, folder: Path) -> Result:
    """Send requests and cause faults for so long. Then end the faults, retry all requests, and check."""
    result, choice, keys = Result(name), seeded_random(seed), SharedKeys()
    api_key, history = new_api_key(), History()
    with ExitStack() as stack:
        stores, proxies = [f"sqlite://{folder}/payments.db"] * 2, list[TcpProxy]()
        if name == "Redis":
            engine = stack.enter_context(redis_server(*DURABLE))
            proxies = [stack.enter_context(tcp_proxy(engine.port)) for _ in stores]
            stores = [f"redis://127.0.0.1:{proxy.port}" for proxy in proxies]
        servers = stack.enter_context(restartable_servers(folder, stores))
        with closing(Client(api_key, history)) as client:
            client.set_speed(servers[0].url, SPEED)

        def work(client: Client, number: int, stop: threading.Event) -> None:
            own = seeded_random(f"{seed}-{number}")
            first, second = (servers[(number + turn) % 2] for turn in range(2))
            while not stop.is_set():
                send = _random_request(client, own, keys)
                if send(first.url).unknown and send(second.url).unknown:  # as behind a load balancer
                    stop.wait(PAUSE_SECONDS)

        def kill(*victims: RestartableServer) -> None:
            for server in victims:
                server.kill()
            for server in victims:
                server.start()

        def kill_engine() -> None:
            engine.kill()
            stop.wait(choice.uniform(0, 0.3))
            engine.restart()

        def cut(way: Behavior) -> None:
            chosen = choice.choice((proxies[:1], proxies[1:], proxies))
            for proxy in chosen:
                proxy.set(way)
            stop.wait(choice.uniform(0.1, 1.3))
            for proxy in chosen:
                proxy.set(PASS_THROUGH)

        faults: dict[str, Callable[[], None]] = {
            "server killed": lambda: kill(choice.choice(servers)),
            "both servers killed": lambda: kill(*servers),
        }
        if proxies:
            ways = {name: way.behavior for name, way in CUTS.items()}
            ways["a delay of 20 ms, each way"] = Behavior(Mode.DELAY, delay=0.02)
            faults |= {"engine killed": kill_engine, **{name: partial(cut, ways[name]) for name in ways}}
        with client_threads(CLIENTS, work, api_key, history) as stop:
            ends = time.monotonic() + seconds
            while time.monotonic() < ends and not stop.wait(choice.uniform(*PAUSES)):
                fault = choice.choice(list(faults))
                result.counts.update(["faults", fault])
                faults[fault]()
        events = history.since()
        result.counts.update(event.kind for event in events)
        result.counts["unknown"] = sum(event.unknown for event in events)
        result.counts["conflicts"] = sum(e.kind is Kind.CREATE and e.status == CONFLICT for e in events)
        result.slowest = slowest_refusal(events)
        urls = [server.url for server in servers]
        _retry_all(result, urls, api_key, history, events)
        verify(result, urls[1], api_key, history)
    return result


def _random_request(client: Client, choice: random.Random, keys: SharedKeys) -> Callable[[str], Event]:
    kinds, weights = [Kind.CREATE, Kind.READ, Kind.ADVANCE, Kind.DEPOSIT, Kind.CLOCK], (30, 45, 8, 16, 1)
    [kind] = choice.choices(kinds, weights)
    if kind is Kind.CREATE or not keys.payments:
        key, [amount] = keys.key(choice), choice.choices(AMOUNTS, (9, 1))
        return lambda url: keys.record(client.create(url, key, amount))
    payment, key = keys.payment(choice)
    if kind is Kind.READ:
        return lambda url: client.read(url, payment)
    if kind is Kind.ADVANCE:
        step = choice.choice(({"to": "next"}, {"seconds": 3}, {"seconds": 0.5}))
        return lambda url: client.advance(url, payment, step)
    if kind is Kind.DEPOSIT:
        number = choice.randrange(DEPOSITS)
        amount = str(1_000 * (int(key.rpartition("-")[2]) + 1) + number)  # another for each deposit key
        return lambda url: client.deposit(url, payment, f"{key}-deposit-{number}", amount)
    seconds = choice.choice((0.1, 1, 2))
    return lambda url: client.advance_clock(url, seconds)


def _retry_all(
    result: Result, urls: Sequence[str], api_key: str, history: History, events: Sequence[Event]
) -> None:
    with closing(Client(api_key, History())) as client:
        for url in urls:
            until_known(partial(client.ready, url))

    def repeat(client: Client, event: Event) -> Event:
        url = urls[hash(event.started) % len(urls)]
        if event.kind is Kind.CREATE:
            return until_known(lambda: client.create(url, event.key, event.amount))
        return until_known(lambda: client.deposit(url, event.payment, event.key, event.amount))

    def read(client: Client, payment: str) -> Event:
        return until_known(lambda: client.read(urls[0], payment))

    unique = {
        (kind, key, event.amount): event
        for kind in (Kind.CREATE, Kind.DEPOSIT)
        for key, attempts in by_key(events, kind).items()
        for event in attempts
    }
    start = len(history)
    repeated = [*map_with_clients(CLIENTS, repeat, unique.values(), api_key, history)]
    created = {e.payment_id for e in repeated if e.kind is Kind.CREATE and e.status == CREATED}
    repeated += map_with_clients(CLIENTS, read, created, api_key, history)
    judge_recovery(result, repeated, history.since(start))
