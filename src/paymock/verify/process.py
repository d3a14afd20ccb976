"""The processes of the application under test: started, awaited, killed as in a crash, and started again."""

import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import IO, Self
from urllib.error import HTTPError

from paymock.client.http import monotonic

Process = subprocess.Popen[bytes]

STATE_DIR = "PAYMOCK_STATE_DIR"
"""The variable with a folder that lasts for all starts. What has it in its environment was started here."""

_POLL_SECONDS = 0.02
_STOP_SECONDS = 5.0
_REFUSED_SECONDS = 5.0
"""So long the application may answer with an error before that is no matter of starting."""

_OUTPUT_LINES = 20
_REASON = re.compile(r"\w*(?:Error|Exception|panic)\b")
_INTERRUPTS = [number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP")]

direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens URLs without the proxy that the environment may name: the application is near."""


class NotStarted(Exception):
    """The application did not start."""


class Service:
    """The application, in one process or in several `replicas`: started by a command of the shell in which
    `{port}` stands for a port of its own, as in the URL that answers once it is `ready`. As a context
    manager, it ends whatever was started, in every case. Raises NotStarted after `timeout` seconds.
    """

    def __init__(
        self,
        command: str,
        environment: Mapping[str, str],
        ready: str | None,
        timeout: float,
        replicas: int = 1,
    ) -> None:
        self.command = command
        self.ready = ready
        self.ports = [_free_port() for _ in range(replicas)]
        self.start_seconds = 0.0
        self._timeout = timeout
        self._environment = environment
        self._processes: dict[int, Process] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._state = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            self._output = stack.enter_context(tempfile.TemporaryFile())
            stack.callback(self.kill, signal.SIGTERM)
            for url in filter(None, map(self._ready_url, self.ports)):
                if _answer(url) == 200:
                    raise NotStarted(
                        f"{url} answers already, before the application was started: is one running?"
                    )
            began = monotonic()
            self.start()
            self.start_seconds = monotonic() - began
            self._timeout = 3 * self.start_seconds + 10
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with deferred_interrupts():
            self._stack.close()

    def start(self) -> None:
        """Start what does not run, and return when it is ready."""
        started = [port for port in self.ports if port not in self._processes]
        for port in started:
            environment = {**self._environment, STATE_DIR: self._state}
            command = self.command.replace("{port}", str(port))
            with deferred_interrupts():
                self._processes[port] = spawn(command, environment, self._output)
        for port in started:
            self._await_ready(port)

    def _await_ready(self, port: int) -> None:
        url, process, began = self._ready_url(port), self._processes[port], monotonic()
        while url is not None and (answer := _answer(url)) != 200:
            seconds, reason = monotonic() - began, None
            if process.poll() is not None:
                reason = f"ended with exit status {process.returncode} before it was ready"
            elif answer >= 400 and answer != 503 and seconds >= _REFUSED_SECONDS:
                reason = f"answers {url} with {answer}, and not with 2xx"
            elif seconds >= self._timeout:
                reason = f"has not answered {url} with 2xx within {self._timeout:g} s"
            if reason is not None:
                self._end(signal.SIGKILL, [port])
                last = self._last_lines()[-_OUTPUT_LINES:]
                heading = ["Its last output:"] if last else []
                raise NotStarted("\n".join([f"the application {reason}.", *heading, *last]))
            time.sleep(_POLL_SECONDS)

    def _ready_url(self, port: int) -> str | None:
        return self.ready and self.ready.replace("{port}", str(port))

    @property
    def is_down(self) -> bool:
        """Whether a process has ended that is to be started again."""
        return any(process.poll() is not None for process in self._processes.values())

    def exit_status(self) -> int | None:
        """The exit status of a process that has ended by itself; None if all run."""
        for port, process in self._processes.items():
            if process.poll() is not None:
                self._end(signal.SIGKILL, [port])
                return process.returncode
        return None

    def kill(self, number: signal.Signals = signal.SIGKILL, replica: int | None = None) -> None:
        """End all processes, or one replica, by a signal or else by force; return when they are gone."""
        self._end(number, self.ports if replica is None else [self.ports[replica]])

    def _end(self, number: signal.Signals, ports: list[int]) -> None:
        ended = {port: process for port in ports if (process := self._processes.pop(port, None))}
        for process in ended.values():
            signal_group(process, number)
        _signal_processes(self._other_processes(), number)
        deadline = monotonic() + _STOP_SECONDS
        while (
            any(one.poll() is None for one in ended.values()) or self._other_processes()
        ) and monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        for process in ended.values():
            kill(process)
        _signal_processes(self._other_processes(), signal.SIGKILL)
        for url in filter(None, map(self._ready_url, ended)):
            while _answer(url) and monotonic() < deadline + _STOP_SECONDS:  # its port is still bound
                time.sleep(_POLL_SECONDS)

    def _other_processes(self) -> list[int]:
        """What else was started here and still runs, once no replica does: in sessions of its own."""
        return [] if self._processes else _processes_with(f"{STATE_DIR}={self._state}")

    def last_output(self) -> str:
        """The line of the output that says why the application has ended, or else the last."""
        lines = self._last_lines()
        reasons = [line for line in lines if _REASON.search(line)]
        return [*lines, *reasons][-1].strip() if lines else ""

    def _last_lines(self) -> list[str]:
        size = os.fstat(self._output.fileno()).st_size
        text = os.pread(self._output.fileno(), 20_000, max(0, size - 20_000)).decode(errors="replace")
        return [line for line in text.splitlines()[-3 * _OUTPUT_LINES :] if line.strip()]


class ExternalService:
    """An application that others start: `crash` kills it, starts it again and returns when it is ready."""

    ports: tuple[int, ...] = ()
    start_seconds = 0.0
    is_down = False

    def __init__(self, crash: Callable[[], object]) -> None:
        self._crash = crash

    def kill(self, number: signal.Signals = signal.SIGKILL, replica: int | None = None) -> None:
        """Raises NotStarted."""
        try:
            self._crash()
        except Exception as error:
            raise NotStarted(f"the application was not started again: {error}") from error


def spawn(command: str, environment: Mapping[str, str], output: int | IO[bytes]) -> Process:
    """Run a command of the shell, as the leader of a group, so that its children can be ended with it. Raises
    OSError.
    """
    return subprocess.Popen(  # noqa: S602 - of the shell, as documented
        command,
        shell=True,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Put off what interrupts the program until the end of the block: a process that has begun is then known,
    and can be ended. Only the main thread is ever interrupted.
    """
    arrived: list[int] = []
    numbers = _INTERRUPTS if threading.current_thread() is threading.main_thread() else []
    handlers = {number: handler for number in numbers if callable(handler := signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, lambda number, _: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for late in arrived:
        signal.raise_signal(late)


def kill(process: Process) -> None:
    """Kill a command and its children, which may outlive it, and wait for it."""
    with process:  # closes its pipes, and waits for it
        signal_group(process, signal.SIGKILL)


def signal_group(process: Process, number: signal.Signals) -> None:
    """Send a signal to a command and its children."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def end_processes_with(variable: str, seconds: float) -> None:
    """End the processes that have this in their environment: by SIGTERM, and after `seconds` by force."""
    _signal_processes(_processes_with(variable), signal.SIGTERM)
    deadline = monotonic() + seconds
    while _processes_with(variable) and monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    _signal_processes(_processes_with(variable), signal.SIGKILL)


def _signal_processes(processes: Iterable[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def _processes_with(variable: str) -> list[int]:
    """The processes that have this in their environment, in whatever session they are. Where the system does
    not tell, none.
    """
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if variable.encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _answer(url: str) -> int:
    """The status with which a URL answers, 200 for every 2xx; 0 if it does not."""
    try:
        with direct.open(url, timeout=_STOP_SECONDS):
            return 200
    except HTTPError as error:
        with error:
            return error.code
    except (OSError, HTTPException, ValueError):
        return 0
