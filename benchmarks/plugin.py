"""Cost of the pytest fixtures, compared with an HTTP round trip to the same server.

    python -m benchmarks.plugin [--rounds N]

Medians of N rounds (default 50; a tenth of them where an interpreter or a server starts). A further test has
a sandbox of its own, in which it creates a payment, advances the clock by 45 seconds and reads the completed
payment. The happy path reads the payment after every change. It fails above a budget.
"""

import argparse
import http.client
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from paymock.testing import Sandbox, ServerHandle, serve

CHANGES = (5, 2, 2, 2, 2, 12, 5, 15)
"""Seconds from one change of the happy path to the next."""

FIRST_SERVER = """
import time, pytest
started = time.perf_counter()
from paymock.testing import serve
with serve() as server, server.sandbox():
    print(time.perf_counter() - started)
"""

PLUGIN_ALONE = """
import time, pytest
started = time.perf_counter()
import _paymock_pytest
print(time.perf_counter() - started)
"""


def plugin_alone() -> float:
    """Seconds that the plugin adds to a test run that does not use it."""
    return in_an_interpreter(PLUGIN_ALONE)


def first_server() -> float:
    """Seconds that the first test with the fixture `paymock` waits for it, where pytest is imported."""
    return in_an_interpreter(FIRST_SERVER)


def in_an_interpreter(script: str) -> float:
    """The number that a script prints in a new interpreter."""
    return float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True).stdout)


def server_thread() -> float:
    """Seconds from the start of a server's thread to its first reply."""
    started = time.perf_counter()
    with serve() as server, server.sandbox():
        return time.perf_counter() - started


def sandbox(server: ServerHandle) -> float:
    """Seconds that the fixture `paymock` takes to set up."""
    started = time.perf_counter()
    with server.sandbox():
        return time.perf_counter() - started


def further_test(server: ServerHandle) -> float:
    """Seconds for a whole test with the fixture `paymock`, from set-up to tear-down."""
    started = time.perf_counter()
    with server.sandbox() as paymock:
        payment = paymock.create()
        paymock.advance(sum(CHANGES))
        assert paymock.payment(payment["id"])["status"] == "completed"
    return time.perf_counter() - started


def happy_path(paymock: Sandbox) -> float:
    """Seconds for a payment from creation to completion, read after every change."""
    started = time.perf_counter()
    payment = paymock.create()
    for seconds in CHANGES:
        paymock.advance(seconds)
        payment = paymock.payment(payment["id"])
    assert payment["status"] == "completed"
    return time.perf_counter() - started


def round_trip(connection: http.client.HTTPConnection) -> float:
    """Seconds for a request that does nothing, and its reply."""
    started = time.perf_counter()
    connection.request("GET", "/livez")
    connection.getresponse().read()
    return time.perf_counter() - started


def median(rounds: int, measure: Callable[[], float]) -> float:
    """Milliseconds, after a warm-up round."""
    measure()
    return statistics.median(measure() for _ in range(rounds)) * 1000


def main() -> None:
    """Print the medians, and fail above the budgets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    rounds = parser.parse_args().rounds
    few = max(1, rounds // 10)
    with serve() as server, server.sandbox() as paymock:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
        base = median(rounds * 10, lambda: round_trip(connection))
        connection.close()
        rows = [
            ("bare round trip", base, None),
            ("plugin, not used", median(few, plugin_alone), None),
            ("server thread to first reply", median(few, server_thread), 100),
            ("first test, with all imports", median(few, first_server), 120),
            ("further test, 45 seconds", median(rounds, lambda: further_test(server)), 2),
            ("sandbox set-up", median(rounds, lambda: sandbox(server)), 5),
            ("happy path, every change", median(rounds, lambda: happy_path(paymock)), 15),
        ]
    for name, milliseconds, budget in rows:
        limit = f"   the budget is {budget} ms" if budget else ""
        print(f"{name:32}{milliseconds:8.2f} ms {milliseconds / base:8.1f} round trips{limit}")
    over = [name for name, milliseconds, budget in rows if budget and milliseconds > budget]
    sys.exit(f"above the budget: {', '.join(over)}" if over else None)


if __name__ == "__main__":
    main()
