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
from typing import IO, Any, Self
from urllib.error import HTTPError
from urllib.parse import urlsplit

from paymock.client.http import monotonic

Process = subprocess.Popen[bytes]

STATE_DIR = "PAYMOCK_STATE_DIR"
"""The variable with a folder that lasts for all starts. What has it in its environment was started here."""

_POLL_SECONDS, _STOP_SECONDS = 0.02, 5.0
_REFUSED_SECONDS = 5.0  # so long it may answer with an error before that is no matter of starting
_OUTPUT_LINES, _OUTPUT_BYTES = 20, 20_000
_ACCESS = re.compile(r"\bHTTP/[1-3]\b")  # in the log of requests, most of which the judge has sent
_COLORS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_REASON = re.compile(r"\w*(?:Error|Exception|panic)\b")
_INTERRUPTS = [number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP")]


def is_loopback(url: str) -> bool:
    with suppress(ValueError):
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and parts.hostname in ("127.0.0.1", "::1", "localhost")
    return False


class _LoopbackRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any) -> urllib.request.Request | None:
        return super().redirect_request(*arguments) if is_loopback(arguments[-1]) else None


direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the environment may name a proxy
browser = urllib.request.build_opener(urllib.request.ProxyHandler({}), _LoopbackRedirects())


class NotStarted(Exception):
    """The application did not start."""


class Service:
    """The application, in one process or in several `replicas`: started by a command of the shell in which
    `{port}` stands for a port of its own, as in the URL that answers once it is `ready`. As a context
    manager, it ends whatever was started, in every case. Raises NotStarted after `timeout` seconds.
    """

    def __init__(
        self, command: str, variables: Mapping[str, str], ready: str | None, timeout: float, replicas: int = 1
    ) -> None:
        self.ports = [_free_port() for _ in range(replicas)]
        self.start_seconds = 0.0
        self._command = command
        self._urls = [ready.replace("{port}", str(port)) for port in self.ports] if ready else []
        self._timeout = timeout
        self._variables = variables
        self._processes: dict[int, Process] = {}  # that are to run, by the index of the replica

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._state = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
            self._output = stack.enter_context(tempfile.TemporaryFile())
            stack.callback(self.kill, signal.SIGTERM)
            for url in self._urls:
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
        started = [replica for replica in range(len(self.ports)) if replica not in self._processes]
        environment = {**self._variables, STATE_DIR: self._state}
        for replica in started:
            command = self._command.replace("{port}", str(self.ports[replica]))
            with deferred_interrupts():
                self._processes[replica] = spawn(command, environment, self._output)
        for replica in started if self._urls else ():
            url, process, began = self._urls[replica], self._processes[replica], monotonic()
            while (answer := _answer(url)) != 200:
                seconds, reason = monotonic() - began, ""
                if process.poll() is not None:
                    reason = f"ended with exit status {process.returncode} before it was ready"
                elif answer >= 400 and answer != 503 and seconds >= _REFUSED_SECONDS:
                    reason = f"answers {url} with {answer}, and not with 2xx"
                elif seconds >= self._timeout:
                    reason = f"has not answered {url} with 2xx within {self._timeout:g} s"
                if reason:
                    self.kill(replica=replica)
                    last = self.last_output(_OUTPUT_LINES)
                    told = ["Its last output:", *last] if last else []
                    raise NotStarted("\n".join([f"the application {reason}.", *told]))
                time.sleep(_POLL_SECONDS)

    @property
    def is_down(self) -> bool:
        """Whether a process has ended that is to be started again."""
        return any(process.poll() is not None for process in self._processes.values())

    def exit_status(self) -> int | None:
        """The exit status of a process that has ended by itself; None if all run."""
        for replica, process in self._processes.items():
            if process.poll() is not None:
                self.kill(replica=replica)
                return process.returncode
        return None

    def kill(self, number: signal.Signals = signal.SIGKILL, replica: int | None = None) -> None:
        """End all processes, or one replica, by a signal or else by force; return when they are gone."""
        chosen = [one for one in self._processes if replica in (None, one)]
        ended = [self._processes.pop(one) for one in chosen]
        for process in ended:
            signal_group(process, number)
        _signal_processes(self._others(), number)
        _wait_while(lambda: any(one.poll() is None for one in ended) or self._others(), _STOP_SECONDS)
        for process in ended:
            kill(process)
        _signal_processes(self._others(), signal.SIGKILL)
        urls = [self._urls[one] for one in chosen if self._urls]
        _wait_while(lambda: any(map(_answer, urls)), _STOP_SECONDS)  # until their ports are free

    def _others(self) -> list[int]:
        """What else was started here and still runs, once no replica does: in sessions of its own."""
        return [] if self._processes else _processes_with(f"{STATE_DIR}={self._state}")

    def mark(self) -> int:
        return os.fstat(self._output.fileno()).st_size

    def last_output(self, lines: int, since: int = 0) -> list[str]:
        start = max(since, self.mark() - _OUTPUT_BYTES)
        text = os.pread(self._output.fileno(), _OUTPUT_BYTES, start).decode(errors="replace")
        text = _COLORS.sub("", text)
        return [one for one in text.splitlines() if one.strip() and not _ACCESS.search(one)][-lines:]

    def end_reason(self) -> str:
        """The line of the output that says why the application has ended, or else the last."""
        lines = self.last_output(3 * _OUTPUT_LINES)
        return [*lines, *filter(_REASON.search, lines)][-1].strip() if lines else ""


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
    """Run a command of the shell, as the leader of a group that can be ended at once. Raises OSError."""
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
    """Put off interrupts until the end of the block: a process that has begun is then known, and is ended."""
    arrived: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()  # no other is ever interrupted
    numbers = _INTERRUPTS if is_main else []
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
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def end_processes_with(variable: str, seconds: float) -> None:
    """End the processes that have this in their environment: by SIGTERM, and after `seconds` by force."""
    _signal_processes(_processes_with(variable), signal.SIGTERM)
    _wait_while(lambda: _processes_with(variable), seconds)
    _signal_processes(_processes_with(variable), signal.SIGKILL)


def _wait_while(condition: Callable[[], object], seconds: float) -> None:
    deadline = monotonic() + seconds
    while condition() and monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _signal_processes(processes: Iterable[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def _processes_with(variable: str) -> list[int]:
    """The processes with this in their environment, in any session; none where the system does not tell."""
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
