"""A commit that reaches the engine late, while another server is asked all the time.

A deposit and a slower clock take effect 50 ms after the moment at which they were asked for. When a commit
takes longer, others have been shown what came instead.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from harness.redis_engine import DURABLE, redis_server
from harness.tcp_proxy import PASS_THROUGH, Behavior, Mode, TcpProxy, tcp_proxy
from tests.system.faults.checks import CREATED, clocks, courses
from tests.system.faults.clients import AMOUNT, Client, crew, fresh_sandbox
from tests.system.faults.history import History
from tests.system.faults.servers import servers

DELAY_SECONDS = 0.4
"""How late each commit of one server arrives: less than it waits for a reply."""

SPEED = 30.0
"""The window of a payment closes after 30 virtual seconds, so one real second after its creation."""

_LATE = Behavior(Mode.DELAY, delay=DELAY_SECONDS, pattern=b"EVALSHA")


@dataclass
class Late:
    """What came of late commits of one kind."""

    name: str
    rounds: int = 0
    violations: list[str] = field(default_factory=list)
    affected: int = 0
    """In how many rounds something went back."""


class SlowAndQuick(NamedTuple):
    """A server whose commits can be late, and one whose are not."""

    slow: str
    quick: str
    proxy: TcpProxy


def late_deposits(rounds: int, folder: Path) -> Late:
    """A payment is paid just before its window closes, over the slow way."""

    def ask(slow: Client, two: SlowAndQuick) -> None:
        event = slow.create(two.slow, "late-payment", scenario="no_payment_expired")
        assert event.status == CREATED, event

        def look(client: Client, _: int, enough: threading.Event) -> None:
            while not enough.is_set():
                client.read(two.quick, event.payment_id)

        with crew(1, look, slow.sandbox, slow.history) as enough:
            enough.wait(DELAY_SECONDS)
            two.proxy.set(_LATE)
            slow.deposit(two.slow, event.payment_id, "late-deposit", AMOUNT)

    return _rounds(Late("a deposit"), rounds, folder, ask)


def late_clocks(rounds: int, folder: Path) -> Late:
    """A clock is stopped, over the slow way."""

    def ask(slow: Client, two: SlowAndQuick) -> None:
        def look(client: Client, _: int, enough: threading.Event) -> None:
            while not enough.is_set():
                client.read_clock(two.quick)

        with crew(1, look, slow.sandbox, slow.history):
            two.proxy.set(_LATE)
            slow.set_speed(two.slow, 0)
            slow.read_clock(two.quick)

    return _rounds(Late("a slower clock"), rounds, folder, ask)


def _rounds(outcome: Late, rounds: int, folder: Path, ask: Callable[[Client, SlowAndQuick], None]) -> Late:
    with _slow_and_quick(folder) as two:
        for _ in range(rounds):
            with closing(Client(fresh_sandbox(), History())) as client:
                client.set_speed(two.quick, SPEED)
                ask(client, two)
                two.proxy.set(PASS_THROUGH)
                events = client.history.since()
            found = [*courses(events), *clocks(events)]
            outcome.rounds += 1
            outcome.affected += bool(found)
            outcome.violations += found
    return outcome


@contextmanager
def _slow_and_quick(folder: Path) -> Iterator[SlowAndQuick]:
    with redis_server(*DURABLE) as engine, tcp_proxy(engine.port) as proxy:
        stores = [f"redis://127.0.0.1:{proxy.port}", engine.url]
        with servers(folder, stores, 1) as [slow, quick]:
            yield SlowAndQuick(slow.url, quick.url, proxy)
