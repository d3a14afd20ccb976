"""The process of a server: its standard streams, its terminal and its garbage collector. This module imports
nothing that takes long.
"""

import gc
import os
from contextlib import suppress
from pathlib import Path

STANDARD_OUTPUT = Path("-")
"""In place of a ready file."""

GC_THRESHOLDS = (10_000, 20, 50)
"""Thresholds of the three generations, as `gc.set_threshold` takes them: the number of new containers before
a collection of the youngest generation, and the number of collections of each generation before one of the
next.
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
    with suppress(OSError), Path("/dev/tty").open("rb") as terminal:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    return False


def end_line() -> None:
    """End the line on which a terminal shows ^C."""
    with suppress(OSError):
        if os.isatty(2):
            os.write(2, b"\n")
