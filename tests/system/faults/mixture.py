"""Random requests of many clients to two servers, while random faults befall what they run on."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from harness.polling import wait_until
from harness.redis_engine import DURABLE, redis_server
from harness.tcp_proxy import PASS_THROUGH, Behavior, Mode, tcp_proxy
from tests.system.faults.checks import CREATED
from tests.system.faults.clients import AMOUNT, PAUSE_SECONDS, Client, crew, fresh_sandbox, seeded, spread
from tests.system.faults.history import Event, History, Kind, by_key
from tests.system.faults.kills import RECOVERY_SECONDS
from tests.system.faults.servers import Server, servers
from tests.system.faults.settling import judged

CLIENTS = 10
STORES = ("SQLite", "Redis")
SPEED = 5
"""How fast the sandbox's clock runs, so that payments go through their course within the run."""

AMOUNTS = (AMOUNT, "2000000000000000000")
"""What clients want under one idempotency key: the same, or something else."""

KEYS_AT_ONCE = 12
"""How many keys are in use at a time."""

KEY_SECONDS = 0.25
"""How soon an old key gives way to a new one."""

DEPOSITS = 3
"""How many deposit keys each payment has."""

CALM_SECONDS = (0.1, 0.6)
"""Between two faults."""


@dataclass
class Mixed:
    """What came of the run on one store."""

    name: str
    seed: int
    requests: dict[str, int] = field(default_factory=dict)
    unknown: int = 0
    conflicts: int = 0
    slowest_refusal: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)


Fault = Callable[[random.Random, threading.Event], None]
"""Breaks something, and mends it before it returns."""


class Breakable(NamedTuple):
    """Two servers on one store, and what can befall them."""

    servers: Sequence[Server]
    faults: Mapping[str, Fault]


