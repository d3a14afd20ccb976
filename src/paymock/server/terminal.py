"""The terminal of the process. This module imports nothing that takes long."""

import os
from contextlib import suppress


def in_foreground() -> bool:
    """Whether the process is in the foreground of a terminal, whose Ctrl-C and end then reach it."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except (OSError, AttributeError):  # O_NOCTTY: not on Windows
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)


def end_line() -> None:
    """End the line on which a terminal shows ^C."""
    with suppress(OSError):
        if os.isatty(2):
            os.write(2, b"\n")
