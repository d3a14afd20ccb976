"""How a process is asked to end, and how it makes sure that it does."""

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""By which a process is asked to end."""

STOP_SECONDS = 4.0
"""After so long it has ended, whatever clients are doing."""


@contextlib.contextmanager
def handling_signals(
    handler: Callable[[int, Any], object], numbers: Iterable[signal.Signals] = STOP_SIGNALS
) -> Iterator[None]:
    """Has `handler` called when the process is asked to end, and afterwards again what was called before."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def end_in_time() -> None:
    """Makes sure that the process has ended after STOP_SECONDS."""
    last_resort = threading.Timer(STOP_SECONDS, os._exit, [0])
    last_resort.daemon = True
    last_resort.start()


def completed(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What `work` returns, in an event loop of its own. A signal cancels it: SystemExit is raised, with the
    status 0; the next one ends the process at once.
    """
    asked = False
    cancel: Callable[[], object] | None = None

    def signaled(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            os._exit(128 + number)
        asked = True
        end_in_time()
        if cancel is not None:
            cancel()

    async def cancellable() -> T:
        nonlocal cancel
        working, loop = asyncio.ensure_future(work()), asyncio.get_running_loop()
        cancel = partial(loop.call_soon_threadsafe, working.cancel)
        if asked:
            working.cancel()
        try:
            return await working
        finally:
            cancel = None

    with handling_signals(signaled):
        try:
            outcome = asyncio.run(cancellable())
        except asyncio.CancelledError:
            raise SystemExit(0) from None
    if asked:  # now that no signal can come to `signaled` any more: none is lost
        raise SystemExit(0)
    return outcome
