"""The process of a server: its signals, its terminal, its standard streams and its garbage collector.

This module imports nothing that takes long.
"""

import contextlib
import gc
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
HANGUP = (signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()

STOP_SECONDS = 4.0
"""How long after the first signal the process ends, whatever clients do."""

STANDARD_OUTPUT = Path("-")
"""In place of a ready file."""

GC_THRESHOLDS = (5_000, 40, 50)
"""For `gc.set_threshold`: the number of new containers before a collection of the youngest generation, and of
collections of each generation before one of the next.
"""


class StartError(Exception):
    """The server cannot start. The message is one line for the terminal."""


def suspend_collections() -> None:
    """Disable garbage collections while the server starts: what it imports is never freed."""
    gc.disable()


def resume_collections() -> None:
    """Enable rare garbage collections, which exclude all existing objects: these live until the server ends.

    Most objects of a request are freed by their reference counts. Only cycles need the collector, and a full
    collection with a million payments pauses every client.
    """
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()


def in_foreground() -> bool:
    """Whether the process is in the foreground of a terminal, whose Ctrl-C and end then reach it."""
    with contextlib.suppress(OSError), Path("/dev/tty").open("rb") as terminal:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    return False


def end_line() -> None:
    """End the line on which a terminal shows ^C."""
    with contextlib.suppress(OSError):
        if os.isatty(2):
            os.write(2, b"\n")


@contextlib.contextmanager
def handling_signals(
    handler: Callable[[int, Any], object], signals: Iterable[signal.Signals] = STOP_SIGNALS
) -> Iterator[None]:
    previous = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, previous_handler in previous.items():
            signal.signal(number, previous_handler)


def stop_signals() -> tuple[signal.Signals, ...]:
    """What stops this process: also SIGHUP, if a terminal has started it in the foreground, not `nohup`."""
    ends_with_terminal = in_foreground() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return (*STOP_SIGNALS, *HANGUP) if ends_with_terminal else STOP_SIGNALS


def exit_after_timeout() -> None:
    timer = threading.Timer(STOP_SECONDS, os._exit, [0])
    timer.daemon = True
    timer.start()


def run_until_signal(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in an event loop of its own, and return its result. A signal cancels it and raises
    SystemExit with status 0; a second signal ends the process at once.
    """
    import asyncio  # imported here, since it takes long

    signaled = False
    cancel: Callable[[], object] | None = None

    def handle_signal(number: int, frame: object) -> None:
        nonlocal signaled
        if signaled:
            os._exit(128 + number)
        signaled = True
        exit_after_timeout()
        if cancel is not None:
            cancel()

    async def run() -> T:
        nonlocal cancel
        task, loop = asyncio.ensure_future(main()), asyncio.get_running_loop()
        cancel = partial(loop.call_soon_threadsafe, task.cancel)
        if signaled:
            task.cancel()
        try:
            return await task
        finally:
            cancel = None

    with handling_signals(handle_signal):
        try:
            result = asyncio.run(run())
        except asyncio.CancelledError:
            raise SystemExit(0) from None
    if signaled:  # checked once the handlers are restored, so that no signal is lost
        raise SystemExit(0)
    return result
