"""An application that is called by commands and HTTP requests, and the process that it runs in."""

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
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPException
from queue import SimpleQueue
from typing import IO, Any, TypeVar
from urllib.parse import quote

from paymock.verify.pacing import Application, InlineExecutor, complete
from paymock.verify.runner import GRACE_SECONDS

T = TypeVar("T")
Process = subprocess.Popen[bytes]

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


@contextmanager
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
    caller = Caller(environment, math.inf if budget is None else time.monotonic() + budget + GRACE_SECONDS)
    executor = _DaemonThreads(_THREADS) if tick is None else InlineExecutor()
    try:
        yield Application(
            order=partial(caller.call, order),
            deliveries=lambda order_id: parse_count(caller.call(deliveries, order_id)),
            tick=None if tick is None else partial(caller.call, tick),
            executor=executor,
        )
    finally:
        caller.close()
        executor.shutdown()


class Caller:
    """Carries out calls: commands of the shell, to whose environment `environment` is added, and HTTP
    requests like `POST http://127.0.0.1:8000/orders/{order_id}`. Each ends at the `deadline`, a time of the
    monotonic clock. Thread-safe.
    """

    def __init__(self, environment: Mapping[str, str], deadline: float = math.inf) -> None:
        self._environment = environment
        self._deadline = deadline
        self._processes: set[Process] = set()

    def call(self, text: str, order_id: str = "") -> str:
        """Carry it out for an order, and return what it prints or answers. Raises CallFailed."""
        if self._seconds_left <= 0:
            raise CallFailed(f"{text}: not run, since the budget has ended")
        request = _REQUEST.fullmatch(text.strip())
        if request:
            url = request[2].replace("{order_id}", quote(order_id, safe=""))
            return _send(request[1], url, self._seconds_left)
        return self._run(text, order_id)

    def close(self) -> None:
        """Kill the commands that run, and run no more."""
        self._deadline = -math.inf
        for process in [*self._processes]:
            _signal(process, signal.SIGKILL)

    @property
    def _seconds_left(self) -> float:
        return min(_CALL_SECONDS, self._deadline - time.monotonic())

    def _run(self, text: str, order_id: str) -> str:
        command = text.replace("{order_id}", shlex.quote(order_id))
        environment = {**self._environment, "ORDER_ID": order_id}
        try:
            with _running(command, environment, subprocess.PIPE, _kill) as process:
                self._processes.add(process)  # before the time is read, lest `close` in between is missed
                try:
                    output, messages = process.communicate(timeout=self._seconds_left)
                finally:
                    self._processes.discard(process)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CallFailed(f"{text}: {error}") from None
        if process.returncode:
            last = messages.decode(errors="replace").strip().splitlines()[-1:]
            raise CallFailed(": ".join([f"{text}: exit status {process.returncode}", *last]))
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


class _DaemonThreads(Executor):
    """Runs calls side by side, in threads that do not keep the program from ending, as those of a
    ThreadPoolExecutor would: a request may hang.
    """

    def __init__(self, count: int) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._count = count
        for _ in range(count):
            threading.Thread(target=self._run_calls, daemon=True).start()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        self._calls.put(partial(complete, future, fn, *args, **kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        """Let the threads end after the calls that there are; wait for none."""
        for _ in range(self._count):
            self._calls.put(None)

    def _run_calls(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


@contextmanager
def running(
    command: str, environment: Mapping[str, str], ready: str | None, timeout: float
) -> Iterator[None]:
    """Run the application, until `ready` answers with 2xx, for the length of the block; end it and what it
    has started in every case. Raises NotStarted after `timeout` seconds.
    """
    if ready is not None and _answers(ready):
        raise NotStarted(f"{ready} answers already, before the application was started: is one running?")
    with tempfile.TemporaryFile() as output, _running(command, environment, output, _stop) as process:
        deadline = time.monotonic() + timeout
        while ready is not None and not _answers(ready):
            reason = None
            if process.poll() is not None:
                reason = f"ended with exit status {process.returncode} before it was ready"
            elif time.monotonic() >= deadline:
                reason = f"has not answered {ready} with 2xx within {timeout:g} s"
            if reason is not None:
                raise NotStarted(f"the application {reason}.{_tail(output.fileno())}")
            time.sleep(_POLL_SECONDS)
        yield
        _stop(process)


@contextmanager
def _running(
    command: str, environment: Mapping[str, str], output: int | IO[bytes], end: Callable[[Process], None]
) -> Iterator[Process]:
    """Run a command of the shell, as the leader of a group, so that its children can be ended with it; `end`
    it if the block fails. Raises OSError.
    """
    process: Process | None = None
    try:
        with _deferred_interrupts():
            process = subprocess.Popen(  # noqa: S602 - of the shell, as documented
                command,
                shell=True,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        yield process
    except BaseException:
        if process is not None:
            end(process)
        raise


@contextmanager
def _deferred_interrupts() -> Iterator[None]:
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


def _signal(process: Process, number: signal.Signals) -> None:
    """Send a signal to a command and its children, which may outlive it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _kill(process: Process) -> None:
    with process:  # closes its pipes, and waits for it
        _signal(process, signal.SIGKILL)


def _stop(process: Process) -> None:
    """End the process and its children, if need be by force."""
    _signal(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_SECONDS)
    _kill(process)


def _tail(descriptor: int) -> str:
    """The last lines of the output."""
    size = os.fstat(descriptor).st_size
    lines = os.pread(descriptor, 20_000, max(0, size - 20_000)).decode(errors="replace").splitlines()
    last = lines[-_OUTPUT_LINES:]
    return "\n".join(["", "Its last output:", *last]) if last else ""


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
