"""Wait for a condition that another thread or process establishes."""

import time
from collections.abc import Callable

INTERVAL_SECONDS = 0.005


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Return as soon as `condition` is true. Raises AssertionError after so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not become true within {seconds} s"
        time.sleep(INTERVAL_SECONDS)
