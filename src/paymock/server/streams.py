"""The standard streams of the process, and its terminal. This module imports nothing that takes long."""

import os
from contextlib import suppress
from pathlib import Path

STANDARD_OUTPUT = Path("-")
"""In place of a ready file."""


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
