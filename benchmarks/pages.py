"""Cost of open pages for a server: when nothing changes, and while payments are created.

    python -m benchmarks.pages [--pages N] [--seconds S] [--rounds R]

Opens the event streams of N pages (default 200), half of them dashboards and half checkouts, on 20 sandboxes.
Measures the CPU time of the server for S seconds (default 20) while nothing changes, with frozen clocks and
with running clocks and completed payments. Then measures the rate of creations without pages, with pages on
other sandboxes and with pages on the same sandbox, in R rounds (default 5). Needs wrk and taskset.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.load import measure_load, paymock, require_tools
from harness.api_client import API_KEY, ORDER, call, event_streams
from harness.load import create_load
from harness.server_process import ServerProcess

SANDBOXES = 20
PAYMENTS = 5
"""In each sandbox."""

COMPLETION_SECONDS = 3_600

SETTLE_SECONDS = 1.0
"""After this time the work of opening the pages is done."""


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    require_tools("wrk", "taskset")
    with paymock() as server:
        keys = [f"mk_test_page_{number}" for number in range(SANDBOXES)]
        payments = {
            key: [create_payment(server.url, key, number) for number in range(PAYMENTS)] for key in keys
        }
        idle(server, keys, payments, options.pages, options.seconds)
        busy(server, keys, payments, options.pages, options.rounds)


def idle(
    server: ServerProcess, keys: Sequence[str], payments: dict[str, list[str]], pages: int, seconds: float
) -> None:
    """Print the cost of open pages while nothing changes, in percent of a core."""
    for key in keys:
        call(server.url, key, "PUT", "/_mock/clock", {"speed": 0})
    print(f"no page, clocks frozen      {share(server, seconds):6.2f} % of a core")
    with open_pages(server, paths(keys, payments, pages)):
        print(f"{pages} pages, clocks frozen   {share(server, seconds):6.2f} % of a core", flush=True)
        for key in keys:
            call(server.url, key, "POST", "/_mock/clock/advance", {"seconds": COMPLETION_SECONDS})
            call(server.url, key, "PUT", "/_mock/clock", {"speed": 1})
        print(f"{pages} pages, clocks running  {share(server, seconds):6.2f} % of a core", flush=True)


def busy(
    server: ServerProcess, keys: Sequence[str], payments: dict[str, list[str]], pages: int, rounds: int
) -> None:
    """Print the effect of open pages on the rate of creations."""
    same = [(API_KEY, "/_mock/events")] * pages
    cases = {
        "no page": [],
        f"{pages} on other sandboxes": paths(keys, payments, pages),
        "1 on this": same[:1],
    }
    cases[f"{pages} on this"] = same
    rates: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, streams in cases.items():
            with open_pages(server, streams):
                rates[name].append(measure_load(server, 2, create_load()).rate)
            call(server.url, API_KEY, "POST", "/_mock/reset")
    base = statistics.median(rates["no page"])
    for name, measured in rates.items():
        rate = statistics.median(measured)
        print(f"creations, {name:<24} {rate:8.0f} per second, {rate / base:.2f}")


def paths(keys: Sequence[str], payments: dict[str, list[str]], pages: int) -> list[tuple[str, str]]:
    """The API key and the path of each page's event stream."""
    streams = []
    for number in range(pages):
        key = keys[number % len(keys)]
        payment = payments[key][number % PAYMENTS]
        streams.append((key, "/_mock/events" if number % 2 else f"/checkout/{payment}/events"))
    return streams


@contextmanager
def open_pages(server: ServerProcess, streams: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Keep the event streams open, and wait until the server is idle again, before and after."""
    with event_streams(server.url, streams):
        time.sleep(SETTLE_SECONDS)
        yield
    time.sleep(SETTLE_SECONDS)


def share(server: ServerProcess, seconds: float) -> float:
    """CPU usage of the server over so many seconds, in percent of a core."""
    time.sleep(SETTLE_SECONDS)
    before = server.tree.cpu_seconds
    time.sleep(seconds)
    return (server.tree.cpu_seconds - before) / seconds * 100


def create_payment(url: str, key: str, number: int) -> str:
    """The id of a new payment of the sandbox."""
    return str(call(url, key, "POST", "/v1/payments", json.loads(ORDER), f"benchmark-{number}")["id"])


if __name__ == "__main__":
    main()