class Pool:
    """The keys that clients share, and the payments that they know of."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._known: set[str] = set()
        self.payments: list[tuple[str, str]] = []

    def noted(self, event: Event) -> Event:
        """The event; its payment is known from now on."""
        if event.status == CREATED and event.key not in self._known:
            self._known.add(event.key)
            self.payments.append((event.payment_id, event.key))
        return event

    def key(self, choice: random.Random) -> str:
        """An idempotency key, of those that are in use now."""
        oldest = int((time.monotonic() - self._began) / KEY_SECONDS)
        return f"mix-order-{oldest + choice.randrange(KEYS_AT_ONCE)}"

    def payment(self, choice: random.Random) -> tuple[str, str]:
        """The id and key of a payment, rather of a young one."""
        young = self.payments[-3 * KEYS_AT_ONCE :]
        return choice.choice(young if choice.random() < 0.8 else self.payments)


def mixed(name: str, seconds: float, seed: int, folder: Path) -> Mixed:
    """Requests and faults for so long, then calm, in which all that is unknown is retried and judged."""
    outcome, choice, pool = Mixed(name, seed), seeded(seed), Pool()
    sandbox, history = fresh_sandbox(), History()
    with _breakable(name, folder) as breakable:
        with closing(Client(sandbox, history)) as client:
            client.set_speed(breakable.servers[0].url, SPEED)

        def work(client: Client, number: int, enough: threading.Event) -> None:
            own = seeded(f"{seed}-{number}")
            first, second = (breakable.servers[(number + turn) % 2] for turn in range(2))
            while not enough.is_set():
                ask = _request(client, own, pool)
                if ask(first.url).unknown and ask(second.url).unknown:  # as behind a balancer
                    enough.wait(PAUSE_SECONDS)

        with crew(CLIENTS, work, sandbox, history) as enough:
            ends = time.monotonic() + seconds
            while time.monotonic() < ends and not enough.wait(choice.uniform(*CALM_SECONDS)):
                fault = choice.choice(list(breakable.faults))
                outcome.faults[fault] = outcome.faults.get(fault, 0) + 1
                breakable.faults[fault](choice, enough)
        events = history.since()
        _count(outcome, events)
        outcome.violations += _settled(breakable, sandbox, history, events)
        outcome.violations += judged(breakable.servers[1].url, sandbox, history)
    return outcome


def _request(client: Client, choice: random.Random, pool: Pool) -> Callable[[str], Event]:
    """What a client asks next, of a server at a URL."""
    kinds, weights = [Kind.CREATE, Kind.READ, Kind.ADVANCE, Kind.DEPOSIT, Kind.CLOCK], (30, 45, 8, 16, 1)
    [kind] = choice.choices(kinds, weights)
    if kind is Kind.CREATE or not pool.payments:
        key, [amount] = pool.key(choice), choice.choices(AMOUNTS, (9, 1))
        return lambda url: pool.noted(client.create(url, key, amount))
    payment, key = pool.payment(choice)
    if kind is Kind.READ:
        return lambda url: client.read(url, payment)
    if kind is Kind.ADVANCE:
        step = choice.choice(({"to": "next"}, {"seconds": 3}, {"seconds": 0.5}))
        return lambda url: client.advance(url, payment, step)
    if kind is Kind.DEPOSIT:
        number = choice.randrange(DEPOSITS)
        amount = _deposit_amount(key, number)
        return lambda url: client.deposit(url, payment, f"{key}-deposit-{number}", amount)
    seconds = choice.choice((0.1, 1, 2))
    return lambda url: client.move_clock(url, seconds)


def _deposit_amount(key: str, number: int) -> str:
    """An amount that no other deposit has; it tells deposits apart."""
    return str(1_000 * (int(key.rpartition("-")[2]) + 1) + number)


def _settled(breakable: Breakable, sandbox: str, history: History, events: Sequence[Event]) -> list[str]:
    """Retries everything once more, with every body, and reads all payments."""
    urls = [server.url for server in breakable.servers]
    with closing(Client(sandbox, History())) as client:
        wait_until(lambda: all(client.ready(url).status == 200 for url in urls), RECOVERY_SECONDS)

    def again(client: Client, event: Event) -> Event:
        url = urls[hash(event.began) % len(urls)]
        if event.kind is Kind.CREATE:
            return client.create(url, event.key, event.wanted)
        return client.deposit(url, event.payment, event.key, event.wanted)

    wanted = {
        (kind, key, event.wanted): event
        for kind in (Kind.CREATE, Kind.DEPOSIT)
        for key, tries in by_key(events, kind).items()
        for event in tries
    }
    found = [*spread(CLIENTS, again, wanted.values(), sandbox, history)]
    known = {event.payment_id for event in found if event.kind is Kind.CREATE and event.status == CREATED}
    found += spread(CLIENTS, lambda client, payment: client.read(urls[0], payment), known, sandbox, history)
    return [
        f"{event.kind} {event.key or event.payment}: {event.status} though nothing was wrong"
        for event in found
        if event.unknown
    ]


def _count(outcome: Mixed, events: Sequence[Event]) -> None:
    for event in events:
        outcome.requests[event.kind] = outcome.requests.get(event.kind, 0) + 1
    outcome.unknown = sum(event.unknown for event in events)
    outcome.conflicts = sum(event.kind is Kind.CREATE and event.status == 409 for event in events)
    outcome.slowest_refusal = max((event.seconds for event in events if event.status == 503), default=0.0)


@contextmanager
def _breakable(name: str, folder: Path) -> Iterator[Breakable]:
    if name == "SQLite":
        store = f"sqlite://{folder}/payments.db"
        with servers(folder, [store, store], 2) as both:
            yield Breakable(both, _kills_of(both))
        return
    with (
        redis_server(*DURABLE) as engine,
        tcp_proxy(engine.port) as one,
        tcp_proxy(engine.port) as other,
        servers(folder, [f"redis://127.0.0.1:{proxy.port}" for proxy in (one, other)], 2) as both,
    ):

        def engine_killed(choice: random.Random, enough: threading.Event) -> None:
            engine.kill()
            enough.wait(choice.uniform(0, 0.3))
            engine.restart()

        def cut(way: Behavior) -> Fault:
            def fault(choice: random.Random, enough: threading.Event) -> None:
                proxies = choice.choice(((one,), (other,), (one, other)))
                for proxy in proxies:
                    proxy.set(way)
                enough.wait(choice.uniform(0.1, 1.3))
                for proxy in proxies:
                    proxy.set(PASS_THROUGH)

            return fault

        cuts = {
            "connections reset": cut(Behavior(Mode.RESET)),
            "black hole": cut(Behavior(Mode.BLACK_HOLE)),
            "20 ms late, each way": cut(Behavior(Mode.DELAY, delay=0.02)),
            "a second late, each way": cut(Behavior(Mode.DELAY, delay=1.0)),
            "every reply lost": cut(Behavior(Mode.DROP_REPLY)),
            "replies of commits lost": cut(Behavior(Mode.DROP_REPLY, pattern=b"EVALSHA")),
        }
        yield Breakable(both, {**_kills_of(both), "engine killed": engine_killed, **cuts})


def _kills_of(both: Sequence[Server]) -> dict[str, Fault]:
    def killed(choice: random.Random, _: threading.Event) -> None:
        victim = choice.choice(both)
        victim.kill()
        victim.start()

    def all_killed(choice: random.Random, _: threading.Event) -> None:
        for server in both:
            server.kill()
        for server in both:
            server.start()

    def worker_killed(choice: random.Random, _: threading.Event) -> None:
        choice.choice(both).kill_worker(choice.randrange(2))

    return {"server killed": killed, "both servers killed": all_killed, "worker killed": worker_killed}
