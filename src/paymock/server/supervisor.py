"""Several processes that do the same work, and one that looks after them: it starts them, replaces those that
end, and ends them.

Each worker has a line to its supervisor: a pair of connected sockets, one end for each of the two, none for
anybody else. Over it, a worker says that it is ready; and when either process ends, however it ends, the
other one learns of it from the line.
"""

import contextlib
import os
import select
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, Protocol

from paymock.server.accept import ConnectionCounts
from paymock.server.announce import StartError
from paymock.server.signals import STOP_SECONDS, STOP_SIGNALS, handling_signals

RESTART_SECONDS = 1.0
"""From the start of a worker to the earliest start of its successor."""

_READY = b"\0"


class Post(NamedTuple):
    """A worker's place: its number, and its end of the line to the supervisor."""

    number: int
    line: socket.socket

    def ready(self) -> None:
        """Tells the supervisor that the worker answers."""
        self.line.send(_READY)


class Note(Protocol):
    """Writes to the log: a line for a person, or an event with its fields."""

    def __call__(self, event: str, text: str, **fields: int | str) -> None:
        """Writes one of the two."""


@dataclass
class _Worker:
    number: int
    pid: int
    line: socket.socket
    started: float
    said: bytes = b""

    @property
    def is_ready(self) -> bool:
        return self.said.startswith(_READY)


@dataclass
class _Vacancy:
    """A worker that has ended, how, and when its successor may start."""

    worker: _Worker
    status: int
    due: float

    @property
    def fields(self) -> dict[str, int | str]:
        how = {"signal": -self.status} if self.status < 0 else {"status": self.status}
        reason = self.worker.said.removeprefix(_READY).decode(errors="replace")
        return {**how, **({"reason": reason} if reason else {})}

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.fields.items())


class Supervisor:
    """Keeps a worker at each of `count` posts. `work` is what a worker does, in its process; `sockets` are
    those that it listens on; `ready` is called once all workers answer for the first time.
    """

    def __init__(
        self,
        count: int,
        work: Callable[[Post], None],
        sockets: Sequence[socket.socket],
        loads: ConnectionCounts,
        ready: Callable[[], None],
        note: Note,
    ) -> None:
        self._count = count
        self._work = work
        self._sockets = sockets
        self._loads = loads
        self._ready: Callable[[], None] | None = ready
        self._note = note
        self._workers: dict[socket.socket, _Worker] = {}
        self._vacancies: list[_Vacancy] = []
        self._deadline: float | None = None  # of a stop, once one was asked for
        self._signals: socket.socket

    def run(self) -> None:
        """Returns after a signal, when all workers have ended; a second signal raises SystemExit at once.
        No worker is left in either case.

        There must be no other thread, and no event loop. Raises StartError when a worker cannot be started at
        first, or ends before all are ready.
        """
        with _signals() as self._signals:
            try:
                try:
                    for number in range(self._count):
                        self._start(number)
                except OSError as error:
                    raise StartError(f"cannot start the workers: {error.strerror}") from None
                while self._workers or self._vacancies:
                    self._turn()
            finally:
                self._kill()
                for line, worker in self._workers.items():
                    os.waitpid(worker.pid, 0)
                    line.close()

    def _turn(self) -> None:
        """Waits for something to happen, and sees to it."""
        times = [vacancy.due for vacancy in self._vacancies]
        if self._deadline is not None:
            times.append(self._deadline)
        seconds = max(0.0, min(times) - time.monotonic()) if times else None
        for line in _readable([self._signals, *self._workers], seconds):
            if line in self._workers:
                self._hear(self._workers[line])
        # Afterwards, since a signal to all processes ends a worker, too: that is no reason to replace it.
        for _ in _readable([self._signals], 0):
            for number in self._signals.recv(16):
                self._stop(number)
        if self._deadline is None:
            self._fill()
        elif time.monotonic() >= self._deadline:
            self._kill()
            self._deadline += STOP_SECONDS

    def _fill(self) -> None:
        """Tells that all are ready, or starts the successors that are due."""
        if self._ready:
            if self._vacancies:
                raise StartError(f"a worker ended before all of them answered ({self._vacancies[0]})")
            if all(worker.is_ready for worker in self._workers.values()):
                self._ready()
                self._ready = None
        now = time.monotonic()
        for vacancy in [vacancy for vacancy in self._vacancies if vacancy.due <= now]:
            self._replace(vacancy)

    def _stop(self, number: int) -> None:
        if self._deadline is not None:
            raise SystemExit(128 + number)
        self._deadline = time.monotonic() + STOP_SECONDS
        self._vacancies.clear()
        for listening in self._sockets:
            listening.close()
        for worker in self._workers.values():
            os.kill(worker.pid, signal.SIGTERM)

    def _kill(self) -> None:
        for worker in self._workers.values():
            os.kill(worker.pid, signal.SIGKILL)

    def _hear(self, worker: _Worker) -> None:
        said = worker.line.recv(4096)
        worker.said += said
        if not said:
            _, status = os.waitpid(worker.pid, 0)
            del self._workers[worker.line]
            worker.line.close()
            self._loads.vacate(worker.number)
            if self._deadline is None:
                due = worker.started + RESTART_SECONDS
                self._vacancies.append(_Vacancy(worker, os.waitstatus_to_exitcode(status), due))

    def _replace(self, vacancy: _Vacancy) -> None:
        old = vacancy.worker
        try:
            new = self._start(old.number)
        except OSError as error:
            self._note(
                "worker_missing", f"cannot start a worker: {error.strerror}", reason=str(error.strerror)
            )
            vacancy.due = time.monotonic() + RESTART_SECONDS
            return
        self._vacancies.remove(vacancy)
        text = f"worker {old.pid} ended ({vacancy}); started {new.pid}"
        self._note("worker_replaced", text, ended=old.pid, **vacancy.fields, started=new.pid)

    def _start(self, number: int) -> _Worker:
        ours, theirs = socket.socketpair()
        # A signal that came to the worker while it still has our handlers would seem to have come to us.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            pid = os.fork()
            if not pid:
                self._become_worker(Post(number, theirs), mask, [self._signals, ours, *self._workers])
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        worker = self._workers[ours] = _Worker(number, pid, ours, time.monotonic())
        return worker

    def _become_worker(
        self, post: Post, mask: set[int | signal.Signals], others: Sequence[socket.socket]
    ) -> NoReturn:
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all: the supervisor sees to it
            signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # until there is something to end
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            for other in others:
                other.close()
            self._work(post)
            status = 0
        except (StartError, OSError) as error:
            post.line.send(str(error).encode())
        except BaseException:  # noqa: BLE001 - nothing may get out into the supervisor's own frames
            traceback.print_exc()
        finally:
            os._exit(status)


def _readable(sockets: list[socket.socket], seconds: float | None) -> list[socket.socket]:
    return select.select(sockets, [], [], seconds)[0]


@contextlib.contextmanager
def _signals() -> Iterator[socket.socket]:
    """A socket that the numbers of signals come from, in place of what they did before."""
    receiving, sending = socket.socketpair()
    sending.settimeout(0)
    with receiving, sending:
        children = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would hide how a worker ended
        wakeup = signal.set_wakeup_fd(sending.fileno(), warn_on_full_buffer=False)
        try:
            with handling_signals(lambda *_: None):
                yield receiving
        finally:
            signal.set_wakeup_fd(wakeup)
            signal.signal(signal.SIGCHLD, children)
