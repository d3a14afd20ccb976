"""An application that is called by commands of the shell and by HTTP requests."""

import math
import re
import shlex
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException
from itertools import cycle
from typing import Any
from urllib.parse import quote

from paymock.client.http import monotonic
from paymock.verify.driver import Backend, InlineExecutor, complete
from paymock.verify.process import (
    ExternalService,
    Process,
    Service,
    deferred_interrupts,
    direct,
    kill,
    signal_group,
    spawn,
)
from paymock.verify.runner import GRACE_SECONDS

_REQUEST = re.compile(r"(GET|POST|PUT|PATCH|DELETE)[ \t]+(https?://\S+)")
_CALL_SECONDS = 120.0
_THREADS = 48  # sixteen orders that are placed three times at once


class CallFailed(Exception):
    """A command has failed, or a request was not answered with 2xx."""


@contextmanager
def backend_of(
    order: str,
    deliveries: str,
    tick: str | None,
    environment: Mapping[str, str],
    budget: float | None = None,
    service: Service | ExternalService | None = None,
) -> Iterator[Backend]:
    """The backend behind these calls, within the `budget` and a grace; the end kills commands."""
    deadline = math.inf if budget is None else monotonic() + budget + GRACE_SECONDS
    caller = Caller(environment, deadline, service.ports if service else ())
    threads = DaemonThreads(_THREADS)
    try:
        yield Backend(
            order=partial(caller.call, order),
            deliveries=lambda order_id: parse_count(caller.call(deliveries, order_id)),
            tick=None if tick is None else partial(caller.call, tick),
            executor=threads if tick is None else InlineExecutor(),
            threads=threads,
            service=service,
        )
    finally:
        caller.close()


class Caller:
    """Carries out commands and HTTP requests, until a `deadline` of the monotonic clock. Thread-safe."""

    def __init__(
        self, environment: Mapping[str, str], deadline: float = math.inf, ports: Sequence[int] = ()
    ) -> None:
        self._environment = environment
        self._deadline = deadline
        self._ports = cycle(ports)
        self._processes: set[Process | None] = set()

    def call(self, text: str, order_id: str = "") -> str:
        """Carry it out for an order, and return what it prints or answers. Raises CallFailed."""
        if self._seconds_left <= 0:
            raise CallFailed(f"{text}: not run, since the budget has ended")
        port = next(self._ports, None)
        text = text if port is None else text.replace("{port}", str(port))
        if request := _REQUEST.fullmatch(text.strip()):
            url = request[2].replace("{order_id}", quote(order_id, safe=""))
            return _send(request[1], url, self._seconds_left)
        return self._run(text, order_id)

    def close(self) -> None:
        self._deadline = -math.inf
        for process in filter(None, [*self._processes]):
            signal_group(process, signal.SIGKILL)

    @property
    def _seconds_left(self) -> float:
        return min(_CALL_SECONDS, self._deadline - monotonic())

    def _run(self, text: str, order_id: str) -> str:
        command = text.replace("{order_id}", shlex.quote(order_id))
        process: Process | None = None
        try:
            with deferred_interrupts():
                process = spawn(command, {**self._environment, "ORDER_ID": order_id}, subprocess.PIPE)
                self._processes.add(process)  # before the time is read, lest `close` in between is missed
            output, messages = process.communicate(timeout=self._seconds_left)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CallFailed(f"{text}: {error}") from None
        finally:
            if process is not None and process.returncode is None:
                kill(process)
            self._processes.discard(process)
        if process.returncode:
            last = messages.decode(errors="replace").strip().splitlines()[-1:]
            raise CallFailed(": ".join([f"{text}: exit status {process.returncode}", *last]))
        return output.decode(errors="replace")


def parse_count(text: str) -> int:
    """How often goods went out, as a command prints it: an integer, `true` or `false`. Raises ValueError."""
    word = text.strip().strip('"').lower()
    if word in ("true", "false"):
        return int(word == "true")
    if re.fullmatch("[0-9]{1,9}", word):
        return int(word)
    shown = text if len(text) <= 100 else f"{text[:100]}..."
    raise ValueError(f"an integer, true or false must be printed or answered, not {shown!r}")


class DaemonThreads(Executor):
    """Runs calls side by side. Unlike the threads of a ThreadPoolExecutor, one that hangs delays no exit."""

    def __init__(self, count: int) -> None:
        self._free = threading.Semaphore(count)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            with self._free:
                complete(future, fn, *args, **kwargs)

        threading.Thread(target=run, daemon=True).start()
        return future


def _send(method: str, url: str, seconds: float) -> str:
    request = urllib.request.Request(url, method=method, data=b"" if method != "GET" else None)  # noqa: S310
    try:
        with direct.open(request, timeout=seconds) as reply:
            return str(reply.read().decode(errors="replace"))
    except urllib.error.HTTPError as error:
        with error:
            raise CallFailed(f"{method} {url}: status {error.code}") from None
    except (OSError, HTTPException) as error:
        raise CallFailed(f"{method} {url}: {getattr(error, 'reason', error)}") from None
