"""The servers under test: one on each store. The connection to Redis is cut at intervals."""

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.polling import wait_until
from harness.redis_engine import DURABLE, redis_server
from harness.server_process import ServerProcess, server_process_by_script
from harness.tcp_proxy import PASS_THROUGH, Behavior, Mode, TcpProxy, tcp_proxy
from tests.system.faults.clients import seeded_random, threads
from tests.system.soak.users import UnexpectedReply

STORES = ("memory", "SQLite", "Redis")
CUTS = (
    Behavior(Mode.RESET),
    Behavior(Mode.BLACK_HOLE),
    Behavior(Mode.DELAY, delay=0.02),
    Behavior(Mode.DROP_REPLY),
    Behavior(Mode.DROP_REPLY, pattern=b"EVALSHA"),
)
CUT_SECONDS = (0.2, 1.5)
PAUSE_SECONDS = (6.0, 14.0)
RECOVERY_SECONDS = 5.0
"""A refusal within this time after a cut is expected: a server gives up a silent connection after two
seconds, and must then open a new one.
"""

_END_OF_BANNER = "Ctrl-C\n"

CHECK_SECONDS, STALL_SECONDS = 0.1, 0.5
"""How often this process reads the clock, and the delay that counts as a stall: its proxy has stalled, too,
which is the same as a cut.
"""


@dataclass
class Deployment:
    """A server, and the times of cuts and stalls between it and its store. After the banner, whose length is
    `banner_length`, it should log nothing.
    """

    name: str
    server: ServerProcess
    log: Path
    banner_length: int
    cuts: list[tuple[float, float]] = field(default_factory=list)
    stalls: list[tuple[float, float]] = field(default_factory=list)

    @property
    def log_output(self) -> str:
        """What it has logged, but for the warnings of a cut."""
        text = self.log.read_text(encoding="utf-8")[self.banner_length :]
        warned = "Warning: The store " if self.cuts else None
        return "".join(line for line in text.splitlines(keepends=True) if not warned or warned not in line)

    def explains(self, reply: UnexpectedReply) -> bool:
        """Whether a reply is a refusal caused by a cut or a stall."""
        return ": 503 " in reply.text and any(
            reply.started < restored + RECOVERY_SECONDS and cut < reply.ended
            for cut, restored in (*self.cuts, *self.stalls)
        )


@contextmanager
def deployment(name: str, folder: Path) -> Iterator[Deployment]:
    """A server on a store."""
    folder.mkdir()
    if name == "Redis":
        with (
            redis_server(*DURABLE) as engine,
            tcp_proxy(engine.port) as proxy,
            _start(name, folder, "--store", f"redis://127.0.0.1:{proxy.port}") as running,
            _periodic_cuts(proxy, running),
        ):
            yield running
    else:
        stored = ("--store", f"sqlite://{folder}/payments.db")
        with _start(name, folder, *(stored if name == "SQLite" else ())) as running:
            yield running


@contextmanager
def _start(name: str, folder: Path, *arguments: str) -> Iterator[Deployment]:
    log = folder / "log"
    with server_process_by_script(folder, f'exec "$@" > {log} 2>&1', "--no-access-log", *arguments) as server:
        wait_until(lambda: log.read_text(encoding="utf-8").endswith(_END_OF_BANNER))
        banner_length = len(log.read_text(encoding="utf-8"))
        yield Deployment(name, server, log, banner_length)


def _periodic_cuts(proxy: TcpProxy, deployment: Deployment) -> AbstractContextManager[threading.Event]:
    choice = seeded_random("soak")

    def cut(stop: threading.Event) -> None:
        while not stop.wait(choice.uniform(*PAUSE_SECONDS)):
            started = time.monotonic()
            proxy.set(choice.choice(CUTS))
            stop.wait(choice.uniform(*CUT_SECONDS))
            proxy.set(PASS_THROUGH)
            deployment.cuts.append((started, time.monotonic()))

    def detect_stalls(stop: threading.Event) -> None:
        now = time.monotonic()
        while not stop.wait(CHECK_SECONDS):
            before, now = now, time.monotonic()
            if now - before > STALL_SECONDS:
                deployment.stalls.append((before, now))

    return threads(cut, detect_stalls)
