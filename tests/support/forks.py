"""Child processes that are forked, not started anew."""

import os
import pickle
import select
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

TIMEOUT_SECONDS = 60
"""After this time a child process counts as hanging."""


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def in_child(work: Callable[[], T]) -> T:
    """Run `work` in a forked child process that then ends at once; return its result. Raises what it raises,
    and TimeoutError if it hangs.
    """
    with child(work) as result:
        return result()


@contextmanager
def child(work: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Run `work` in a forked child process. Yield a function that waits for its result. The process stays
    until the end of the block.
    """
    receiver, sender = os.pipe()
    stay, leave = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads, which is the point
        process = os.fork()
    if not process:
        try:
            os.close(leave)
            outcome: tuple[bool, Any]
            try:
                outcome = True, work()
            except BaseException as error:  # noqa: BLE001 - the parent raises it
                outcome = False, error
            with os.fdopen(sender, "wb") as pipe:
                pickle.dump(outcome, pipe)
            os.read(stay, 1)
        finally:
            os._exit(0)
    os.close(sender)
    os.close(stay)

    def result() -> T:
        if not select.select([receiver], (), (), TIMEOUT_SECONDS)[0]:
            raise TimeoutError("the child process hangs")
        with os.fdopen(receiver, "rb", closefd=False) as pipe:
            succeeded, value = pickle.load(pipe)  # noqa: S301 - from our own child
        if not succeeded:
            raise value
        returned: T = value
        return returned

    try:
        yield result
    finally:
        os.close(leave)
        os.close(receiver)
        # It ends by itself, unless it hangs. Killed at once, it would leave half a file of coverage data.
        killer = threading.Timer(TIMEOUT_SECONDS, os.kill, (process, signal.SIGKILL))
        killer.start()
        os.waitpid(process, 0)
        killer.cancel()
