"""Servers that are killed and started again: each is a `paymock serve` with all its processes."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from harness import process_info
from harness.polling import wait_until
from harness.server_process import ServerProcess, server_process


class Server:
    """A `paymock serve` on a free port, another one after each start."""

    def __init__(self, folder: Path, store: str, workers: int) -> None:
        self._folder = folder
        self._arguments = ("--store", store, "--workers", str(workers), "--no-access-log")
        self._starts = 0
        self._stack = ExitStack()
        self._served: ServerProcess
        self.start()

    @property
    def url(self) -> str:
        """Where it is, or was last."""
        return self._served.url

    @property
    def pids(self) -> list[int]:
        """The process that was started, and its workers, while it runs."""
        process = self._served.process
        return [] if process.poll() is not None else [process.pid, *process_info.child_pids(process.pid)]

    def start(self) -> None:
        """Returns when it answers."""
        self._starts += 1
        folder = self._folder / f"start-{self._starts}"  # of which a ready file tells
        folder.mkdir(parents=True)
        self._served = self._stack.enter_context(server_process(folder, *self._arguments))

    def kill(self) -> None:
        """Kills all its processes at once, and returns when they have ended."""
        pids = self.pids
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._stack.close()
        wait_until(lambda: not any(map(process_info.is_running, pids)))

    def kill_worker(self, number: int) -> None:
        """Kills one of several workers. Another one takes its place."""
        workers = self.pids[1:]
        if workers:
            with suppress(ProcessLookupError):
                os.kill(workers[number % len(workers)], signal.SIGKILL)


@contextmanager
def servers(folder: Path, stores: list[str], workers: int) -> Iterator[list[Server]]:
    """A server for each of the stores, which may be one and the same."""
    running: list[Server] = []
    try:
        for number, store in enumerate(stores):
            running.append(Server(folder / f"server-{number}", store, workers))
        yield running
    finally:
        for server in running:
            server.kill()


def seconds_until(holds: Callable[[], object], within: float) -> float:
    """How long it takes until the condition holds. Fails when it takes longer than `within`."""
    began = time.monotonic()
    wait_until(holds, within)
    return time.monotonic() - began
