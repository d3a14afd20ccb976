"""Supervisor of worker processes: it starts them, replaces those that end, and stops them.

Each worker is connected to the supervisor by a socket pair, its pipe. Over it, a worker reports that it is
ready, or why it cannot start. When either process ends, in whatever way, the other one reads the end of the
stream.
"""

import contextlib
import os
import select
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, NoReturn

from msgspec import Struct

from paymock.server.accept import ConnectionCounts
from paymock.server.errors import StartError
from paymock.server.signals import (
    HANGUP,
    STOP_SECONDS,
    STOP_SIGNALS,
    handling_signals,
    stdin_ended,
    stop_signals,
)
from paymock.web.telemetry.access_log import RequestLog

RESTART_SECONDS = 1.0
"""Shortest time between the start of a worker and that of its replacement."""

_READY = b"\0"


class WorkerSlot(NamedTuple):
    """The number of a worker, which its replacement inherits, and its end of the pipe to the supervisor."""

    number: int
    pipe: socket.socket

    def send_ready(self) -> None:
        self.pipe.send(_READY)


class _Worker(Struct):
    number: int
    pid: int
    pipe: socket.socket
    started: float
    received: bytes = b""

    @property
    def is_ready(self) -> bool:
        return self.received.startswith(_READY)


class _Exit(Struct):
    """A worker that has ended, its exit status, and when its replacement may start."""

    worker: _Worker
    status: int
    restart_at: float

    @property
    def fields(self) -> dict[str, int | str]:
        cause = {"signal": -self.status} if self.status < 0 else {"status": self.status}
        reason = self.worker.received.removeprefix(_READY).decode(errors="replace")
        return {**cause, **({"reason": reason} if reason else {})}

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.fields.items())


