"""Handling of the signals that stop a process, which ends within STOP_SECONDS."""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from paymock.server.process import in_foreground

T = TypeVar("T")

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
HANGUP = (signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()

STOP_SECONDS = 4.0
"""How long after the first signal the process ends, whatever clients do."""


@contextlib.contextmanager
def handling_signals(
    handler: Callable[[int, Any], object], signals: Iterable[signal.Signals] = STOP_SIGNALS
) -> Iterator[None]:
    """Handle `signals` with `handler` within the block, and restore the previous handlers afterwards."""
    previous = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, previous_handler in previous.items():
            signal.signal(number, previous_handler)


def stop_signals() -> tuple[signal.Signals, ...]:
    """The signals that stop this process. SIGHUP is one of them if it was started in the foreground of a
    terminal, and not by `nohup`.
    """
    ends_with_terminal = in_foreground() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return (*STOP_SIGNALS, *HANGUP) if ends_with_terminal else STOP_SIGNALS


def stdin_ended() -> bool:
    """Wait for standard input, and return whether it has ended: also if its terminal is gone."""
    try:
        return not os.read(0, 4096)
    except OSError:
        return True


def exit_after_timeout() -> None:
    """End the process with status 0 after STOP_SECONDS, unless it has ended by then."""
    timer = threading.Timer(STOP_SECONDS, os._exit, [0])
    timer.daemon = True
    timer.start()


def run_until_signal(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in an event loop of its own, and return its result. A signal cancels it and raises
    SystemExit with status 0; a second signal ends the process at once.
    """
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
