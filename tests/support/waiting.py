"""Waiting for what another thread or process does, with a deadline."""

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], object], seconds: float = 30) -> None:
    """Returns as soon as `holds` does; fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"it did not come within {seconds} s"
        time.sleep(0.005)
