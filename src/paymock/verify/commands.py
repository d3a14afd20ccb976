"""An application that is called by commands and HTTP requests, and the process that it runs in."""

import contextlib
import math
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from http.client import HTTPException
from queue import Empty, SimpleQueue
from typing import IO, Any, TypeVar
from urllib.parse import quote

from paymock.verify.application import Application, InlineExecutor
from paymock.verify.trials import GRACE_SECONDS

T = TypeVar("T")

_REQUEST = re.compile(r"(GET|POST|PUT|PATCH|DELETE)[ \t]+(https?://\S+)")
_CALL_SECONDS = 120.0
_THREADS = 16
_POLL_SECONDS = 0.05
_STOP_SECONDS = 5.0
_OUTPUT_LINES = 20
_INTERRUPTS = [number for number in signal.Signals if number.name in ("SIGINT", "SIGTERM", "SIGHUP")]

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens URLs without the proxy that the environment may name: the application is near."""


class CallFailed(Exception):
    """A command has failed, or a request was not answered with 2xx."""


class NotStarted(Exception):
    """The application did not start."""


class Processes:
    """The commands that run, so that none is left behind. Commands and requests end at the `deadline`, a time
    of the monotonic clock.
    """

    def __init__(self, deadline: float = math.inf) -> None:
        self.deadline = deadline
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False

    @contextlib.contextmanager
    def running(self, command: str, environment: Mapping[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
        """Run a command of the shell; kill it if the block fails. Raises OSError, and
        CallFailed once these are closed.
        """
        with _deferred_interrupts(), self._lock:
            if self._closed:
                raise CallFailed(f"{command}: not run, since the judge has ended")
            process = _start(command, environment, subprocess.PIPE)
            self._running.add(process)
        with process:
            try:
                yield process
            except BaseException:
                _kill(process)
                raise
            finally:
                self._running.discard(process)

    def close(self) -> None:
        """Kill the commands that run, and run no more."""
        with self._lock:
            self._closed = True
            for process in [*self._running]:
                _kill(process)


@dataclass(frozen=True)
class Call:
    """A command of the shell, or an HTTP request like `POST http://127.0.0.1:8000/orders/{order_id}`.

    `environment` is added to that of a command.
    """

    text: str
    environment: Mapping[str, str] = field(repr=False)
    processes: Processes = field(default_factory=Processes)

    def __call__(self, order_id: str = "") -> str:
        """Carry it out for an order, and return what it prints or answers. Raises CallFailed."""
        seconds = min(_CALL_SECONDS, self.processes.deadline - time.monotonic())
        if seconds <= 0:
            raise CallFailed(f"{self.text}: not run, since the budget has ended")
        request = _REQUEST.fullmatch(self.text.strip())
        if request:
            return _send(request[1], request[2].replace("{order_id}", quote(order_id, safe="")), seconds)
        return self._run(order_id, seconds)

    def _run(self, order_id: str, seconds: float) -> str:
        environment = {**self.environment, "ORDER_ID": order_id}
        command = self.text.replace("{order_id}", shlex.quote(order_id))
        try:
            with self.processes.running(command, environment) as process:
                output, messages = process.communicate(timeout=seconds)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CallFailed(f"{self.text}: {error}") from None
        if process.returncode:
            last = messages.decode(errors="replace").strip().splitlines()[-1:]
            raise CallFailed(": ".join([f"{self.text}: exit status {process.returncode}", *last]))
        return output.decode(errors="replace")


def parse_count(text: str) -> int:
    """How often goods went out, as a command prints it: an integer, `true` or `false`. Raises CallFailed."""
    word = text.strip().strip('"').lower()
    if word in ("true", "false"):
        return int(word == "true")
    if re.fullmatch("[0-9]{1,9}", word):
        return int(word)
    shown = text if len(text) <= 100 else f"{text[:100]}..."
    raise CallFailed(f"an integer, true or false must be printed or answered, not {shown!r}")


@contextlib.contextmanager
def application_of(
    order: str,
    deliveries: str,
    tick: str | None,
    environment: Mapping[str, str],
    budget: float | None = None,
) -> Iterator[Application]:
    """The application behind these commands and requests. Without a `tick`, several run at a time. Each may
    take what is left of the `budget`, in seconds, and GRACE_SECONDS more. Commands that still run at the end
    are killed.
    """
    processes = Processes(math.inf if budget is None else time.monotonic() + budget + GRACE_SECONDS)
    ask, place = Call(deliveries, environment, processes), Call(order, environment, processes)
    executor = _DaemonThreadPool(_THREADS) if tick is None else InlineExecutor()
    try:
        yield Application(
            order=place,
            deliveries=lambda order_id: parse_count(ask(order_id)),
            tick=None if tick is None else Call(tick, environment, processes),
            executor=executor,
        )
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        processes.close()


class _DaemonThreadPool(Executor):
    """Runs calls side by side, in threads that do not keep the program from ending: a call may hang."""

    def __init__(self, count: int) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._count = count
        for _ in range(count):
            threading.Thread(target=self._run_calls, daemon=True).start()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run the call in one of the threads."""
        future: Future[T] = Future()

        def call() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:  # noqa: BLE001 - whoever asks for the result gets it
                future.set_exception(error)

        self._calls.put(call)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        """Let the threads end, each after its call; wait for none."""
        with contextlib.suppress(Empty):
            while cancel_futures:
                self._calls.get_nowait()
        for _ in range(self._count):
            self._calls.put(None)

    def _run_calls(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def _start(
    command: str, environment: Mapping[str, str], output: "int | IO[bytes]"
) -> "subprocess.Popen[bytes]":
    """Start a command of the shell, as the leader of a group, so that its children can be ended with it."""
    return subprocess.Popen(  # noqa: S602 - of the shell, as documented
        command,
        shell=True,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a command and its children, which may outlive it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def running(
    command: str, environment: Mapping[str, str], ready: str | None, timeout: float
) -> Iterator[None]:
    """Run the application, until `ready` answers with 2xx, for the length of the block; end it and what it
    has started in every case. Raises NotStarted after `timeout` seconds.
    """
    if ready is not None and _answers(ready):
        raise NotStarted(f"{ready} answers already, before the application was started: is one running?")
    process: subprocess.Popen[bytes] | None = None
    with tempfile.TemporaryFile() as output:
        try:
            with _deferred_interrupts():
                process = _start(command, environment, output)
            deadline = time.monotonic() + timeout
            while ready is not None and not _answers(ready):
                if process.poll() is not None:
                    reason = f"ended with exit status {process.returncode}"
                    raise NotStarted(f"the application {reason} before it was ready.{_tail(output.fileno())}")
                if time.monotonic() >= deadline:
                    reason = f"has not answered {ready} with 2xx within {timeout:g} s"
                    raise NotStarted(f"the application {reason}.{_tail(output.fileno())}")
                time.sleep(_POLL_SECONDS)
            yield
        finally:
            if process is not None:
                _end(process)


@contextlib.contextmanager
def _deferred_interrupts() -> Iterator[None]:
    """Put off what interrupts the program until the end of the block: a process that has begun is then known,
    and can be ended. Only the main thread is ever interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    handlers = {number: handler for number in _INTERRUPTS if callable(handler := signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, lambda number, _: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for late in arrived:
        signal.raise_signal(late)


def _send(method: str, url: str, seconds: float) -> str:
    request = urllib.request.Request(url, method=method, data=b"" if method != "GET" else None)  # noqa: S310
    try:
        with _direct.open(request, timeout=seconds) as reply:
            return str(reply.read().decode(errors="replace"))
    except urllib.error.HTTPError as error:
        with error:
            raise CallFailed(f"{method} {url}: status {error.code}") from None
    except (OSError, HTTPException) as error:
        raise CallFailed(f"{method} {url}: {getattr(error, 'reason', error)}") from None


def _answers(url: str) -> bool:
    try:
        with _direct.open(url, timeout=_STOP_SECONDS):
            return True
    except (OSError, HTTPException, ValueError):
        return False


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the process and its children, if need be by force."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_SECONDS)
    _kill(process)
    process.wait()


def _tail(descriptor: int) -> str:
    """The last lines of the output."""
    size = os.fstat(descriptor).st_size
    lines = os.pread(descriptor, 20_000, max(0, size - 20_000)).decode(errors="replace").splitlines()
    last = lines[-_OUTPUT_LINES:]
    return "\n".join(["", "Its last output:", *last]) if last else ""
