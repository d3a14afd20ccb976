"""The servers that are soaked: one on each store; that of Redis is cut off from it now and then."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.load import Running
from harness.polling import wait_until
from harness.redis_engine import DURABLE, redis_server
from harness.server_process import server_process_by_script
from harness.tcp_proxy import PASS_THROUGH, Behavior, Mode, TcpProxy, tcp_proxy
from tests.system.faults.clients import seeded
from tests.system.soak.users import Surprise

STORES = ("memory", "SQLite", "Redis")
CUTS = (
    Behavior(Mode.RESET),
    Behavior(Mode.BLACK_HOLE),
    Behavior(Mode.DELAY, delay=0.02),
    Behavior(Mode.DROP_REPLY),
    Behavior(Mode.DROP_REPLY, pattern=b"EVALSHA"),
)
CUT_SECONDS = (0.2, 1.5)
CALM_SECONDS = (6.0, 14.0)
RECOVERY_SECONDS = 5.0
"""How long after a cut a refusal still comes of it: a server gives up a silent connection after two seconds,
and the next one has to open on a machine that does much else.
"""

_LAST_OF_BANNER = "Ctrl-C\n"
"""A server is ready a moment before it has said so."""

NOTICE_SECONDS, HELD_UP_SECONDS = 0.1, 0.5
"""How often this process looks at the clock, and after how long it was held up: whatever passes through its
proxy was held up, too, which to a server is the same as a cut.
"""


@dataclass
class House:
    """A server, when it was cut off from its store, and when what stands between the two was held up. After
    the first characters of its log, which say where it is, it should have nothing to say.
    """

    name: str
    server: Running
    log: Path
    begun: int
    cuts: list[tuple[float, float]] = field(default_factory=list)
    held_up: list[tuple[float, float]] = field(default_factory=list)

    @property
    def said(self) -> str:
        """What it has written to its log, or to standard error, since it began."""
        return self.log.read_text(encoding="utf-8")[self.begun :]

    def explains(self, surprise: Surprise) -> bool:
        """Whether what surprised a user comes of a cut, or of what is like one."""
        return ": 503 " in surprise.what and any(
            surprise.began < restored + RECOVERY_SECONDS and cut < surprise.ended
            for cut, restored in (*self.cuts, *self.held_up)
        )


@contextmanager
def house(name: str, folder: Path) -> Iterator[House]:
    """A server on a store, with two workers where it can have them."""
    folder.mkdir()
    if name == "memory":
        with _served(name, folder) as found:
            yield found
    elif name == "SQLite":
        with _served(name, folder, "--store", f"sqlite://{folder}/payments.db", "--workers", "2") as found:
            yield found
    else:
        with (
            redis_server(*DURABLE) as engine,
            tcp_proxy(engine.port) as proxy,
            _served(name, folder, "--store", f"redis://127.0.0.1:{proxy.port}", "--workers", "2") as found,
            _cut_off(proxy, found),
        ):
            yield found


@contextmanager
def _served(name: str, folder: Path, *arguments: str) -> Iterator[House]:
    log = folder / "log"
    with server_process_by_script(folder, f'exec "$@" > {log} 2>&1', "--no-access-log", *arguments) as served:
        wait_until(lambda: log.read_text(encoding="utf-8").endswith(_LAST_OF_BANNER))
        begun = len(log.read_text(encoding="utf-8"))
        yield House(name, Running(served.url, served.process.pid), log, begun)


@contextmanager
def _cut_off(proxy: TcpProxy, house: House) -> Iterator[None]:
    enough, choice = threading.Event(), seeded("soak")

    def cut() -> None:
        while not enough.wait(choice.uniform(*CALM_SECONDS)):
            began = time.monotonic()
            _break(proxy, choice, enough)
            house.cuts.append((began, time.monotonic()))

    def notice() -> None:
        began = time.monotonic()
        while not enough.wait(NOTICE_SECONDS):
            before, began = began, time.monotonic()
            if began - before > HELD_UP_SECONDS:
                house.held_up.append((before, began))

    threads = [threading.Thread(target=cut), threading.Thread(target=notice)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        enough.set()
        for thread in threads:
            thread.join()


def _break(proxy: TcpProxy, choice: random.Random, enough: threading.Event) -> None:
    proxy.set(choice.choice(CUTS))
    enough.wait(choice.uniform(*CUT_SECONDS))
    proxy.set(PASS_THROUGH)