class Supervisor:
    """Keeps `count` workers running. `work` is the main function of a worker process; `sockets` are those
    that it listens on; `on_ready` is called once, when all workers are ready. A SIGHUP that does not stop it
    calls `on_hangup`, and reaches the workers. With `watch_stdin`, the end of standard input stops it.
    """

    def __init__(
        self,
        count: int,
        work: Callable[[WorkerSlot], None],
        sockets: Sequence[socket.socket],
        counts: ConnectionCounts,
        on_ready: Callable[[], None],
        log: RequestLog,
        on_hangup: Callable[[], None] = lambda: None,
        *,
        watch_stdin: bool = False,
    ) -> None:
        self._count = count
        self._work = work
        self._sockets = sockets
        self._counts = counts
        self._on_ready: Callable[[], None] | None = on_ready
        self._log = log
        self._on_hangup = on_hangup
        self._stdin = [0] if watch_stdin else []
        self._workers: dict[socket.socket, _Worker] = {}
        self._exits: list[_Exit] = []
        self._deadline: float | None = None  # of the stop, once there is a reason for it
        self._stop_reason = ""
        self._stop_signals: tuple[signal.Signals, ...] = STOP_SIGNALS
        self._signals: socket.socket

    def run(self) -> str:
        """Run until a signal or the end of standard input comes and all workers have ended; return which. A
        second signal raises SystemExit at once. In either case no worker is left.

        There must be no other thread, and no event loop. Raises StartError if a worker cannot be started at
        first, or ends before all are ready.
        """
        self._stop_signals = stop_signals()
        with _signal_socket() as self._signals:
            try:
                try:
                    for number in range(self._count):
                        self._start(number)
                except OSError as error:
                    raise StartError(f"cannot start the workers: {error.strerror}") from None
                while self._workers or self._exits:
                    self._wait()
            finally:
                self._signal_workers(signal.SIGKILL)
                for pipe, worker in self._workers.items():
                    os.waitpid(worker.pid, 0)
                    pipe.close()
        return self._stop_reason

    def _wait(self) -> None:
        """Wait for the next event, and handle it."""
        times = [ended.restart_at for ended in self._exits]
        if self._deadline is not None:
            times.append(self._deadline)
        timeout = max(0.0, min(times) - time.monotonic()) if times else None
        for readable in _readable([self._signals, *self._workers, *self._stdin], timeout):
            if isinstance(readable, int):
                if stdin_ended():
                    self._stop("standard input closed")
            elif readable in self._workers:
                self._receive(self._workers[readable])
        # Signals come after exits: one to the process group ends workers, too, which are then not replaced.
        for _ in _readable([self._signals], 0):
            for number in self._signals.recv(16):
                self._handle_signal(number)
        if self._deadline is None:
            self._maintain()
        elif time.monotonic() >= self._deadline:
            self._signal_workers(signal.SIGKILL)
            self._deadline += STOP_SECONDS

    def _maintain(self) -> None:
        """Report that all workers are ready, and start replacements that are due."""
        if self._on_ready:
            if self._exits:
                raise StartError(f"a worker ended before all of them were ready ({self._exits[0]})")
            if all(worker.is_ready for worker in self._workers.values()):
                self._on_ready()
                self._on_ready = None
        now = time.monotonic()
        for ended in [ended for ended in self._exits if ended.restart_at <= now]:
            self._replace(ended)

    def _handle_signal(self, number: int) -> None:
        if number not in self._stop_signals:
            self._on_hangup()
            self._signal_workers(signal.SIGHUP)
        elif self._deadline is not None:
            raise SystemExit(128 + number)
        else:
            self._stop(signal.Signals(number).name)

    def _stop(self, reason: str) -> None:
        self._stdin.clear()
        self._stop_reason = reason
        self._deadline = time.monotonic() + STOP_SECONDS
        self._exits.clear()
        for listener in self._sockets:
            listener.close()
        self._signal_workers(signal.SIGTERM)

    def _signal_workers(self, number: signal.Signals) -> None:
        for worker in self._workers.values():
            os.kill(worker.pid, number)

    def _receive(self, worker: _Worker) -> None:
        data = worker.pipe.recv(4096)
        worker.received += data
        if not data:
            _, status = os.waitpid(worker.pid, 0)
            del self._workers[worker.pipe]
            worker.pipe.close()
            self._counts.clear(worker.number)
            if self._deadline is None:
                restart_at = worker.started + RESTART_SECONDS
                self._exits.append(_Exit(worker, os.waitstatus_to_exitcode(status), restart_at))

    def _replace(self, ended: _Exit) -> None:
        old = ended.worker
        try:
            new = self._start(old.number)
        except OSError as error:
            text = f"cannot start a worker: {error.strerror}"
            self._log.event("worker_missing", text, reason=str(error.strerror))
            ended.restart_at = time.monotonic() + RESTART_SECONDS
            return
        self._exits.remove(ended)
        text = f"worker {old.pid} ended ({ended}); started {new.pid}"
        self._log.event("worker_replaced", text, ended=old.pid, **ended.fields, started=new.pid)

    def _start(self, number: int) -> _Worker:
        ours, theirs = socket.socketpair()
        # Until the worker has replaced our handlers, a signal to it would appear to be one to the supervisor.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*STOP_SIGNALS, *HANGUP})
        try:
            pid = os.fork()
            if not pid:
                self._run_worker(WorkerSlot(number, theirs), mask, [self._signals, ours, *self._workers])
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        worker = self._workers[ours] = _Worker(number, pid, ours, time.monotonic())
        return worker

    def _run_worker(
        self, slot: WorkerSlot, mask: set[int | signal.Signals], inherited: Sequence[socket.socket]
    ) -> NoReturn:
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(
                signal.SIGINT, signal.SIG_IGN
            )  # Ctrl-C reaches all; the supervisor stops the workers
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # until the server handles them
            signal.signal(signal.SIGHUP, lambda *_: self._on_hangup())
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            for other in inherited:
                other.close()
            self._work(slot)
            status = 0
        except (StartError, OSError) as error:
            slot.pipe.send(str(error).encode())
        except BaseException:  # noqa: BLE001 - none may propagate into the frames of the supervisor
            traceback.print_exc()
        finally:
            os._exit(status)


def _readable(files: list[socket.socket | int], timeout: float | None) -> list[socket.socket | int]:
    return select.select(files, [], [], timeout)[0]


@contextlib.contextmanager
def _signal_socket() -> Iterator[socket.socket]:
    """Yield a socket from which the numbers of signals can be read, in place of their previous handlers."""
    receiver, sender = socket.socketpair()
    sender.settimeout(0)
    with receiver, sender:
        children = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if ignored, exit statuses would be lost
        wakeup = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        try:
            with handling_signals(lambda *_: None, {*STOP_SIGNALS, *HANGUP}):
                yield receiver
        finally:
            signal.set_wakeup_fd(wakeup)
            signal.signal(signal.SIGCHLD, children)
