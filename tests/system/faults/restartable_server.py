"""Servers that are killed and started again."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from harness import process_info
from harness.polling import wait_until
from harness.redis_engine import redis_server
from harness.server_process import ServerProcess, server_process


class RestartableServer:
    """A `paymock serve` on a free port, which differs after each start."""

    def __init__(self, folder: Path, store: str) -> None:
        self._folder = folder
        self._arguments = ("--store", store, "--no-access-log")
        self._starts = 0
        self._stack = ExitStack()
        self._server: ServerProcess
        self.start()

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def pids(self) -> tuple[int, ...]:
        return () if self._server.process.poll() is not None else self._server.tree.pids

    def start(self) -> None:
        self._starts += 1
        folder = self._folder / f"start-{self._starts}"  # with a ready file of its own
        folder.mkdir(parents=True)
        self._server = self._stack.enter_context(server_process(folder, *self._arguments))

    def kill(self) -> None:
        """Send SIGKILL to all processes, and wait until they have ended."""
        pids = self.pids
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._stack.close()
        wait_until(lambda: not any(map(process_info.is_running, pids)))


@contextmanager
def restartable_servers(folder: Path, stores: list[str]) -> Iterator[list[RestartableServer]]:
    running: list[RestartableServer] = []
    try:
        for number, store in enumerate(stores):
            running.append(RestartableServer(folder / f"server-{number}", store))
        yield running
    finally:
        for server in running:
            server.kill()


@contextmanager
def new_store(name: str, folder: Path, *options: str) -> Iterator[str]:
    """The URL of an SQLite file, or of a Redis engine with these options."""
    if name == "SQLite":
        yield f"sqlite://{folder}/payments.db"
    else:
        with redis_server(*options) as engine:
            yield engine.url
